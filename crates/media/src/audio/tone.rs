//! A test tone, generated in this process in real time. It provides sound to stream when no application plays.
//!
//! It can't replace an application in measurements, because its samples have not passed through a sound server.

use std::time::Duration;

use openuvr_clock as clock;
use openuvr_proto::time::Instant;

use super::{AudioCapture, AudioError, AudioEvent, CaptureBackend, Settings, duration_of};
use super::{CHANNELS, RATE};

/// The table entry.
pub const BACKEND: CaptureBackend = CaptureBackend {
    name: "tone",
    about: "a test tone; the device is its pitch in Hz, 20 to 20000 [default: 440]",
    open: |settings| Ok(Box::new(Tone::open(settings)?)),
};

/// The pitch of concert A, in Hz.
pub const PITCH: f64 = 440.0;

/// Amplitude, relative to full scale: −12 dB.
pub const AMPLITUDE: f64 = 0.25;

/// Maximum number of missed sample frames that late capture calls still return: one second, as with a sound server
/// (guess). If more are missed, all of them are skipped.
const LATE: usize = RATE as usize;

/// A sine of one pitch, the same in both channels.
#[derive(Clone, Copy, Debug)]
pub struct Sine {
    /// In periods per sample.
    step: f64,
    /// In periods, 0 to 1.
    phase: f64,
    amplitude: f64,
}

impl Sine {
    /// A sine of `pitch` Hz with this amplitude.
    #[must_use]
    pub fn new(pitch: f64, amplitude: f64) -> Sine {
        Sine {
            step: pitch / f64::from(RATE),
            phase: 0.0,
            amplitude,
        }
    }

    /// Fills `samples` with the next samples.
    pub fn fill(&mut self, samples: &mut [f32]) {
        for frame in samples.chunks_mut(CHANNELS) {
            let value = (self.phase * std::f64::consts::TAU).sin() * self.amplitude;
            #[expect(clippy::cast_possible_truncation, reason = "samples are f32")]
            frame.fill(value as f32);
            self.phase = (self.phase + self.step).fract();
        }
    }

    /// Skips this many sample frames.
    fn skip(&mut self, frames: usize) {
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let turns = self.step * frames as f64;
        self.phase = (self.phase + turns).fract();
    }
}

/// The test tone.
#[derive(Debug)]
pub struct Tone {
    sine: Sine,
    /// Capture time of the next sample.
    next: Instant,
}

impl Tone {
    /// A tone that starts now.
    ///
    /// # Errors
    /// [`AudioError`] if the pitch is not a number from 20 to 20 000.
    pub fn open(settings: &Settings) -> Result<Tone, AudioError> {
        let pitch = settings.device.as_deref().map(str::parse::<f64>);
        let pitch = pitch.unwrap_or(Ok(PITCH)).unwrap_or(f64::NAN);
        if !(20.0..=20_000.0).contains(&pitch) {
            return Err(AudioError(format!(
                "invalid test tone \"{}\": choose a pitch of 20 to 20000 Hz",
                settings.device.as_deref().unwrap_or_default()
            )));
        }
        Ok(Tone {
            sine: Sine::new(pitch, AMPLITUDE),
            next: clock::now(),
        })
    }
}

impl AudioCapture for Tone {
    fn read(
        &mut self,
        block: &mut [f32],
        timeout: Option<Duration>,
    ) -> Result<AudioEvent, AudioError> {
        let frames = block.len() / CHANNELS;
        let complete = self.next + duration_of(frames);
        let give_up = timeout.map(|timeout| clock::now() + timeout);
        let until = give_up.map_or(complete, |give_up| give_up.min(complete));
        std::thread::sleep(until.since(clock::now()));
        let now = clock::now();
        if now < complete {
            return Ok(AudioEvent::TimedOut);
        }
        let late = super::frames_in(now.since(complete));
        if late > LATE {
            self.sine.skip(late);
            self.next = self.next + duration_of(late);
        }
        self.sine.fill(block);
        let captured = self.next;
        self.next = captured + duration_of(frames);
        Ok(AudioEvent::Captured(captured))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tone_is_continuous_across_blocks() {
        let settings = Settings {
            device: Some("1000".into()),
            ..Settings::default()
        };
        let mut tone = Tone::open(&settings).unwrap();
        let mut whole = vec![0.0; 2400 * CHANNELS];
        let mut sine = Sine::new(1000.0, AMPLITUDE);
        sine.fill(&mut whole);
        let mut last = None;
        for expected in whole.chunks(240 * CHANNELS) {
            let mut block = vec![9.0; expected.len()];
            let AudioEvent::Captured(at) = tone.read(&mut block, None).unwrap() else {
                panic!("it does not time out");
            };
            assert_eq!(block, expected);
            assert!(
                at + duration_of(240) <= clock::now(),
                "captured before it arrives"
            );
            assert_eq!(
                last.replace(at).unwrap_or(at - duration_of(240)),
                at - duration_of(240)
            );
        }
    }

    #[test]
    fn nothing_is_lost_when_the_time_is_over() {
        let mut tone = Tone::open(&Settings::default()).unwrap();
        let begins = tone.next;
        let mut block = vec![0.0; 480_000 * CHANNELS];
        let short = Some(Duration::ZERO);
        assert_eq!(tone.read(&mut block, short).unwrap(), AudioEvent::TimedOut);
        let read = tone.read(&mut block[..480], None).unwrap();
        assert_eq!(read, AudioEvent::Captured(begins));
    }

    #[test]
    fn an_inaudible_pitch_is_refused() {
        for pitch in ["", "A", "5", "30000", "NaN"] {
            let settings = Settings {
                device: Some(pitch.into()),
                ..Settings::default()
            };
            let error = Tone::open(&settings).unwrap_err().to_string();
            assert!(error.contains("20 to 20000 Hz"), "{error}");
        }
    }
}
