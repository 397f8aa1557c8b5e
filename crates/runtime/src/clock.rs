//! The clocks: the one that stamps everything, and those that say what it cost.
//!
//! What it is not: a wall clock. Nothing in this project needs the time of day.

use std::time::Duration;

use openuvr_proto::time::Instant;

use crate::sys;

/// Now, on this machine's monotonic clock (`CLOCK_MONOTONIC`, the clock of X11 Present, DRM and
/// evdev stamps on Linux). It stands still while the machine sleeps.
#[must_use]
pub fn now() -> Instant {
    let span = sys::clock(libc::CLOCK_MONOTONIC);
    Instant(i64::try_from(span.as_nanos()).unwrap_or(i64::MAX))
}

/// The processor time that the calling thread has used.
#[must_use]
pub fn thread_cpu() -> Duration {
    sys::clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The processor time that all threads of this process have used together.
#[must_use]
pub fn process_cpu() -> Duration {
    sys::clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

#[cfg(test)]
mod tests {
    use super::{now, process_cpu, thread_cpu};

    #[test]
    fn clocks_run_forward_and_work_costs() {
        let (wall, mine, all) = (now(), thread_cpu(), process_cpu());
        while thread_cpu() == mine {
            std::hint::spin_loop();
        }
        assert!(now() > wall);
        assert!(process_cpu() > all);
    }
}
