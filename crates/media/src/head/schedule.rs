//! Sampling schedule of a head pose source without its own timing. The source is sampled at a fixed rate, and also
//! exactly at the times that the host requests (the aimed times), if they are known.
//!
//! This module has no clock; the time is an argument.

use std::time::Duration;

use openuvr_proto::display::RefreshTiming;
use openuvr_proto::time::Instant;

/// Sampling interval: 250 Hz, like good trackers today.
pub(super) const SAMPLING_INTERVAL: Duration = Duration::from_millis(4);

/// A sample of at most this age is sufficient, so no additional sample is taken for the aimed time.
const FRESH_AGE: Duration = Duration::from_micros(500);

/// The sampling schedule.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Schedule(Option<RefreshTiming<Instant>>);

impl Schedule {
    /// Sets the aimed times; `None` if they are unknown. Times less than [`SAMPLING_INTERVAL`] apart are ignored.
    pub(super) fn aim(&mut self, wanted: Option<RefreshTiming<Instant>>) {
        self.0 = wanted.filter(|wanted| wanted.period >= SAMPLING_INTERVAL);
    }

    /// The time of the sample after `last`: the aimed time that precedes or soon follows the regular time, otherwise
    /// the regular time.
    pub(super) fn after(&self, last: Instant) -> Instant {
        let next = last + SAMPLING_INTERVAL;
        let wanted = self.0.and_then(|wanted| {
            let period = i64::try_from(wanted.period.as_nanos()).ok()?;
            let from = last + FRESH_AGE;
            let later = (wanted.phase.0.saturating_sub(from.0)).rem_euclid(period);
            Some(Instant(from.0.saturating_add(later)))
        });
        wanted
            .filter(|at| *at < next + SAMPLING_INTERVAL / 2)
            .unwrap_or(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: i64) -> Instant {
        Instant(us * 1000)
    }

    /// The maximum age in microseconds of the newest sample at aimed times 11.1 ms apart, and the
    /// number of samples.
    fn oldest(aimed: bool) -> (i64, usize) {
        let (phase, period) = (us(2_345), Duration::from_micros(11_111));
        let mut schedule = Schedule::default();
        schedule.aim(aimed.then_some(RefreshTiming { phase, period }));
        let mut samples = vec![us(0)];
        while let Some(last) = samples.last().filter(|last| **last < us(1_000_000)) {
            samples.push(schedule.after(*last));
        }
        let age = |used: Instant| {
            let before = samples.iter().rev().find(|at| **at <= used);
            before.map_or(i64::MAX, |at| (used.0 - at.0) / 1000)
        };
        let uses = (1..89).map(|n| phase + period * n);
        (uses.map(age).max().unwrap_or(0), samples.len())
    }

    #[test]
    fn samples_are_fresh_when_taken() {
        let (evenly, few) = oldest(false);
        let (aimed, more) = oldest(true);
        assert!(
            evenly > 3_500,
            "{evenly}: in some frames it is one interval old"
        );
        assert!(aimed <= 500, "{aimed}");
        assert!(more < few + 91, "{more}: at most one more per frame");
    }

    #[test]
    fn unreachable_deadlines_are_not_aimed_at() {
        let mut schedule = Schedule::default();
        let period = Duration::from_millis(1);
        schedule.aim(Some(RefreshTiming {
            phase: us(0),
            period,
        }));
        assert_eq!(schedule.after(us(100)), us(4_100));
    }
}
