//! The system call for real-time scheduling of a thread.
#![allow(unsafe_code)]

use std::io;

/// Sets the policy of the thread `id` (0: the caller) to SCHED_FIFO with `priority`, or to SCHED_OTHER if `priority` is
/// 0. Threads and processes that this thread starts have ordinary scheduling (sched(7), reset on fork).
pub(super) fn schedule(id: u32, priority: u8) -> io::Result<()> {
    let id = libc::pid_t::try_from(id).map_err(io::Error::other)?;
    let policy = if priority == 0 {
        libc::SCHED_OTHER
    } else {
        libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK
    };
    let parameters = libc::sched_param {
        sched_priority: priority.into(),
    };
    // SAFETY: the call reads the structure, which outlives it, and changes no memory of this process.
    let result = unsafe { libc::sched_setscheduler(id, policy, &raw const parameters) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
