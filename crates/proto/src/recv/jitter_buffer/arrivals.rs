//! How late payloads come, compared with the fastest of late: the jitter that a buffer must cover.

use std::collections::VecDeque;

/// Payloads that are remembered: 10 s of 5 ms each. Two clocks that are 100 ppm apart drift by 1 ms in that
/// time, which then counts as jitter.
const REMEMBERED: usize = 2048;

/// The worst events that are not waited for by all, in the time that is remembered: what is late only every 5 s
/// is concealed (guess). An event is a payload that is late, and those near it, which a pause of the link
/// made late together.
const TOLERATED: usize = 2;
const NEAR: usize = 32;

/// Of a payload that came even later no more than this is missing: the rest is waited for by all, so that
/// what is concealed stays below 20 ms. A datagram that is lost with the three behind it comes 20 ms
/// late, as a repetition.
const MISSED: i64 = 15_000_000;
/// … but so long a pause may be the only one of its kind (guess).
const RARE: i64 = 50_000_000;

/// The jitter that is assumed before a second's worth of payloads has been seen (guess: a quiet wireless
/// network).
const UNKNOWN: i64 = 10_000_000;
const KNOWN: usize = 200;

/// So often the statistics are made anew, in payloads.
const EVERY: usize = 16;

/// What is further from the others than a second is another clock, or another stream: the others are
/// forgotten.
const ANOTHER: i64 = 1_000_000_000;

/// The newest payloads' transit times.
///
/// A transit is the arrival on our clock minus the time of the first sample on the stream's own, in
/// nanoseconds: it means something only compared with another.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    transits: VecDeque<i64>,
    /// Places of the latest payloads that are not near each other.
    worst: Vec<usize>,
    since: usize,
    fastest: i64,
    jitter: i64,
}

impl Arrivals {
    /// A payload came. Whether nothing before it can be compared with it.
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

    /// Forgets all that came.
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
                let missed = transit.saturating_sub(self.fastest).min(RARE) - MISSED;
                latest = self.fastest.saturating_add(missed.max(0));
            }
            if event == TOLERATED {
                latest = latest.max(transit);
            }
            self.worst.push(place);
        }
        self.jitter = latest.saturating_sub(self.fastest);
    }

    /// The latest payload, and its place, that is near none of the worst.
    fn latest(&self) -> Option<(usize, i64)> {
        let far = |place: usize| self.worst.iter().all(|worst| place.abs_diff(*worst) > NEAR);
        let others = self.transits.iter().copied().enumerate();
        others
            .filter(|(place, _)| far(*place))
            .max_by_key(|(_, transit)| *transit)
    }

    /// The shortest transit of those remembered, in nanoseconds of no fixed origin.
    pub(super) fn fastest(&self) -> i64 {
        self.fastest
    }

    /// By how much more than that nearly all others took, in nanoseconds.
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
        assert_eq!(arrivals.jitter(), 2 * MS, "and is forgotten after a while");
    }

    #[test]
    fn another_clock_forgets_what_was_before() {
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
