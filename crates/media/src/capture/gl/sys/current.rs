//! The context that is current on a thread, and its surfaces.

use std::ffi::{c_uint, c_ulong, c_void};

/// A context of the application, as identified by GLX or EGL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Native {
    /// `Display *` or `EGLDisplay`.
    pub display: *mut c_void,
    /// The `GLXDrawable` that the context draws to; EGL needs none.
    pub drawable: c_ulong,
    /// `GLXContext` or `EGLContext`.
    pub context: *mut c_void,
}

/// The current context, surfaces and API of a thread.
#[derive(Clone, Copy)]
pub(super) struct Current {
    pub(super) display: *mut c_void,
    pub(super) draw: *mut c_void,
    pub(super) read: *mut c_void,
    pub(super) context: *mut c_void,
    /// The API that EGL's functions refer to; GLX has none.
    pub(super) api: c_uint,
}

impl Current {
    /// Returns `self`, or an empty state with a valid display if no context was current.
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
        reason = "a drawable is as wide as a pointer"
    )]
    /// The application's context and drawable.
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
