//! The clock map: it maps times of the peer's clock to the local clock, with an error bound.
//!
//! The four timestamps of a ping and its answer yield the offset between the clocks (RFC 5905, section 8, without the
//! clock filter), with an error of at most half the round trip. The map uses the recent exchange with the smallest
//! bound. The bound grows with the exchange's age, because crystals drift.

use std::collections::VecDeque;
use std::time::Duration;

pub use crate::time::Mapped;
use crate::time::{Instant, PeerInstant};

/// Maximum relative drift of two clocks: ±50 ppm each, the usual tolerance of PC and phone crystals.
pub const DRIFT_PPM: i64 = 100;

/// Number of recent exchanges that are kept. With two exchanges per second, they span 8 s. In this time, drift adds at
/// most 0.8 ms to a bound.
const WINDOW: usize = 16;

/// One exchange.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    offset: i64,
    half_trip: i64,
    /// Maximum drift in nanoseconds between the clocks during the exchange.
    drift: i64,
}

/// Estimates the peer's clock from pings.
#[derive(Clone, Debug, Default)]
pub struct ClockMap {
    samples: VecDeque<Sample>,
}

impl ClockMap {
    /// Adds one exchange. On the local clock, the ping was sent at `asked` and its answer arrived at `heard`. On the
    /// peer's clock, the ping arrived at `received` and was answered at `answered`. Contradictory timestamps are
    /// ignored.
    pub fn note(
        &mut self,
        asked: Instant,
        received: PeerInstant,
        answered: PeerInstant,
        heard: Instant,
    ) {
        let there = answered.0.checked_sub(received.0).filter(|d| *d >= 0);
        let all = heard.0.checked_sub(asked.0).filter(|d| *d >= 0);
        let Some((all, there)) = all.zip(there).filter(|(all, there)| all >= there) else {
            return;
        };
        let trip = all - there;
        let ahead = received.0.saturating_sub(asked.0);
        let behind = answered.0.saturating_sub(heard.0);
        let offset = ahead / 2 + behind / 2 + (ahead % 2 + behind % 2) / 2;
        // The bound allows for rounding errors of one nanosecond, and for drift during the exchange.
        let sample = Sample {
            at: heard,
            offset,
            half_trip: trip / 2 + 1,
            drift: drift(all),
        };
        if self.samples.len() == WINDOW {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    /// The shortest recent round trip.
    #[must_use]
    pub fn round_trip(&self) -> Option<Duration> {
        let shortest = self.samples.iter().map(|s| s.half_trip).min()?;
        Some(Duration::from_nanos(
            u64::try_from(shortest).unwrap_or(0) * 2,
        ))
    }

    fn best(&self, now: Instant) -> Option<&Sample> {
        self.samples.iter().min_by_key(|s| s.bound(now))
    }

    /// Maps `theirs` from the peer's clock to the local clock; `None` before the first exchange.
    #[must_use]
    pub fn to_mine(&self, theirs: PeerInstant, now: Instant) -> Option<Mapped<Instant>> {
        let best = self.best(now)?;
        let at = Instant(theirs.0.saturating_sub(best.offset));
        Some(Mapped {
            at,
            bound: nanos(best.bound(at)),
        })
    }
}

impl Sample {
    /// Maximum error of the offset at the time `at`, which may be before or after the exchange.
    fn bound(&self, at: Instant) -> i64 {
        let apart = at.0.saturating_sub(self.at.0).saturating_abs();
        self.half_trip
            .saturating_add(self.drift)
            .saturating_add(drift(apart))
    }
}

/// Maximum drift between two clocks in `span` nanoseconds, rounded up.
fn drift(span: i64) -> i64 {
    span / (1_000_000 / DRIFT_PPM) + 1
}

fn nanos(v: i64) -> Duration {
    Duration::from_nanos(u64::try_from(v).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nothing_is_known_before_the_first_exchange() {
        assert_eq!(
            ClockMap::default().to_mine(PeerInstant(5), Instant(5)),
            None
        );
    }

    #[test]
    fn contradicting_timestamps_are_ignored() {
        let mut map = ClockMap::default();
        map.note(Instant(10), PeerInstant(5), PeerInstant(4), Instant(20));
        map.note(Instant(20), PeerInstant(5), PeerInstant(6), Instant(10));
        // The peer echoes the local timestamp, and may echo a forged one instead.
        map.note(
            Instant(i64::MAX),
            PeerInstant(0),
            PeerInstant(i64::MAX),
            Instant(1),
        );
        map.note(
            Instant(0),
            PeerInstant(i64::MIN),
            PeerInstant(i64::MAX),
            Instant(1),
        );
        assert_eq!(map.round_trip(), None);
    }

    proptest! {
        /// The true value is within the bound, for any asymmetry of the delays and any drift up to `DRIFT_PPM`.
        #[test]
        fn the_bound_holds(
            offset in -1_000_000_000_000_i64..1_000_000_000_000,
            drift_ppm in -100_i64..=100,
            exchanges in prop::collection::vec((0_i64..50_000_000, 0_i64..50_000_000), 1..40),
            later in 0_i64..60_000_000_000,
        ) {
            let theirs = |mine: i64| mine + offset + mine / 1_000_000 * drift_ppm;
            let mut map = ClockMap::default();
            let mut t = 0;
            for (there, back) in exchanges {
                let heard = t + there + back;
                let at_peer = PeerInstant(theirs(t + there));
                map.note(Instant(t), at_peer, at_peer, Instant(heard));
                t = heard + 500_000_000;
            }
            let now = t + later;
            // The test maps present and past times, because a report describes times before the exchange.
            for then in [now, now / 2, 0] {
                let mapped = map.to_mine(PeerInstant(theirs(then)), Instant(now)).unwrap();
                let error = (mapped.at.0 - then).unsigned_abs();
                // 100 ns are allowed, because this test computes the true drift in steps.
                prop_assert!(u128::from(error) <= mapped.bound.as_nanos() + 100, "{error} > {:?}", mapped.bound);
            }
        }
    }
}
