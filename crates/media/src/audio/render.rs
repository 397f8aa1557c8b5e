//! Turns the jitter buffer's decisions into samples. Payloads are decoded, concealed or replaced by silence, and the
//! samples are resampled. The transitions have no clicks. The jitter buffer decides the timing.

use openuvr_proto::recv::jitter_buffer::PlayoutAction;

use super::opus::Decoder;
use super::resample::Resampler;
use super::{AudioError, CHANNELS};

/// Fade-in after silence in sample frames: 2.5 ms (guess).
const FADE_IN: f32 = 120.0;

/// Fade-out of concealment in sample frames: 20 ms. After that, the jitter buffer outputs silence.
const FADE_OUT: f32 = 960.0;

/// Renders the payloads of one stream.
pub struct Renderer {
    decoder: Decoder,
    resampler: Resampler,
    /// Gain of the last sample, 0 to 1.
    gain: f32,
    decoded: Vec<f32>,
    samples: Vec<f32>,
}

impl Renderer {
    /// A renderer in its initial state.
    ///
    /// # Errors
    /// [`AudioError`] if libopus is not installed, or if it fails to create a decoder.
    pub fn open() -> Result<Renderer, AudioError> {
        Ok(Renderer {
            decoder: Decoder::open()?,
            resampler: Resampler::new(),
            gain: 0.0,
            decoded: Vec::new(),
            samples: Vec::new(),
        })
    }

    /// The samples (sample frames times [`CHANNELS`]) to write for `next`; `ratio` is
    /// [`JitterBuffer::ratio`](openuvr_proto::recv::jitter_buffer::JitterBuffer::ratio). Empty for
    /// [`PlayoutAction::Wait`]. Undecodable payloads are concealed.
    ///
    /// # Errors
    /// [`AudioError`] if libopus can't conceal this length.
    pub fn render(&mut self, next: &PlayoutAction<'_>, ratio: f64) -> Result<&[f32], AudioError> {
        self.decoded.clear();
        self.samples.clear();
        match next {
            PlayoutAction::Payload { bytes, samples, .. } => match self.decoder.decode(bytes) {
                Ok(decoded) => {
                    self.decoded.extend_from_slice(decoded);
                    self.fade(1.0 / FADE_IN);
                }
                Err(_) => self.conceal(usize::from(*samples))?,
            },
            PlayoutAction::Conceal { samples } => self.conceal(usize::from(*samples))?,
            PlayoutAction::Silence { samples } => {
                let samples = usize::try_from(*samples).unwrap_or(0);
                self.decoded.resize(samples * CHANNELS, 0.0);
                self.gain = 0.0;
            }
            PlayoutAction::Wait(_) => return Ok(&[]),
        }
        (self.resampler).process(&self.decoded, ratio, &mut self.samples);
        Ok(&self.samples)
    }

    fn conceal(&mut self, frames: usize) -> Result<(), AudioError> {
        // Opus conceals only multiples of 2.5 ms.
        let made_up = self.decoder.conceal(frames.next_multiple_of(120))?;
        let wanted = made_up.len().min(frames * CHANNELS);
        self.decoded.extend_from_slice(&made_up[..wanted]);
        self.fade(-1.0 / FADE_OUT);
        Ok(())
    }

    /// Applies the gain to the decoded samples, and changes it by `step` per sample frame.
    fn fade(&mut self, step: f32) {
        if self.gain >= 1.0 && step > 0.0 {
            return;
        }
        for frame in self.decoded.chunks_mut(CHANNELS) {
            self.gain = (self.gain + step).clamp(0.0, 1.0);
            frame.iter_mut().for_each(|sample| *sample *= self.gain);
        }
    }
}

#[cfg(test)]
mod tests {
    use openuvr_proto::time::PeerInstant;

    use super::super::goertzel::amplitude;
    use super::super::opus::{BITRATE, Encoder};
    use super::super::tone::Sine;
    use super::*;

    struct Sender {
        encoder: Encoder,
        sine: Sine,
    }

    impl Sender {
        fn new() -> Sender {
            Sender {
                encoder: Encoder::open(BITRATE, false).unwrap(),
                sine: Sine::new(500.0, 0.5),
            }
        }

        fn next(&mut self) -> Vec<u8> {
            let mut block = [0.0; 240 * CHANNELS];
            self.sine.fill(&mut block);
            self.encoder.encode(&block).unwrap().to_vec()
        }
    }

    fn payload(bytes: &[u8]) -> PlayoutAction<'_> {
        PlayoutAction::Payload {
            bytes,
            samples: 240,
            captured: PeerInstant(0),
        }
    }

    fn steepest(samples: &[f32]) -> f32 {
        let neighbours = samples
            .chunks(CHANNELS)
            .zip(samples[CHANNELS..].chunks(CHANNELS));
        neighbours
            .map(|(a, b)| (b[0] - a[0]).abs())
            .fold(0.0, f32::max)
    }

    #[test]
    fn losses_and_recovery_do_not_click() {
        let (mut sender, mut renderer) = (Sender::new(), Renderer::open().unwrap());
        let mut heard = Vec::new();
        let mut play = |next: &PlayoutAction<'_>| {
            let samples = renderer.render(next, 1.0).unwrap();
            heard.extend_from_slice(samples);
        };
        play(&PlayoutAction::Silence { samples: 777 });
        for n in 0..200 {
            let bytes = sender.next();
            match n {
                100..103 => play(&PlayoutAction::Conceal { samples: 240 }),
                103 => play(&payload(&[])),
                104..120 => play(&PlayoutAction::Silence { samples: 240 }),
                _ => play(&payload(&bytes)),
            }
        }
        assert_eq!(heard.len(), (777 + 200 * 240) * CHANNELS);
        assert!((amplitude(&heard[19_200..38_400], 500.0) - 0.5).abs() < 0.02);
        // Adjacent samples of the tone differ by 0.033 at most; a click would be ten times that.
        assert!(steepest(&heard) < 0.1, "{}", steepest(&heard));
        let silent = &heard[(777 + 106 * 240) * CHANNELS..(777 + 119 * 240) * CHANNELS];
        assert!(silent.iter().all(|sample| sample.abs() < 1e-3));
        let end = &heard[heard.len() - 9600..];
        assert!((amplitude(end, 500.0) - 0.5).abs() < 0.02);
        assert!(
            renderer
                .render(&PlayoutAction::Wait(None), 1.0)
                .unwrap()
                .is_empty()
        );
    }

    #[test]
    fn a_ratio_makes_more_or_fewer_samples() {
        let (mut sender, mut renderer) = (Sender::new(), Renderer::open().unwrap());
        let mut count = 0;
        for _ in 0..200 {
            let bytes = sender.next();
            count += renderer.render(&payload(&bytes), 1.005).unwrap().len() / CHANNELS;
        }
        assert!(count.abs_diff(48_240) <= 1, "{count}");
    }
}
