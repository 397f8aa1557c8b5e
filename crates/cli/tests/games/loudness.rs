//! Compares recorded with played sound by loudness over time.

/// Length of a part: 20 ms of two channels at 48 kHz.
const PART: usize = 960 * 2;

/// Number of compared parts: three seconds.
const PARTS: usize = 150;

/// Minimum level of an audible part, relative to full scale: -50 dB.
const LOUD: f64 = 0.003;

/// Loudness of each part: its root mean square.
fn loudness(samples: &[f32]) -> Vec<f64> {
    let parts = samples.chunks_exact(PART);
    let square = |part: &[f32]| part.iter().map(|s| f64::from(*s).powi(2)).sum::<f64>();
    parts
        .map(|part| (square(part) / PART as f64).sqrt())
        .collect()
}

/// Number of audible parts.
pub(crate) fn loud_parts(samples: &[f32]) -> usize {
    loudness(samples)
        .iter()
        .filter(|level| **level >= LOUD)
        .count()
}

/// Correlation of the loudness of the recording with the loudness of the played sound, at the best alignment: 1 for the
/// same sound, about 0 for unrelated sounds. It is 0 if no compared part of the recording, which lasts three seconds,
/// is audible for at least half of its duration.
pub(crate) fn similarity(played: &[f32], recording: &[f32]) -> f64 {
    let (played, recording) = (loudness(played), loudness(recording));
    let mut best: f64 = 0.0;
    for one in recording.windows(PARTS).step_by(PARTS / 3) {
        // Silence would match any other silence.
        if one.iter().filter(|level| **level >= LOUD).count() < PARTS / 2 {
            continue;
        }
        for other in played.windows(PARTS) {
            best = best.max(correlation(one, other));
        }
    }
    best
}

fn correlation(one: &[f64], other: &[f64]) -> f64 {
    let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64;
    let (first, second) = (mean(one), mean(other));
    let (mut both, mut squares) = (0.0, (0.0, 0.0));
    for (a, b) in one.iter().zip(other) {
        let (a, b) = (a - first, b - second);
        both += a * b;
        squares = (squares.0 + a * a, squares.1 + b * b);
    }
    both / (squares.0 * squares.1).sqrt().max(f64::MIN_POSITIVE)
}
