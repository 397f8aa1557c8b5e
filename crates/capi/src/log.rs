//! The log of a context.

use std::collections::VecDeque;
use std::ffi::{CString, c_char, c_void};
use std::io::Write as _;
use std::sync::Mutex;

use openuvr_proto::printable::printable;
use openuvr_runtime::lock::lock;

use crate::callback_scope::CallbackScope;
use crate::error::{Failure, Outcome};
use crate::ffi::give_text;

/// The severity of a log line.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum OPENUVR_LOG_LEVEL {
    /// An error has ended the stream, or a call has failed.
    OPENUVR_LOG_ERROR = 1,
    /// There is a problem, but the stream continues.
    OPENUVR_LOG_WARNING = 2,
    /// A normal event, such as a client that joins or leaves. Also the PIN and the listening address.
    OPENUVR_LOG_INFO = 3,
    /// Control events of the stream, at most a few lines per second.
    OPENUVR_LOG_DEBUG = 4,
}

/// A callback for log lines. `text` is one line without a line feed, and `level` is an `OPENUVR_LOG_LEVEL`. It is
/// called on threads of the library and, during a call of the library, on the caller's thread, but never concurrently
/// for one context. The string is valid until the callback returns. The callback must not call functions of this
/// library with the same context. An application that writes its log on its own thread uses `openuvr_next_log` and
/// `openuvr_mud_next_log` instead.
pub type openuvr_log_callback =
    Option<unsafe extern "C" fn(user: *mut c_void, level: u32, text: *const c_char)>;

/// The maximum number of pending lines for polling. If there are more, the oldest are dropped.
const MAX_PENDING: usize = 256;

pub(crate) struct Log {
    call: openuvr_log_callback,
    user: *mut c_void,
    one_at_a_time: Mutex<()>,
    /// Used only without a callback.
    pending: Mutex<PendingLines>,
    /// The highest level that also goes to standard error (`OPENUVR_LOG`).
    to_stderr: u32,
}

#[derive(Default)]
struct PendingLines {
    lines: VecDeque<(OPENUVR_LOG_LEVEL, String)>,
    lost: u64,
}

// SAFETY: the header documents that threads of the library call the callback and pass it `user`. The library does not
// dereference `user`.
unsafe impl Send for Log {}
// SAFETY: as above. In addition, a mutex serializes the calls.
unsafe impl Sync for Log {}

impl Log {
    pub(crate) fn new(call: openuvr_log_callback, user: *mut c_void) -> Log {
        Log {
            call,
            user,
            one_at_a_time: Mutex::default(),
            pending: Mutex::default(),
            to_stderr: std::env::var("OPENUVR_LOG")
                .ok()
                .and_then(|level| level.trim().parse().ok())
                .unwrap_or(0),
        }
    }

    pub(crate) fn write(&self, level: OPENUVR_LOG_LEVEL, text: &str) {
        // A peer's name may contain control characters.
        let text = printable(text);
        if level as u32 <= self.to_stderr {
            // A closed standard error is not a failure of the library, so errors are ignored.
            let line = format!("openuvr: {text}\n");
            #[expect(
                clippy::disallowed_methods,
                reason = "OPENUVR_LOG requests this output; write_all does not panic"
            )]
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
        let Some(call) = self.call else {
            return lock(&self.pending).add(level, text);
        };
        let Ok(text) = CString::new(text) else { return };
        let _turn = lock(&self.one_at_a_time);
        let _inside = CallbackScope::enter();
        // SAFETY: the header documents this call. The string is NUL-terminated, and stays valid until the call returns.
        unsafe { call(self.user, level as u32, text.as_ptr()) };
    }

    /// Takes the oldest pending line.
    fn next(&self) -> Outcome<Option<(OPENUVR_LOG_LEVEL, String)>> {
        match self.call {
            None => Ok(lock(&self.pending).take()),
            Some(_) => Err(Failure::state(
                "log lines go to the callback log: set log to NULL to retrieve lines with this function",
            )),
        }
    }

    /// The body of the functions that retrieve a line. Returns 1 if there was one.
    ///
    /// # Safety
    /// `level` is NULL or writable; `text` is NULL or writable for `size` bytes.
    pub(crate) unsafe fn give_next(
        &self,
        level: *mut u32,
        text: *mut c_char,
        size: usize,
    ) -> Outcome {
        if text.is_null() || size == 0 {
            // Checked before a line is removed.
            return Err(Failure::null("the buffer for a line"));
        }
        let Some((of, line)) = self.next()? else {
            return Ok(0);
        };
        // SAFETY: the caller upholds this function's requirements, which include those of the called function.
        unsafe {
            give_text(&line, text, size);
            if !level.is_null() {
                level.write_unaligned(of as u32);
            }
        }
        Ok(1)
    }
}

impl PendingLines {
    fn add(&mut self, level: OPENUVR_LOG_LEVEL, line: String) {
        if self.lines.len() >= MAX_PENDING {
            self.lines.pop_front();
            self.lost += 1;
        }
        self.lines.push_back((level, line));
    }

    fn take(&mut self) -> Option<(OPENUVR_LOG_LEVEL, String)> {
        let level = OPENUVR_LOG_LEVEL::OPENUVR_LOG_WARNING;
        match std::mem::take(&mut self.lost) {
            0 => self.lines.pop_front(),
            lost => Some((
                level,
                format!("{lost} log lines lost: they were not retrieved in time"),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_queued_in_order_and_the_oldest_dropped() {
        let log = Log::new(None, std::ptr::null_mut());
        for n in 0..MAX_PENDING + 2 {
            log.write(OPENUVR_LOG_LEVEL::OPENUVR_LOG_INFO, &format!("line\n{n}"));
        }
        let next = || log.next().unwrap().map(|(_, line)| line);
        let lost = next().unwrap();
        assert_eq!(lost, "2 log lines lost: they were not retrieved in time");
        let rest: Vec<String> = std::iter::from_fn(next).collect();
        assert_eq!(rest.len(), MAX_PENDING);
        assert_eq!((&*rest[0], &*rest[MAX_PENDING - 1]), ("line2", "line257"));
    }
}
