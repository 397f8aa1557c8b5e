//! Audio: captures an application's playback in blocks, and plays received samples.
//!
//! Samples are `f32`, −1 to 1, with interleaved channels. There are three reasons for this format. Opus codes it
//! directly. The resampler and the volume need headroom above 1. Sound servers convert samples anyway when they mix
//! them. A *sample frame* is one sample of each channel; lengths are counted in sample frames.
//!
//! `openuvr_proto::recv::jitter_buffer` determines the playout delay. Hosts and clients decide what to do if no audio
//! device can be opened.
//!
//! A new backend needs one file with one [`CaptureBackend`] or [`PlaybackBackend`], and one line in a table.

#[cfg(feature = "host")]
pub mod aac;
pub mod alsa;
pub mod application;
mod blocks;
pub mod goertzel;
pub mod null;
pub mod opus;
pub mod pulse;
pub mod render;
pub mod resample;
mod timeline;
pub mod tone;
mod wait;
pub mod wav;

use std::time::Duration;

use openuvr_proto::time::Instant;

use crate::waker::WakerError;

pub use crate::waker::Waker;

/// Sampling rate in Hz: the rate at which the CELT layer of Opus works (RFC 6716, section 2).
pub const RATE: u32 = 48_000;

/// Channels: left and right.
pub const CHANNELS: usize = 2;

/// The captures, best first.
pub static CAPTURES: &[CaptureBackend] = &[pulse::CAPTURE, alsa::BACKEND, tone::BACKEND];

/// The playbacks, best first.
pub static PLAYBACKS: &[PlaybackBackend] = &[pulse::PLAYBACK, wav::BACKEND, null::BACKEND];

/// An audio source. One thread owns it, and must read every block.
pub trait AudioCapture: Send {
    /// Waits until `block` is full (sample frames times [`CHANNELS`]), at most `timeout` (`None`: no limit). While the
    /// source delivers nothing (nothing plays, or the source is suspended), silence is returned instead
    /// (GamingAnywhere, section 5.1.4). The number of samples therefore always corresponds to the elapsed time by the
    /// source's clock. On timeout, samples are kept for the next call. The block's length may vary between calls.
    ///
    /// # Errors
    /// [`AudioError`] if the source is gone; open it again, or continue without sound.
    fn read(
        &mut self,
        block: &mut [f32],
        timeout: Option<Duration>,
    ) -> Result<AudioEvent, AudioError>;

    /// Returns the newly captured device, if the device has changed since the last call. A capture of the default
    /// device follows the system's default.
    fn poll_device(&mut self) -> Option<String> {
        None
    }

    /// Counters since the capture was opened.
    fn counters(&self) -> CaptureCounters {
        CaptureCounters::default()
    }
}

/// Result of [`AudioCapture::read`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AudioEvent {
    /// The block is full. The value is the capture time of its first sample.
    Captured(Instant),
    /// The timeout expired; the block is unspecified.
    TimedOut,
}

/// A capture's counters, in sample frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CaptureCounters {
    /// Silence inserted for missing samples.
    pub silence: u64,
    /// Samples dropped because silence had replaced them, or because more than a second of samples was unread.
    pub left_out: u64,
}

/// An audio playback. One thread owns it, and must call one of its methods every few milliseconds.
pub trait AudioPlayback: Send {
    /// The fill level of the buffers.
    ///
    /// # Errors
    /// [`AudioError`] if the device is gone; open it again, or continue without sound.
    fn level(&mut self) -> Result<Level, AudioError>;

    /// Appends samples (sample frames times [`CHANNELS`]). Does not block: later calls send the samples that the device
    /// can't take yet. All backends of this module buffer at least a second. After an underrun, playback starts as soon
    /// as possible.
    ///
    /// # Errors
    /// [`AudioError`] if the device is gone.
    fn write(&mut self, samples: &[f32]) -> Result<(), AudioError>;

    /// Waits at most `timeout` (`None`: no limit), or until a [`Waker`] is raised. Returns whether a waker was raised.
    ///
    /// # Errors
    /// [`AudioError`] if this call detects that the device is gone. [`level`](AudioPlayback::level) always detects
    /// this.
    fn wait(&mut self, timeout: Option<Duration>) -> Result<bool, AudioError>;

    /// A handle with which another thread makes [`AudioPlayback::wait`] return.
    fn waker(&self) -> Waker;
}

