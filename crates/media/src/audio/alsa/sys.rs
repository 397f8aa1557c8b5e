//! A recording device of libasound, which is loaded at run time. The parent module chooses the settings.
//!
//! This module declares functions of pcm.h and error.h whose ABI (`libasound.so.2`) is unchanged since libasound
//! 1.0.18.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_uint, c_ulong, c_void};
use std::ptr::{self, NonNull};
use std::time::Duration;

use libloading::os::unix::{Library as UnixLibrary, RTLD_LOCAL, RTLD_NOW};

use crate::audio::{CHANNELS, RATE};
use crate::sys::words;

/// `SND_PCM_STREAM_CAPTURE`, `SND_PCM_NONBLOCK` and `SND_PCM_ACCESS_RW_INTERLEAVED`.
const CAPTURE: c_int = 1;
const NONBLOCK: c_int = 1;
const INTERLEAVED: c_int = 3;

/// The file name of the library.
const FILE: &str = "libasound.so.2";

#[repr(C)]
struct SndPcm {
    _opaque: [u8; 0],
}

#[repr(C)]
struct SndPcmHwParams {
    _opaque: [u8; 0],
}

/// A callback for errors of the calling thread. Its arguments are file, line, function, error, format and the format's
/// arguments.
type ErrorHandler = Option<
    unsafe extern "C" fn(*const c_char, c_int, *const c_char, c_int, *const c_char, *mut c_void),
>;

/// A function that sets a numeric value of a configuration.
type SetNumber = unsafe extern "C" fn(*mut SndPcm, *mut SndPcmHwParams, c_uint) -> c_int;

/// A function that sets an enumerated value of a configuration.
type SetValue = unsafe extern "C" fn(*mut SndPcm, *mut SndPcmHwParams, c_int) -> c_int;

/// A function that sets a time in microseconds. It selects the supported time that is nearest to the requested time,
/// and writes it to the same variable.
type SetNear =
    unsafe extern "C" fn(*mut SndPcm, *mut SndPcmHwParams, *mut c_uint, *mut c_int) -> c_int;

struct Functions {
    open: unsafe extern "C" fn(*mut *mut SndPcm, *const c_char, c_int, c_int) -> c_int,
    close: unsafe extern "C" fn(*mut SndPcm) -> c_int,
    start: unsafe extern "C" fn(*mut SndPcm) -> c_int,
    read: unsafe extern "C" fn(*mut SndPcm, *mut c_void, c_ulong) -> c_long,
    wait: unsafe extern "C" fn(*mut SndPcm, c_int) -> c_int,
    recover: unsafe extern "C" fn(*mut SndPcm, c_int, c_int) -> c_int,
    params_malloc: unsafe extern "C" fn(*mut *mut SndPcmHwParams) -> c_int,
    params_free: unsafe extern "C" fn(*mut SndPcmHwParams),
    params_any: unsafe extern "C" fn(*mut SndPcm, *mut SndPcmHwParams) -> c_int,
    set_resample: SetNumber,
    set_access: SetValue,
    set_format: SetValue,
    set_channels: SetNumber,
    set_rate: unsafe extern "C" fn(*mut SndPcm, *mut SndPcmHwParams, c_uint, c_int) -> c_int,
    set_buffer_time: SetNear,
    set_period_time: SetNear,
    set_params: unsafe extern "C" fn(*mut SndPcm, *mut SndPcmHwParams) -> c_int,
    error: unsafe extern "C" fn(c_int) -> *const c_char,
    set_error_handler: unsafe extern "C" fn(ErrorHandler) -> ErrorHandler,
    /// This field is declared last, so that the library outlives the functions.
    _library: libloading::Library,
}

impl Functions {
    /// Loads the system's library. The library is never unloaded, because it does not free its configuration when it is
    /// unloaded, and allocates a new configuration at each load.
    fn load() -> Result<Functions, String> {
        let flags = RTLD_NOW | RTLD_LOCAL | libc::RTLD_NODELETE;
        // SAFETY: libasound has no initialiser with preconditions.
        let opened = unsafe { UnixLibrary::open(Some(FILE), flags) };
        let library = libloading::Library::from(opened.map_err(|why| words(&why))?);
        Functions::symbols(library).map_err(|why| words(&why))
    }

