//! The monotonic clock, read and waited for.

use openuvr_proto::time::Instant;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// `CLOCK_MONOTONIC` now: the same in all processes of a machine (and its time namespace).
pub(crate) fn now() -> Instant {
    let now = clock_gettime(ClockId::Monotonic);
    Instant(now.tv_sec * 1_000_000_000 + now.tv_nsec)
}

/// Waits until `at`; a signal ends the wait early.
pub(crate) fn sleep_until(at: Instant) {
    let at = Timespec {
        tv_sec: at.0 / 1_000_000_000,
        tv_nsec: at.0 % 1_000_000_000,
    };
    let _ = clock_nanosleep_absolute(ClockId::Monotonic, &at);
}

/// Whole microseconds, as the bar code carries them.
pub(crate) fn micros(at: Instant) -> u64 {
    u64::try_from(at.0 / 1000).unwrap_or(0)
}
