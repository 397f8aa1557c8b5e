//! The libpulse functions in use, and their structures.

use std::ffi::{OsString, c_char, c_int, c_void};
use std::path::Path;
use std::sync::Arc;

use crate::audio::{AudioError, CHANNELS};
use crate::sys::{open, words};

/// `PA_SAMPLE_FLOAT32LE`.
pub(super) const SAMPLE_FLOAT32LE: c_int = 5;
pub(super) const CONTEXT_NOAUTOSPAWN: c_int = 1;
pub(super) const CONTEXT_READY: c_int = 4;
pub(super) const CONTEXT_FAILED: c_int = 5;
pub(super) const CONTEXT_TERMINATED: c_int = 6;
pub(super) const STREAM_READY: c_int = 2;
pub(super) const STREAM_FAILED: c_int = 3;
pub(super) const STREAM_TERMINATED: c_int = 4;
pub(super) const OPERATION_RUNNING: c_int = 0;
pub(super) const IO_EVENT_INPUT: c_int = 1;
pub(super) const SEEK_RELATIVE: c_int = 0;
/// `PA_SUBSCRIPTION_MASK_SERVER`: includes changes of the default devices.
pub(super) const SUBSCRIPTION_SERVER: c_int = 0x0080;

/// `PA_STREAM_*` flags.
pub(in crate::audio::pulse) const INTERPOLATE_TIMING: c_int = 0x0002;
pub(in crate::audio::pulse) const AUTO_TIMING_UPDATE: c_int = 0x0008;
pub(in crate::audio::pulse) const DONT_MOVE: c_int = 0x0200;
pub(in crate::audio::pulse) const ADJUST_LATENCY: c_int = 0x2000;
pub(in crate::audio::pulse) const EARLY_REQUESTS: c_int = 0x4000;

/// Size of a sample frame in bytes.
pub(in crate::audio::pulse) const FRAME: usize = CHANNELS * size_of::<f32>();

#[cfg(not(target_endian = "little"))]
compile_error!("PulseAudio receives samples as little-endian floats");

macro_rules! opaque {
    ($($name:ident)*) => { $(
        #[repr(C)]
        pub(super) struct $name {
            _opaque: [u8; 0],
        }
    )* };
}
opaque!(MainLoop Context PaStream Operation IoEvent);

#[repr(C)]
pub(super) struct SampleSpec {
    pub(super) format: c_int,
    pub(super) rate: u32,
    pub(super) channels: u8,
}

/// `pa_buffer_attr`, in bytes. `u32::MAX` leaves the choice to the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub(in crate::audio::pulse) struct BufferAttributes {
    pub(in crate::audio::pulse) maximum: u32,
    pub(in crate::audio::pulse) target: u32,
    pub(in crate::audio::pulse) prebuffer: u32,
    pub(in crate::audio::pulse) minimum_request: u32,
    pub(in crate::audio::pulse) fragment: u32,
}

impl BufferAttributes {
    pub(in crate::audio::pulse) const DEFAULT: BufferAttributes = BufferAttributes {
        maximum: u32::MAX,
        target: u32::MAX,
        prebuffer: u32::MAX,
        minimum_request: u32::MAX,
        fragment: u32::MAX,
    };
}

/// The first fields of `pa_module_info`.
#[repr(C)]
pub(super) struct ModuleInfo {
    pub(super) index: u32,
    pub(super) name: *const c_char,
    pub(super) argument: *const c_char,
}

/// The first fields of `pa_server_info`.
#[repr(C)]
pub(super) struct ServerInfo {
    _names: [*const c_char; 4],
    _spec: SampleSpec,
    pub(super) default_sink: *const c_char,
    pub(super) default_source: *const c_char,
}

pub(super) type IoCallback =
    unsafe extern "C" fn(*const Api, *mut IoEvent, c_int, c_int, *mut c_void);

/// The first fields of `pa_mainloop_api`.
#[repr(C)]
pub(super) struct Api {
    _userdata: *mut c_void,
    pub(super) io_new:
        unsafe extern "C" fn(*const Api, c_int, c_int, IoCallback, *mut c_void) -> *mut IoEvent,
}

pub(super) type IndexCallback = unsafe extern "C" fn(*mut Context, u32, *mut c_void);
pub(super) type SuccessCallback = unsafe extern "C" fn(*mut Context, c_int, *mut c_void);
pub(super) type ModuleCallback =
    unsafe extern "C" fn(*mut Context, *const ModuleInfo, c_int, *mut c_void);

pub(super) type SubscriptionCallback = unsafe extern "C" fn(*mut Context, c_int, u32, *mut c_void);
pub(super) type ServerCallback = unsafe extern "C" fn(*mut Context, *const ServerInfo, *mut c_void);

