//! The clocks of this machine.
//!
//! Events are timestamped with [`now`]. The wall clock serves only to interpret the kernel's packet timestamps.
#![deny(unsafe_code)]

mod sys;

use openuvr_proto::time::Instant;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec};

/// The time on this machine's monotonic clock (`CLOCK_MONOTONIC`). On Linux, X11 Present and DRM use the same clock for
/// their timestamps, and evdev does so on request. This clock stops while the machine sleeps.
#[must_use]
pub fn now() -> Instant {
    let (seconds, nanoseconds) = sys::read(sys::Clock::Monotonic);
    Instant(nanos(seconds, nanoseconds))
}

/// Waits until `at`. A signal ends the wait early.
pub fn sleep_until(at: Instant) {
    let at = Timespec {
        tv_sec: at.0 / 1_000_000_000,
        tv_nsec: at.0 % 1_000_000_000,
    };
    let _ = clock_nanosleep_absolute(ClockId::Monotonic, &at);
}

/// A wall-clock time in nanoseconds since 1970 (`CLOCK_REALTIME`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WallTime(pub i64);

impl WallTime {
    /// Creates a time from the fields of a `timespec` or a similar structure.
    #[must_use]
    pub fn new(seconds: i64, nanoseconds: i64) -> WallTime {
        WallTime(nanos(seconds, nanoseconds))
    }

    /// The current time.
    #[must_use]
    pub fn now() -> WallTime {
        let (seconds, nanoseconds) = sys::read(sys::Clock::Wall);
        WallTime::new(seconds, nanoseconds)
    }
}

fn nanos(seconds: i64, nanoseconds: i64) -> i64 {
    let seconds = seconds.saturating_mul(1_000_000_000);
    seconds.saturating_add(nanoseconds)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_monotonic_clock_never_goes_back() {
        let times: Vec<_> = (0..1000).map(|_| now()).collect();
        assert!(times.is_sorted());
        assert!(times[0] > Instant(0));
    }

    #[test]
    fn a_wait_ends_after_its_deadline() {
        let at = now() + Duration::from_millis(1);
        sleep_until(at);
        assert!(now() >= at);
        // A deadline in the past.
        sleep_until(at);
    }

    #[test]
    fn wall_times_count_from_1970_and_saturate() {
        assert_eq!(WallTime::new(2, 3), WallTime(2_000_000_003));
        assert_eq!(WallTime::new(i64::MAX, 999), WallTime(i64::MAX));
        let first_of_2020 = WallTime::new(1_577_836_800, 0);
        assert!(WallTime::now().0 > first_of_2020.0);
    }
}
