//! The monotonic clock, read and waited for.

use openuvr_proto::time::Instant;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec};

pub(crate) use openuvr_runtime::clock::now;

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
