//! Plays to a sink.

use std::time::Duration;

use super::sys::{self, BufferAttributes, Connection, FRAME, Stream};
use super::{NAME, bytes};
use crate::audio::{
    AudioError, AudioPlayback, Level, PlaybackBackend, RATE, Settings, Waker, duration_of,
    frames_in, wait,
};
use crate::clock;

/// The line in the table.
pub const PLAYBACK: PlaybackBackend = PlaybackBackend {
    name: "pulse",
    about: "plays by PulseAudio or PipeWire; the device is a sink [default: the usual one]",
    open: |settings| Ok(Box::new(Playback::open(None, settings)?)),
};

/// Payloads that the server asks for in advance. How full the stream is can be seen only below this, and
/// as much as two blocks of the device and two payloads are written (`JitterBuffer::next`).
const AHEAD: u32 = 4;

/// Plays to one device.
pub struct Playback {
    stream: Stream,
    /// Sample frames that the server asks for in advance.
    target: usize,
    block: Duration,
}

impl Playback {
    /// Plays to the sink [`Settings::device`] of `server` (`None`: `$PULSE_SERVER`, or that of this session).
    ///
    /// # Errors
    /// [`AudioError`] if there is no libpulse, no server or no such sink.
    pub fn open(server: Option<&str>, settings: &Settings) -> Result<Playback, AudioError> {
        // With EARLY_REQUESTS the sink works in pieces of the least request: its latency is that, while what
        // waits in front of it is ours to choose. It begins with the first sample.
        let attributes = BufferAttributes {
            maximum: bytes(RATE as usize),
            target: bytes(frames_in(settings.frame * AHEAD)),
            prebuffer: bytes(1),
            minimum_request: bytes(frames_in(settings.frame / 2)),
            ..BufferAttributes::DEFAULT
        };
        let flags = sys::EARLY_REQUESTS | sys::AUTO_TIMING_UPDATE | sys::INTERPOLATE_TIMING;
        let connection = Connection::open(server, NAME)?;
        let stream = Stream::play(connection, settings.device.as_deref(), &attributes, flags)?;
        let made = stream.attributes();
        tracing::debug!(device = stream.device(), attributes = ?made, "sound is played");
        let frames = |bytes: u32| usize::try_from(bytes).unwrap_or(0) / FRAME;
        Ok(Playback {
            target: frames(made.target),
            block: duration_of(frames(made.minimum_request)),
            stream,
        })
    }

    /// The name of the sink that is played to.
    #[must_use]
    pub fn device(&self) -> String {
        self.stream.device()
    }

    /// Takes in what the server has said, without waiting.
    fn look(&mut self) -> Result<(), AudioError> {
        self.stream.connection.catch_up()?;
        self.stream.check()
    }
}

impl AudioPlayback for Playback {
    fn level(&mut self) -> Result<Level, AudioError> {
        self.look()?;
        let wanted = self.stream.writable();
        Ok(Level {
            dry_in: duration_of(self.target.saturating_sub(wanted)),
            heard_in: self.stream.latency(),
            block: self.block,
        })
    }

    fn write(&mut self, samples: &[f32]) -> Result<(), AudioError> {
        self.stream.check()?;
        self.stream.write(samples)?;
        self.look()
    }

    /// What the server says meanwhile waits in the socket until it is asked how full the stream is: it says something
    /// of each block that it takes, twice in a payload, and each would wake this thread for nothing.
    fn wait(&mut self, timeout: Option<Duration>) -> Result<bool, AudioError> {
        let give_up = timeout.map(|timeout| clock::now() + timeout);
        wait::until(give_up, self.stream.connection.waker())
    }

    fn waker(&self) -> Waker {
        self.stream.connection.waker().clone()
    }
}
