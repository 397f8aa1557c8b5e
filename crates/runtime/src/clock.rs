//! The clock that stamps everything.
//!
//! What it is not: a wall clock. Nothing in this project needs the time of day.

use openuvr_proto::time::Instant;

use crate::sys;

/// Now, on this machine's monotonic clock (`CLOCK_MONOTONIC`, the clock of X11 Present, DRM and
/// evdev stamps on Linux). It stands still while the machine sleeps.
#[must_use]
pub fn now() -> Instant {
    let span = sys::clock(libc::CLOCK_MONOTONIC);
    Instant(i64::try_from(span.as_nanos()).unwrap_or(i64::MAX))
}
