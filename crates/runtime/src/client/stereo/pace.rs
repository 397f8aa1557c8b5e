//! Determines when to draw: once per display refresh, and sooner for a new picture.
//!
//! The module takes the time as an argument and has no clock.

use std::time::Duration;

use openuvr_proto::time::Instant;

/// Minimum interval between two drawings, in percent of the display's refresh period. A new picture is drawn early, but
/// at most four pictures are drawn in three periods.
const MIN_INTERVAL_PERCENT: u32 = 75;

/// The drawing times of a display.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    period: Duration,
    /// When the last drawing was due. If it showed a new picture, or was late by more than half a period, the time at
    /// which it was drawn.
    last: Option<Instant>,
}

impl Pace {
    /// Creates the drawing times for a display with this refresh rate in Hz.
    pub(super) fn new(rate: f64) -> Pace {
        let rate = if rate.is_finite() {
            rate.clamp(1.0, 1000.0)
        } else {
            60.0
        };
        Pace {
            period: Duration::from_secs_f64(1.0 / rate),
            last: None,
        }
    }

    /// The time at which the next drawing is due. The first drawing is due at once. `fresh` states whether there is a
    /// new picture, which is due earlier.
    pub(super) fn due(&self, fresh: bool) -> Instant {
        let Some(last) = self.last else {
            return Instant(i64::MIN);
        };
        match fresh {
            true => last + self.period * MIN_INTERVAL_PERCENT / 100,
            false => last + self.period,
        }
    }

    /// Records a drawing. Missed refreshes are skipped.
    pub(super) fn drawn(&mut self, now: Instant, fresh: bool) {
        let due = self.due(fresh);
        let late = now.since(due) > self.period / 2;
        self.last = Some(if fresh || late { now } else { due });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: i64) -> Instant {
        Instant(ms * 1_000_000)
    }

    #[test]
    fn drawings_are_periodic_and_new_pictures_a_little_earlier() {
        let mut pace = Pace::new(100.0);
        assert!(pace.due(true) < ms(0) && pace.due(false) < ms(0));
        pace.drawn(ms(0), true);
        assert_eq!(pace.due(false), ms(10));
        // A late wake-up does not shift the phase.
        pace.drawn(ms(12), false);
        assert_eq!(pace.due(false), ms(20));
        assert_eq!(pace.due(true), Instant(17_500_000));
        pace.drawn(ms(18), true);
        assert_eq!(pace.due(false), ms(28));
        // Missed refreshes are not made up for.
        pace.drawn(ms(500), false);
        assert_eq!(pace.due(false), ms(510));
    }

    #[test]
    fn invalid_rates_are_clamped() {
        for (rate, ms) in [(f64::NAN, 16), (0.0, 1000), (1e9, 1)] {
            assert_eq!(Pace::new(rate).period.as_millis(), ms, "{rate}");
        }
    }
}
