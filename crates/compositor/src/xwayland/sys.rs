//! Passes open descriptors to a child process, between `fork` and `exec`.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Signal, set_parent_process_death_signal};

/// Makes the child inherit these descriptors of this process, under the same numbers. Also makes the child end when the
/// thread that started it ends. The descriptors must stay open until the child has been started.
pub(super) fn inherit(command: &mut Command, descriptors: Vec<RawFd>) {
    // SAFETY: the closure makes only system calls (fcntl, prctl), which are async-signal-safe. It allocates nothing and
    // takes no lock, because it only reads its own vector.
    unsafe {
        command.pre_exec(move || {
            for number in &descriptors {
                // SAFETY: the caller keeps the descriptors open until the child exists, so the child has a copy of
                // each.
                let descriptor = BorrowedFd::borrow_raw(*number);
                fcntl_setfd(descriptor, FdFlags::empty()).map_err(io::Error::from)?;
            }
            set_parent_process_death_signal(Some(Signal::KILL)).map_err(io::Error::from)
        });
    }
}
