//! Latency from the start of a frame to its display, as reported by the player's client. A frame's predicted display
//! time is derived from this latency.
//!
//! If the display shows pictures on arrival, the median of the newest frames is used, because a few late frames must
//! not shift the prediction for all others. If the display has fixed refresh times, the 99th percentile is used,
//! because 99 of 100 frames have to arrive before the refresh.

use std::collections::VecDeque;
use std::time::Duration;

use openuvr_proto::quantile::nearest_rank;

/// Number of frames considered: 1.5 s at 90 Hz.
const WINDOW: usize = 135;

/// Minimum number of samples. With fewer samples, the default is the better prediction (guess).
const MIN_SAMPLES: usize = 15;

/// Upper limit of the prediction. A link with more latency is unusable for a headset, and a larger value may be a clock
/// step.
const MAX_LATENCY: Duration = Duration::from_millis(250);

/// Safety margin between the 99th percentile and the display's refresh (WiVRn uses the same value).
const MARGIN: Duration = Duration::from_millis(1);

/// Expected latency.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Delay {
    /// Median.
    pub(crate) median: Duration,
    /// The minimum time from the start of a frame to the refresh at which the frame is displayed.
    pub(crate) safe: Duration,
}

impl Delay {
    /// Uses `delay` both as the median and as the safe latency, in place of measured values.
    pub(crate) fn uniform(delay: Duration) -> Delay {
        Delay {
            median: delay,
            safe: delay,
        }
    }
}

/// Estimates the latency from the newest frames.
#[derive(Debug, Default)]
pub(crate) struct DelayEstimate {
    newest: VecDeque<Duration>,
}

impl DelayEstimate {
    /// Records the latency of a displayed frame.
    pub(crate) fn record(&mut self, after: Duration) {
        if self.newest.len() == WINDOW {
            self.newest.pop_front();
        }
        self.newest.push_back(after.min(MAX_LATENCY));
    }

    /// Discards all samples, because the player may have changed.
    pub(crate) fn reset(&mut self) {
        self.newest.clear();
    }

    /// The expected latency; `None` if there are too few samples.
    pub(crate) fn expected(&self) -> Option<Delay> {
        if self.newest.len() < MIN_SAMPLES {
            return None;
        }
        let mut sorted: Vec<Duration> = self.newest.iter().copied().collect();
        sorted.sort_unstable();
        let median = sorted[sorted.len() / 2];
        let p99 = nearest_rank(&sorted, 99)?;
        Some(Delay {
            median,
            safe: (p99 + MARGIN).min(MAX_LATENCY),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn outliers_do_not_shift_the_median() {
        let mut delay = DelayEstimate::default();
        for frame in 0..MIN_SAMPLES {
            assert_eq!(delay.expected(), None);
            delay.record(if frame % 5 == 4 { ms(90) } else { ms(20) });
        }
        let expected = delay.expected().unwrap();
        assert_eq!((expected.median, expected.safe), (ms(20), ms(91)));
        for _ in 0..WINDOW {
            delay.record(Duration::from_secs(3600));
        }
        assert_eq!(delay.expected(), Some(Delay::uniform(MAX_LATENCY)));
        delay.reset();
        assert_eq!(delay.expected(), None);
    }
}
