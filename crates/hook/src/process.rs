//! Whether this process streams. It does if it was started by `openuvr run`, is not a forked child, and has not failed.
//!
//! The state is in statics, because no object of the game can own it. It is lock-free: in a forked child, a mutex may
//! be held by a thread that exists only in the parent.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use openuvr_runtime::launch_protocol::SOCKET;

/// The ID of the process that owns the stream: the first one that creates a context or a swapchain, or presents a
/// frame. 0 until then. A forked child inherits this value, which differs from the child's ID.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// Whether the hook is disabled in this process.
static OFF: AtomicBool = AtomicBool::new(false);

/// Whether this process streams: `openuvr run` started it, it is not a forked child, and the hook has not failed. May
/// be called from any thread. The first call makes this process the owner.
pub(crate) fn is_enabled() -> bool {
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

/// Whether this process is the owner, even if the hook has been disabled since. It is for callers that release objects
/// that the stream may still use.
pub(crate) fn has_started() -> bool {
    OWNER.load(Ordering::Acquire) == std::process::id()
}

/// Runs the hook's own work in a hooked function. A panic disables the hook but does not end the game. `None` after a
/// panic.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Option<T> {
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    result.map_err(|_| turn_off()).ok()
}

/// Disables the hook in this process and in children forked from now on.
pub(crate) fn turn_off() {
    OFF.store(true, Ordering::Relaxed);
}
