//! Sound: what the application plays comes out of a capture block by block, and goes into a playback.
//!
//! Samples are `f32` everywhere, −1 to 1, both channels of a moment side by side: Opus codes them as they
//! are, the resampler and a volume need room above 1, and a sound server converts what it mixes anyway. One
//! sample of each channel together is a *sample frame*; lengths are counted in them.
//!
//! Not how long sound waits before it is played (`openuvr_proto::recv::jitter_buffer`), and not what a
//! host or a client do when they have no sound.
//!
//! A new backend is one file with one [`CaptureBackend`] or [`PlaybackBackend`] and one line in a table.

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

/// Sample frames a second: the only rate at which Opus codes without resampling (RFC 6716, section 2).
pub const RATE: u32 = 48_000;

/// Channels: left, right.
pub const CHANNELS: usize = 2;

/// The captures, best first.
pub static CAPTURES: &[CaptureBackend] = &[pulse::CAPTURE, tone::BACKEND];

/// The playbacks, best first.
pub static PLAYBACKS: &[PlaybackBackend] = &[pulse::PLAYBACK, wav::BACKEND, null::BACKEND];

/// A source of sound, owned by one thread, which calls it often enough: every block.
pub trait AudioCapture: Send {
    /// Waits until `block` is full (sample frames times [`CHANNELS`]), at most `timeout` (`None`: without
    /// end). Time never stands still: where the source gives nothing, because nothing plays or because it
    /// is suspended, silence of the same length is given (GamingAnywhere, section 5.1.4), so that the
    /// number of samples always is the time that has passed, as the source's clock counts it. What came before the time was over is
    /// kept for the next call. The block's length may differ from call to call.
    ///
    /// # Errors
    /// [`AudioError`] if the source is gone; open it again, or go on without sound.
    fn read(
        &mut self,
        block: &mut [f32],
        timeout: Option<Duration>,
    ) -> Result<AudioEvent, AudioError>;

    /// The device that is captured since this was asked last, if it is another than before: it follows the
    /// system's default.
    fn poll_device(&mut self) -> Option<String> {
        None
    }

    /// What was counted since it was opened.
    fn counters(&self) -> CaptureCounters {
        CaptureCounters::default()
    }
}

/// What [`AudioCapture::read`] returned for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AudioEvent {
    /// The block is full, and its first sample was captured then.
    Captured(Instant),
    /// The time is over; the block holds nothing.
    TimedOut,
}

/// What a capture has counted, in sample frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CaptureCounters {
    /// Silence that stands for what the source did not give.
    pub silence: u64,
    /// Samples left out because silence had been given for their time.
    pub left_out: u64,
}

/// What plays sound, owned by one thread, which calls it often enough: every few milliseconds.
pub trait AudioPlayback: Send {
    /// How much of what was written is not played yet.
    ///
    /// # Errors
    /// [`AudioError`] if the device is gone; open it again, or go on without sound.
    fn level(&mut self) -> Result<Level, AudioError>;

    /// Appends samples (sample frames times [`CHANNELS`]). Returns at once, and what does not leave at once leaves in
    /// the calls that follow; what the device has no room for
    /// is refused by none of the backends below a second. Where all was played before, what is
    /// written begins to be played as soon as it can.
    ///
    /// # Errors
    /// [`AudioError`] if the device is gone.
    fn write(&mut self, samples: &[f32]) -> Result<(), AudioError>;

    /// Waits `timeout` at most (`None`: without end), or until a [`Waker`] is used. Whether it was.
    ///
    /// # Errors
    /// [`AudioError`] if waiting sees that the device is gone; [`level`](AudioPlayback::level) does in any case.
    fn wait(&mut self, timeout: Option<Duration>) -> Result<bool, AudioError>;

    /// A handle with which another thread makes [`AudioPlayback::wait`] return.
    fn waker(&self) -> Waker;
}

/// How full a playback is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Level {
    /// In so long all that was written is with the device for good, and the next sample must be there: what
    /// can still be put off. Zero: it has run dry.
    pub dry_in: Duration,
    /// In so long a sample is heard that is written now, as far as the device says. The time in the device
    /// itself, behind what `dry_in` counts, is in it.
    pub heard_in: Option<Duration>,
    /// The device takes so much at once: with less than this before `dry_in` is zero it may run dry.
    pub block: Duration,
}

/// With what a backend is opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Which device; what this is for each backend is in its `about`. `None`: the usual one.
    pub device: Option<String>,
    /// How long a payload is, 2.5 to 20 ms: what a capture hands over at once, or what a playback is written at
    /// once. The device's own buffers are chosen for it.
    pub frame: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            device: None,
            frame: Duration::from_millis(5),
        }
    }
}

/// A capture that can be asked for by name.
#[derive(Clone, Copy)]
pub struct CaptureBackend {
    /// The name on the command line.
    pub name: &'static str,
    /// One line on what it is, and what [`Settings::device`] means to it.
    pub about: &'static str,
    /// Opens it.
    pub open: fn(&Settings) -> Result<Box<dyn AudioCapture>, AudioError>,
}

/// A playback that can be asked for by name.
#[derive(Clone, Copy)]
pub struct PlaybackBackend {
    /// The name on the command line.
    pub name: &'static str,
    /// One line on what it is, and what [`Settings::device`] means to it.
    pub about: &'static str,
    /// Opens it.
    pub open: fn(&Settings) -> Result<Box<dyn AudioPlayback>, AudioError>,
}

/// Opens the capture that is called `name` in [`CAPTURES`].
///
/// # Errors
/// [`AudioError`] if there is none of that name (the text lists those there are), or if it can't be
/// opened.
pub fn open_capture(name: &str, settings: &Settings) -> Result<Box<dyn AudioCapture>, AudioError> {
    let names = || CAPTURES.iter().map(|backend| backend.name);
    let backend = CAPTURES.iter().find(|backend| backend.name == name);
    let backend = backend.ok_or_else(|| unknown("audio capture", name, names()))?;
    (backend.open)(settings)
}

/// Opens the playback that is called `name` in [`PLAYBACKS`].
///
/// # Errors
/// [`AudioError`] if there is none of that name (the text lists those there are), or if it can't be
/// opened.
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
        "there is no {what} \"{name}\": choose one of {}",
        names.join(", ")
    ))
}

/// Sample frames in `span`, rounded to the nearest.
#[must_use]
pub fn frames_in(span: Duration) -> usize {
    let frames = (span.as_nanos() * u128::from(RATE) + 500_000_000) / 1_000_000_000;
    usize::try_from(frames).unwrap_or(usize::MAX)
}

/// How long `frames` sample frames are.
#[must_use]
pub fn duration_of(frames: usize) -> Duration {
    let frames = u64::try_from(frames).unwrap_or(u64::MAX);
    Duration::from_nanos(frames.saturating_mul(1_000_000_000) / u64::from(RATE))
}

/// Why a device could not be opened, or broke: what, where, what to do.
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
    fn an_unknown_name_lists_those_there_are() {
        let settings = Settings::default();
        let error = |e: Option<AudioError>| e.expect("no such backend").to_string();
        let capture = error(open_capture("gramophone", &settings).err());
        assert!(capture.contains("\"gramophone\""), "{capture}");
        assert!(capture.contains("tone"), "{capture}");
        let playback = error(open_playback("gramophone", &settings).err());
        assert!(playback.contains("pulse, wav, null"), "{playback}");
    }
}
