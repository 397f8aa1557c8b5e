//! Records a sound card, or any other device that ALSA's configuration defines. libasound is loaded at run time.
//!
//! This backend is for machines without a sound server. On machines with PulseAudio or PipeWire, the backend `pulse` is
//! better, because it follows changes of the default device. To capture the playback of applications, the device must
//! return the played samples, like the devices of the kernel module `snd-aloop`.

mod pace;
mod sys;

use std::time::Duration;

use openuvr_clock as clock;

use self::pace::Pace;
use self::sys::{Format, Pcm, ReadResult};
use super::blocks::Blocks;
use super::{
    AudioCapture, AudioError, AudioEvent, CHANNELS, CaptureBackend, CaptureCounters, Settings,
    frames_in,
};

/// The entry in the table of captures.
pub const BACKEND: CaptureBackend = CaptureBackend {
    name: "alsa",
    about: "records an ALSA device; the device is a name of ALSA, such as hw:1,0 [default: default]",
    open: |settings| Ok(Box::new(Capture::open(settings)?)),
};

/// The device that ALSA's configuration defines for general use.
const DEFAULT_DEVICE: &str = "default";

/// Duration of the device's buffer (guess). Samples are lost only if this process stalls for longer.
const BUFFER: Duration = Duration::from_millis(200);

/// Maximum duration of the samples that one read returns.
const CHUNK: Duration = Duration::from_millis(20);

/// Records a device.
pub struct Capture {
    name: String,
    pcm: Pcm,
    blocks: Blocks,
    pace: Pace,
    /// Memory for the samples of one read.
    chunk: Vec<u8>,
    overruns: u64,
}

impl Capture {
    /// Starts to record the device [`Settings::device`], or ALSA's device `default`.
    ///
    /// # Errors
    /// [`AudioError`] if libasound (the text names the package) or the device is missing, or if the device does not
    /// support 48 kHz stereo with 16-bit integers or 32-bit floating-point numbers.
    pub fn open(settings: &Settings) -> Result<Capture, AudioError> {
        let name = settings.device.as_deref().unwrap_or(DEFAULT_DEVICE);
        // The period is half a payload. On average, a sample then waits for a quarter of a payload before it can be
        // read.
        let opened = Pcm::open(name, settings.frame / 2, BUFFER);
        let pcm = opened.map_err(|why| error(name, &why))?;
        let bytes = frames_in(CHUNK) * CHANNELS * pcm.format().bytes();
        tracing::debug!(name, format = ?pcm.format(), "recording an ALSA device");
        let now = clock::now();
        Ok(Capture {
            name: name.to_owned(),
            pcm,
            blocks: Blocks::new(now),
            pace: Pace::new(now),
            chunk: vec![0; bytes],
            overruns: 0,
        })
    }

    /// Reads the recorded samples of the device, as far as [`Pace`] permits.
    fn take(&mut self) -> Result<(), AudioError> {
        loop {
            let now = clock::now();
            if self.pace.wait(now) > Duration::ZERO {
                return Ok(());
            }
            match self.pcm.read(&mut self.chunk) {
                ReadResult::Empty => return Ok(()),
                ReadResult::Frames(frames) => {
                    let format = self.pcm.format();
                    let bytes = &self.chunk[..frames * CHANNELS * format.bytes()];
                    let samples = bytes.chunks_exact(format.bytes());
                    let samples = samples.map(|bytes| sample(format, bytes));
                    self.blocks.arrived(now, frames, Some(samples));
                    self.pace.read(now, frames);
                }
                // Silence replaces the lost samples once their time has passed.
                ReadResult::Interrupted(code) => {
                    let why = self.pcm.message(code);
                    self.overruns += 1;
                    let overruns = self.overruns;
                    tracing::debug!(why, overruns, "the ALSA device was interrupted");
                    let restarted = self.pcm.restart(code);
                    restarted.map_err(|why| error(&self.name, &why))?;
                    // A restarted device has no samples yet. Returning also lets the caller check its timeout, even if
                    // every read is interrupted.
                    return Ok(());
                }
                ReadResult::Failed(code) => {
                    return Err(error(&self.name, &self.pcm.message(code)));
                }
            }
        }
    }
}

fn error(name: &str, why: &str) -> AudioError {
    AudioError(format!("cannot record the ALSA device \"{name}\": {why}"))
}

/// Converts the bytes of a sample to a number from −1 to 1.
fn sample(format: Format, bytes: &[u8]) -> f32 {
    match (format, bytes) {
        (Format::Float, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]),
        (Format::S16, &[low, high]) => f32::from(i16::from_le_bytes([low, high])) / 32768.0,
        _ => 0.0,
    }
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
            let now = clock::now();
            if let Some(captured) = self.blocks.take(now, block) {
                return Ok(AudioEvent::Captured(captured));
            }
            if give_up.is_some_and(|give_up| now >= give_up) {
                return Ok(AudioEvent::TimedOut);
            }
            let due = self.blocks.due(block);
            let until = give_up.map_or(due, |give_up| give_up.min(due));
            match self.pace.wait(now) {
                Duration::ZERO => self.pcm.wait(until.since(now)),
                // A device without a clock always has samples, so `Pcm::wait` would return at once.
                wait => std::thread::sleep(wait.min(until.since(now))),
            }
        }
    }

    fn counters(&self) -> CaptureCounters {
        self.blocks.counters()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_have_the_same_range() {
        let float = |value: f32| sample(Format::Float, &value.to_le_bytes());
        let integer = |value: i16| sample(Format::S16, &value.to_le_bytes());
        assert_eq!([float(-1.0), float(0.25)], [-1.0, 0.25]);
        assert_eq!([integer(i16::MIN), integer(8192)], [-1.0, 0.25]);
        assert!(integer(i16::MAX) < 1.0);
    }
}
