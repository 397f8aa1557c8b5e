//! The one system call that the doctor needs and rustix does not have.
#![allow(unsafe_code)]

/// Who keeps the time of day.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ClockState {
    /// A daemon that compares it with other machines.
    Synchronised,
    /// Nobody.
    Alone,
    /// The kernel does not tell.
    Hidden,
}

/// Asks the kernel (adjtimex(2), which changes nothing with `modes` 0).
pub(super) fn clock_state() -> ClockState {
    // SAFETY: all-zero is a valid timex: integers only.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: `state` is writable, and outlives the call.
    match unsafe { libc::adjtimex(&raw mut state) } {
        -1 => ClockState::Hidden,
        _ if state.status & libc::STA_UNSYNC != 0 => ClockState::Alone,
        _ => ClockState::Synchronised,
    }
}
