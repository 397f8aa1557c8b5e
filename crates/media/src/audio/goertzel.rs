//! The level of a tone in samples, by Goertzel's algorithm ("An Algorithm for the Evaluation of Finite Trigonometric
//! Series", 1958). Tests and measurements use it to detect a tone.

use super::{CHANNELS, RATE};

/// The amplitude of `pitch` (Hz) in the left channel of `samples` (sample frames times [`CHANNELS`]); 1 is a full-scale
/// sine. To be distinguished, two pitches must differ by at least one period over the duration of `samples`.
#[must_use]
pub fn amplitude(samples: &[f32], pitch: f64) -> f64 {
    let turn = std::f64::consts::TAU * pitch / f64::from(RATE);
    let factor = 2.0 * turn.cos();
    let (mut last, mut before) = (0.0, 0.0);
    let mut count = 0.0;
    for frame in samples.chunks_exact(CHANNELS) {
        (last, before) = (f64::from(frame[0]) + factor * last - before, last);
        count += 1.0;
    }
    let power = last * last + before * before - factor * last * before;
    2.0 * power.max(0.0).sqrt() / f64::max(count, 1.0)
}

#[cfg(test)]
mod tests {
    use super::super::tone::Sine;
    use super::*;

    #[test]
    fn neighbouring_tones_are_distinguished() {
        let mut samples = vec![0.0; 4800 * CHANNELS];
        Sine::new(1000.0, 0.5).fill(&mut samples);
        assert!((amplitude(&samples, 1000.0) - 0.5).abs() < 1e-3);
        assert!(amplitude(&samples, 900.0) < 0.01);
        assert!(amplitude(&[], 900.0) < 1e-9);
    }
}
