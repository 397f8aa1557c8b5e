//! The time of day that sender reports name, as NTP has it (RFC 5905 section 6).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use openuvr_proto::time::Instant;

/// From the beginning of NTP's time, 1900, to that of Unix, in seconds.
const NTP_EPOCH: u64 = 2_208_988_800;

/// Both clocks were read so often when they are joined; the reading that took least counts.
const READINGS: usize = 8;

/// The time of day by our own clock, from one reading of both: two readings for each report would differ by as long as
/// the thread waits for a processor between them, and a time of day may be set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wall {
    ours: Instant,
    day: Duration,
}

impl Wall {
    /// Joins both clocks now; `clock` is ours.
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

    /// One where it was so long after 1970 at `ours`.
    pub(super) fn at(ours: Instant, day: Duration) -> Wall {
        Wall { ours, day }
    }

    /// NTP's 32.32 bits at a moment of our clock.
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
    fn the_time_of_day_goes_with_our_clock() {
        let ours = Instant(5_000_000_000);
        let wall = Wall::at(ours, Duration::from_millis(1_500));
        assert_eq!(wall.ntp(ours), (NTP_EPOCH + 1) << 32 | 1 << 31);
        let later = ours + Duration::from_millis(250);
        assert_eq!(wall.ntp(later), (NTP_EPOCH + 1) << 32 | 3 << 30);
        assert_eq!(wall.ntp(Instant(4_000_000_000)), NTP_EPOCH << 32 | 1 << 31);
    }
}
