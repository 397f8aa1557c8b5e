//! Plays to a sink.

use std::time::Duration;

use super::sys::{self, BufferAttributes, Connection, FRAME, Stream};
use super::{NAME, bytes};
use crate::audio::{
    AudioError, AudioPlayback, Level, PlaybackBackend, RATE, Settings, Waker, duration_of,
    frames_in, wait,
};
use openuvr_clock as clock;

/// The table entry.
pub const PLAYBACK: PlaybackBackend = PlaybackBackend {
    name: "pulse",
    about: "plays through PulseAudio or PipeWire; the device is a sink [default: the default sink]",
    open: |settings| Ok(Box::new(Playback::open(None, settings)?)),
};

/// Number of payloads that the server requests in advance. The stream's fill level is known only while it is below this
/// amount, so the amount exceeds the usual fill level. That level is at most two device periods and two payloads
/// (`JitterBuffer::next`).
const AHEAD: u32 = 4;

/// Plays to one device.
pub struct Playback {
    stream: Stream,
    /// Sample frames that the server requests in advance.
    target: usize,
    block: Duration,
}

impl Playback {
    /// Plays to the sink [`Settings::device`] on `server` (`None`: `$PULSE_SERVER`, or the
    /// session's server).
    ///
    /// # Errors
    /// [`AudioError`] if libpulse, the server or the sink is missing.
    pub fn open(server: Option<&str>, settings: &Settings) -> Result<Playback, AudioError> {
        // With EARLY_REQUESTS, the sink uses the minimum request as its period. The sink's period determines its
        // latency. The queue in front of the sink is under our control. Playback starts with the first sample.
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
        tracing::debug!(device = stream.device(), attributes = ?made, "playing audio");
        let frames = |bytes: u32| usize::try_from(bytes).unwrap_or(0) / FRAME;
        Ok(Playback {
            target: frames(made.target),
            block: duration_of(frames(made.minimum_request)),
            stream,
        })
    }

    /// The name of the sink.
    #[must_use]
    pub fn device(&self) -> String {
        self.stream.device()
    }

    /// Processes the server's messages without waiting.
    fn process_events(&mut self) -> Result<(), AudioError> {
        self.stream.connection.catch_up()?;
        self.stream.check()
    }
}

impl AudioPlayback for Playback {
    fn level(&mut self) -> Result<Level, AudioError> {
        self.process_events()?;
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
        self.process_events()
    }

    /// Leaves the server's messages in the socket until the fill level is queried. The server sends one message per
    /// period, and therefore two messages per payload. Each message would wake this thread unnecessarily.
    fn wait(&mut self, timeout: Option<Duration>) -> Result<bool, AudioError> {
        let give_up = timeout.map(|timeout| clock::now() + timeout);
        wait::until(give_up, self.stream.connection.waker())
    }

    fn waker(&self) -> Waker {
        self.stream.connection.waker().clone()
    }
}
