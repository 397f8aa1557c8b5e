//! Whether what was heard at one end is what was played at the other: by how loud both were, from part to part.

/// A fiftieth of a second, of two channels at 48 kHz.
const PART: usize = 960 * 2;

/// Both are compared over so many parts: three seconds.
const PARTS: usize = 150;

/// A part is no silence from here on, of 1: -50 dB.
const LOUD: f64 = 0.003;

/// How loud each part is: its root mean square.
fn loudness(samples: &[f32]) -> Vec<f64> {
    let parts = samples.chunks_exact(PART);
    let square = |part: &[f32]| part.iter().map(|s| f64::from(*s).powi(2)).sum::<f64>();
    parts
        .map(|part| (square(part) / PART as f64).sqrt())
        .collect()
}

/// In how many parts something is to be heard.
pub(crate) fn loud_parts(samples: &[f32]) -> usize {
    loudness(samples)
        .iter()
        .filter(|level| **level >= LOUD)
        .count()
}

/// How far the loudness of what was heard goes up and down with that of what was played, where both fit best: 1 if it
/// is the same, about 0 if they have nothing in common; 0 if three seconds were not heard.
pub(crate) fn likeness(played: &[f32], heard: &[f32]) -> f64 {
    let (played, heard) = (loudness(played), loudness(heard));
    let mut best: f64 = 0.0;
    for one in heard.windows(PARTS).step_by(PARTS / 3) {
        // Silence is like any other.
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
