//! Arrival statistics: the jitter relative to the fastest recent payload.

use std::collections::VecDeque;

/// Number of payloads in the window: 10 s with payloads of 5 ms. Clocks 100 ppm apart drift by 1 ms in that time, which
/// counts as jitter.
const REMEMBERED: usize = 2048;

/// The jitter excludes this number of the worst events in the window, because one late event every 5 s can be concealed
/// (guess). An event is a late payload with its neighbours, which the same stall delayed.
const TOLERATED: usize = 2;
const NEAR: usize = 32;

/// Maximum lateness of an excluded event beyond the jitter, so that concealment stays below 20 ms. If four consecutive
/// datagrams are lost, the payload of the first arrives 20 ms late, as a repetition.
const MISSED: i64 = 15_000_000;
/// A longer stall counts as a stall of this length, because it may not recur (guess).
const MAX_STALL: i64 = 50_000_000;

/// Assumed minimum jitter until a second of payloads has arrived (guess: a quiet wireless network).
const UNKNOWN: i64 = 10_000_000;
const KNOWN: usize = 200;

/// Interval of the evaluation, in payloads.
const EVERY: usize = 16;

/// A transit time that differs by more than a second indicates another clock or stream, which resets the
/// window.
const ANOTHER: i64 = 1_000_000_000;

/// The transit times of the newest payloads.
///
/// A transit time is the local arrival time minus the media time of the first sample, in nanoseconds: only
/// differences are meaningful.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    transits: VecDeque<i64>,
    /// Indices of the worst payloads that are not neighbours.
    worst: Vec<usize>,
    since: usize,
    fastest: i64,
    jitter: i64,
}

impl Arrivals {
    /// Adds a payload; returns whether it reset the window.
    pub(super) fn push(&mut self, transit: i64) -> bool {
        let first = self.transits.is_empty();
        let other = !first && transit.saturating_sub(self.fastest).saturating_abs() > ANOTHER;
        if first || other {
            self.forget();
            self.fastest = transit;
        }
        if self.transits.len() == REMEMBERED {
            self.transits.pop_front();
        }
        self.transits.push_back(transit);
        self.fastest = self.fastest.min(transit);
        self.since += 1;
        if self.since >= EVERY {
            self.since = 0;
            self.measure();
        }
        first || other
    }

    pub(super) fn forget(&mut self) {
        self.transits.clear();
        (self.since, self.jitter) = (0, 0);
    }

    fn measure(&mut self) {
        self.fastest = self.transits.iter().copied().min().unwrap_or(self.fastest);
        self.worst.clear();
        let mut latest = self.fastest;
        for event in 0..=TOLERATED {
            let Some((place, transit)) = self.latest() else {
                break;
            };
            if event == 0 {
                let missed = transit.saturating_sub(self.fastest).min(MAX_STALL) - MISSED;
                latest = self.fastest.saturating_add(missed.max(0));
            }
            if event == TOLERATED {
                latest = latest.max(transit);
            }
            self.worst.push(place);
        }
        self.jitter = latest.saturating_sub(self.fastest);
    }

    /// The index and transit time of the most delayed payload, except for the worst payloads so far and their
    /// neighbours.
    fn latest(&self) -> Option<(usize, i64)> {
        let far = |place: usize| self.worst.iter().all(|worst| place.abs_diff(*worst) > NEAR);
        let others = self.transits.iter().copied().enumerate();
        others
            .filter(|(place, _)| far(*place))
            .max_by_key(|(_, transit)| *transit)
    }

    /// The shortest transit time in the window, in nanoseconds with an arbitrary origin.
    pub(super) fn fastest(&self) -> i64 {
        self.fastest
    }

    /// The jitter in nanoseconds: nearly all transit times exceed the shortest by at most this.
    pub(super) fn jitter(&self) -> i64 {
        match self.transits.len() < KNOWN {
            true => self.jitter.max(UNKNOWN),
            false => self.jitter,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    #[test]
    fn the_third_pause_in_ten_seconds_is_waited_for() {
        let mut arrivals = Arrivals::default();
        let steady = |arrivals: &mut Arrivals, count| {
            for n in 0..count {
                arrivals.push(-77 * MS + n % 3 * MS);
            }
        };
        let pause = |arrivals: &mut Arrivals| {
            for late in [30, 25, 20, 15, 10, 5] {
                arrivals.push((late - 77) * MS);
            }
        };
        steady(&mut arrivals, 1000);
        assert_eq!((arrivals.fastest(), arrivals.jitter()), (-77 * MS, 2 * MS));
        for expected in [15, 15, 30] {
            pause(&mut arrivals);
            steady(&mut arrivals, 200);
            assert_eq!(arrivals.jitter(), expected * MS);
        }
        steady(&mut arrivals, 1700);
        assert_eq!(arrivals.jitter(), 15 * MS, "one is left");
        steady(&mut arrivals, 300);
        assert_eq!(arrivals.jitter(), 2 * MS, "and expires after a while");
    }

    #[test]
    fn another_clock_resets_the_window() {
        let mut arrivals = Arrivals::default();
        assert!(arrivals.push(5 * MS));
        assert!(!arrivals.push(9 * MS));
        assert!(arrivals.push(5000 * MS));
        assert_eq!(arrivals.fastest(), 5000 * MS);
        assert!(arrivals.push(i64::MIN));
        assert!(arrivals.push(i64::MAX));
        assert_eq!(arrivals.fastest(), i64::MAX);
    }
}
