//! The application that a host starts on its own display: its surroundings, and its end.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use openuvr_runtime::clock;
use openuvr_runtime::launch::Application;
use rustix::process::{Pid, Signal, kill_process_group};

use super::sys;
use crate::confine;
use crate::own_sound::OwnSound;
use crate::run::terminal::Terminal;
use crate::session_report as report;

/// How long an application may take to end once it is asked to, before it is killed (guess: one that writes
/// down what a person did).
const END: Duration = Duration::from_secs(3);

/// Variables that would send an application elsewhere: to the Wayland session of who starts the host.
const ELSEWHERE: [&str; 2] = ["WAYLAND_DISPLAY", "WAYLAND_SOCKET"];

/// An application that is shown on a virtual display; ended, with all that it started, when dropped.
pub(crate) struct Shown {
    name: String,
    application: Application,
    terminal: Option<Terminal>,
}

impl Shown {
    /// Starts `words`, a program and its arguments, on `display`, heard by `sound`, in a process group of its own: Ctrl-C is
    /// for the host.
    ///
    /// # Errors
    /// There are no words, or the program can't be started.
    pub(crate) fn start(words: &[OsString], display: &str, sound: &OwnSound) -> Result<Shown> {
        let [program, arguments @ ..] = words else {
            anyhow::bail!("there is no application to start");
        };
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .process_group(0);
        surround(&mut command, display);
        sound.surround(&mut command);
        sys::die_with_parent(&mut command);
        let terminal = Terminal::give(&mut command);
        let shown = confine::program_of(words).unwrap_or(program);
        let name = Path::new(shown).file_name().unwrap_or(shown);
        Ok(Shown {
            name: name.to_string_lossy().into_owned(),
            application: Application::start(command).context("nothing to show")?,
            terminal,
        })
    }

    /// What its program is called.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// How it ended, if it has; what it started in the background may go on.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        if let Some(terminal) = &mut self.terminal {
            terminal.fit();
        }
        self.application.ended()
    }
}

/// All that an application is told of where it is shown and heard: the one place for it.
fn surround(command: &mut Command, display: &str) {
    command.env("DISPLAY", display);
    command.env("XDG_SESSION_TYPE", "x11");
    for variable in ELSEWHERE {
        command.env_remove(variable);
    }
    // It is no host of the session.
    command.env_remove(report::FOLDER);
}

impl Drop for Shown {
    fn drop(&mut self) {
        let group = i32::try_from(self.application.id());
        if let Some(group) = group.ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::TERM);
            let until = clock::now() + END;
            while self.application.ended().is_none() && clock::now() < until {
                clock::sleep_until(clock::now() + Duration::from_millis(5));
            }
            let _ = kill_process_group(group, Signal::KILL);
        }
        if let Some(terminal) = self.terminal.take() {
            terminal.finish();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_sees_its_display_and_no_other() {
        let mut command = Command::new("true");
        surround(&mut command, ":7");
        let told: Vec<_> = command.get_envs().collect();
        let told = |name: &str| told.iter().find(|(key, _)| *key == name).map(|(_, v)| *v);
        assert_eq!(told("DISPLAY"), Some(Some(":7".as_ref())));
        for variable in ELSEWHERE {
            assert_eq!(told(variable), Some(None));
        }
    }
}
