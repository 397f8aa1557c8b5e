//! libopus, loaded at run time: the encoder and decoder of its C API. The parent module chooses the
//! settings.
//!
//! This module declares the part of opus.h and opus_defines.h that is unchanged since libopus 1.0, the ABI of
//! `libopus.so.0`.
#![allow(unsafe_code)]

use std::ffi::{CStr, OsString, c_char, c_int, c_uchar};
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::audio::{AudioError, CHANNELS, RATE};
use crate::sys::{open, words};

const APPLICATION_RESTRICTED_LOWDELAY: c_int = 2051;
const SET_BITRATE: c_int = 4002;
const SET_VBR: c_int = 4006;
const SET_COMPLEXITY: c_int = 4010;
const GET_LOOKAHEAD: c_int = 4027;

#[repr(C)]
struct OpusEncoder {
    _opaque: [u8; 0],
}

#[repr(C)]
struct OpusDecoder {
    _opaque: [u8; 0],
}

struct Functions {
    encoder_create: unsafe extern "C" fn(i32, c_int, c_int, *mut c_int) -> *mut OpusEncoder,
    encode: unsafe extern "C" fn(*mut OpusEncoder, *const f32, c_int, *mut c_uchar, i32) -> i32,
    encoder_ctl: unsafe extern "C" fn(*mut OpusEncoder, c_int, ...) -> c_int,
    encoder_destroy: unsafe extern "C" fn(*mut OpusEncoder),
    decoder_create: unsafe extern "C" fn(i32, c_int, *mut c_int) -> *mut OpusDecoder,
    decode: unsafe extern "C" fn(
        *mut OpusDecoder,
        *const c_uchar,
        i32,
        *mut f32,
        c_int,
        c_int,
    ) -> c_int,
    decoder_destroy: unsafe extern "C" fn(*mut OpusDecoder),
    error: unsafe extern "C" fn(c_int) -> *const c_char,
    version: unsafe extern "C" fn() -> *const c_char,
    /// Declared after the functions, which must not outlive the library.
    _library: libloading::Library,
}

/// The loaded library.
#[derive(Clone)]
pub(super) struct Library(Arc<Functions>);

impl Library {
    /// Loads `path`, or the system's `libopus.so.0`.
    ///
    /// # Errors
    /// [`AudioError`] with the path, the reason, and the package to install.
    pub(super) fn open(path: Option<OsString>) -> Result<Library, AudioError> {
        let file = path.unwrap_or_else(|| "libopus.so.0".into());
        // SAFETY: libopus has no initialiser, so loading it runs no code.
        let opened = unsafe { open([&file]) };
        (opened.and_then(|library| Functions::load(library).map_err(|e| words(&e))))
            .map(|functions| Library(Arc::new(functions)))
            .map_err(|reason| {
                AudioError(format!(
                    "{} can't be used ({reason}): sound needs libopus; apt install libopus0, or set \
                     OPENUVR_OPUS to the path of a libopus.so.0",
                    Path::new(&file).display()
                ))
            })
    }

    /// The library's version string.
    pub(super) fn version(&self) -> String {
        // SAFETY: the function takes no arguments, and returns a constant NUL-terminated string.
        let text = unsafe { CStr::from_ptr((self.0.version)()) };
        text.to_string_lossy().into_owned()
    }

    fn failed(&self, what: &str, code: c_int) -> AudioError {
        // SAFETY: the function accepts any number, and returns a constant NUL-terminated string.
        let text = unsafe { CStr::from_ptr((self.0.error)(code)) };
        AudioError(format!(
            "libopus could not {what}: {}",
            text.to_string_lossy()
        ))
    }
}

impl Functions {
    fn load(library: libloading::Library) -> Result<Functions, libloading::Error> {
        // SAFETY: the functions have these types in every libopus.so.0.
        unsafe {
            Ok(Functions {
                encoder_create: *library.get(b"opus_encoder_create")?,
                encode: *library.get(b"opus_encode_float")?,
                encoder_ctl: *library.get(b"opus_encoder_ctl")?,
                encoder_destroy: *library.get(b"opus_encoder_destroy")?,
                decoder_create: *library.get(b"opus_decoder_create")?,
                decode: *library.get(b"opus_decode_float")?,
                decoder_destroy: *library.get(b"opus_decoder_destroy")?,
                error: *library.get(b"opus_strerror")?,
                version: *library.get(b"opus_get_version_string")?,
                _library: library,
            })
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "2"
)]
const CHANNEL_COUNT: c_int = CHANNELS as c_int;
#[expect(clippy::cast_possible_wrap, reason = "48 000")]
const SAMPLE_RATE: i32 = RATE as i32;

/// An encoder with minimal delay.
pub(super) struct Encoder {
    library: Library,
    state: NonNull<OpusEncoder>,
}

// SAFETY: libopus keeps its whole state behind the pointer, and uses no thread-local state. Only methods with `&mut
// self` call libopus.
unsafe impl Send for Encoder {}

impl Encoder {
    /// # Errors
    /// [`AudioError`] if the library refuses.
    pub(super) fn new(
        library: &Library,
        bitrate: i32,
        variable: bool,
        complexity: c_int,
    ) -> Result<Encoder, AudioError> {
        let mut code = 0;
        let create = library.0.encoder_create;
        // SAFETY: the arguments are numbers, and an output variable that outlives the call.
        let state = unsafe {
            create(
                SAMPLE_RATE,
                CHANNEL_COUNT,
                APPLICATION_RESTRICTED_LOWDELAY,
                &raw mut code,
            )
        };
        let state = NonNull::new(state);
        let state = state.ok_or_else(|| library.failed("create an encoder", code))?;
        let mut encoder = Encoder {
            library: library.clone(),
            state,
        };
        encoder.set(SET_VBR, variable.into())?;
        encoder.set(SET_COMPLEXITY, complexity)?;
        encoder.set_bitrate(bitrate)?;
        Ok(encoder)
    }

