//! A stream to or from a device.

use std::ffi::{CStr, c_int};
use std::ptr::{self, NonNull};
use std::time::Duration;

use super::connection::{ANSWER, Connection, text};
use super::functions::{
    BufferAttributes, FRAME, PaStream, SEEK_RELATIVE, STREAM_FAILED, STREAM_READY,
    STREAM_TERMINATED,
};
use crate::audio::AudioError;
use crate::clock;

/// A stream to or from a device, with the connection that it goes over.
pub(in crate::audio::pulse) struct Stream {
    stream: NonNull<PaStream>,
    /// Behind the stream, which must not outlive it.
    pub(in crate::audio::pulse) connection: Connection,
}

// SAFETY: as of the connection.
unsafe impl Send for Stream {}

/// The bytes of a piece's samples, or how many sample frames are missing in its place.
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
        let stream = Stream::new(connection, "what is played")?;
        // SAFETY: the stream lives as long as the value; name and attributes are copied.
        let code = unsafe {
            let record = stream.connection.functions.stream_record;
            record(stream.stream.as_ptr(), name.as_ptr(), attributes, flags)
        };
        stream.connected(code, &format!("record from {device}"))
    }

    /// Plays to the sink `device`, or to the usual one.
    pub(in crate::audio::pulse) fn play(
        connection: Connection,
        device: Option<&str>,
        attributes: &BufferAttributes,
        flags: c_int,
    ) -> Result<Stream, AudioError> {
        let name = device.map(text).transpose()?;
        let stream = Stream::new(connection, "what the host plays")?;
        let pointer = name.as_ref().map_or(ptr::null(), |name| name.as_ptr());
        // SAFETY: the stream lives as long as the value; name and attributes are copied; no volume is set
        // and no stream is synchronised with it.
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
            &format!("play to {}", device.unwrap_or("the usual device")),
        )
    }

    fn new(mut connection: Connection, name: &str) -> Result<Stream, AudioError> {
        let stream = connection.stream(name)?;
        Ok(Stream { stream, connection })
    }

    fn connected(mut self, code: c_int, what: &str) -> Result<Stream, AudioError> {
        let give_up = clock::now() + ANSWER;
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
    /// If the server, or the device, is gone.
    pub(in crate::audio::pulse) fn check(&self) -> Result<(), AudioError> {
        self.connection.check()?;
        match self.state() {
            STREAM_READY => Ok(()),
            _ => Err(AudioError(
                "the sound device is gone: open sound again, on another device if it stays away"
                    .into(),
            )),
        }
    }

    /// What the server made of the attributes that were wished for.
    pub(in crate::audio::pulse) fn attributes(&self) -> BufferAttributes {
        // SAFETY: the stream is ready: the library returns its own structure, which is copied at once, or null.
        let attributes = unsafe {
            let attributes = self.connection.functions.stream_attributes;
            attributes(self.stream.as_ptr()).as_ref().copied()
        };
        attributes.unwrap_or(BufferAttributes::DEFAULT)
    }

    /// The device's name.
    pub(in crate::audio::pulse) fn device(&self) -> String {
        // SAFETY: the stream is ready: the text is the library's, ends in NUL and is copied at once; or null.
        unsafe {
            let name = (self.connection.functions.stream_device)(self.stream.as_ptr());
            match name.is_null() {
                true => String::new(),
                false => CStr::from_ptr(name).to_string_lossy().into_owned(),
            }
        }
    }

    /// In so long a sample is heard that is written now, as the server says; `None` before it has said
    /// anything.
    pub(in crate::audio::pulse) fn latency(&self) -> Option<Duration> {
        let (mut micros, mut negative) = (0, 0);
        // SAFETY: two places that live until the call returns.
        let code = unsafe {
            let latency = self.connection.functions.stream_latency;
            latency(self.stream.as_ptr(), &raw mut micros, &raw mut negative)
        };
        let micros = if negative == 0 { micros } else { 0 };
        (code >= 0).then(|| Duration::from_micros(micros))
    }

    /// Hands over the next piece that was recorded, if there is one: the bytes of its samples, or, where the
    /// server has a hole, how many sample frames are missing. Whether there was one.
    pub(in crate::audio::pulse) fn piece(
        &mut self,
        take: &mut dyn FnMut(Piece<'_>),
    ) -> Result<bool, AudioError> {
        self.check()?;
        let (mut data, mut bytes) = (ptr::null(), 0);
        let functions = &self.connection.functions;
        // SAFETY: two places that live until the call returns.
        let code =
            unsafe { (functions.stream_peek)(self.stream.as_ptr(), &raw mut data, &raw mut bytes) };
        if code < 0 {
            return Err(self.connection.failed("be read"));
        }
        if bytes == 0 {
            return Ok(false);
        }
        match data.is_null() {
            // SAFETY: the library keeps that many bytes until they are dropped below.
            false => take(Ok(unsafe {
                std::slice::from_raw_parts(data.cast::<u8>(), bytes)
            })),
            true => take(Err(bytes / FRAME)),
        }
        // SAFETY: a piece was peeked at, and nobody has it any more.
        unsafe { (functions.stream_drop)(self.stream.as_ptr()) };
        Ok(true)
    }

    /// Sample frames that the device wants now.
    pub(in crate::audio::pulse) fn writable(&self) -> usize {
        // SAFETY: the stream lives as long as `self`.
        let bytes = unsafe { (self.connection.functions.stream_writable)(self.stream.as_ptr()) };
        // It is the largest number if the stream failed.
        if bytes == usize::MAX {
            0
        } else {
            bytes / FRAME
        }
    }

    /// Writes samples; they are copied.
    pub(in crate::audio::pulse) fn write(&mut self, samples: &[f32]) -> Result<(), AudioError> {
        let bytes = size_of_val(samples);
        // SAFETY: `samples` has that many bytes, and without a function to free them they are copied.
        let code = unsafe {
            let (write, free) = (self.connection.functions.stream_write, ptr::null());
            let samples = samples.as_ptr().cast();
            write(self.stream.as_ptr(), samples, bytes, free, 0, SEEK_RELATIVE)
        };
        match code {
            0.. => Ok(()),
            _ => Err(self.connection.failed("be written to")),
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: made by this library, not used any more; its connection is dropped after it.
        unsafe {
            (self.connection.functions.stream_disconnect)(self.stream.as_ptr());
            (self.connection.functions.stream_unref)(self.stream.as_ptr());
        }
    }
}
