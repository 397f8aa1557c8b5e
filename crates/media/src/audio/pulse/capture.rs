//! Records what a sink plays, or a source.

use std::time::Duration;

use openuvr_proto::time::Instant;

use super::rhythm::Rhythm;
use super::sys::{self, BufferAttributes, Connection, Stream};
use super::{NAME, bytes};
use crate::audio::blocks::Blocks;
use crate::audio::{
    AudioCapture, AudioError, AudioEvent, CHANNELS, CaptureBackend, CaptureCounters, Settings,
    frames_in,
};
use crate::clock;

/// The line in the table.
pub const CAPTURE: CaptureBackend = CaptureBackend {
    name: "pulse",
    about: "what PulseAudio or PipeWire plays; the device is a sink, whose monitor is recorded, or a source \
            [default: the usual sink]",
    open: |settings| Ok(Box::new(Capture::open(None, settings)?)),
};

/// The monitor of the usual sink, in the words of both servers.
const USUAL: &str = "@DEFAULT_MONITOR@";

/// The usual source, in the same words.
const USUAL_SOURCE: &str = "@DEFAULT_SOURCE@";

/// Records from one device, or from what is the usual one at the time.
pub struct Capture {
    server: Option<String>,
    settings: Settings,
    stream: Stream,
    /// The device that is recorded from, if it is another since [`AudioCapture::poll_device`] was called.
    moved: Option<String>,
    blocks: Blocks,
    rhythm: Rhythm,
    /// What came together.
    came: Vec<f32>,
}

impl Capture {
    /// Records from the monitor of the sink [`Settings::device`], or from the source of that name, of `server`
    /// (`None`: `$PULSE_SERVER`, or that of this session).
    ///
    /// # Errors
    /// [`AudioError`] if there is no libpulse, no server or no such device.
    pub fn open(server: Option<&str>, settings: &Settings) -> Result<Capture, AudioError> {
        Ok(Capture {
            server: server.map(str::to_owned),
            settings: settings.clone(),
            stream: record(server, settings)?,
            moved: None,
            blocks: Blocks::new(clock::now()),
            rhythm: Rhythm::default(),
            came: Vec::new(),
        })
    }

    /// The name of the source that is recorded from.
    #[must_use]
    pub fn device(&self) -> String {
        self.stream.device()
    }

    /// Goes over to another device where the usual one is followed, and is another or gone.
    fn follow(&mut self) -> Result<(), AudioError> {
        let there = self.stream.check();
        let Some(usual) = usual(&self.settings) else {
            return there;
        };
        let before = self.stream.device();
        if there.is_ok() {
            if !self.stream.connection.take_changed() {
                return Ok(());
            }
            let defaults = self.stream.connection.defaults()?;
            let now = match usual {
                USUAL_SOURCE => defaults.source,
                _ => format!("{}.monitor", defaults.sink),
            };
            if now == before {
                return Ok(());
            }
        }
        let stream = record(self.server.as_deref(), &self.settings)?;
        let device = stream.device();
        if device == before {
            // Nothing took the place of one that is gone.
            return there;
        }
        self.stream = stream;
        self.rhythm = Rhythm::default();
        let device = device.strip_suffix(".monitor").unwrap_or(&device);
        self.moved = Some(device.to_owned());
        Ok(())
    }

    /// Takes what the server has sent; `waited`: this thread was woken by it.
    fn take(&mut self, waited: bool) -> Result<(), AudioError> {
        let (blocks, came, now) = (&mut self.blocks, &mut self.came, clock::now());
        let mut pieces = 0;
        let mut take = |piece: Result<&[u8], usize>| match piece {
            Ok(bytes) => {
                came.extend(samples(bytes));
                pieces += 1;
            }
            Err(missing) => {
                arrived(blocks, came, now);
                blocks.arrived(now, missing, None::<std::iter::Empty<f32>>);
            }
        };
        while self.stream.piece(&mut take)? {}
        self.rhythm.came(now, pieces, came.len() / CHANNELS, waited);
        arrived(blocks, came, now);
        Ok(())
    }
}

/// What stands for the usual device in these settings, if they name no other.
fn usual(settings: &Settings) -> Option<&'static str> {
    match settings.device.as_deref() {
        None => Some(USUAL),
        Some(USUAL_SOURCE) => Some(USUAL_SOURCE),
        Some(_) => None,
    }
}

/// Begins to record.
fn record(server: Option<&str>, settings: &Settings) -> Result<Stream, AudioError> {
    // Half a payload: what the server keeps back is on average a quarter of one then. With ADJUST_LATENCY
    // the sink works in pieces of that length, too.
    let attributes = BufferAttributes {
        fragment: bytes(frames_in(settings.frame / 2)),
        ..BufferAttributes::DEFAULT
    };
    let record = |device: &str| {
        // The server moves no stream: the move is ours, so that it can be told.
        let flags = sys::ADJUST_LATENCY | sys::DONT_MOVE;
        Stream::record(Connection::open(server, NAME)?, device, &attributes, flags)
    };
    let stream = match (usual(settings), settings.device.as_deref()) {
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
    tracing::debug!(device = stream.device(), attributes = ?stream.attributes(), "sound is recorded");
    Ok(stream)
}

/// Hands on what came together, as one piece: what waited for this thread was not late.
fn arrived(blocks: &mut Blocks, came: &mut Vec<f32>, now: Instant) {
    if !came.is_empty() {
        blocks.arrived(now, came.len() / CHANNELS, Some(came.drain(..)));
    }
}

/// The samples that these bytes are.
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
                // The pieces before the last wake nobody.
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