    fn symbols(library: libloading::Library) -> Result<Functions, libloading::Error> {
        // SAFETY: the functions have these types in every libasound.so.2.
        unsafe {
            Ok(Functions {
                open: *library.get(b"snd_pcm_open")?,
                close: *library.get(b"snd_pcm_close")?,
                start: *library.get(b"snd_pcm_start")?,
                read: *library.get(b"snd_pcm_readi")?,
                wait: *library.get(b"snd_pcm_wait")?,
                recover: *library.get(b"snd_pcm_recover")?,
                params_malloc: *library.get(b"snd_pcm_hw_params_malloc")?,
                params_free: *library.get(b"snd_pcm_hw_params_free")?,
                params_any: *library.get(b"snd_pcm_hw_params_any")?,
                set_resample: *library.get(b"snd_pcm_hw_params_set_rate_resample")?,
                set_access: *library.get(b"snd_pcm_hw_params_set_access")?,
                set_format: *library.get(b"snd_pcm_hw_params_set_format")?,
                set_channels: *library.get(b"snd_pcm_hw_params_set_channels")?,
                set_rate: *library.get(b"snd_pcm_hw_params_set_rate")?,
                set_buffer_time: *library.get(b"snd_pcm_hw_params_set_buffer_time_near")?,
                set_period_time: *library.get(b"snd_pcm_hw_params_set_period_time_near")?,
                set_params: *library.get(b"snd_pcm_hw_params")?,
                error: *library.get(b"snd_strerror")?,
                set_error_handler: *library.get(b"snd_lib_error_set_local")?,
                _library: library,
            })
        }
    }

    fn message(&self, code: c_int) -> String {
        // SAFETY: the function accepts any number, and returns a constant NUL-terminated string.
        let text = unsafe { CStr::from_ptr((self.error)(code)) };
        text.to_string_lossy().into_owned()
    }
}

/// While this value exists, the library does not write to the standard error of the process. The setting applies only
/// to the thread that creates and drops this value.
struct Quiet<'a> {
    functions: &'a Functions,
    before: ErrorHandler,
}

impl<'a> Quiet<'a> {
    fn new(functions: &'a Functions) -> Quiet<'a> {
        // SAFETY: the handler ignores its arguments, and may be called at any time.
        let before = unsafe { (functions.set_error_handler)(Some(ignore)) };
        Quiet { functions, before }
    }
}

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        // SAFETY: the library returned this handler in `new`, so the handler was in use before.
        unsafe { (self.functions.set_error_handler)(self.before) };
    }
}

/// Ignores an error report, because the failed function also returns the error. The last argument is a `va_list`, which
/// the supported machines pass as a pointer.
unsafe extern "C" fn ignore(
    _: *const c_char,
    _: c_int,
    _: *const c_char,
    _: c_int,
    _: *const c_char,
    _: *mut c_void,
) {
}

/// A sample format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Format {
    /// 32-bit floating-point numbers.
    Float,
    /// 16-bit integers.
    S16,
}

impl Format {
    /// The library's number: `SND_PCM_FORMAT_FLOAT_LE` or `SND_PCM_FORMAT_S16_LE`.
    fn number(self) -> c_int {
        match self {
            Format::Float => 14,
            Format::S16 => 2,
        }
    }

