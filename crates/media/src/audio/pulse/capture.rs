//! Records a sink's monitor, or a source.

use std::time::Duration;

use openuvr_clock as clock;
use openuvr_proto::time::Instant;

use super::rhythm::Rhythm;
use super::sys::{self, BufferAttributes, Connection, Stream};
use super::{NAME, bytes};
use crate::audio::blocks::Blocks;
use crate::audio::{
    AudioCapture, AudioError, AudioEvent, CHANNELS, CaptureBackend, CaptureCounters, Settings,
    frames_in,
};

/// The table entry.
pub const CAPTURE: CaptureBackend = CaptureBackend {
    name: "pulse",
    about: "records playback of PulseAudio or PipeWire; the device is a sink, whose monitor is recorded, or a source \
            [default: the default sink]",
    open: |settings| Ok(Box::new(Capture::open(None, settings)?)),
};

/// The monitor of the default sink, under the name that PulseAudio and PipeWire use.
const DEFAULT_MONITOR: &str = "@DEFAULT_MONITOR@";

/// The default source, under the name that PulseAudio and PipeWire use.
const DEFAULT_SOURCE: &str = "@DEFAULT_SOURCE@";

/// Records from a fixed device, or follows the default.
pub struct Capture {
    server: Option<String>,
    settings: Settings,
    stream: Stream,
    /// The recorded device, if it has changed since the last call of [`AudioCapture::poll_device`].
    moved: Option<String>,
    blocks: Blocks,
    rhythm: Rhythm,
    /// Samples that arrived together.
    pending: Vec<f32>,
}

impl Capture {
    /// Records from the monitor of the sink [`Settings::device`], or from the source with that name. Without a device,
    /// records from the monitor of the default sink. If `server` is `None`, connects to `$PULSE_SERVER`, or to the
    /// session's server.
    ///
    /// # Errors
    /// [`AudioError`] if libpulse, the server or the device is missing.
    pub fn open(server: Option<&str>, settings: &Settings) -> Result<Capture, AudioError> {
        Ok(Capture {
            server: server.map(str::to_owned),
            settings: settings.clone(),
            stream: record(server, settings)?,
            moved: None,
            blocks: Blocks::new(clock::now()),
            rhythm: Rhythm::default(),
            pending: Vec::new(),
        })
    }

    /// The name of the recorded source.
    #[must_use]
    pub fn device(&self) -> String {
        self.stream.device()
    }

    /// If the capture follows the default device, switches to the new default when the default has changed or the
    /// device is gone.
    fn follow(&mut self) -> Result<(), AudioError> {
        let there = self.stream.check();
        let Some(usual) = default_device(&self.settings) else {
            return there;
        };
        let before = self.stream.device();
        if there.is_ok() {
            if !self.stream.connection.take_changed() {
                return Ok(());
            }
            let defaults = self.stream.connection.defaults()?;
            let now = match usual {
                DEFAULT_SOURCE => defaults.source,
                _ => format!("{}.monitor", defaults.sink),
            };
            if now == before {
                return Ok(());
            }
        }
        let stream = record(self.server.as_deref(), &self.settings)?;
        let device = stream.device();
        if device == before {
            // The device was removed, and there is no replacement.
            return there;
        }
        self.stream = stream;
        self.rhythm = Rhythm::default();
        let device = device.strip_suffix(".monitor").unwrap_or(&device);
        self.moved = Some(device.to_owned());
        Ok(())
    }

    /// Takes samples from the server. `waited` states whether the samples woke this thread.
    fn take(&mut self, waited: bool) -> Result<(), AudioError> {
        let (blocks, pending, now) = (&mut self.blocks, &mut self.pending, clock::now());
        let mut pieces = 0;
        let mut take = |piece: Result<&[u8], usize>| match piece {
            Ok(bytes) => {
                pending.extend(samples(bytes));
                pieces += 1;
            }
            Err(missing) => {
                arrived(blocks, pending, now);
                blocks.arrived(now, missing, None::<std::iter::Empty<f32>>);
            }
        };
        while self.stream.piece(&mut take)? {}
        self.rhythm
            .arrived(now, pieces, pending.len() / CHANNELS, waited);
        arrived(blocks, pending, now);
        Ok(())
    }
}

