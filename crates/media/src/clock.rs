//! The clock of what keeps its own time here: test patterns, clips, captures, injected devices.

use openuvr_proto::time::Instant;
use rustix::time::{ClockId, clock_gettime};

/// Now, on this machine's monotonic clock (`CLOCK_MONOTONIC`), as everything else is stamped.
pub(crate) fn now() -> Instant {
    let now = clock_gettime(ClockId::Monotonic);
    Instant(now.tv_sec * 1_000_000_000 + now.tv_nsec)
}