    fn set(&mut self, what: c_int, value: i32) -> Result<(), AudioError> {
        // SAFETY: each request that the callers pass takes a 32-bit number. `&mut self` makes this the only use of the
        // state.
        let code = unsafe { (self.library.0.encoder_ctl)(self.state.as_ptr(), what, value) };
        match code {
            0 => Ok(()),
            code => Err(self.library.failed(&format!("set {what} to {value}"), code)),
        }
    }

    /// Sets the bitrate in bit/s from the next payload on.
    pub(super) fn set_bitrate(&mut self, bitrate: i32) -> Result<(), AudioError> {
        self.set(SET_BITRATE, bitrate)
    }

    /// The delay of decoded samples in sample frames.
    pub(super) fn lookahead(&mut self) -> Result<u32, AudioError> {
        let mut samples: i32 = 0;
        // SAFETY: this request takes a pointer to a 32-bit number, which outlives the call.
        let code = unsafe {
            (self.library.0.encoder_ctl)(
                self.state.as_ptr(),
                GET_LOOKAHEAD,
                ptr::from_mut(&mut samples),
            )
        };
        match (code, u32::try_from(samples)) {
            (0, Ok(samples)) => Ok(samples),
            (code, _) => Err(self.library.failed("report its look-ahead", code)),
        }
    }

    /// Encodes all of `samples` into `out`; returns the number of bytes written.
    pub(super) fn encode(&mut self, samples: &[f32], out: &mut [u8]) -> Result<usize, AudioError> {
        let frames = c_int::try_from(samples.len() / CHANNELS).unwrap_or(c_int::MAX);
        let room = i32::try_from(out.len()).unwrap_or(i32::MAX);
        // SAFETY: `samples` holds `frames` sample frames of two channels, and `out` has `room` bytes. The library
        // checks the frame length before it reads.
        let written = unsafe {
            let (samples, out) = (samples.as_ptr(), out.as_mut_ptr());
            (self.library.0.encode)(self.state.as_ptr(), samples, frames, out, room)
        };
        usize::try_from(written).map_err(|_| {
            let what = format!("encode {frames} samples");
            self.library.failed(&what, written)
        })
    }
}

impl Drop for Encoder {
    fn drop(&mut self) {
        // SAFETY: this library created the object, and nothing uses it afterwards.
        unsafe { (self.library.0.encoder_destroy)(self.state.as_ptr()) };
    }
}

pub(super) struct Decoder {
    library: Library,
    state: NonNull<OpusDecoder>,
}

// SAFETY: as for [`Encoder`].
unsafe impl Send for Decoder {}

impl Decoder {
    /// # Errors
    /// [`AudioError`] if the library refuses.
    pub(super) fn new(library: &Library) -> Result<Decoder, AudioError> {
        let mut code = 0;
        let create = library.0.decoder_create;
        // SAFETY: the arguments are numbers, and an output variable that outlives the call.
        let state = unsafe { create(SAMPLE_RATE, CHANNEL_COUNT, &raw mut code) };
        let state = NonNull::new(state);
        Ok(Decoder {
            library: library.clone(),
            state: state.ok_or_else(|| library.failed("create a decoder", code))?,
        })
    }

    /// Decodes `bytes` into `out`; if there are no bytes, conceals a loss of the length of `out`. Returns the number of
    /// sample frames written.
    pub(super) fn decode(
        &mut self,
        bytes: Option<&[u8]>,
        out: &mut [f32],
    ) -> Result<usize, AudioError> {
        let room = c_int::try_from(out.len() / CHANNELS).unwrap_or(c_int::MAX);
        let (data, length) = match bytes {
            Some(bytes) => (bytes.as_ptr(), i32::try_from(bytes.len()).unwrap_or(0)),
            None => (ptr::null(), 0),
        };
        // SAFETY: `data` has `length` bytes, or is null for a loss as the library specifies, and
        // `out` has space for this many sample frames of two channels; longer payloads are refused.
        let written = unsafe {
            (self.library.0.decode)(self.state.as_ptr(), data, length, out.as_mut_ptr(), room, 0)
        };
        usize::try_from(written).map_err(|_| self.library.failed("decode a payload", written))
    }
}

impl Drop for Decoder {
    fn drop(&mut self) {
        // SAFETY: this library created the object, and nothing uses it afterwards.
        unsafe { (self.library.0.decoder_destroy)(self.state.as_ptr()) };
    }
}