/// The server's name of the default device that the capture follows: the default monitor if the settings name no
/// device, or the default source if they name the default source. `None` if they name a fixed device.
fn default_device(settings: &Settings) -> Option<&'static str> {
    match settings.device.as_deref() {
        None => Some(DEFAULT_MONITOR),
        Some(DEFAULT_SOURCE) => Some(DEFAULT_SOURCE),
        Some(_) => None,
    }
}

/// Starts recording.
fn record(server: Option<&str>, settings: &Settings) -> Result<Stream, AudioError> {
    // Half a payload. With fragments of this length, the server delays samples by a quarter of a payload on average.
    // With ADJUST_LATENCY, the sink also uses periods of this length.
    let attributes = BufferAttributes {
        fragment: bytes(frames_in(settings.frame / 2)),
        ..BufferAttributes::DEFAULT
    };
    let record = |device: &str| {
        // The server must not move the stream. This capture opens a stream of the new device instead, so that the
        // change can be reported.
        let flags = sys::ADJUST_LATENCY | sys::DONT_MOVE;
        Stream::record(Connection::open(server, NAME)?, device, &attributes, flags)
    };
    let stream = match (default_device(settings), settings.device.as_deref()) {
        (Some(usual), _) => {
            let mut stream = record(usual)?;
            stream.connection.watch_defaults()?;
            stream
        }
        (None, device) => {
            let device = device.unwrap_or_default();
            record(&format!("{device}.monitor")).or_else(|_| record(device))?
        }
    };
    tracing::debug!(device = stream.device(), attributes = ?stream.attributes(), "recording audio");
    Ok(stream)
}

/// Passes all samples that arrived together to `blocks` as one chunk. Otherwise, samples that had to wait for this
/// thread would count as late.
fn arrived(blocks: &mut Blocks, pending: &mut Vec<f32>, now: Instant) {
    if !pending.is_empty() {
        blocks.arrived(now, pending.len() / CHANNELS, Some(pending.drain(..)));
    }
}

/// Converts bytes to samples.
fn samples(bytes: &[u8]) -> impl Iterator<Item = f32> {
    let sample = |bytes: &[u8]| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    bytes.chunks_exact(4).map(sample)
}

impl AudioCapture for Capture {
    fn read(
        &mut self,
        block: &mut [f32],
        timeout: Option<Duration>,
    ) -> Result<AudioEvent, AudioError> {
        let give_up = timeout.map(|timeout| clock::now() + timeout);
        let mut waited = false;
        loop {
            self.follow()?;
            self.take(waited)?;
            if let Some(captured) = self.blocks.take(clock::now(), block) {
                return Ok(AudioEvent::Captured(captured));
            }
            if give_up.is_some_and(|give_up| clock::now() >= give_up) {
                return Ok(AudioEvent::TimedOut);
            }
            let due = self.blocks.due(block);
            let until = give_up.map_or(due, |give_up| give_up.min(due));
            let full = self.rhythm.full_at(self.blocks.lacking(block));
            waited = match full.filter(|full| *full > clock::now()) {
                // This thread sleeps until enough chunks are expected, so earlier chunks do not wake it.
                Some(full) => {
                    std::thread::sleep(full.min(until).since(clock::now()));
                    self.stream.connection.catch_up()?;
                    false
                }
                None => {
                    self.stream.connection.turn(Some(until))?;
                    true
                }
            };
        }
    }

    fn poll_device(&mut self) -> Option<String> {
        self.moved.take()
    }

    fn counters(&self) -> CaptureCounters {
        self.blocks.counters()
    }
}
