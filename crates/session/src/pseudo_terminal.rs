//! A pseudo-terminal for a game or another application that this program starts. It keeps the output of the game from
//! interrupting this program's lines and table.
//!
//! Only the output that the game would write to this program's terminal is redirected; the game reads its input
//! directly. If this program is killed, the game's output fails (EIO), and the game continues.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{OptionalActions, OutputModes, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

use openuvr_clock as clock;
use openuvr_terminal::out::{self, TerminalSize};

/// The maximum wait for the last output of a game, if the game has left processes running.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// A pseudo-terminal with output forwarded to this program's terminal.
pub struct PseudoTerminal {
    master: OwnedFd,
    room: TerminalSize,
    reader: JoinHandle<()>,
}

impl PseudoTerminal {
    /// Attaches a pseudo-terminal to the game that `command` will start, if the game would write to this program's
    /// terminal. If the system provides no pseudo-terminal, the game writes to this terminal.
    pub fn attach(command: &mut Command) -> Option<PseudoTerminal> {
        let (out_is, error_is) = (out::is_terminal(), out::error_is_terminal());
        // Without a terminal, this program draws no table that the game's output could interrupt.
        if !out_is && !error_is {
            return None;
        }
        let (master, game) = open().ok()?;
        let from = File::from(master.try_clone().ok()?);
        let thread = std::thread::Builder::new().name("ouvr-game-words".to_owned());
        let reader = thread.spawn(|| forward(from)).ok()?;
        if out_is {
            command.stdout(Stdio::from(game.try_clone().ok()?));
        }
        if error_is {
            command.stderr(Stdio::from(game));
        }
        let mut terminal = PseudoTerminal {
            master,
            room: TerminalSize {
                columns: 0,
                rows: 0,
            },
            reader,
        };
        terminal.resize();
        Some(terminal)
    }

    /// Copies the size of this program's terminal.
    pub fn resize(&mut self) {
        let room = out::terminal_size();
        if room != self.room {
            let side = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
            let size = Winsize {
                ws_row: side(room.rows),
                ws_col: side(room.columns),
                ws_xpixel: 0,
                ws_ypixel: 0,
            };
            // An error is ignored: the game then sees the old size.
            let _ = tcsetwinsize(&self.master, size);
            self.room = room;
        }
    }

    /// Waits for the game's last output, but not for output of processes that the game has left running.
    pub fn finish(self) {
        let until = clock::now() + DRAIN_TIMEOUT;
        while !self.reader.is_finished() && clock::now() < until {
            openuvr_clock::sleep_until(clock::now() + Duration::from_millis(5));
        }
    }
}

/// The descriptors for this program and for the game.
fn open() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let game = ioctl_tiocgptpeer(&master, flags)?;
    let mut modes = tcgetattr(&game)?;
    // The pseudo-terminal passes output on unchanged, because this program's terminal inserts the carriage returns.
    modes.output_modes.remove(OutputModes::OPOST);
    tcsetattr(&game, OptionalActions::Now, &modes)?;
    Ok((master, game))
}

fn forward(mut from: File) {
    let mut bytes = vec![0; 4096];
    let mut rest = Vec::new();
    // A read error means that the game's end is closed.
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        rest.extend_from_slice(bytes.get(..count).unwrap_or_default());
        let text = complete_characters(&mut rest);
        out::passthrough(text);
    }
    out::passthrough(String::from_utf8_lossy(&rest).into_owned());
}

/// Takes the complete characters. The bytes of an incomplete last character stay in `bytes`, because its rest may still
/// arrive.
fn complete_characters(bytes: &mut Vec<u8>) -> String {
    // A character has at most four bytes (RFC 3629).
    let last = bytes.iter().rposition(|byte| *byte >= 0xc0);
    let cut = last.filter(|start| {
        let tail = bytes.get(*start..).unwrap_or_default();
        tail.len() < 4 && str::from_utf8(tail).is_err_and(|e| e.error_len().is_none())
    });
    let rest = bytes.split_off(cut.unwrap_or(bytes.len()));
    let text = String::from_utf8_lossy(bytes).into_owned();
    *bytes = rest;
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_character_is_reassembled() {
        let text = "aé日🙂b";
        for at in 0..text.len() {
            let mut bytes = text.as_bytes()[..at].to_vec();
            let mut got = complete_characters(&mut bytes);
            bytes.extend_from_slice(&text.as_bytes()[at..]);
            got += &complete_characters(&mut bytes);
            assert_eq!((got.as_str(), bytes.len()), (text, 0), "{at}");
        }
        let mut bytes = b"no text: \xff\xfe!".to_vec();
        assert_eq!(
            complete_characters(&mut bytes),
            "no text: \u{fffd}\u{fffd}!"
        );
    }
}
