//! A system call between `fork` and `exec`. It makes a child end together with the thread that has started it.
#![allow(unsafe_code)]

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::{Signal, set_parent_process_death_signal};

/// Makes the kernel send SIGTERM to the child when the thread that started the child ends for any reason. No access
/// point then keeps transmitting after this process is killed. Start children on a thread that lives as long as they
/// should.
pub(crate) fn die_with_parent(command: &mut Command) {
    // SAFETY: the closure only makes one system call (prctl), which is async-signal-safe; it allocates nothing and takes
    // no lock.
    unsafe {
        command.pre_exec(|| {
            set_parent_process_death_signal(Some(Signal::TERM)).map_err(io::Error::from)
        });
    }
}
