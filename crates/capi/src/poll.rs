//! Polling of log lines and session events.

use std::ffi::{c_char, c_int};

use crate::event::openuvr_event;
use crate::ffi::{read, write};
use crate::handle::{Handle, call};
use crate::host::{Host, openuvr_context};
use crate::mud::{Mud, openuvr_mud_context};

/// Retrieves the oldest pending log line into `text`, truncated to `size` bytes, and its level, an `OPENUVR_LOG_LEVEL`,
/// into `*level` (`level` may be NULL). Returns 1 if there was one, 0 if not. Works only if the configuration has no
/// callback `log`. At most 256 lines are kept; if there are more, the oldest are dropped, and a line gives their
/// number. From any thread.
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
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    unsafe {
        call(context.cast::<Handle<Host>>(), |handle| {
            handle.log.give_next(level, text, size)
        })
    }
}

/// Retrieves the oldest pending log line of a MUD, like `openuvr_next_log` for a host.
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
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    unsafe {
        call(context.cast::<Handle<Mud>>(), |handle| {
            handle.log.give_next(level, text, size)
        })
    }
}

/// Retrieves the oldest pending session event into `*event` (set its `size` first): a MUD has joined, left or changed its
/// role. Returns 1 if there was one, 0 if not. At most 256 are kept; if there are more, the oldest are dropped. From any
/// thread, after the threads are started.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `event` is NULL or writable for its `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_next_event(
    context: *mut openuvr_context,
    event: *mut openuvr_event,
) -> c_int {
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    unsafe {
        call(context.cast::<Handle<Host>>(), |handle| {
            // Validate the structure before an event is removed.
            read(event, openuvr_event::default(), "the event")?;
            match handle.started()?.events.take() {
                Some(taken) => write(event, &taken, "the event").map(|()| 1),
                None => Ok(0),
            }
        })
    }
}
