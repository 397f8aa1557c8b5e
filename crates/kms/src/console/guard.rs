//! The process that restores the console if the client is killed. It runs the client's program with a different
//! command.
//!
//! It is started with exec, not only with fork, because the client already has threads. Its standard output is the
//! terminal. It reads the state to restore from its standard input, and waits for the end of that input. The input ends
//! whenever the client ends. Before an orderly end, the client sends a last line.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::sys;

/// The command of the program that runs [`run`].
pub const COMMAND: &str = "console-guard";

/// The line that the client sends before an orderly end.
const DONE: &str = "done";

/// How long a killed client may take to end after its pipe is closed. In that time, the kernel closes the client's card
/// and restores the console's picture (a guess; it usually takes milliseconds).
const END: Duration = Duration::from_secs(2);

/// A console's state, to be restored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct State {
    pub(super) number: u32,
    /// `KDGETMODE`
    pub(super) display: i32,
    /// `KDGKBMODE`
    pub(super) keyboard: i32,
    /// The terminal to return to.
    pub(super) back: Option<u32>,
}

impl State {
    fn to_line(self) -> String {
        let State {
            number,
            display,
            keyboard,
            back,
        } = self;
        format!("{number} {display} {keyboard} {}\n", back.unwrap_or(0))
    }

    fn from_line(line: &str) -> Option<State> {
        let mut words = line.split_whitespace();
        let state = State {
            number: words.next()?.parse().ok()?,
            display: words.next()?.parse().ok()?,
            keyboard: words.next()?.parse().ok()?,
            back: Some(words.next()?.parse().ok()?).filter(|back| *back != 0),
        };
        words.next().is_none().then_some(state)
    }
}

/// The guard, as seen by the client.
#[derive(Debug)]
pub(super) struct Guard {
    process: Child,
    pipe: ChildStdin,
}

impl Guard {
    pub(super) fn start(mut command: Command, tty: &File, found: &State) -> io::Result<Guard> {
        command
            // The guard has its own process group, so that Ctrl-C and a kill of the client's group do not reach it.
            .process_group(0)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(tty.try_clone()?)
            .stderr(Stdio::null());
        let mut process = command.spawn()?;
        let Some(mut pipe) = process.stdin.take() else {
            return Err(io::Error::from(io::ErrorKind::BrokenPipe));
        };
        pipe.write_all(found.to_line().as_bytes())?;
        Ok(Guard { process, pipe })
    }

    /// Ends the guard after the console was restored.
    pub(super) fn dismiss(self) {
        let Guard {
            mut process,
            mut pipe,
        } = self;
        // If the guard was killed, there is nothing to dismiss.
        let _ = pipe.write_all(DONE.as_bytes());
        drop(pipe);
        let _ = process.wait();
    }
}

/// Runs the guard until its client has ended. The module's documentation describes its standard input and output.
///
/// # Errors
/// Returns an error if it was not started by a client.
pub fn run() -> Result<(), String> {
    sys::ignore_signals();
    let client = rustix::process::getppid();
    let client = client.and_then(|client: Pid| pidfd_open(client, PidfdFlags::empty()).ok());
    let mut text = String::new();
    // An input that can't be read counts as ended.
    let _ = io::stdin().read_to_string(&mut text);
    let (line, rest) = text.split_once('\n').unwrap_or_default();
    let found = State::from_line(line).ok_or_else(|| {
        format!("{COMMAND} is started by openuvr client --present kms: it cannot be used directly")
    })?;
    if rest == DONE {
        return Ok(());
    }
    if let Some(client) = &client {
        let mut ended = [PollFd::new(client, PollFlags::IN)];
        let limit = Timespec::try_from(END).ok();
        let _ = poll(&mut ended, limit.as_ref());
    }
    #[expect(
        clippy::disallowed_methods,
        reason = "a descriptor; nothing is printed"
    )]
    let tty = io::stdout().as_fd().try_clone_to_owned();
    let tty = tty.map_err(|cause| format!("can't use the console: {cause}"))?;
    super::restore(&File::from(tty), &found);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_survives_its_line() {
        for back in [None, Some(7)] {
            let state = State {
                number: 8,
                display: 0,
                keyboard: 3,
                back,
            };
            assert_eq!(State::from_line(state.to_line().trim_end()), Some(state));
        }
        for line in ["", "1 2 3", "1 2 3 4 5", "a 0 3 0"] {
            assert_eq!(State::from_line(line), None, "{line}");
        }
    }
}
