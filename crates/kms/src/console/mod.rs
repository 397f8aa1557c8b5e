//! The text console, which is taken for graphics and later restored to its previous state.
//!
//! A client that was started on a text console uses that console. A client started elsewhere (a service, a remote
//! shell) opens a free console, and switches back at the end. While the console is taken, the kernel draws no text on
//! it, sends no keys to it, and requests permission before it switches to a different one. [`guard`] restores the
//! console if the client is killed.

pub mod guard;
mod sys;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};

use signal_hook::SigId;
use signal_hook::consts::{SIGUSR1, SIGUSR2};

use crate::KmsError;
use guard::{Guard, State};

/// `KD_GRAPHICS`: the kernel draws no text.
const GRAPHICS: i32 = 1;
/// `K_OFF`: the terminal receives no keys.
const NO_KEYS: i32 = 4;

/// The signals with which the kernel announces a switch. The program does not use them for anything else.
const RELEASE: i32 = SIGUSR1;
const ACQUIRE: i32 = SIGUSR2;

/// How long a switch to this client's terminal may take (a guess). Another session may have to release its display
/// first.
const SWITCH: Duration = Duration::from_secs(5);

/// A console that is taken.
#[derive(Debug)]
pub(crate) struct Console {
    tty: File,
    number: u32,
    found: State,
    guard: Option<Guard>,
    /// Readable when the kernel requests that this process release the terminal. `acquire` is readable when the
    /// terminal belongs to this process again.
    pub(crate) release: UnixStream,
    pub(crate) acquire: UnixStream,
    handlers: [SigId; 2],
}

impl Console {
    /// Takes the console. `guard` is the command of the process that restores the console if the client is killed.
    /// Returns `None` on a machine without consoles.
    pub(crate) fn take(guard: Option<Command>) -> Result<Option<Console>, KmsError> {
        let Some((tty, number, back)) = open()? else {
            return Ok(None);
        };
        let failed = |what: &'static str| {
            move |cause| KmsError::Console {
                number,
                what,
                cause,
            }
        };
        let announced = sys::is_announced(&tty).map_err(failed("is not a text console"))?;
        let mode = sys::display_mode(&tty).map_err(failed("is not a text console"))?;
        if announced || mode != 0 {
            return Err(KmsError::ConsoleInUse { number });
        }
        let found = State {
            number,
            display: mode,
            keyboard: sys::keyboard_mode(&tty).map_err(failed("is not a text console"))?,
            back,
        };
        let (release, on_release) =
            UnixStream::pair().map_err(failed("can't report console switches"))?;
        let (acquire, on_acquire) =
            UnixStream::pair().map_err(failed("can't report console switches"))?;
        for end in [&release, &acquire] {
            end.set_nonblocking(true)
                .map_err(failed("can't report console switches"))?;
        }
        let handle = signal_hook::low_level::pipe::register::<UnixStream>;
        let handlers = [
            handle(RELEASE, on_release).map_err(failed("can't report console switches"))?,
            handle(ACQUIRE, on_acquire).map_err(failed("can't report console switches"))?,
        ];
        let mut console = Console {
            tty,
            number,
            found,
            guard: None,
            release,
            acquire,
            handlers,
        };
        // From here on, an error drops this value, which restores the console.
        let tty = &console.tty;
        activate(tty, number).map_err(failed("can't be brought to the foreground"))?;
        let guard = guard.map(|command| Guard::start(command, tty, &found));
        let guard = guard.transpose();
        console.guard =
            guard.map_err(failed("can't be protected against a crash of the client"))?;
        sys::set_keyboard_mode(tty, NO_KEYS).map_err(failed("can't switch off its keyboard"))?;
        sys::set_display_mode(tty, GRAPHICS).map_err(failed("can't be used for graphics"))?;
        sys::announce(tty, RELEASE, ACQUIRE).map_err(failed("can't report console switches"))?;
        Ok(Some(console))
    }

    /// The number of the terminal.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Lets the kernel switch to the terminal that the user has chosen.
    pub(crate) fn permit_release(&self) {
        if let Err(cause) = sys::permit_release(&self.tty) {
            tracing::warn!("can't release the console: {cause}");
        }
    }

    /// Acknowledges that this process got the terminal back.
    pub(crate) fn acknowledge(&self) {
        if let Err(cause) = sys::acknowledge(&self.tty) {
            tracing::warn!("can't take the console again: {cause}");
        }
    }

    /// Returns another descriptor of the terminal, with which another thread can switch.
    pub(crate) fn switcher(&self) -> io::Result<Switcher> {
        Ok(Switcher(self.tty.try_clone()?))
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        for handler in self.handlers {
            signal_hook::low_level::unregister(handler);
        }
        restore(&self.tty, &self.found);
        if let Some(guard) = self.guard.take() {
            guard.dismiss();
        }
    }
}

