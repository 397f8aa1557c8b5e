//! What a handle points to: a head that says what it is and whose, and the rest.

use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::border::border;
use crate::error::OPENUVR_ERROR::{OPENUVR_ERROR_FORKED, OPENUVR_ERROR_NULL, OPENUVR_ERROR_PANIC};
use crate::error::{Failure, Outcome};
use crate::log::{Log, OPENUVR_LOG_LEVEL};

/// Where a kind of handle differs from the other.
pub(crate) trait Kind {
    /// What a context of it begins with, so that one of the other kind is recognised.
    const MARK: u64;
    /// What it is in messages.
    const NAME: &'static str;
}

/// A context. `repr(C)`: the mark of any kind lies at its beginning.
#[repr(C)]
pub(crate) struct Held<T> {
    mark: u64,
    /// The process that made it.
    process: u32,
    message: Mutex<String>,
    pub(crate) log: Arc<Log>,
    pub(crate) inner: T,
}

impl<T: Kind> Held<T> {
    pub(crate) fn new(log: Arc<Log>, inner: T) -> Box<Held<T>> {
        Box::new(Held {
            mark: T::MARK,
            process: std::process::id(),
            message: Mutex::default(),
            log,
            inner,
        })
    }

    /// What the last call that failed said.
    pub(crate) fn message(&self) -> String {
        lock(&self.message).clone()
    }

    /// Does a call's work and keeps the message if it fails.
    fn run(&self, work: impl FnOnce(&Held<T>) -> Outcome) -> c_int {
        if self.process != std::process::id() {
            // Its locks may be held by threads that are not here.
            return OPENUVR_ERROR_FORKED as c_int;
        }
        match work(self) {
            Ok(value) => value,
            Err(Failure { code, why }) => {
                self.log.tell(OPENUVR_LOG_LEVEL::OPENUVR_LOG_ERROR, &why);
                *lock(&self.message) = why;
                code as c_int
            }
        }
    }
}

/// The body of every exported function that is given a context.
///
/// # Safety
/// `handle` is NULL or a context of this library that is not closed.
pub(crate) unsafe fn call<T: Kind>(
    handle: *const Held<T>,
    work: impl FnOnce(&Held<T>) -> Outcome,
) -> c_int {
    border(OPENUVR_ERROR_PANIC as c_int, || {
        // SAFETY: as ours.
        match unsafe { find(handle) } {
            Ok(held) => held.run(work),
            Err(failure) => failure.code as c_int,
        }
    })
}

/// # Safety
/// As [`call`]; the context outlives `'a`.
unsafe fn find<'a, T: Kind>(handle: *const Held<T>) -> Outcome<&'a Held<T>> {
    if handle.is_null() || !handle.is_aligned() {
        return Err(Failure::new(OPENUVR_ERROR_NULL, "the context is NULL"));
    }
    // SAFETY: a context of either kind begins with its mark.
    if unsafe { handle.cast::<u64>().read() } != T::MARK {
        let why = format!("this is no context of {}", T::NAME);
        return Err(Failure::argument(why));
    }
    // SAFETY: it has the mark of its kind, and is not closed.
    Ok(unsafe { &*handle })
}

/// Takes a context back from the caller's variable, which becomes NULL. `None` if there is none; if
/// it is of the other kind, and then the variable stays; or if it is the parent's, which keeps it.
///
/// # Safety
/// `handle` is NULL or points to NULL or to a context of this library that is not closed and that no
/// other call uses.
pub(crate) unsafe fn take<T: Kind>(handle: *mut *mut Held<T>) -> Option<Box<Held<T>>> {
    if handle.is_null() {
        return None;
    }
    // SAFETY: it points to a pointer, as ours.
    let (held, process) = unsafe {
        let held = handle.read();
        let process = find::<T>(held).ok()?.process;
        handle.write(std::ptr::null_mut());
        (held, process)
    };
    if process != std::process::id() {
        return None;
    }
    // SAFETY: it was made by `Box::into_raw`, and this was the last use. What is freed has no mark.
    unsafe {
        (*held).mark = 0;
        Some(Box::from_raw(held))
    }
}

pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
