//! Records what a sink plays, or a source.

use std::time::Duration;

use super::sys::{self, BufferAttributes, Connection, FRAME, Stream};
use super::{NAME, bytes};
use crate::audio::blocks::Blocks;
use crate::audio::{
    AudioCapture, AudioError, AudioEvent, CaptureBackend, CaptureCounters, Settings, frames_in,
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

/// Records from one device.
pub struct Capture {
    stream: Stream,
    blocks: Blocks,
}

impl Capture {
    /// Records from the monitor of the sink [`Settings::device`], or from the source of that name, of `server`
    /// (`None`: `$PULSE_SERVER`, or that of this session).
    ///
    /// # Errors
    /// [`AudioError`] if there is no libpulse, no server or no such device.
    pub fn open(server: Option<&str>, settings: &Settings) -> Result<Capture, AudioError> {
        // Half a payload: what the server keeps back is on average a quarter of one then. With ADJUST_LATENCY
        // the sink works in pieces of that length, too.
        let attributes = BufferAttributes {
            fragment: bytes(frames_in(settings.frame / 2)),
            ..BufferAttributes::DEFAULT
        };
        let record = |device: &str| {
            let flags = sys::ADJUST_LATENCY | sys::DONT_MOVE;
            Stream::record(Connection::open(server, NAME)?, device, &attributes, flags)
        };
        let stream = match settings.device.as_deref() {
            None => record(USUAL)?,
            Some(device) => match record(&format!("{device}.monitor")) {
                Ok(stream) => stream,
                Err(_) => record(device)?,
            },
        };
        tracing::debug!(device = stream.device(), attributes = ?stream.attributes(), "sound is recorded");
        Ok(Capture {
            stream,
            blocks: Blocks::new(clock::now()),
        })
    }

    /// The name of the source that is recorded from.
    #[must_use]
    pub fn device(&self) -> String {
        self.stream.device()
    }

    /// Takes what the server has sent.
    fn take(&mut self) -> Result<(), AudioError> {
        let blocks = &mut self.blocks;
        let mut take = |piece: Result<&[u8], usize>| {
            let frames = piece.map_or_else(|missing| missing, |bytes| bytes.len() / FRAME);
            blocks.arrived(clock::now(), frames, piece.ok().map(samples));
        };
        while self.stream.piece(&mut take)? {}
        Ok(())
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
        loop {
            self.take()?;
            if let Some(captured) = self.blocks.take(clock::now(), block) {
                return Ok(AudioEvent::Captured(captured));
            }
            self.stream.check()?;
            if give_up.is_some_and(|give_up| clock::now() >= give_up) {
                return Ok(AudioEvent::TimedOut);
            }
            let due = self.blocks.due(block);
            let until = give_up.map_or(due, |give_up| give_up.min(due));
            self.stream.connection.turn(Some(until))?;
        }
    }

    fn counters(&self) -> CaptureCounters {
        self.blocks.counters()
    }
}
