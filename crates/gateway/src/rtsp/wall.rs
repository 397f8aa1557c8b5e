//! The wall clock of sender reports, in NTP format (RFC 5905 section 6).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use openuvr_proto::time::Instant;

/// Seconds from the NTP epoch, 1900, to the Unix epoch.
const NTP_EPOCH: u64 = 2_208_988_800;

/// Number of paired readings of both clocks. The pair that was read fastest is used.
const READINGS: usize = 8;

/// Maps the host's clock to the wall clock by a single pair of readings. A new pair for each report would add the
/// scheduling latency between its readings, and would follow changes of the wall clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wall {
    ours: Instant,
    day: Duration,
}

impl Wall {
    /// Maps the clocks as they are now. `clock` is the host's clock.
    pub(super) fn now(clock: impl Fn() -> Instant) -> Wall {
        let read = |_| {
            let before = clock();
            let day = SystemTime::now().duration_since(UNIX_EPOCH);
            let (day, took) = (day.unwrap_or_default(), clock().since(before));
            (took, Wall { ours: before, day })
        };
        let least = (0..READINGS).map(read).min_by_key(|(took, _)| *took);
        least.map_or(Wall::at(Instant(0), Duration::ZERO), |(_, wall)| wall)
    }

    /// A mapping in which the wall clock was `day` after 1970 when the host's clock was `ours`.
    pub(super) fn at(ours: Instant, day: Duration) -> Wall {
        Wall { ours, day }
    }

    /// NTP's 32.32 format for a time of the host's clock.
    pub(super) fn ntp(&self, at: Instant) -> u64 {
        let later = self.day + at.since(self.ours);
        let earlier = self.ours.since(at);
        let day = later.saturating_sub(earlier);
        let fraction = (u64::from(day.subsec_nanos()) << 32) / 1_000_000_000;
        ((day.as_secs() + NTP_EPOCH) << 32) | fraction
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wall_clock_follows_the_hosts_clock() {
        let ours = Instant(5_000_000_000);
        let wall = Wall::at(ours, Duration::from_millis(1_500));
        assert_eq!(wall.ntp(ours), (NTP_EPOCH + 1) << 32 | 1 << 31);
        let later = ours + Duration::from_millis(250);
        assert_eq!(wall.ntp(later), (NTP_EPOCH + 1) << 32 | 3 << 30);
        assert_eq!(wall.ntp(Instant(4_000_000_000)), NTP_EPOCH << 32 | 1 << 31);
    }
}
