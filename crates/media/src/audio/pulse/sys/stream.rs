//! A stream to or from a device.

use std::ffi::{CStr, c_int};
use std::ptr::{self, NonNull};
use std::time::Duration;

use super::connection::{Connection, REPLY_TIMEOUT, text};
use super::functions::{
    BufferAttributes, FRAME, PaStream, SEEK_RELATIVE, STREAM_FAILED, STREAM_READY,
    STREAM_TERMINATED,
};
use crate::audio::AudioError;
use openuvr_clock as clock;

/// A stream to or from a device, with its connection.
pub(in crate::audio::pulse) struct Stream {
    stream: NonNull<PaStream>,
    /// Declared after the stream, because the stream must not outlive its connection.
    pub(in crate::audio::pulse) connection: Connection,
}

// SAFETY: the reasons for [`Connection`] apply to its streams, too.
unsafe impl Send for Stream {}

/// The bytes of a chunk, or the number of missing sample frames.
type Piece<'a> = Result<&'a [u8], usize>;

impl Stream {
    /// Records from the source `device`.
    pub(in crate::audio::pulse) fn record(
        connection: Connection,
        device: &str,
        attributes: &BufferAttributes,
        flags: c_int,
    ) -> Result<Stream, AudioError> {
        let name = text(device)?;
        let stream = Stream::new(connection, "playback capture")?;
        // SAFETY: the stream lives as long as the value; name and attributes are copied.
        let code = unsafe {
            let record = stream.connection.functions.stream_record;
            record(stream.stream.as_ptr(), name.as_ptr(), attributes, flags)
        };
        stream.connected(code, &format!("record from {device}"))
    }

    /// Plays to the sink `device`, or to the default sink.
    pub(in crate::audio::pulse) fn play(
        connection: Connection,
        device: Option<&str>,
        attributes: &BufferAttributes,
        flags: c_int,
    ) -> Result<Stream, AudioError> {
        let name = device.map(text).transpose()?;
        let stream = Stream::new(connection, "host audio")?;
        let pointer = name.as_ref().map_or(ptr::null(), |name| name.as_ptr());
        // SAFETY: the stream lives as long as the value; name and attributes are copied; the null pointers mean that no
        // volume is set and that the stream is not synchronised with another.
        let code = unsafe {
            let play = stream.connection.functions.stream_play;
            let (volume, other) = (ptr::null(), ptr::null_mut());
            play(
                stream.stream.as_ptr(),
                pointer,
                attributes,
                flags,
                volume,
                other,
            )
        };
        stream.connected(
            code,
            &format!("play to {}", device.unwrap_or("the default device")),
        )
    }

    fn new(mut connection: Connection, name: &str) -> Result<Stream, AudioError> {
        let stream = connection.stream(name)?;
        Ok(Stream { stream, connection })
    }

    fn connected(mut self, code: c_int, what: &str) -> Result<Stream, AudioError> {
        let give_up = clock::now() + REPLY_TIMEOUT;
        loop {
            match self.state() {
                _ if code < 0 => break,
                STREAM_READY => return Ok(self),
                STREAM_FAILED | STREAM_TERMINATED => break,
                _ if clock::now() >= give_up => break,
                _ => self.connection.turn(Some(give_up))?,
            }
        }
        Err(self.connection.failed(what))
    }

    fn state(&self) -> c_int {
        // SAFETY: the stream lives as long as `self`.
        unsafe { (self.connection.functions.stream_state)(self.stream.as_ptr()) }
    }

    /// # Errors
    /// [`AudioError`] if the server or the device is gone.
    pub(in crate::audio::pulse) fn check(&self) -> Result<(), AudioError> {
        self.connection.check()?;
        match self.state() {
            STREAM_READY => Ok(()),
            _ => Err(AudioError(
                "the sound device is gone: connect it again, or choose another device".into(),
            )),
        }
    }

