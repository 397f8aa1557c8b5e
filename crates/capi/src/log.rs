//! What a context tells in words.

use std::ffi::{CString, c_char, c_void};

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
/// same context.
pub type openuvr_log_callback =
    Option<unsafe extern "C" fn(user: *mut c_void, level: u32, text: *const c_char)>;

/// Where a context's lines go.
pub(crate) struct Log {
    call: openuvr_log_callback,
    user: *mut c_void,
    one_at_a_time: std::sync::Mutex<()>,
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
            one_at_a_time: std::sync::Mutex::default(),
        }
    }

    /// Tells a line.
    pub(crate) fn tell(&self, level: OPENUVR_LOG_LEVEL, text: &str) {
        let Some(call) = self.call else { return };
        // A peer's name may hold anything.
        let text: String = text.chars().filter(|c| !c.is_control()).collect();
        let Ok(text) = CString::new(text) else { return };
        let _turn = crate::held::lock(&self.one_at_a_time);
        // SAFETY: the application's promise; the text ends with a zero byte and outlives the call.
        unsafe { call(self.user, level as u32, text.as_ptr()) };
    }
}
