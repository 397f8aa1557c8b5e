//! The clock of components with their own timing: test patterns, clips, captures, injected devices.

use openuvr_proto::time::Instant;
use rustix::time::{ClockId, clock_gettime};

/// The current time of this machine's monotonic clock (`CLOCK_MONOTONIC`).
pub(crate) fn now() -> Instant {
    let now = clock_gettime(ClockId::Monotonic);
    Instant(now.tv_sec * 1_000_000_000 + now.tv_nsec)
}
