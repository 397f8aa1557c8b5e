//! What an application takes out of a context when it looks: lines of its log, and events of its sessions.

use std::ffi::{c_char, c_int};

use crate::event::openuvr_event;
use crate::ffi::{read, write};
use crate::handle::{Handle, call};
use crate::host::{Host, openuvr_context};
use crate::mud::{Mud, openuvr_mud_context};

/// Takes the oldest line of the log that was not taken yet into `text`, as far as `size` bytes go, and its
/// level, an `OPENUVR_LOG_LEVEL`, into `*level` (which may be NULL). Returns 1 if there was one, 0 if not.
/// Only without the callback `log`. 256 lines wait at most; then the oldest are lost, and a line says
/// how many. From any thread.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `level` is NULL or writable; `text` is NULL or
/// writable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_next_log(
    context: *mut openuvr_context,
    level: *mut u32,
    text: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: the caller has promised this function the same.
    unsafe {
        call(context.cast::<Handle<Host>>(), |handle| {
            handle.log.give_next(level, text, size)
        })
    }
}

/// Takes the oldest line of the log, as `openuvr_next_log` does at the host.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `level` is NULL or writable; `text` is NULL or
/// writable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_mud_next_log(
    context: *mut openuvr_mud_context,
    level: *mut u32,
    text: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: the caller has promised this function the same.
    unsafe {
        call(context.cast::<Handle<Mud>>(), |handle| {
            handle.log.give_next(level, text, size)
        })
    }
}

/// Takes the oldest event of the sessions that was not taken yet, into `*event`, whose `size` the caller
/// has set: who has joined, left, or has another role. Returns 1 if there was one, 0 if not. 256 wait at
/// most; then the oldest are lost. From any thread, once the thread is started.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `event` is NULL or writable for as many bytes as
/// its size says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_next_event(
    context: *mut openuvr_context,
    event: *mut openuvr_event,
) -> c_int {
    // SAFETY: the caller has promised this function the same.
    unsafe {
        call(context.cast::<Handle<Host>>(), |handle| {
            // Before an event is taken that could not be given.
            read(event, openuvr_event::default(), "the event")?;
            match handle.started()?.events.take() {
                Some(taken) => write(event, &taken, "the event").map(|()| 1),
                None => Ok(0),
            }
        })
    }
}
