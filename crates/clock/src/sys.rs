//! The clocks of this machine, read through the C library. rustix is not used: it searches for the vDSO itself, and
//! crashes under valgrind, which hides the vDSO. Applications of the C API are run under valgrind.
#![allow(unsafe_code)]

/// A clock of clock_gettime(2).
#[derive(Debug, Clone, Copy)]
pub(crate) enum Clock {
    Monotonic,
    Wall,
}

/// Reads a clock; returns seconds and nanoseconds.
pub(crate) fn read(clock: Clock) -> (i64, i64) {
    let id = match clock {
        Clock::Monotonic => libc::CLOCK_MONOTONIC,
        Clock::Wall => libc::CLOCK_REALTIME,
    };
    let mut at = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `at` is a local variable, which the call may write. The call cannot fail for these clocks.
    unsafe { libc::clock_gettime(id, &raw mut at) };
    (at.tv_sec, at.tv_nsec)
}
