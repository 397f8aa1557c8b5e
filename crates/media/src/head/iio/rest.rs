//! The offset of a gyroscope, measured while it rests. A cheap gyroscope reports up to 20° per
//! second without motion.
//!
//! Samples are summed in windows of a second. A window in which both sensors vary by no more than their noise is a
//! window of rest, and the gyroscope's mean in this window is the offset. A constant rotation that is as smooth as a
//! rest counts as a rest; the next real rest corrects the offset.
//!
//! This module has no clock; the duration of each sample is an argument.

/// Length of a window in seconds.
const WINDOW: f64 = 1.0;

/// Minimum number of samples of a window, for a meaningful variance. 16 samples per second are less than any tracker's
/// rate (guess).
const MIN_SAMPLES: u32 = 16;

/// Maximum standard deviation of an axis of the gyroscope at rest, in radians per second: 0.3° per second, six times
/// the noise of an MPU-6050 (0.05° per second at 100 Hz, data sheet 3.4, section 6.1). Even a head that is held still
/// exceeds this limit.
const GYROSCOPE_NOISE: f64 = 0.3 * std::f64::consts::PI / 180.0;

/// Maximum standard deviation of an axis of the accelerometer at rest, in m/s²: four times the
/// noise of an MPU-6050 (400 µg/√Hz over 100 Hz, section 6.2).
const ACCELEROMETER_NOISE: f64 = 0.16;

/// Maximum offset in radians per second: 25° per second; an MPU-6050 may have 20° per second (section 6.1).
const MAX_OFFSET: f64 = 25.0 * std::f64::consts::PI / 180.0;

/// Mean and variance of a vector, with Welford's method.
#[derive(Clone, Copy, Debug, Default)]
struct Spread {
    count: u32,
    mean: [f64; 3],
    squares: [f64; 3],
}

impl Spread {
    fn add(&mut self, values: [f64; 3]) {
        self.count += 1;
        for (axis, value) in values.into_iter().enumerate() {
            let before = value - self.mean[axis];
            self.mean[axis] += before / f64::from(self.count);
            self.squares[axis] += before * (value - self.mean[axis]);
        }
    }

    /// Whether each axis has at most this standard deviation.
    fn is_within(&self, deviation: f64) -> bool {
        let most = deviation * deviation * f64::from(self.count);
        self.squares.iter().all(|squares| *squares <= most)
    }
}

/// The current window of a gyroscope and an accelerometer.
#[derive(Clone, Debug, Default)]
pub(super) struct RestDetector {
    elapsed: f64,
    gyroscope: Spread,
    accelerometer: Spread,
}

impl RestDetector {
    /// Adds an acceleration in m/s².
    pub(super) fn accelerate(&mut self, acceleration: [f64; 3]) {
        self.accelerometer.add(acceleration);
    }

    /// Adds an angular velocity in radians per second, `step` seconds after the previous value. Returns the outcome of
    /// the window that ends here.
    pub(super) fn turn(&mut self, rate: [f64; 3], step: f64) -> Option<Window> {
        self.gyroscope.add(rate);
        self.elapsed += step;
        if self.elapsed < WINDOW {
            return None;
        }
        let ended = std::mem::take(self);
        let enough = ended.gyroscope.count >= MIN_SAMPLES && ended.accelerometer.count > 1;
        let still = ended.gyroscope.is_within(GYROSCOPE_NOISE)
            && ended.accelerometer.is_within(ACCELEROMETER_NOISE);
        let offset = ended.gyroscope.mean;
        let possible = offset.iter().all(|axis| axis.abs() <= MAX_OFFSET);
        Some(match enough && still && possible {
            true => Window::Rest { offset },
            false => Window::Motion,
        })
    }
}

/// The outcome of a window.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Window {
    /// The sensors were at rest, so the gyroscope's mean is its offset in radians per second.
    Rest {
        /// Around each axis.
        offset: [f64; 3],
    },
    /// The sensors moved, sent too few samples, or have an offset above [`MAX_OFFSET`].
    Motion,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The windows in two seconds of samples at 100 Hz. The rate alternates around `offset` by `deviation`, in radians
    /// per second.
    fn windows(offset: f64, deviation: f64, shake: f64) -> Vec<Window> {
        let mut detector = RestDetector::default();
        let sample = |n: u32| {
            let sign = if n.is_multiple_of(2) { 1.0 } else { -1.0 };
            detector.accelerate([0.0, 9.81 + shake * sign, 0.0]);
            detector.turn([offset + deviation * sign, 0.0, 0.0], 0.01)
        };
        (0..202).filter_map(sample).collect()
    }

    #[test]
    fn noise_around_an_offset_is_a_rest() {
        let [Window::Rest { offset }, Window::Rest { .. }] = windows(0.3, 0.001, 0.05)[..] else {
            panic!("two windows of rest");
        };
        assert!((offset[0] - 0.3).abs() < 1e-4, "{offset:?}");
    }

    #[test]
    fn motion_is_no_rest() {
        for (offset, deviation, shake) in [(0.0, 0.02, 0.0), (0.0, 0.0, 0.5), (0.5, 0.0, 0.0)] {
            assert_eq!(windows(offset, deviation, shake), [Window::Motion; 2]);
        }
    }

    #[test]
    fn few_samples_are_no_rest() {
        let mut detector = RestDetector::default();
        detector.accelerate([0.0; 3]);
        assert_eq!(detector.turn([0.0; 3], 2.0), Some(Window::Motion));
    }
}