/// Switches to other terminals.
#[derive(Debug)]
pub(crate) struct Switcher(File);

impl Switcher {
    /// Asks the kernel to switch to another terminal. The kernel first asks the process that has taken the console to
    /// release it.
    pub(crate) fn switch_to(&self, number: u32) {
        if let Err(cause) = sys::activate(&self.0, number) {
            tracing::warn!("can't switch to console {number}: {cause}");
        }
    }
}

/// Restores a console to the state in which it was found.
fn restore(tty: &File, found: &State) {
    let steps = [
        sys::do_not_announce(tty),
        sys::set_keyboard_mode(tty, found.keyboard),
        sys::set_display_mode(tty, found.display),
    ];
    for cause in steps.into_iter().filter_map(Result::err) {
        tracing::warn!("can't restore the console {}: {cause}", found.number);
    }
    // Keys that were typed before the terminal was taken remain in its input. Later keys did not reach it.
    let Some(back) = found.back else { return };
    // A different terminal may be in the foreground by now.
    if sys::active_terminal(tty).is_ok_and(|active| active == found.number) {
        let _ = sys::activate(tty, back);
    }
    // While this process still has the terminal open, the kernel refuses to free it. This is harmless.
    let _ = sys::deallocate(tty, found.number);
}

/// Opens the terminal to use. Returns it with its number, and the terminal to return to.
fn open() -> Result<Option<(File, u32, Option<u32>)>, KmsError> {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    if let Some(number) = own_terminal(&stat) {
        let tty = open_terminal(number)?;
        return Ok(Some((tty, number, None)));
    }
    let all = match open_file("/dev/tty0") {
        Ok(all) => all,
        Err(cause) if is_missing(&cause) => {
            tracing::info!("this machine has no text console: switching consoles is not possible");
            return Ok(None);
        }
        Err(cause) => return Err(KmsError::NoConsole { cause }),
    };
    let failed = |cause| KmsError::NoConsole { cause };
    let back = sys::active_terminal(&all).map_err(failed)?;
    let number = sys::free_terminal(&all).map_err(failed)?;
    Ok(Some((open_terminal(number)?, number, Some(back))))
}

fn is_missing(cause: &io::Error) -> bool {
    cause.kind() == io::ErrorKind::NotFound
        || matches!(cause.raw_os_error(), Some(libc::ENXIO | libc::ENODEV))
}

fn open_terminal(number: u32) -> Result<File, KmsError> {
    open_file(&format!("/dev/tty{number}")).map_err(|cause| KmsError::Console {
        number,
        what: "can't be opened",
        cause,
    })
}

fn open_file(path: &str) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOCTTY | libc::O_CLOEXEC)
        .open(path)
}

/// Brings a terminal to the foreground and waits for it.
fn activate(tty: &File, number: u32) -> io::Result<()> {
    let end = Instant::now() + SWITCH;
    if sys::active_terminal(tty)? == number {
        return Ok(());
    }
    sys::activate(tty, number)?;
    // VT_WAITACTIVE has no time limit, and never returns if a session does not respond.
    while sys::active_terminal(tty)? != number {
        if Instant::now() >= end {
            return Err(io::Error::from(io::ErrorKind::TimedOut));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// The number of the virtual terminal that controls this process, from `/proc/self/stat` (proc(5), `tty_nr`); `None` if
/// there is none, or if it is a different kind of terminal.
fn own_terminal(stat: &str) -> Option<u32> {
    // The name of the program may contain spaces and parentheses.
    let (_, rest) = stat.rsplit_once(')')?;
    let device: u32 = rest.split_whitespace().nth(4)?.parse().ok()?;
    let (major, minor) = (device >> 8 & 0xfff, device & 0xff | device >> 12 & 0xf_ff00);
    // 64 and above are serial lines.
    (major == 4 && (1..64).contains(&minor)).then_some(minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_virtual_terminal_is_ones_own() {
        let stat = |device: u32| format!("7 (a) b) c) S 1 7 7 {device} 7 4194304 0");
        assert_eq!(own_terminal(&stat(4 << 8 | 3)), Some(3));
        assert_eq!(own_terminal(&stat(0)), None);
        assert_eq!(own_terminal(&stat(4 << 8 | 64)), None, "a serial line");
        assert_eq!(
            own_terminal(&stat(136 << 8 | 1)),
            None,
            "a window's terminal"
        );
        assert_eq!(own_terminal("nonsense"), None);
    }
}
