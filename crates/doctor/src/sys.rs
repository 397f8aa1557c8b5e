//! A system call of the doctor that rustix does not provide.
#![allow(unsafe_code)]

/// The synchronisation of the system clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ClockState {
    /// Synchronised with other machines.
    Synchronised,
    /// Not synchronised.
    Alone,
    /// Unknown, because the kernel does not report it.
    Hidden,
}

/// Queries the kernel (adjtimex(2), which changes nothing with `modes` 0).
pub(super) fn clock_state() -> ClockState {
    // SAFETY: a timex contains only integers, so all-zero is a valid value.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: `state` is writable, and outlives the call.
    match unsafe { libc::adjtimex(&raw mut state) } {
        -1 => ClockState::Hidden,
        _ if state.status & libc::STA_UNSYNC != 0 => ClockState::Alone,
        _ => ClockState::Synchronised,
    }
}
