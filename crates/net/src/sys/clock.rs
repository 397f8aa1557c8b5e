//! The clocks of this machine, read through the C library: rustix searches for the vDSO itself and crashes under
//! valgrind, which hides it and which applications of the C API use.

/// A clock of clock_gettime(2).
#[derive(Debug, Clone, Copy)]
pub(crate) enum Clock {
    Monotonic,
    Wall,
}

impl Clock {
    /// Seconds and nanoseconds.
    pub(crate) fn read(self) -> (i64, i64) {
        let id = match self {
            Clock::Monotonic => libc::CLOCK_MONOTONIC,
            Clock::Wall => libc::CLOCK_REALTIME,
        };
        let mut at = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `at` is writable. The call cannot fail for these clocks.
        unsafe { libc::clock_gettime(id, &raw mut at) };
        (at.tv_sec, at.tv_nsec)
    }
}

/// A wall-clock timestamp in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WallStamp(pub(crate) i64);

impl WallStamp {
    /// From the fields of a `timespec` or a similar structure.
    pub(crate) fn new(seconds: i64, nanoseconds: i64) -> WallStamp {
        let seconds = seconds.saturating_mul(1_000_000_000);
        WallStamp(seconds.saturating_add(nanoseconds))
    }
}
