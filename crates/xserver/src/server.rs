//! Starts, runs and ends a server.

use std::io::Read;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use openuvr_proto::units::Size;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use crate::authority::Authority;
use crate::error::{START_SECONDS, StartError};

/// Time for the server to report its display number.
const START_TIMEOUT: Timespec = seconds(START_SECONDS);

/// Time for the server to end and to remove its socket and its lock file (guess). After that, it is killed.
const END_TIMEOUT: Timespec = seconds(2);

/// Maximum number of digits of a display number, which the server prints as an `int`.
const MAX_DIGITS: usize = 10;

const fn seconds(seconds: i64) -> Timespec {
    Timespec {
        tv_sec: seconds,
        tv_nsec: 0,
    }
}

/// A running server. Dropping this value ends the server and removes its access cookie.
#[derive(Debug)]
pub struct Xvfb {
    /// The display's name, such as `:7`.
    pub display: String,
    server: Child,
    /// The server reads this file while it runs.
    authority: Option<Authority>,
}

impl Xvfb {
    /// Starts a server with a screen of `size`, a depth of 24 bits, and OpenGL in software. Without an `authority`, all
    /// users of this machine can connect. `arguments` of Xvfb(1) follow the default arguments and take precedence.
    /// `prepare` may change the command, for example to join a different process group.
    ///
    /// Returns when the server accepts connections.
    ///
    /// # Errors
    /// [`StartError`] if Xvfb is not installed, ends, or does not start in time. The message has one line.
    pub fn start(
        size: Size,
        authority: Option<Authority>,
        arguments: &[&str],
        prepare: impl FnOnce(&mut Command),
    ) -> Result<Xvfb, StartError> {
        let mut command = Command::new("Xvfb");
        command
            .args(["-displayfd", "1", "-screen", "0", &format!("{size}x24")])
            .args(["-nolisten", "tcp", "-noreset", "+extension", "GLX"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        if let Some(authority) = &authority {
            command.arg("-auth").arg(authority.file());
        }
        command.args(arguments);
        prepare(&mut command);
        let mut server = command.spawn().map_err(StartError::NotInstalled)?;
        let output = server.stdout.take();
        let mut xvfb = Xvfb {
            display: String::new(),
            server,
            authority,
        };
        // The server writes its display number when it is ready. If it ends before, the pipe is closed.
        let number = output.map(display_number).transpose()?;
        let number = number.filter(|number| !number.is_empty());
        xvfb.display = format!(":{}", number.ok_or(StartError::Ended(size))?);
        Ok(xvfb)
    }

    /// Whether Xvfb is installed.
    #[must_use]
    pub fn is_installed() -> bool {
        Command::new("Xvfb").arg("-help").output().is_ok()
    }

    /// The server's process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.server.id()
    }

    /// The file with the server's cookie, for `XAUTHORITY`.
    #[must_use]
    pub fn authority(&self) -> Option<&Path> {
        self.authority.as_ref().map(Authority::file)
    }

    /// Kills the server, as a crash would.
    pub fn kill(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

impl Drop for Xvfb {
    fn drop(&mut self) {
        if let Ok(None) = self.server.try_wait() {
            // On SIGTERM, the server removes its socket and its lock file.
            let id = Pid::from_child(&self.server);
            if let Ok(end) = pidfd_open(id, PidfdFlags::empty()) {
                let _ = kill_process(id, Signal::TERM);
                let _ = wait(&end, &END_TIMEOUT);
            }
        }
        self.kill();
    }
}

/// Waits until the descriptor is readable. Returns `false` after the timeout.
fn wait(descriptor: &impl AsFd, timeout: &Timespec) -> Result<bool, Errno> {
    loop {
        match poll(&mut [PollFd::new(descriptor, PollFlags::IN)], Some(timeout)) {
            Err(Errno::INTR) => {}
            ready => return ready.map(|count| count > 0),
        }
    }
}

/// The number in the first line of a server's output. Empty if the output ends before the end of the line, or if the
/// line is not a number.
fn display_number(mut output: impl Read + AsFd) -> Result<String, StartError> {
    let failed = |why| StartError::System("can't read the output of Xvfb".to_owned(), why);
    let mut number = String::new();
    // The server writes the whole line at once, so only the first wait takes time.
    while number.len() <= MAX_DIGITS {
        match wait(&output, &START_TIMEOUT) {
            Ok(true) => {}
            Ok(false) => return Err(StartError::Timeout),
            Err(why) => return Err(failed(why.into())),
        }
        let mut byte = [0];
        match (output.read(&mut byte).map_err(failed)?, byte) {
            (1, [digit @ b'0'..=b'9']) => number.push(char::from(digit)),
            (1, [b'\n']) => return Ok(number),
            _ => break,
        }
    }
    Ok(String::new())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn number_in(text: &str) -> String {
        let (output, mut server) = std::io::pipe().expect("a pipe");
        server.write_all(text.as_bytes()).expect("it is read");
        drop(server);
        display_number(output).expect("it ended")
    }

    #[test]
    fn only_a_line_with_a_number_names_a_display() {
        assert_eq!(number_in("99\n"), "99");
        assert_eq!(number_in("2147483647\nmore"), "2147483647");
        for bad in ["", "\n", "99", ":99\n", "9 9\n", "99999999999\n"] {
            assert_eq!(number_in(bad), "", "{bad:?}");
        }
    }
}
