//! When a picture is drawn: as often as the display shows one, and sooner for a new one.
//!
//! A value: time comes in as an argument.

use std::time::Duration;

use openuvr_proto::time::Instant;

/// Of the display's period, how much passes at least between two pictures, in percent: a new one need not wait for
/// its turn, and no more than four come in the time of three.
const LEAST: u32 = 75;

/// The turns of a display.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    period: Duration,
    /// When the last picture was due.
    last: Option<Instant>,
}

impl Pace {
    /// Of a display with so many refreshes a second.
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

    /// When the next picture is due, which is at once for the first.
    pub(super) fn due(&self, fresh: bool) -> Instant {
        let Some(last) = self.last else {
            return Instant(i64::MIN);
        };
        match fresh {
            true => last + self.period * LEAST / 100,
            false => last + self.period,
        }
    }

    /// One is drawn now, as was due. Turns that were missed are left out.
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
    fn turns_come_evenly_and_new_pictures_a_little_sooner() {
        let mut pace = Pace::new(100.0);
        assert!(pace.due(true) < ms(0) && pace.due(false) < ms(0));
        pace.drawn(ms(0), true);
        assert_eq!(pace.due(false), ms(10));
        // A thread that wakes late stays in step.
        pace.drawn(ms(12), false);
        assert_eq!(pace.due(false), ms(20));
        assert_eq!(pace.due(true), Instant(17_500_000));
        pace.drawn(ms(18), true);
        assert_eq!(pace.due(false), ms(28));
        // What was missed is not made up for.
        pace.drawn(ms(500), false);
        assert_eq!(pace.due(false), ms(510));
    }

    #[test]
    fn rates_that_are_none_become_sensible_ones() {
        for (rate, ms) in [(f64::NAN, 16), (0.0, 1000), (1e9, 1)] {
            assert_eq!(Pace::new(rate).period.as_millis(), ms, "{rate}");
        }
    }
}
