//! Sets the scheduling of other processes' threads.
#![allow(unsafe_code)]

use std::io;
use std::time::Duration;

/// The first version of `struct sched_attr` of sched_setattr(2).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// SCHED_FLAG_RESET_ON_FORK: threads and processes that the thread creates are SCHED_OTHER. Without this flag, a thread
/// under SCHED_DEADLINE cannot create threads.
const RESET_ON_FORK: u64 = 1;

/// A real-time scheduling policy with its parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scheduling {
    Fifo(u32),
    Rr(u32),
    /// Budget and period.
    Deadline(Duration, Duration),
}

/// Sets the scheduling of one thread, by its id.
pub(super) fn schedule(thread: i32, scheduling: Scheduling) -> io::Result<()> {
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let mut attributes = Attributes {
        size: size_of::<Attributes>() as u32,
        ..Attributes::default()
    };
    let policy = match scheduling {
        Scheduling::Fifo(priority) => {
            attributes.priority = priority;
            libc::SCHED_FIFO
        }
        Scheduling::Rr(priority) => {
            attributes.priority = priority;
            libc::SCHED_RR
        }
        Scheduling::Deadline(runtime, period) => {
            attributes.flags = RESET_ON_FORK;
            attributes.runtime = nanos(runtime);
            attributes.deadline = nanos(period);
            attributes.period = nanos(period);
            libc::SCHED_DEADLINE
        }
    };
    attributes.policy = policy.unsigned_abs();
    // SAFETY: `attributes` is initialised and contains its own size. The call only reads it, and returns before it is
    // dropped.
    let result =
        unsafe { libc::syscall(libc::SYS_sched_setattr, thread, &raw const attributes, 0) };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
