//! The arrival-time filter and the overuse detector (draft-ietf-rmcat-gcc-02, sections 5.1 to 5.4). Times are in
//! milliseconds, as in the draft.

use std::time::Duration;

use openuvr_proto::time::Instant;

/// Datagrams sent within this time form a group (section 5.2).
const BURST: Duration = Duration::from_millis(5);
/// State noise, initial error covariance, and filter coefficient of the measurement noise (section 5.3: the coefficient
/// is between 0.1 and 0.001).
const STATE_NOISE: f64 = 1e-3;
const FIRST_ERROR: f64 = 0.1;
const CHI: f64 = 0.01;
/// The threshold's initial value, its limits, and the gains of its decrease and of its increase (section 5.4).
const THRESHOLD: f64 = 12.5;
const THRESHOLDS: (f64, f64) = (6.0, 600.0);
const SPEEDS: (f64, f64) = (0.000_18, 0.01);
/// Samples whose magnitude exceeds the threshold by more than this do not change the threshold (section 5.4).
const OUTLIER: f64 = 15.0;
/// Minimum duration of an overuse (section 5.4).
const OVERUSE: f64 = 10.0;
/// Maximum factor of the gradient. The draft compares the gradient of one group, in milliseconds, with the threshold.
/// WebRTC multiplies the gradient by the number of samples, at most 60, so that slow growth is detected, too.
const MOST_SAMPLES: f64 = 60.0;

/// The utilisation of the link, from the overuse detector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Usage {
    Normal,
    Over,
    Under,
}

/// A group of datagrams: the send times of the first and the last datagram, and the arrival time of the last one.
#[derive(Debug, Clone, Copy)]
struct Group {
    first_sent: Instant,
    sent: Instant,
    arrived: Instant,
}

/// The filter and the detector.
#[derive(Debug)]
pub(super) struct Arrival {
    current: Option<Group>,
    previous: Option<Group>,
    gradient: f64,
    error: f64,
    noise: f64,
    samples: f64,
    threshold: f64,
    /// The time for which the gradient has been above the threshold, in ms.
    over: f64,
    last: f64,
    usage: Usage,
}

impl Default for Arrival {
    fn default() -> Arrival {
        Arrival {
            current: None,
            previous: None,
            gradient: 0.0,
            error: FIRST_ERROR,
            noise: 1.0,
            samples: 0.0,
            threshold: THRESHOLD,
            over: 0.0,
            last: 0.0,
            usage: Usage::Normal,
        }
    }
}

impl Arrival {
    pub(super) fn usage(&self) -> Usage {
        self.usage
    }

    /// Processes a datagram. Datagrams must be passed in the order of sending.
    pub(super) fn on_datagram(&mut self, sent: Instant, arrived: Instant) {
        if let Some(group) = &mut self.current
            && sent.since(group.first_sent) <= BURST
        {
            group.sent = group.sent.max(sent);
            group.arrived = group.arrived.max(arrived);
            return;
        }
        let next = Group {
            first_sent: sent,
            sent,
            arrived,
        };
        let Some(complete) = self.current.replace(next) else {
            return;
        };
        if let Some(before) = self.previous.replace(complete) {
            let sent = millis(complete.sent, before.sent);
            let arrived = millis(complete.arrived, before.arrived);
            self.filter(arrived - sent, sent);
            self.detect(arrived);
        }
    }

    /// The Kalman filter (section 5.3). `variation` is the change of the delay, and `interval` the time between the
    /// send times of two groups.
    fn filter(&mut self, variation: f64, interval: f64) {
        let residual = variation - self.gradient;
        let limit = 3.0 * self.noise.sqrt();
        let bounded = residual.clamp(-limit, limit);
        let rate = 1000.0 / interval.max(1.0);
        let alpha = (1.0 - CHI).powf(30.0 / rate);
        self.noise = (alpha * self.noise + (1.0 - alpha) * bounded * bounded).max(1.0);
        let error = self.error + STATE_NOISE;
        let gain = error / (self.noise + error);
        self.gradient += residual * gain;
        self.error = (1.0 - gain) * error;
        self.samples = (self.samples + 1.0).min(MOST_SAMPLES);
    }

    /// The overuse detector (section 5.4). `elapsed` is the time between the arrivals of two groups.
    fn detect(&mut self, elapsed: f64) {
        let value = self.gradient * self.samples;
        if value > self.threshold {
            self.over += elapsed;
            if self.over >= OVERUSE && value >= self.last {
                self.usage = Usage::Over;
            }
        } else {
            self.over = 0.0;
            self.usage = match value < -self.threshold {
                true => Usage::Under,
                false => Usage::Normal,
            };
        }
        self.last = value;
        let distance = value.abs() - self.threshold;
        if distance <= OUTLIER {
            let speed = if distance < 0.0 { SPEEDS.0 } else { SPEEDS.1 };
            self.threshold += elapsed.min(100.0) * speed * distance;
            self.threshold = self.threshold.clamp(THRESHOLDS.0, THRESHOLDS.1);
        }
    }
}

/// `later` minus `earlier` in milliseconds; negative if `later` is earlier.
fn millis(later: Instant, earlier: Instant) -> f64 {
    (later.0 - earlier.0) as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The usage after groups that are sent every 20 ms. The delay grows by `growth` with each group.
    fn after(groups: i64, growth: Duration) -> Usage {
        let mut arrival = Arrival::default();
        let mut now = Instant(0);
        for group in 0..groups {
            let count = u32::try_from(group).unwrap();
            arrival.on_datagram(now, now + growth * count);
            now = now + Duration::from_millis(20);
        }
        arrival.usage()
    }

    #[test]
    fn a_growing_queue_is_overuse_and_a_constant_one_is_not() {
        assert_eq!(after(200, Duration::ZERO), Usage::Normal);
        assert_eq!(after(100, Duration::from_millis(3)), Usage::Over);
    }
}
