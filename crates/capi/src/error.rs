//! What a call can end with.

use std::ffi::{CStr, c_char, c_int};

use crate::catch_panic::catch_panic;

/// What a function returns: one of these, or above zero where the function says so.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OPENUVR_ERROR {
    /// It is done.
    OPENUVR_OK = 0,
    /// A pointer that must not be NULL is.
    OPENUVR_ERROR_NULL = -1,
    /// An argument is none of the words or not in the range that the function names.
    OPENUVR_ERROR_ARGUMENT = -2,
    /// A structure's `size` is not one that this library knows.
    OPENUVR_ERROR_SIZE = -3,
    /// It can't be served on this machine; the message names what would work.
    OPENUVR_ERROR_UNAVAILABLE = -4,
    /// Not now: the context is started already, or not yet.
    OPENUVR_ERROR_STATE = -5,
    /// It must be called on the thread where the application's OpenGL context is current.
    OPENUVR_ERROR_THREAD = -6,
    /// Something failed; the message says what.
    OPENUVR_ERROR_FAILED = -7,
    /// It was not done within the time.
    OPENUVR_ERROR_TIMEOUT = -8,
    /// The stream has ended.
    OPENUVR_ERROR_ENDED = -9,
    /// This is a child that the application forked: the stream is its parent's.
    OPENUVR_ERROR_FORKED = -10,
    /// A mistake in the library was stopped at its boundary: please report it.
    OPENUVR_ERROR_PANIC = -11,
}

use OPENUVR_ERROR::*;

/// All of them with their text.
const TEXTS: &[(OPENUVR_ERROR, &CStr)] = &[
    (OPENUVR_OK, c"done"),
    (OPENUVR_ERROR_NULL, c"a pointer is NULL that must not be"),
    (
        OPENUVR_ERROR_ARGUMENT,
        c"an argument is not one that the function takes",
    ),
    (
        OPENUVR_ERROR_SIZE,
        c"a structure's size is not one that this library knows",
    ),
    (
        OPENUVR_ERROR_UNAVAILABLE,
        c"unavailable on this machine; the message names what would work",
    ),
    (
        OPENUVR_ERROR_STATE,
        c"the context is started already, or not yet",
    ),
    (
        OPENUVR_ERROR_THREAD,
        c"to be called where the application's OpenGL context is current",
    ),
    (
        OPENUVR_ERROR_FAILED,
        c"something failed; the message says what",
    ),
    (OPENUVR_ERROR_TIMEOUT, c"not done within the time"),
    (OPENUVR_ERROR_ENDED, c"the stream has ended"),
    (
        OPENUVR_ERROR_FORKED,
        c"the stream belongs to the process that this one was forked from",
    ),
    (
        OPENUVR_ERROR_PANIC,
        c"a mistake in the library was stopped at its boundary: please report it",
    ),
];

/// What `code` means, in a few words: a constant text, never NULL. From any thread.
#[unsafe(no_mangle)]
pub extern "C" fn openuvr_error_text(code: c_int) -> *const c_char {
    catch_panic(c"".as_ptr(), || {
        let found = TEXTS.iter().find(|(known, _)| *known as c_int == code);
        let text = match (found, code) {
            (Some((_, text)), _) => *text,
            (None, 1..) => c"done",
            (None, _) => c"this library has no such error",
        };
        text.as_ptr()
    })
}

/// Why a call did not do what was asked: what it returns, and the context's message.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: OPENUVR_ERROR,
    pub(crate) why: String,
    /// The log has it already.
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

    /// An argument is out of range.
    pub(crate) fn argument(why: impl Into<String>) -> Failure {
        Failure::new(OPENUVR_ERROR_ARGUMENT, why)
    }

    /// It can't be served here.
    pub(crate) fn unavailable(why: impl Into<String>) -> Failure {
        Failure::new(OPENUVR_ERROR_UNAVAILABLE, why)
    }

    /// Not now.
    pub(crate) fn state(why: impl Into<String>) -> Failure {
        Failure::new(OPENUVR_ERROR_STATE, why)
    }

    /// `what` is NULL.
    pub(crate) fn null(what: &str) -> Failure {
        Failure::new(OPENUVR_ERROR_NULL, format!("{what} is NULL"))
    }

    /// Something failed.
    pub(crate) fn failed(why: impl Into<String>) -> Failure {
        Failure::new(OPENUVR_ERROR_FAILED, why)
    }
}

pub(crate) type Outcome<T = c_int> = Result<T, Failure>;

/// What a function that has done what was asked returns.
pub(crate) const DONE: c_int = OPENUVR_OK as c_int;
