//! When a head is sampled that can be sampled at any time: evenly, and where the host says when it takes a pose,
//! just then.
//!
//! A value: time comes in as an argument.

use std::time::Duration;

use openuvr_proto::display::Refresh;
use openuvr_proto::time::Instant;

/// Between two samples: 250 a second, as good trackers of today.
pub(super) const EVERY: Duration = Duration::from_millis(4);

/// A sample that is no older is young enough: none follows it for the moment that is wanted.
const YOUNG: Duration = Duration::from_micros(500);

/// When samples are taken.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Schedule(Option<Refresh<Instant>>);

impl Schedule {
    /// Samples are wanted at these moments; `None`: nobody says when.
    pub(super) fn aim(&mut self, wanted: Option<Refresh<Instant>>) {
        self.0 = wanted.filter(|wanted| wanted.period >= EVERY);
    }

    /// When the next is taken behind one at `last`: at the moment that is wanted if one comes before or soon after it
    /// would be time anyway.
    pub(super) fn after(&self, last: Instant) -> Instant {
        let next = last + EVERY;
        let wanted = self.0.and_then(|wanted| {
            let period = i64::try_from(wanted.period.as_nanos()).ok()?;
            let from = last + YOUNG;
            let later = (wanted.phase.0.saturating_sub(from.0)).rem_euclid(period);
            Some(Instant(from.0.saturating_add(later)))
        });
        wanted.filter(|at| *at < next + EVERY / 2).unwrap_or(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: i64) -> Instant {
        Instant(us * 1000)
    }

    /// How old the newest sample is at most at moments that are 11.1 ms apart, in microseconds; and how many samples
    /// were taken.
    fn oldest(aimed: bool) -> (i64, usize) {
        let (phase, period) = (us(2_345), Duration::from_micros(11_111));
        let mut schedule = Schedule::default();
        schedule.aim(aimed.then_some(Refresh { phase, period }));
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
    fn samples_are_as_young_as_can_be_when_they_are_taken() {
        let (evenly, few) = oldest(false);
        let (aimed, more) = oldest(true);
        assert!(
            evenly > 3_500,
            "{evenly}: one in some frames is as old as samples are apart"
        );
        assert!(aimed <= 500, "{aimed}");
        assert!(more < few + 91, "{more}: at most one more for each frame");
    }

    #[test]
    fn unreachable_deadlines_are_not_aimed_at() {
        let mut schedule = Schedule::default();
        let period = Duration::from_millis(1);
        schedule.aim(Some(Refresh {
            phase: us(0),
            period,
        }));
        assert_eq!(schedule.after(us(100)), us(4_100));
    }
}
