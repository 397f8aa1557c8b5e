//! What the standard library marks as unsafe: a system call between `fork` and `exec` that ties a child's life to
//! ours, a variable of this process's environment, and descriptors by their number.
#![allow(unsafe_code)]

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::{fs, io};

use rustix::process::{Signal, set_parent_process_death_signal};

/// Makes the kernel send SIGTERM to the child when the thread that starts it ends, in whatever way: start
/// children on the main thread.
pub(crate) fn die_with_parent(command: &mut Command) {
    // SAFETY: the closure only makes one system call (prctl), which is async-signal-safe; it allocates
    // nothing and takes no lock.
    unsafe {
        command.pre_exec(|| {
            set_parent_process_death_signal(Some(Signal::TERM)).map_err(io::Error::from)
        });
    }
}

/// Has this process and those that it will start connect to X displays with the cookies in `file`.
///
/// While it is called, no thread may ask for a variable but through the standard library.
pub(crate) fn name_authority(file: &Path) {
    // SAFETY: the standard library's own calls exclude one another. A display is started before this process starts
    // a host, opens a device or loads a driver; its threads until then write messages and wait for signals.
    unsafe { std::env::set_var("XAUTHORITY", file) };
}

/// Has no program that this process will start inherit descriptors that it has inherited itself, but the standard
/// ones. What it opens later is not inherited anyway (the standard library opens with `O_CLOEXEC`).
pub(crate) fn keep_inherited() {
    for entry in fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .flatten()
    {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.parse::<i32>().ok());
        if let Some(number) = number.filter(|number| *number > libc::STDERR_FILENO) {
            // SAFETY: it changes a flag of the descriptor that only counts when another program is started; one that
            // is closed by now is an error.
            unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
}
