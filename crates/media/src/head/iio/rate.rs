//! The sampling rate of a sensor with a buffer, from the times at which the host's application samples poses.
//!
//! A buffered sensor has its own timing, so its samples can't be taken at the requested times. A higher rate keeps the
//! newest sample fresh instead.
//!
//! This module has no clock.

use std::time::Duration;

/// Rate in samples per second until the host requests poses. It gives more than two samples for each refresh of a 90 Hz
/// display. Cheap sensors reach it with both gyroscope and accelerometer enabled (guess).
pub(super) const USUAL_RATE: f64 = 200.0;

/// Samples per requested pose. The newest sample is then at most a quarter of a frame old (guess).
const SAMPLES_PER_POSE: f64 = 4.0;

/// Range of the rate. The drift was tested from 104 samples a second; more than 1000 samples a second keep a board's
/// I²C bus busy (guess).
const RANGE: [f64; 2] = [100.0, 1000.0];

/// A rate is raised only if the host needs more than this multiple of the rate. A measured period fluctuates, and each
/// change interrupts the samples.
const RAISE: f64 = 1.1;

/// The rate that the host needs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RateRequest(Option<f64>);

impl RateRequest {
    /// Takes the period of the host's poses. Returns the minimum sampling rate, if the sensor must change its rate: at
    /// the first request, and when a request needs a higher rate.
    pub(super) fn update(&mut self, period: Duration) -> Option<f64> {
        let [low, high] = RANGE;
        let rate = (SAMPLES_PER_POSE / period.as_secs_f64()).clamp(low, high);
        if self.0.is_some_and(|before| rate <= before * RAISE) {
            return None;
        }
        self.0 = Some(rate);
        Some(rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_four_samples() {
        let mut request = RateRequest::default();
        let hertz = |rate: f64| Duration::from_secs_f64(1.0 / rate);
        let rounded = |rate: Option<f64>| rate.map(f64::round);
        assert_eq!(rounded(request.update(hertz(60.0))), Some(240.0));
        for same in [60.0, 59.0, 61.0, 30.0] {
            assert_eq!(request.update(hertz(same)), None, "{same}");
        }
        assert_eq!(rounded(request.update(hertz(90.0))), Some(360.0));
        assert_eq!(request.update(Duration::ZERO), Some(1000.0));
        let mut request = RateRequest::default();
        assert_eq!(request.update(Duration::from_secs(1)), Some(100.0));
    }
}
