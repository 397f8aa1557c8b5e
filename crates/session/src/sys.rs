//! The unsafe code of this crate: a system call between `fork` and `exec` that makes a child end together with this
//! process, changes of this process's environment, and flags of inherited file descriptors.
#![allow(unsafe_code)]

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::{fs, io};

use rustix::process::{Signal, set_parent_process_death_signal};

/// Makes the kernel send SIGTERM to the child when the thread that starts it ends, for any reason. Start children on
/// the main thread.
pub(crate) fn die_with_parent(command: &mut Command) {
    // SAFETY: the closure only makes one system call (prctl), which is async-signal-safe; it allocates
    // nothing and takes no lock.
    unsafe {
        command.pre_exec(|| {
            set_parent_process_death_signal(Some(Signal::TERM)).map_err(io::Error::from)
        });
    }
}

/// Makes this process and its future children connect to X displays with the cookies in `file`.
///
/// During the call, other threads must access the environment only through the standard library.
pub(crate) fn set_xauthority(file: &Path) {
    // SAFETY: the standard library serializes its own accesses to the environment. Other libraries access it only after
    // this call, because this process starts a display before it starts a host, opens a device or loads a driver. Until
    // then, its threads only write messages and wait for signals.
    unsafe { std::env::set_var("XAUTHORITY", file) };
}

/// Keeps future child processes from inheriting file descriptors that this process has inherited, except the standard
/// ones. Descriptors that this process opens later are not inherited in any case (the standard library opens with
/// `O_CLOEXEC`).
pub(crate) fn close_inherited_on_exec() {
    for entry in fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .flatten()
    {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.parse::<i32>().ok());
        if let Some(number) = number.filter(|number| *number > libc::STDERR_FILENO) {
            // SAFETY: the call only sets a flag of the descriptor, which takes effect when another program is executed.
            // For a closed descriptor, the call returns an error.
            unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
}
