//! The clock that stamps everything.
//!
//! It is no wall clock.

use openuvr_proto::time::Instant;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec};

use crate::sys;

/// The time on this machine's monotonic clock (`CLOCK_MONOTONIC`, the clock of X11 Present, DRM and evdev
/// stamps on Linux). It stops while the machine sleeps.
#[must_use]
pub fn now() -> Instant {
    let span = sys::clock(libc::CLOCK_MONOTONIC);
    Instant(i64::try_from(span.as_nanos()).unwrap_or(i64::MAX))
}

/// Waits until `at`; a signal ends the wait early.
pub fn sleep_until(at: Instant) {
    let at = Timespec {
        tv_sec: at.0 / 1_000_000_000,
        tv_nsec: at.0 % 1_000_000_000,
    };
    let _ = clock_nanosleep_absolute(ClockId::Monotonic, &at);
}
