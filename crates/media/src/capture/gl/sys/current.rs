//! What is current on a thread: a context, and what it draws in.

use std::ffi::{c_uint, c_ulong, c_void};

/// A context of the application's, as GLX or EGL have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Native {
    /// `Display *` or `EGLDisplay`.
    pub display: *mut c_void,
    /// The `GLXDrawable` that it draws in; EGL needs none.
    pub drawable: c_ulong,
    /// `GLXContext` or `EGLContext`.
    pub context: *mut c_void,
}

/// What is current on a thread.
#[derive(Clone, Copy)]
pub(super) struct Current {
    pub(super) display: *mut c_void,
    pub(super) draw: *mut c_void,
    pub(super) read: *mut c_void,
    pub(super) context: *mut c_void,
    /// What EGL's functions are about; GLX has no such thing.
    pub(super) api: c_uint,
}

impl Current {
    /// Where nothing was current: none, on a display that lives.
    pub(super) fn or_none(self, native: Native) -> Current {
        match self.context.is_null() {
            true => Current {
                display: native.display,
                ..self
            },
            false => self,
        }
    }

    #[allow(
        clippy::cast_possible_truncation,
        reason = "a drawable is as long as a pointer"
    )]
    /// The application's, in what it draws in.
    pub(super) fn of(native: Native) -> Current {
        let drawable = native.drawable as usize as *mut c_void;
        Current {
            display: native.display,
            draw: drawable,
            read: drawable,
            context: native.context,
            api: 0,
        }
    }
}