    /// Size of a sample in bytes.
    pub(super) fn bytes(self) -> usize {
        match self {
            Format::Float => 4,
            Format::S16 => 2,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReadResult {
    /// The number of sample frames that were read.
    Frames(usize),
    /// No samples were recorded since the last read.
    Empty,
    /// The buffer overflowed, or the machine was suspended, so samples are missing. The device has stopped;
    /// [`Pcm::restart`] starts it again. The value is the library's code.
    Interrupted(c_int),
    /// The device failed. The value is the library's code.
    Failed(c_int),
}

impl ReadResult {
    fn of(code: c_long) -> ReadResult {
        match usize::try_from(code) {
            Ok(0) => ReadResult::Empty,
            Ok(frames) => ReadResult::Frames(frames),
            Err(_) => match c_int::try_from(code).unwrap_or(c_int::MIN).wrapping_neg() {
                libc::EAGAIN | libc::EINTR => ReadResult::Empty,
                code @ (libc::EPIPE | libc::ESTRPIPE) => ReadResult::Interrupted(-code),
                code => ReadResult::Failed(code.wrapping_neg()),
            },
        }
    }
}

/// A device that records.
pub(super) struct Pcm {
    functions: Functions,
    pcm: NonNull<SndPcm>,
    format: Format,
}

// SAFETY: libasound permits calls for a device from any thread, but only one call at a time. Only methods with `&mut
// self` call libasound.
unsafe impl Send for Pcm {}

impl Pcm {
    /// Opens a device and starts recording. The device delivers samples every `period`, and its buffer has the duration
    /// `buffer`.
    ///
    /// # Errors
    /// Returns the reason, without the device's name.
    pub(super) fn open(name: &str, period: Duration, buffer: Duration) -> Result<Pcm, String> {
        let text = CString::new(name).map_err(|_| "its name contains a zero byte".to_owned())?;
        let load = |why| format!("{why}; apt install libasound2");
        let functions = Functions::load().map_err(load)?;
        let mut pcm = ptr::null_mut();
        let code = {
            let _quiet = Quiet::new(&functions);
            // SAFETY: the name is NUL-terminated, and the output variable outlives the call.
            unsafe { (functions.open)(&raw mut pcm, text.as_ptr(), CAPTURE, NONBLOCK) }
        };
        let Some(pcm) = NonNull::new(pcm).filter(|_| code >= 0) else {
            let why = functions.message(code);
            return Err(format!("{why}; `arecord -L` lists the devices"));
        };
        let mut device = Pcm {
            functions,
            pcm,
            format: Format::Float,
        };
        device
            .configure(Format::Float, period, buffer)
            .or_else(|_| {
                device.format = Format::S16;
                device.configure(Format::S16, period, buffer)
            })?;
        device.start()?;
        Ok(device)
    }

    /// The format of the device's samples.
    pub(super) fn format(&self) -> Format {
        self.format
    }

    fn configure(
        &mut self,
        format: Format,
        period: Duration,
        buffer: Duration,
    ) -> Result<(), String> {
        let functions = &self.functions;
        let _quiet = Quiet::new(functions);
        let mut params = ptr::null_mut();
        // SAFETY: the output variable outlives the call.
        let code = unsafe { (functions.params_malloc)(&raw mut params) };
        if code < 0 || params.is_null() {
            return Err("out of memory".to_owned());
        }
        let pcm = self.pcm.as_ptr();
        let micros = |time: Duration| c_uint::try_from(time.as_micros()).unwrap_or(c_uint::MAX);
        let (mut period, mut buffer) = (micros(period), micros(buffer));
        let channels = c_uint::try_from(CHANNELS).unwrap_or_default();
        let step = |what, code: c_int| match code {
            code if code < 0 => Err((what, code)),
            _ => Ok(()),
        };
        let mut set = || -> Result<(), (&'static str, c_int)> {
            let (period, buffer) = (&raw mut period, &raw mut buffer);
            let any = ptr::null_mut();
            // SAFETY: device and parameters were allocated by this library and have no other user. The output variables
            // outlive the calls.
            unsafe {
                step("any format", (functions.params_any)(pcm, params))?;
                step("resampling", (functions.set_resample)(pcm, params, 1))?;
                step(
                    "interleaved channels",
                    (functions.set_access)(pcm, params, INTERLEAVED),
                )?;
                step(
                    "samples as floating-point numbers or 16-bit integers",
                    (functions.set_format)(pcm, params, format.number()),
                )?;
                step(
                    "two channels",
                    (functions.set_channels)(pcm, params, channels),
                )?;
                step("48 kHz", (functions.set_rate)(pcm, params, RATE, 0))?;
                step(
                    "a configurable buffer",
                    (functions.set_buffer_time)(pcm, params, buffer, any),
                )?;
                step(
                    "a configurable period",
                    (functions.set_period_time)(pcm, params, period, any),
                )?;
                step(
                    "these settings together",
                    (functions.set_params)(pcm, params),
                )
            }
        };
        let result = set();
        // SAFETY: `params` was allocated above, and nothing uses it afterwards.
        unsafe { (functions.params_free)(params) };
        result.map_err(|(what, code)| {
            let why = functions.message(code);
            format!(
                "it does not support {what} ({why}); use plughw:, which converts samples, instead of hw:"
            )
        })?;
        tracing::debug!(?format, period, buffer, "configured an ALSA device");
        Ok(())
    }

    fn start(&mut self) -> Result<(), String> {
        // SAFETY: the device lives as long as `self`, and is configured.
        let code = unsafe { (self.functions.start)(self.pcm.as_ptr()) };
        match code {
            code if code < 0 => Err(self.functions.message(code)),
            _ => Ok(()),
        }
    }

    /// Reads recorded sample frames into `out`, without waiting.
    pub(super) fn read(&mut self, out: &mut [u8]) -> ReadResult {
        let frames = out.len() / (CHANNELS * self.format.bytes());
        let frames = c_ulong::try_from(frames).unwrap_or(0);
        // SAFETY: `out` has space for this many sample frames of the configured format and channels.
        let code =
            unsafe { (self.functions.read)(self.pcm.as_ptr(), out.as_mut_ptr().cast(), frames) };
        ReadResult::of(code)
    }

    /// Waits until samples can be read, but at most for `timeout`, rounded up to milliseconds. The next read reports
    /// errors.
    pub(super) fn wait(&mut self, timeout: Duration) {
        let millis = c_int::try_from(timeout.as_micros().div_ceil(1000)).unwrap_or(c_int::MAX);
        // SAFETY: the device lives as long as `self`.
        unsafe { (self.functions.wait)(self.pcm.as_ptr(), millis) };
    }

    /// Starts the device again after an interruption with this code.
    pub(super) fn restart(&mut self, code: c_int) -> Result<(), String> {
        // SAFETY: the device lives as long as `self`. The last argument suppresses messages.
        let code = unsafe { (self.functions.recover)(self.pcm.as_ptr(), code, 1) };
        if code < 0 {
            return Err(self.functions.message(code));
        }
        // SAFETY: the device lives as long as `self`.
        match unsafe { (self.functions.start)(self.pcm.as_ptr()) } {
            // After a suspension, `snd_pcm_recover` resumes the device if the hardware permits it. The device then runs
            // already, which `snd_pcm_start` reports as a bad state.
            code if code < 0 && code != -libc::EBADFD => Err(self.functions.message(code)),
            _ => Ok(()),
        }
    }

    /// The library's message for the code of an error.
    pub(super) fn message(&self, code: c_int) -> String {
        self.functions.message(code)
    }
}

impl Drop for Pcm {
    fn drop(&mut self) {
        // SAFETY: this library opened the object, and nothing uses it afterwards.
        unsafe { (self.functions.close)(self.pcm.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interruptions_are_no_failures() {
        let of = |code: c_int| ReadResult::of(code.into());
        assert_eq!(of(0), ReadResult::Empty);
        assert_eq!(of(240), ReadResult::Frames(240));
        assert_eq!(of(-libc::EAGAIN), ReadResult::Empty);
        for code in [-libc::EPIPE, -libc::ESTRPIPE] {
            assert_eq!(of(code), ReadResult::Interrupted(code));
        }
        for code in [-libc::ENODEV, -libc::EBADFD, c_int::MIN] {
            assert_eq!(of(code), ReadResult::Failed(code));
        }
    }
}