macro_rules! functions {
    ($($field:ident: $symbol:literal ($($argument:ty),*) $(-> $result:ty)?;)*) => {
        pub(super) struct Functions {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            /// Declared after the functions, because they must not outlive the library.
            _library: libloading::Library,
        }

        impl Functions {
            fn load(library: libloading::Library) -> Result<Functions, libloading::Error> {
                // SAFETY: the functions have these types in every libpulse.so.0.
                unsafe {
                    Ok(Functions {
                        $($field: *library.get($symbol)?,)*
                        _library: library,
                    })
                }
            }
        }
    };
}

functions! {
    mainloop_new: b"pa_mainloop_new"() -> *mut MainLoop;
    mainloop_free: b"pa_mainloop_free"(*mut MainLoop);
    mainloop_api: b"pa_mainloop_get_api"(*mut MainLoop) -> *const Api;
    mainloop_prepare: b"pa_mainloop_prepare"(*mut MainLoop, c_int) -> c_int;
    mainloop_poll: b"pa_mainloop_poll"(*mut MainLoop) -> c_int;
    mainloop_dispatch: b"pa_mainloop_dispatch"(*mut MainLoop) -> c_int;
    context_new: b"pa_context_new"(*const Api, *const c_char) -> *mut Context;
    context_connect: b"pa_context_connect"
        (*mut Context, *const c_char, c_int, *const c_void) -> c_int;
    context_state: b"pa_context_get_state"(*const Context) -> c_int;
    context_errno: b"pa_context_errno"(*const Context) -> c_int;
    context_disconnect: b"pa_context_disconnect"(*mut Context);
    context_unref: b"pa_context_unref"(*mut Context);
    load_module: b"pa_context_load_module"
        (*mut Context, *const c_char, *const c_char, IndexCallback, *mut c_void) -> *mut Operation;
    unload_module: b"pa_context_unload_module"
        (*mut Context, u32, SuccessCallback, *mut c_void) -> *mut Operation;
    list_modules: b"pa_context_get_module_info_list"
        (*mut Context, ModuleCallback, *mut c_void) -> *mut Operation;
    subscribe: b"pa_context_subscribe"
        (*mut Context, c_int, SuccessCallback, *mut c_void) -> *mut Operation;
    subscription: b"pa_context_set_subscribe_callback"
        (*mut Context, SubscriptionCallback, *mut c_void);
    server_info: b"pa_context_get_server_info"
        (*mut Context, ServerCallback, *mut c_void) -> *mut Operation;
    operation_state: b"pa_operation_get_state"(*const Operation) -> c_int;
    operation_unref: b"pa_operation_unref"(*mut Operation);
    stream_new: b"pa_stream_new"
        (*mut Context, *const c_char, *const SampleSpec, *const c_void) -> *mut PaStream;
    stream_record: b"pa_stream_connect_record"
        (*mut PaStream, *const c_char, *const BufferAttributes, c_int) -> c_int;
    stream_play: b"pa_stream_connect_playback"
        (*mut PaStream, *const c_char, *const BufferAttributes, c_int, *const c_void,
            *mut PaStream) -> c_int;
    stream_state: b"pa_stream_get_state"(*const PaStream) -> c_int;
    stream_attributes: b"pa_stream_get_buffer_attr"(*mut PaStream) -> *const BufferAttributes;
    stream_device: b"pa_stream_get_device_name"(*const PaStream) -> *const c_char;
    stream_latency: b"pa_stream_get_latency"(*mut PaStream, *mut u64, *mut c_int) -> c_int;
    stream_peek: b"pa_stream_peek"
        (*mut PaStream, *mut *const c_void, *mut usize) -> c_int;
    stream_drop: b"pa_stream_drop"(*mut PaStream) -> c_int;
    stream_writable: b"pa_stream_writable_size"(*const PaStream) -> usize;
    stream_write: b"pa_stream_write"
        (*mut PaStream, *const c_void, usize, *const c_void, i64, c_int) -> c_int;
    stream_disconnect: b"pa_stream_disconnect"(*mut PaStream) -> c_int;
    stream_unref: b"pa_stream_unref"(*mut PaStream);
    error: b"pa_strerror"(c_int) -> *const c_char;
}

pub(super) fn library(path: Option<OsString>) -> Result<Arc<Functions>, AudioError> {
    let file = path.unwrap_or_else(|| "libpulse.so.0".into());
    // SAFETY: libpulse's initialiser has no preconditions.
    let opened = unsafe { open([&file]) };
    (opened.and_then(|library| Functions::load(library).map_err(|e| words(&e))))
        .map(Arc::new)
        .map_err(|reason| {
            AudioError(format!(
                "{} can't be used ({reason}): sound needs PulseAudio's client; apt install libpulse0, \
                 or set OPENUVR_PULSE to the path of a libpulse.so.0",
                Path::new(&file).display()
            ))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_names_the_package() {
        let error = |path: &str| {
            let error = library(Some(path.into())).err();
            error.expect("no such library").to_string()
        };
        let missing = error("/nonexistent/libpulse.so");
        assert!(missing.contains("/nonexistent/libpulse.so"), "{missing}");
        assert!(missing.contains("apt install libpulse0"), "{missing}");
        assert!(error("libc.so.6").contains("pa_"));
    }
}
