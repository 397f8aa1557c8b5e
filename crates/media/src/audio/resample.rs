//! A resampler for clock drift: samples at nearly the original rate.
//!
//! Windowed sinc (Smith, "Digital Audio Resampling", section "Theory of Ideal Bandlimited Interpolation"). No library
//! is used, because the requirements are small: ratios within 1 %, any number of samples per call, and a delay of a
//! third of a millisecond. Such ratios need no anti-aliasing filter. A ratio of 1 leaves samples unchanged.

use super::CHANNELS;

/// Number of filter taps: 16 samples before the output sample and 16 after it.
const TAPS: usize = 32;

/// Sample frames processed in parallel; [`TAPS`] is a multiple of this.
const LANES: usize = 8;

/// Number of positions between two samples for which the filter is tabulated. Between these positions, the filter is
/// interpolated. For a tone of 10 kHz, the error is 110 dB below the tone ((1/256 · 2π · 10/48)² / 8).
const PHASES: usize = 256;

/// The delay in sample frames.
pub const DELAY: usize = TAPS / 2;

/// Shape of the Kaiser window: sidelobes at −90 dB (Kaiser's formula, β = 0.1102 (A − 8.7)).
const BETA: f64 = 9.0;

/// Slightly changes the speed of a stream.
pub struct Resampler {
    filters: Vec<[f32; TAPS]>,
    /// Input samples for the next output.
    held: Vec<f32>,
    /// Position of the next output minus half the filter length, in sample frames from the first held frame.
    place: f64,
}

impl Default for Resampler {
    fn default() -> Resampler {
        Resampler::new()
    }
}

impl Resampler {
    /// A resampler whose previous input is silence.
    #[must_use]
    pub fn new() -> Resampler {
        Resampler {
            filters: (0..=PHASES).map(filter).collect(),
            held: vec![0.0; (TAPS - 1) * CHANNELS],
            place: 0.0,
        }
    }

    /// Appends `samples` (sample frames times [`CHANNELS`]) to `out`, resampled to `ratio` times
    /// their number; `ratio` is 0.99 to 1.01. The output is continuous across calls.
    pub fn process(&mut self, samples: &[f32], ratio: f64, out: &mut Vec<f32>) {
        self.held.extend_from_slice(samples);
        let step = 1.0 / ratio.clamp(0.99, 1.01);
        let frames = self.held.len() / CHANNELS;
        loop {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "0 to frames"
            )]
            let first = self.place as usize;
            if first + TAPS > frames {
                break;
            }
            let held = &self.held[first * CHANNELS..(first + TAPS) * CHANNELS];
            out.extend_from_slice(&self.at(held, self.place.fract()));
            self.place += step;
        }
        // Only the frames before the position are dropped. The filter needs all later frames.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "0 to frames"
        )]
        let over = (self.place as usize).min(frames);
        self.held.drain(..over * CHANNELS);
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let over = over as f64;
        self.place -= over;
    }

    /// The sample frame at this fraction between two input samples.
    fn at(&self, held: &[f32], part: f64) -> [f32; CHANNELS] {
        #[expect(clippy::cast_precision_loss, reason = "256")]
        let phase = part * PHASES as f64;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "0 to 255"
        )]
        let index = (phase as usize).min(PHASES - 1);
        #[expect(clippy::cast_possible_truncation, reason = "0 to 1")]
        let between = phase.fract() as f32;
        let (low, high) = (&self.filters[index], &self.filters[index + 1]);
        let mut weights = [0.0; TAPS];
        for ((weight, low), high) in weights.iter_mut().zip(low).zip(high) {
            *weight = low + (high - low) * between;
        }
        // Independent sums, so that the CPU computes several at once.
        let mut sums = [[0.0; CHANNELS]; LANES];
        let frames = held.as_chunks::<CHANNELS>().0;
        for (frames, weights) in frames.chunks_exact(LANES).zip(weights.chunks_exact(LANES)) {
            for ((sums, frame), weight) in sums.iter_mut().zip(frames).zip(weights) {
                for (sum, sample) in sums.iter_mut().zip(frame) {
                    *sum += sample * weight;
                }
            }
        }
        let mut all = [0.0; CHANNELS];
        for sums in sums {
            for (all, sum) in all.iter_mut().zip(sums) {
                *all += sum;
            }
        }
        all
    }
}

