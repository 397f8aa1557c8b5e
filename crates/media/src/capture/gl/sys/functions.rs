//! The OpenGL functions in use, with their types. They form groups: a context has all functions of a group or none.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use super::super::Loader;

/// A group of functions: `load` finds all of them or returns `None`.
macro_rules! functions {
    ($(#[$about:meta])* $group:ident { $($name:ident: $symbol:literal ($($argument:ty),*) $(-> $result:ty)?;)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy)]
        pub(super) struct $group {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl $group {
            /// # Safety
            /// The functions that `loader` finds must have the types specified by the standard.
            pub(super) unsafe fn load(loader: Loader<'_>) -> Option<$group> {
                Some($group {
                    $($name: {
                        let function = loader($symbol);
                        if function.is_null() {
                            return None;
                        }
                        // SAFETY: the pointer is not null, and the caller guarantees that the function has this type.
                        unsafe {
                            std::mem::transmute::<
                                *const c_void,
                                unsafe extern "C" fn($($argument),*) $(-> $result)?,
                            >(function)
                        }
                    },)*
                })
            }
        }
    };
}

pub(super) use functions;

/// A `GLsync`.
pub(super) type Sync = *mut c_void;

functions! {
    /// Functions that every context has.
    Base {
        string: c"glGetString"(c_uint) -> *const c_char;
        integers: c"glGetIntegerv"(c_uint, *mut c_int);
        pixel_store: c"glPixelStorei"(c_uint, c_int);
        read_pixels: c"glReadPixels"(c_int, c_int, c_int, c_int, c_uint, c_uint, *mut c_void);
        flush: c"glFlush"();
    }
}

functions! {
    /// Extensions by index: GL 3.0, ES 3.0.
    Indexed {
        string: c"glGetStringi"(c_uint, c_uint) -> *const c_char;
    }
}

functions! {
    /// Pixel transfer: the fixed-function pipeline's conversion of pixels on reading.
    Transfer {
        floats: c"glGetFloatv"(c_uint, *mut f32);
        set: c"glPixelTransferf"(c_uint, f32);
        is_enabled: c"glIsEnabled"(c_uint) -> u8;
        enable: c"glEnable"(c_uint);
        disable: c"glDisable"(c_uint);
    }
}

functions! {
    /// Selects the buffer of the window to read. Not available in ES 2.
    ReadBuffer {
        select: c"glReadBuffer"(c_uint);
    }
}

functions! {
    /// Framebuffer objects.
    Framebuffers {
        bind: c"glBindFramebuffer"(c_uint, c_uint);
        status: c"glCheckFramebufferStatus"(c_uint) -> c_uint;
    }
}

functions! {
    /// Pixel buffers: GL 2.1, ES 3.0.
    Binding {
        bind: c"glBindBuffer"(c_uint, c_uint);
    }
}

functions! {
    /// Partially mapped pixel buffers, and fences: GL 3.2, ES 3.0.
    Buffers {
        generate: c"glGenBuffers"(c_int, *mut c_uint);
        delete: c"glDeleteBuffers"(c_int, *const c_uint);
        data: c"glBufferData"(c_uint, isize, *const c_void, c_uint);
        parameter: c"glGetBufferParameteriv"(c_uint, c_uint, *mut c_int);
        is_buffer: c"glIsBuffer"(c_uint) -> u8;
        map: c"glMapBufferRange"(c_uint, isize, isize, c_uint) -> *mut c_void;
        unmap: c"glUnmapBuffer"(c_uint) -> u8;
        fence: c"glFenceSync"(c_uint, c_uint) -> Sync;
        wait: c"glClientWaitSync"(Sync, c_uint, u64) -> c_uint;
        delete_fence: c"glDeleteSync"(Sync);
    }
}

functions! {
    /// Copies between buffers: GL 3.1, ES 3.0.
    Copies {
        copy: c"glCopyBufferSubData"(c_uint, c_uint, isize, isize, isize);
    }
}

/// Persistently mapped buffers: `glBufferStorage`, or `glBufferStorageEXT` in ES.
pub(super) type Storage = unsafe extern "C" fn(c_uint, isize, *const c_void, c_uint);

/// # Safety
/// See [`Base::load`].
pub(super) unsafe fn storage(loader: Loader<'_>, name: &CStr) -> Option<Storage> {
    let function = loader(name);
    // SAFETY: the pointer is not null, and the caller guarantees that the function has this type.
    (!function.is_null()).then(|| unsafe { std::mem::transmute(function) })
}

functions! {
    /// GPU-side waits for a fence: GL 3.2, ES 3.0.
    WaitSync {
        wait: c"glWaitSync"(Sync, c_uint, u64);
    }
}