/// The fill level of a playback.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Level {
    /// Time until the next sample is needed to avoid an underrun: the duration of the buffered samples that are not yet
    /// committed to the device. Zero means an underrun.
    pub dry_in: Duration,
    /// Time until a sample written now is audible, if the device reports it. It includes the
    /// device's own latency beyond `dry_in`.
    pub heard_in: Option<Duration>,
    /// The device's period. If `dry_in` falls below it, the device may underrun.
    pub block: Duration,
}

/// Settings of a backend.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The device, as described in each backend's `about`. `None`: the default.
    pub device: Option<String>,
    /// Payload duration, 2.5 to 20 ms: the block length of a capture, or the write length of a
    /// playback. Device buffers are sized for it.
    pub frame: Duration,
    /// Whether a playback into a file continues an existing file. Otherwise, it replaces the file.
    pub resume: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            device: None,
            frame: Duration::from_millis(5),
            resume: false,
        }
    }
}

/// A capture that can be selected by name.
#[derive(Clone, Copy)]
pub struct CaptureBackend {
    /// The name on the command line.
    pub name: &'static str,
    /// One line with a description and the meaning of [`Settings::device`].
    pub about: &'static str,
    /// Opens the capture.
    pub open: fn(&Settings) -> Result<Box<dyn AudioCapture>, AudioError>,
}

/// A playback that can be selected by name.
#[derive(Clone, Copy)]
pub struct PlaybackBackend {
    /// The name on the command line.
    pub name: &'static str,
    /// One line with a description and the meaning of [`Settings::device`].
    pub about: &'static str,
    /// Opens the playback.
    pub open: fn(&Settings) -> Result<Box<dyn AudioPlayback>, AudioError>,
}

/// Opens the capture `name` of [`CAPTURES`].
///
/// # Errors
/// [`AudioError`] if the name is unknown (the text lists the valid names), or if the capture can't be opened.
pub fn open_capture(name: &str, settings: &Settings) -> Result<Box<dyn AudioCapture>, AudioError> {
    let names = || CAPTURES.iter().map(|backend| backend.name);
    let backend = CAPTURES.iter().find(|backend| backend.name == name);
    let backend = backend.ok_or_else(|| unknown("audio capture", name, names()))?;
    (backend.open)(settings)
}

/// Opens the playback `name` of [`PLAYBACKS`].
///
/// # Errors
/// [`AudioError`] if the name is unknown (the text lists the valid names), or if the playback can't be opened.
pub fn open_playback(
    name: &str,
    settings: &Settings,
) -> Result<Box<dyn AudioPlayback>, AudioError> {
    let names = || PLAYBACKS.iter().map(|backend| backend.name);
    let backend = PLAYBACKS.iter().find(|backend| backend.name == name);
    let backend = backend.ok_or_else(|| unknown("audio playback", name, names()))?;
    (backend.open)(settings)
}

fn unknown(what: &str, name: &str, names: impl Iterator<Item = &'static str>) -> AudioError {
    let names: Vec<_> = names.collect();
    AudioError(format!(
        "unknown {what} \"{name}\": choose one of {}",
        names.join(", ")
    ))
}

/// Sample frames in `span`, rounded to the nearest.
#[must_use]
pub fn frames_in(span: Duration) -> usize {
    let frames = (span.as_nanos() * u128::from(RATE) + 500_000_000) / 1_000_000_000;
    usize::try_from(frames).unwrap_or(usize::MAX)
}

/// The duration of `frames` sample frames.
#[must_use]
pub fn duration_of(frames: usize) -> Duration {
    let frames = u64::try_from(frames).unwrap_or(u64::MAX);
    Duration::from_nanos(frames.saturating_mul(1_000_000_000) / u64::from(RATE))
}

/// Why a device could not be opened or has failed, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct AudioError(pub String);

impl From<WakerError> for AudioError {
    fn from(error: WakerError) -> AudioError {
        AudioError(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_frames_and_time_are_the_same_thing() {
        for (micros, frames) in [(2500, 120), (5000, 240), (10_000, 480), (1_000_000, 48_000)] {
            let span = Duration::from_micros(micros);
            assert_eq!(frames_in(span), frames);
            assert_eq!(duration_of(frames), span);
        }
        assert_eq!(frames_in(duration_of(1)), 1, "rounded, not cut");
    }

    #[test]
    fn an_unknown_name_lists_the_valid_ones() {
        let settings = Settings::default();
        let error = |e: Option<AudioError>| e.expect("no such backend").to_string();
        let capture = error(open_capture("gramophone", &settings).err());
        assert!(capture.contains("\"gramophone\""), "{capture}");
        assert!(capture.contains("tone"), "{capture}");
        let playback = error(open_playback("gramophone", &settings).err());
        assert!(playback.contains("pulse, wav, null"), "{playback}");
    }
}