/// The filter weights for an output that is `phase` / [`PHASES`] of a sample after the centre tap.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn filter(phase: usize) -> [f32; TAPS] {
    let half = DELAY as f64;
    let mut filter = [0.0; TAPS];
    for (tap, weight) in filter.iter_mut().enumerate() {
        // The centre tap is the last tap of the first half. At phase 0, the output is the sample at the centre tap.
        let away = tap as f64 - (half - 1.0) - phase as f64 / PHASES as f64;
        let window = bessel(BETA * (1.0 - (away / half).powi(2)).max(0.0).sqrt()) / bessel(BETA);
        let turn = away * std::f64::consts::PI;
        let sinc = if turn == 0.0 { 1.0 } else { turn.sin() / turn };
        #[expect(clippy::cast_possible_truncation, reason = "samples are f32")]
        let value = (window * sinc) as f32;
        *weight = value;
    }
    filter
}

/// The modified Bessel function of the first kind and order 0, by its series.
fn bessel(x: f64) -> f64 {
    let (mut sum, mut term) = (1.0, 1.0);
    for n in 1..40 {
        term *= (x / (2.0 * f64::from(n))).powi(2);
        sum += term;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::super::goertzel::amplitude;
    use super::super::tone::Sine;
    use super::*;

    #[test]
    fn at_a_ratio_of_one_samples_stay_as_they_are() {
        let mut sine = Sine::new(3000.0, 0.5);
        let mut samples = vec![0.0; 4800 * CHANNELS];
        sine.fill(&mut samples);
        let mut resampler = Resampler::new();
        let mut out = Vec::new();
        for block in samples.chunks(480) {
            resampler.process(block, 1.0, &mut out);
        }
        assert_eq!(out.len(), samples.len(), "the same number");
        let shifted = &out[DELAY * CHANNELS..];
        let far = shifted.iter().zip(&samples).map(|(a, b)| (a - b).abs());
        assert!(far.fold(0.0, f32::max) < 1e-4);
    }

    #[test]
    fn a_tone_changes_its_pitch_by_the_ratio_and_nothing_else() {
        for (pitch, ratio) in [(440.0, 1.005), (10_000.0, 0.995), (15_000.0, 1.0001)] {
            let mut sine = Sine::new(pitch, 0.5);
            let mut resampler = Resampler::new();
            let mut out = Vec::new();
            let mut block = [0.0; 240 * CHANNELS];
            for _ in 0..400 {
                sine.fill(&mut block);
                resampler.process(&block, ratio, &mut out);
            }
            let frames = out.len() as f64 / CHANNELS as f64;
            assert!(
                (frames - 96_000.0 * ratio).abs() < 2.0,
                "{frames} of {ratio}"
            );
            let steady = &out[200..out.len() - 200];
            let expected = amplitude(steady, pitch / ratio);
            assert!(
                (expected - 0.5).abs() < 0.002,
                "{pitch} {ratio}: {expected}"
            );
            // Adjacent samples of the tone itself differ by `most` at most. A larger difference is a jump.
            let step = std::f64::consts::TAU * pitch / ratio / 48_000.0;
            let most = 2.0 * (step / 2.0).sin() * 0.5;
            let jumps = steady.chunks(2).zip(steady[2..].chunks(2));
            let worst = jumps
                .map(|(a, b)| f64::from((b[0] - a[0]).abs()))
                .fold(0.0, f64::max);
            assert!(worst < most * 1.01, "{worst} of {most}");
        }
    }

    #[test]
    fn blocks_of_any_length_give_the_same() {
        let mut samples = vec![0.0; 3000 * CHANNELS];
        Sine::new(700.0, 0.5).fill(&mut samples);
        let mut whole = Vec::new();
        Resampler::new().process(&samples, 1.003, &mut whole);
        let mut parts = Vec::new();
        let mut resampler = Resampler::new();
        for (n, _) in samples.chunks(2 * 37).enumerate() {
            let part = samples.chunks(2 * 37).nth(n).unwrap();
            resampler.process(part, 1.003, &mut parts);
        }
        assert_eq!(whole.len(), parts.len());
        let far = whole.iter().zip(&parts).map(|(a, b)| (a - b).abs());
        assert!(far.fold(0.0, f32::max) < 1e-4);
    }
}
