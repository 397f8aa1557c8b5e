//! What a context tells in words.

use std::collections::VecDeque;
use std::ffi::{CString, c_char, c_void};
use std::io::Write as _;
use std::sync::Mutex;

use openuvr_proto::printable::printable;
use openuvr_runtime::lock::lock;

use crate::callback_scope::CallbackScope;
use crate::error::{Failure, Outcome};
use crate::ffi::give_text;

/// How much it matters.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum OPENUVR_LOG_LEVEL {
    /// The stream ends by it, or a call failed.
    OPENUVR_LOG_ERROR = 1,
    /// Something does not work, and the stream goes on.
    OPENUVR_LOG_WARNING = 2,
    /// Who joins and leaves, the PIN, where the host is reached.
    OPENUVR_LOG_INFO = 3,
    /// What the stream decides, a few lines a second at most.
    OPENUVR_LOG_DEBUG = 4,
}

/// Is told one line, without a line feed, of a level of `OPENUVR_LOG_LEVEL`. Called on a thread of
/// the library, and on the caller's in a function that fails; never on two at a time for one
/// context. The text is valid until it returns. It must not call functions of this library with the
/// same context. For an application whose log is not to be written from other threads there are
/// `openuvr_next_log` and `openuvr_mud_next_log`.
pub type openuvr_log_callback =
    Option<unsafe extern "C" fn(user: *mut c_void, level: u32, text: *const c_char)>;

/// Lines that wait for who polls; of more the oldest are lost.
const WAITING: usize = 256;

/// Where a context's lines go.
pub(crate) struct Log {
    call: openuvr_log_callback,
    user: *mut c_void,
    one_at_a_time: Mutex<()>,
    /// Without a callback.
    waiting: Mutex<Waiting>,
    /// Up to which level lines go to standard error as well, because the environment asks for it.
    to_stderr: u32,
}

#[derive(Default)]
struct Waiting {
    lines: VecDeque<(OPENUVR_LOG_LEVEL, String)>,
    lost: u64,
}

// SAFETY: the header says that the callback is called on threads of the library, and with it `user`,
// which is never looked at here.
unsafe impl Send for Log {}
// SAFETY: as above; calls take turns.
unsafe impl Sync for Log {}

impl Log {
    pub(crate) fn new(call: openuvr_log_callback, user: *mut c_void) -> Log {
        Log {
            call,
            user,
            one_at_a_time: Mutex::default(),
            waiting: Mutex::default(),
            to_stderr: std::env::var("OPENUVR_LOG")
                .ok()
                .and_then(|level| level.trim().parse().ok())
                .unwrap_or(0),
        }
    }

    /// Tells a line.
    pub(crate) fn tell(&self, level: OPENUVR_LOG_LEVEL, text: &str) {
        // A peer's name may hold anything.
        let text = printable(text);
        if level as u32 <= self.to_stderr {
            // Nobody may be left who reads it.
            let line = format!("openuvr: {text}\n");
            #[expect(
                clippy::disallowed_methods,
                reason = "asked for by OPENUVR_LOG; it does not panic"
            )]
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
        let Some(call) = self.call else {
            return lock(&self.waiting).add(level, text);
        };
        let Ok(text) = CString::new(text) else { return };
        let _turn = lock(&self.one_at_a_time);
        let _inside = CallbackScope::enter();
        // SAFETY: the application's promise; the text ends with a zero byte and outlives the call.
        unsafe { call(self.user, level as u32, text.as_ptr()) };
    }

    /// The oldest line that was not taken yet.
    fn next(&self) -> Outcome<Option<(OPENUVR_LOG_LEVEL, String)>> {
        match self.call {
            None => Ok(lock(&self.waiting).take()),
            Some(_) => Err(Failure::state("lines go to the callback log")),
        }
    }

    /// The body of the functions that take a line: 1 if there was one.
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
            // Before a line is taken that could not be given.
            return Err(Failure::null("the room for a line"));
        }
        let Some((of, line)) = self.next()? else {
            return Ok(0);
        };
        // SAFETY: the caller has promised this function the same.
        unsafe {
            give_text(&line, text, size);
            if !level.is_null() {
                level.write_unaligned(of as u32);
            }
        }
        Ok(1)
    }
}

impl Waiting {
    fn add(&mut self, level: OPENUVR_LOG_LEVEL, line: String) {
        if self.lines.len() >= WAITING {
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
                format!("{lost} lines before this one were not taken"),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_wait_in_order_and_the_oldest_of_many_are_lost() {
        let log = Log::new(None, std::ptr::null_mut());
        for n in 0..WAITING + 2 {
            log.tell(OPENUVR_LOG_LEVEL::OPENUVR_LOG_INFO, &format!("line\n{n}"));
        }
        let next = || log.next().unwrap().map(|(_, line)| line);
        let lost = next().unwrap();
        assert_eq!(lost, "2 lines before this one were not taken");
        let rest: Vec<String> = std::iter::from_fn(next).collect();
        assert_eq!(rest.len(), WAITING);
        assert_eq!((&*rest[0], &*rest[WAITING - 1]), ("line2", "line257"));
    }
}
