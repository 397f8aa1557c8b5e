//! Error codes and messages.

use std::ffi::{CStr, c_char, c_int};

use crate::catch_panic::catch_panic;

/// The result of a function: one of these, or a positive value where documented.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OPENUVR_ERROR {
    /// Success.
    OPENUVR_OK = 0,
    /// A required pointer is NULL.
    OPENUVR_ERROR_NULL = -1,
    /// An argument is invalid or out of range.
    OPENUVR_ERROR_ARGUMENT = -2,
    /// A structure's `size` is not supported by this library.
    OPENUVR_ERROR_SIZE = -3,
    /// Unsupported on this machine; the message names an alternative, if there is one.
    OPENUVR_ERROR_UNAVAILABLE = -4,
    /// The call is invalid in this state: the context has already been started, or has not been started yet.
    OPENUVR_ERROR_STATE = -5,
    /// The function must be called on the thread where the application's OpenGL context is current.
    OPENUVR_ERROR_THREAD = -6,
    /// The operation failed; the message gives the reason.
    OPENUVR_ERROR_FAILED = -7,
    /// Timeout.
    OPENUVR_ERROR_TIMEOUT = -8,
    /// The stream has ended.
    OPENUVR_ERROR_ENDED = -9,
    /// This is a forked child: the stream belongs to its parent.
    OPENUVR_ERROR_FORKED = -10,
    /// An internal error was caught at the API boundary. Please report it.
    OPENUVR_ERROR_PANIC = -11,
}

use OPENUVR_ERROR::*;

/// The message of each code.
const TEXTS: &[(OPENUVR_ERROR, &CStr)] = &[
    (OPENUVR_OK, c"success"),
    (OPENUVR_ERROR_NULL, c"a required pointer is NULL"),
    (
        OPENUVR_ERROR_ARGUMENT,
        c"an argument is invalid or out of range",
    ),
    (
        OPENUVR_ERROR_SIZE,
        c"a structure's size is not supported by this library",
    ),
    (
        OPENUVR_ERROR_UNAVAILABLE,
        c"unsupported on this machine; the message names an alternative, if there is one",
    ),
    (
        OPENUVR_ERROR_STATE,
        c"the context is already started, or not started yet",
    ),
    (
        OPENUVR_ERROR_THREAD,
        c"the function must be called on the thread where the application's OpenGL context is current",
    ),
    (
        OPENUVR_ERROR_FAILED,
        c"the operation failed; the message gives the reason",
    ),
    (OPENUVR_ERROR_TIMEOUT, c"timeout"),
    (OPENUVR_ERROR_ENDED, c"the stream has ended"),
    (
        OPENUVR_ERROR_FORKED,
        c"the stream belongs to the parent process",
    ),
    (
        OPENUVR_ERROR_PANIC,
        c"an internal error was caught at the API boundary: please report it",
    ),
];

/// Returns a short description of an error code: a static string, never NULL. From any thread.
#[unsafe(no_mangle)]
pub extern "C" fn openuvr_error_text(code: c_int) -> *const c_char {
    catch_panic(c"".as_ptr(), || {
        let found = TEXTS.iter().find(|(known, _)| *known as c_int == code);
        let text = match (found, code) {
            (Some((_, text)), _) => *text,
            (None, 1..) => c"success",
            (None, _) => c"unknown error code",
        };
        text.as_ptr()
    })
}

/// A failed call: its error code, and the context's message.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: OPENUVR_ERROR,
    pub(crate) why: String,
    /// Whether the failure has already been logged.
    pub(crate) known: bool,
}

impl Failure {
    pub(crate) fn new(code: OPENUVR_ERROR, why: impl Into<String>) -> Failure {
        Failure {
            code,
            why: why.into(),
            known: false,
        }
    }

    pub(crate) fn argument(why: impl Into<String>) -> Failure {
        Failure::new(OPENUVR_ERROR_ARGUMENT, why)
    }

    pub(crate) fn unavailable(why: impl Into<String>) -> Failure {
        Failure::new(OPENUVR_ERROR_UNAVAILABLE, why)
    }

    pub(crate) fn state(why: impl Into<String>) -> Failure {
        Failure::new(OPENUVR_ERROR_STATE, why)
    }

    pub(crate) fn null(what: &str) -> Failure {
        Failure::new(OPENUVR_ERROR_NULL, format!("{what} is NULL"))
    }

    pub(crate) fn failed(why: impl Into<String>) -> Failure {
        Failure::new(OPENUVR_ERROR_FAILED, why)
    }
}

pub(crate) type Outcome<T = c_int> = Result<T, Failure>;

/// The result of a successful function.
pub(crate) const DONE: c_int = OPENUVR_OK as c_int;
