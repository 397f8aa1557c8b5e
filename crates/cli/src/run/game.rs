//! The game: a child with the hook in it, the signals that are passed on to it, and its end.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};

use anyhow::{Context as _, Result, anyhow, bail};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::raw::WithRawSiginfo;

use super::desk::Desk;
use super::terminal::Terminal;
use crate::layer;

const LIBRARY: &str = "libopenuvr_hook.so";

/// What may be the matter with a game whose pictures do not come.
pub(super) const WHY_NONE: &str = "It may be a 32-bit or static program, one that gains privileges \
    when it starts, or one that draws with neither OpenGL nor Vulkan: then `openuvr host --window` \
    shows it";

/// The hook: the one that was named, or that which was installed with this program.
///
/// # Errors
/// It is not there, or can't be named to the loader.
pub(crate) fn library(named: Option<&Path>) -> Result<PathBuf> {
    let found = match named {
        Some(named) => Some(std::path::absolute(named)?).filter(|path| path.is_file()),
        None => beside(&std::env::current_exe()?),
    };
    let found = found.with_context(|| {
        let place = named.map_or("beside this program or in ../lib/openuvr".into(), |path| {
            path.display().to_string()
        });
        format!(
            "there is no {LIBRARY} {place}: `./dev install` puts it there; --hook names another"
        )
    })?;
    // ld.so(8): LD_PRELOAD is separated by these, and there is no way to quote them.
    if found.to_string_lossy().contains([' ', ':']) {
        bail!(
            "the loader takes no path with a blank or a colon, as {}: put program and library elsewhere",
            found.display()
        );
    }
    Ok(found)
}

fn beside(program: &Path) -> Option<PathBuf> {
    let folder = program.parent()?;
    // Under cargo's folder of what it built last first: beside the program may lie an older one.
    let places = [
        folder.join("deps"),
        folder.to_owned(),
        folder.join("../lib/openuvr"),
    ];
    let mut files = places.iter().map(|place| place.join(LIBRARY));
    files.find(|file| file.is_file())
}

/// The signals with which a person ends programs.
pub(super) struct Signals(SignalsInfo<WithRawSiginfo>);

impl Signals {
    /// Takes them; without a game they end this program no more.
    pub(super) fn take() -> Result<Signals> {
        let wanted = [SIGINT, SIGTERM, SIGHUP];
        Ok(Signals(
            SignalsInfo::new(wanted).context("can't catch signals")?,
        ))
    }

    /// Those that came and that the game has not got by itself: what is typed at the terminal goes
    /// to all programs that were started there.
    pub(super) fn pending(&mut self) -> Vec<Signal> {
        let sent = self
            .0
            .pending()
            .filter(|info| info.si_code != libc::SI_KERNEL);
        sent.filter_map(|info| Signal::from_named_raw(info.si_signo))
            .collect()
    }
}

/// A game that was started.
pub(super) struct Game {
    child: Child,
    status: Option<ExitStatus>,
    /// What it was sent, and may not have passed on.
    sent: Option<Signal>,
    /// Where it writes to, if that would be our terminal.
    terminal: Option<Terminal>,
}

impl Game {
    /// Starts it with its words, the hook, and the way to us.
    ///
    /// # Errors
    /// It can't be started.
    pub(super) fn start(words: &[OsString], library: &Path, desk: &Desk) -> Result<Game> {
        let [program, arguments @ ..] = words else {
            bail!("name a game to start: openuvr run -- GAME");
        };
        // What a launcher leaves behind is ours to wait for; refused by no kernel since 3.4.
        let _ = set_child_subreaper(Some(getpid()));
        let mut preload = library.as_os_str().to_owned();
        if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
            preload.push(":");
            preload.push(others);
        }
        let layer = layer::announce(desk.folder(), library, |name| std::env::var_os(name));
        let layer = layer.context("the layer of Vulkan can't be announced")?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .envs(layer)
            .env("LD_PRELOAD", preload)
            .env("OPENUVR_RUN", desk.socket());
        let terminal = Terminal::give(&mut command);
        let child = command.spawn();
        let child = child.with_context(|| anyhow!("can't start {}", program.display()))?;
        Ok(Game {
            child,
            status: None,
            sent: None,
            terminal,
        })
    }

    /// Has its terminal the size of ours.
    pub(super) fn fit_terminal(&mut self) {
        if let Some(terminal) = &mut self.terminal {
            terminal.fit();
        }
    }

    /// Waits until its last words are shown.
    pub(super) fn say_last_words(&mut self) {
        if let Some(terminal) = self.terminal.take() {
            terminal.finish();
        }
    }

    /// Passes signals on, those that came now and an earlier one: to the game, and if that was only
    /// a launcher, which has ended of it or is sent a second one, to who streams. Not to both at
    /// once: a launcher may pass it on by itself, and a game take the second for impatience.
    pub(super) fn pass_on(&mut self, signals: &[Signal], streaming: Option<Pid>) {
        let started = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let other = streaming.filter(|streaming| Some(*streaming) != started);
        // One of them may have ended just now.
        if self.status.is_some()
            && let (Some(other), Some(signal)) = (other, self.sent)
        {
            let _ = kill_process(other, signal);
            self.sent = None;
        }
        for signal in signals {
            if let (None, Some(started)) = (self.status, started) {
                let _ = kill_process(started, *signal);
            }
            match other {
                Some(other) if self.status.is_some() || self.sent.is_some() => {
                    let _ = kill_process(other, *signal);
                    self.sent = None;
                }
                _ => self.sent = Some(*signal),
            }
        }
    }

    /// Whether it has ended; what it started may go on.
    pub(super) fn ended(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status.is_some()
    }

    /// Whether something that it started goes on, after its end.
    pub(super) fn has_children(&mut self) -> bool {
        while self.ended() {
            match waitpid(None, WaitOptions::NOHANG) {
                // One has ended.
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
        true
    }

    /// Whether it has ended well.
    pub(super) fn succeeded(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// Its exit code; as a shell says it if a signal has ended it.
    pub(super) fn exit_code(&self) -> ExitCode {
        let code = self.status.and_then(|status| {
            let signal = status.signal().map(|signal| signal + 128);
            status.code().or(signal)
        });
        code.and_then(|code| u8::try_from(code).ok())
            .map_or(ExitCode::FAILURE, ExitCode::from)
    }
}
