//! The libpipewire functions in use, and their structures.
//!
//! Spec: pipewire/stream.h, pipewire/thread-loop.h, spa/buffer/buffer.h of PipeWire 0.3.65. The library has kept its binary
//! interface since 0.3.0: fields are only appended.

use std::ffi::{c_char, c_int, c_void};

macro_rules! opaque {
    ($($name:ident)*) => { $(
        #[repr(C)]
        pub(super) struct $name {
            _opaque: [u8; 0],
        }
    )* };
}
opaque!(ThreadLoop Loop Context Core Properties Stream);

/// `PW_DIRECTION_INPUT`.
pub(super) const INPUT: c_int = 0;
/// `PW_STREAM_FLAG_AUTOCONNECT`, `PW_STREAM_FLAG_DONT_RECONNECT`. `RT_PROCESS` is not used, so that callbacks run in the
/// thread of the loop.
pub(super) const AUTOCONNECT: c_int = 1 << 0;
pub(super) const DONT_RECONNECT: c_int = 1 << 7;

/// `PW_STREAM_STATE_*`.
pub(super) const STATE_ERROR: c_int = -1;
pub(super) const STATE_UNCONNECTED: c_int = 0;
pub(super) const STATE_CONNECTING: c_int = 1;
pub(super) const STATE_STREAMING: c_int = 3;

/// `struct spa_hook`. It belongs to the library after it has been passed to a function of the library.
#[repr(C)]
#[derive(Default)]
pub(super) struct Hook([usize; 6]);

/// `struct spa_chunk`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct SpaChunk {
    pub(super) offset: u32,
    pub(super) size: u32,
    pub(super) stride: i32,
    pub(super) flags: i32,
}

/// `struct spa_data`.
#[repr(C)]
pub(super) struct SpaData {
    pub(super) kind: u32,
    pub(super) flags: u32,
    pub(super) fd: i64,
    pub(super) map_offset: u32,
    pub(super) max_size: u32,
    pub(super) data: *mut c_void,
    pub(super) chunk: *mut SpaChunk,
}

/// `struct spa_meta`.
#[repr(C)]
pub(super) struct SpaMeta {
    pub(super) kind: u32,
    pub(super) size: u32,
    pub(super) data: *mut c_void,
}

/// `struct spa_buffer`.
#[repr(C)]
pub(super) struct SpaBuffer {
    pub(super) metas: u32,
    pub(super) datas: u32,
    pub(super) meta: *mut SpaMeta,
    pub(super) data: *mut SpaData,
}

/// The first fields of `struct pw_buffer`.
#[repr(C)]
pub(super) struct PwBuffer {
    pub(super) buffer: *mut SpaBuffer,
    pub(super) user_data: *mut c_void,
}

/// `struct pw_stream_events`, version 0: later versions append functions.
#[repr(C)]
pub(super) struct StreamEvents {
    pub(super) version: u32,
    pub(super) destroy: Option<unsafe extern "C" fn(*mut c_void)>,
    pub(super) state_changed:
        Option<unsafe extern "C" fn(*mut c_void, c_int, c_int, *const c_char)>,
    pub(super) control_info: Option<unsafe extern "C" fn(*mut c_void, u32, *const c_void)>,
    pub(super) io_changed: Option<unsafe extern "C" fn(*mut c_void, u32, *mut c_void, u32)>,
    pub(super) param_changed: Option<unsafe extern "C" fn(*mut c_void, u32, *const u64)>,
    pub(super) add_buffer: Option<unsafe extern "C" fn(*mut c_void, *mut PwBuffer)>,
    pub(super) remove_buffer: Option<unsafe extern "C" fn(*mut c_void, *mut PwBuffer)>,
    pub(super) process: Option<unsafe extern "C" fn(*mut c_void)>,
    pub(super) drained: Option<unsafe extern "C" fn(*mut c_void)>,
}

macro_rules! functions {
    ($($field:ident: $symbol:literal ($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The opened library. It stays loaded, because its threads may briefly outlive a stream.
        pub(in crate::stream) struct PipeWire {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl PipeWire {
            fn load(library: &libloading::Library) -> Result<PipeWire, libloading::Error> {
                // SAFETY: the functions have these types in every libpipewire-0.3.so.0.
                unsafe {
                    Ok(PipeWire {
                        $($field: *library.get($symbol)?,)*
                    })
                }
            }
        }
    };
}

functions! {
    init: b"pw_init"(*mut c_int, *mut *mut *mut c_char);
    loop_new: b"pw_thread_loop_new"(*const c_char, *const c_void) -> *mut ThreadLoop;
    loop_destroy: b"pw_thread_loop_destroy"(*mut ThreadLoop);
    loop_start: b"pw_thread_loop_start"(*mut ThreadLoop) -> c_int;
    loop_stop: b"pw_thread_loop_stop"(*mut ThreadLoop);
    loop_lock: b"pw_thread_loop_lock"(*mut ThreadLoop);
    loop_unlock: b"pw_thread_loop_unlock"(*mut ThreadLoop);
    loop_get: b"pw_thread_loop_get_loop"(*mut ThreadLoop) -> *mut Loop;
    context_new: b"pw_context_new"(*mut Loop, *mut Properties, usize) -> *mut Context;
    context_destroy: b"pw_context_destroy"(*mut Context);
    connect_fd: b"pw_context_connect_fd"
        (*mut Context, c_int, *mut Properties, usize) -> *mut Core;
    core_disconnect: b"pw_core_disconnect"(*mut Core) -> c_int;
    properties: b"pw_properties_new_string"(*const c_char) -> *mut Properties;
    stream_new: b"pw_stream_new"(*mut Core, *const c_char, *mut Properties) -> *mut Stream;
    stream_destroy: b"pw_stream_destroy"(*mut Stream);
    stream_listen: b"pw_stream_add_listener"
        (*mut Stream, *mut Hook, *const StreamEvents, *mut c_void);
    stream_connect: b"pw_stream_connect"
        (*mut Stream, c_int, u32, c_int, *mut *const u64, u32) -> c_int;
    stream_update: b"pw_stream_update_params"(*mut Stream, *mut *const u64, u32) -> c_int;
    stream_dequeue: b"pw_stream_dequeue_buffer"(*mut Stream) -> *mut PwBuffer;
    stream_queue: b"pw_stream_queue_buffer"(*mut Stream, *mut PwBuffer) -> c_int;
    stream_activate: b"pw_stream_set_active"(*mut Stream, bool) -> c_int;
}

impl PipeWire {
    /// Opens the library.
    ///
    /// # Errors
    /// Returns a one-line error if the library is not installed.
    pub(in crate::stream) fn open() -> Result<PipeWire, String> {
        const NAME: &str = "libpipewire-0.3.so.0";
        let missing = |cause: libloading::Error| {
            format!(
                "{NAME}, through which a desktop passes its picture, can't be opened ({cause}): install the package \
                 libpipewire-0.3-0"
            )
        };
        // SAFETY: the library's initialisers have no requirements.
        let library = unsafe { libloading::Library::new(NAME) }.map_err(missing)?;
        let functions = PipeWire::load(&library).map_err(missing)?;
        std::mem::forget(library);
        // SAFETY: null pointers mean that there are no arguments. libpipewire counts the calls, so repeated calls are
        // permitted.
        unsafe { (functions.init)(std::ptr::null_mut(), std::ptr::null_mut()) };
        Ok(functions)
    }
}