    /// The buffer attributes chosen by the server.
    pub(in crate::audio::pulse) fn attributes(&self) -> BufferAttributes {
        // SAFETY: the stream lives as long as `self`. The library returns null or its own structure, which is copied
        // immediately.
        let attributes = unsafe {
            let attributes = self.connection.functions.stream_attributes;
            attributes(self.stream.as_ptr()).as_ref().copied()
        };
        attributes.unwrap_or(BufferAttributes::DEFAULT)
    }

    /// The device's name.
    pub(in crate::audio::pulse) fn device(&self) -> String {
        // SAFETY: the stream lives as long as `self`. The library returns null or its own NUL-terminated string, which
        // is copied immediately.
        unsafe {
            let name = (self.connection.functions.stream_device)(self.stream.as_ptr());
            match name.is_null() {
                true => String::new(),
                false => CStr::from_ptr(name).to_string_lossy().into_owned(),
            }
        }
    }

    /// Time until a sample written now is audible, as reported by the server; `None` before the
    /// first report.
    pub(in crate::audio::pulse) fn latency(&self) -> Option<Duration> {
        let (mut micros, mut negative) = (0, 0);
        // SAFETY: the two output variables outlive the call.
        let code = unsafe {
            let latency = self.connection.functions.stream_latency;
            latency(self.stream.as_ptr(), &raw mut micros, &raw mut negative)
        };
        let micros = if negative == 0 { micros } else { 0 };
        (code >= 0).then(|| Duration::from_micros(micros))
    }

    /// Passes the next recorded chunk to `take`, if there is one: the bytes of its samples, or the number of missing
    /// sample frames for a gap. Returns whether there was a chunk.
    pub(in crate::audio::pulse) fn piece(
        &mut self,
        take: &mut dyn FnMut(Piece<'_>),
    ) -> Result<bool, AudioError> {
        self.check()?;
        let (mut data, mut bytes) = (ptr::null(), 0);
        let functions = &self.connection.functions;
        // SAFETY: the two output variables outlive the call.
        let code =
            unsafe { (functions.stream_peek)(self.stream.as_ptr(), &raw mut data, &raw mut bytes) };
        if code < 0 {
            return Err(self.connection.failed("read the stream"));
        }
        if bytes == 0 {
            return Ok(false);
        }
        match data.is_null() {
            // SAFETY: the library keeps these bytes until they are dropped below.
            false => take(Ok(unsafe {
                std::slice::from_raw_parts(data.cast::<u8>(), bytes)
            })),
            true => take(Err(bytes / FRAME)),
        }
        // SAFETY: `stream_peek` returned a chunk above, and the chunk is no longer borrowed.
        unsafe { (functions.stream_drop)(self.stream.as_ptr()) };
        Ok(true)
    }

    /// The number of sample frames that the server requests now.
    pub(in crate::audio::pulse) fn writable(&self) -> usize {
        // SAFETY: the stream lives as long as `self`.
        let bytes = unsafe { (self.connection.functions.stream_writable)(self.stream.as_ptr()) };
        // The library returns the maximum value if the stream failed.
        if bytes == usize::MAX {
            0
        } else {
            bytes / FRAME
        }
    }

    /// Writes samples, which are copied.
    pub(in crate::audio::pulse) fn write(&mut self, samples: &[f32]) -> Result<(), AudioError> {
        let bytes = size_of_val(samples);
        // SAFETY: `samples` has `bytes` bytes. The library copies them, because no function to free them is passed.
        let code = unsafe {
            let (write, free) = (self.connection.functions.stream_write, ptr::null());
            let samples = samples.as_ptr().cast();
            write(self.stream.as_ptr(), samples, bytes, free, 0, SEEK_RELATIVE)
        };
        match code {
            0.. => Ok(()),
            _ => Err(self.connection.failed("write the stream")),
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: this library created the object, and nothing uses it afterwards; its connection is dropped after it.
        unsafe {
            (self.connection.functions.stream_disconnect)(self.stream.as_ptr());
            (self.connection.functions.stream_unref)(self.stream.as_ptr());
        }
    }
}
