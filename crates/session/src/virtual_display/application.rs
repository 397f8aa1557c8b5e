//! The application on a host's virtual display: its environment, and its end.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use openuvr_clock as clock;
use openuvr_proto::time::Instant;
use openuvr_runtime::launch::{Application, LAUNCH_TIMEOUT};
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

use super::ApplicationDisplay;
use crate::pseudo_terminal::PseudoTerminal;
use crate::report;
use crate::virtual_audio::VirtualAudio;
use crate::{confine, descendants, sys};

/// How long an application may take to end before it is killed (guess: it may save the user's work).
const END_TIMEOUT: Duration = Duration::from_secs(3);

/// How long a killed application may take to end (guess: for a busy machine). The kernel needs milliseconds.
const KILL_TIMEOUT: Duration = Duration::from_secs(1);

/// The interval of checks on the processes that the application has left running (guess: their windows change less
/// often).
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// How long a wait for the remaining processes of an ended application must last before it is reported (guess: helper
/// programs end sooner).
const NOTICE_DELAY: Duration = Duration::from_secs(1);

/// An application on a virtual display. Dropping it ends the application and all processes that the application has
/// started.
pub struct RunningApplication {
    name: String,
    application: Application,
    terminal: Option<PseudoTerminal>,
    shows_a_window: Box<dyn Fn() -> bool + Send>,
    /// Returns the child processes of this program other than the application.
    helpers: Box<dyn Fn() -> Vec<u32> + Send>,
    check_at: Instant,
    /// When the remaining processes of the ended application were first found without a visible window; `None` if they
    /// have one.
    idle_since: Option<Instant>,
    /// Whether the wait for the remaining processes has been reported.
    wait_reported: bool,
    over: bool,
}

impl RunningApplication {
    /// Starts `words`, a program and its arguments, on `display` with the devices of `sound`. The application has its
    /// own process group, because Ctrl-C is meant for the host.
    ///
    /// # Errors
    /// Returns an error if `words` is empty, or if the program cannot be started.
    pub fn start(
        words: &[OsString],
        display: &dyn ApplicationDisplay,
        sound: &VirtualAudio,
    ) -> Result<RunningApplication> {
        let [program, arguments @ ..] = words else {
            anyhow::bail!("no application given");
        };
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .process_group(0);
        set_environment(&mut command, display);
        sound.set_environment(&mut command);
        sys::die_with_parent(&mut command);
        let terminal = PseudoTerminal::attach(&mut command);
        let shown = confine::program_of(words).unwrap_or(program);
        let name = Path::new(shown).file_name().unwrap_or(shown);
        Ok(RunningApplication {
            name: name.to_string_lossy().into_owned(),
            application: Application::start(command).context("can't start the application")?,
            terminal,
            shows_a_window: display.window_watch(),
            helpers: display.process_watch(),
            check_at: clock::now(),
            idle_since: None,
            wait_reported: false,
            over: false,
        })
    }

    /// The program's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The exit status of the application's first process, if that has ended. Its child processes may still be running.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if let Some(terminal) = &mut self.terminal {
            terminal.resize();
        }
        self.application.ended()
    }

    /// Whether the application has ended. After a launcher has ended normally, its remaining processes count as the
    /// application until no window has been visible for [`LAUNCH_TIMEOUT`]. Checks at most four times a
    /// second.
    pub fn is_over(&mut self, now: Instant) -> bool {
        if now < self.check_at {
            return self.over;
        }
        self.is_over_now(now)
    }

    /// Like [`is_over`](Self::is_over), but always checks.
    pub fn is_over_now(&mut self, now: Instant) -> bool {
        if self.over {
            return true;
        }
        self.check_at = now + CHECK_INTERVAL;
        // The status is read first: processes that the application leaves become orphans when it ends.
        let status = self.ended();
        // This call also reaps child processes that have ended.
        let has_processes = self.application.has_orphans(&(self.helpers)());
        let Some(status) = status else {
            return false;
        };
        let continues = has_processes && status.success() && self.awaits_window(now);
        self.over = !continues;
        self.over
    }

    /// Whether the remaining processes of the ended application show a window, or may still open one. Reports the wait
    /// once.
    fn awaits_window(&mut self, now: Instant) -> bool {
        if (self.shows_a_window)() {
            self.idle_since = None;
            return true;
        }
        let idle = now.since(*self.idle_since.get_or_insert(now));
        if idle >= NOTICE_DELAY && !self.wait_reported {
            self.wait_reported = true;
            eprintln!(
                "openuvr host: {} has ended; waiting up to {} s for a window of its remaining processes",
                self.name,
                LAUNCH_TIMEOUT.as_secs()
            );
        }
        idle < LAUNCH_TIMEOUT
    }

    /// Whether a process of the application's group is still running. The application itself may be the child of a
    /// shell that has ended.
    fn is_running(&mut self, group: Pid) -> bool {
        // Ended processes exist until they are reaped.
        let _ = self.application.ended();
        self.application.has_orphans(&(self.helpers)());
        test_kill_process_group(group).is_ok()
    }

    /// Waits for the end of the application's group. Returns whether the group has ended in time.
    fn ends_until(&mut self, group: Pid, until: Instant) -> bool {
        while self.is_running(group) {
            if clock::now() >= until {
                return false;
            }
            clock::sleep_until(clock::now() + Duration::from_millis(5));
        }
        true
    }

    fn print_killed(&self, of: &str, span: Duration) {
        eprintln!(
            "openuvr host: {of}{} did not end in {} s: killed",
            self.name,
            span.as_secs()
        );
    }
}

/// Sets the variables of an application that select its display.
fn set_environment(command: &mut Command, display: &dyn ApplicationDisplay) {
    display.set_environment(command);
    // This program, not the application, reports to the parent `openuvr session`.
    command.env_remove(report::FOLDER);
}

impl Drop for RunningApplication {
    fn drop(&mut self) {
        let group = i32::try_from(self.application.id());
        if let Some(group) = group.ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::TERM);
            if !self.ends_until(group, clock::now() + END_TIMEOUT) {
                self.print_killed("", END_TIMEOUT);
                let _ = kill_process_group(group, Signal::KILL);
                // Reaps the killed application, because a host may start many applications.
                self.ends_until(group, clock::now() + KILL_TIMEOUT);
            }
        }
        // Ends the processes that have left the group.
        if descendants::end_all_but(&(self.helpers)()) {
            self.print_killed("child processes of ", descendants::TERM_TIMEOUT);
        }
        if let Some(terminal) = self.terminal.take() {
            terminal.finish();
        }
    }
}
