//! Whether this process streams: it was started by `openuvr run`, is not a child that was forked, and has
//! not failed.
//!
//! A library that is loaded into a process has no place to keep anything but the process: the statics are
//! of it. Nothing here takes a lock, so that all of it may be asked in a forked child, whose locks may be
//! held by threads that are not there.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use openuvr_runtime::line::SOCKET;

/// The process whose stream it is; 0 before its first context or swap. A child inherits its parent's
/// id, which is not its own.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// Nothing is done any more in this process, for whatever reason.
static OFF: AtomicBool = AtomicBool::new(false);

/// Whether this process has a stream: not if it was not started by `openuvr run`, was forked, or has
/// failed. From any thread; the first call makes this process the owner.
pub(crate) fn streams() -> bool {
    if OFF.load(Ordering::Relaxed) {
        return false;
    }
    let me = std::process::id();
    match OWNER.load(Ordering::Acquire) {
        0 => {
            if std::env::var_os(SOCKET).is_none() {
                turn_off();
                return false;
            }
            let first = OWNER.compare_exchange(0, me, Ordering::AcqRel, Ordering::Acquire);
            first.map_or_else(|owner| owner == me, |_| true)
        }
        owner => owner == me,
    }
}

/// The same, if it has one already, also where it does nothing any more: for what goes away, and may
/// still be in use.
pub(crate) fn has_begun() -> bool {
    OWNER.load(Ordering::Acquire) == std::process::id()
}

/// What every function that the game calls does of its own: a panic in it ends the stream, and not
/// the game. `None` then.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Option<T> {
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    result.map_err(|_| turn_off()).ok()
}

/// Does nothing any more in this process, and in children that it forks from now on.
pub(crate) fn turn_off() {
    OFF.store(true, Ordering::Relaxed);
}
