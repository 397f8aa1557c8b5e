//! The application: a child process with the hook, its signals, its exit, and its orphans.

use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use rustix::process::{
    Pid, Signal, WaitOptions, getpgid, getpgrp, getpid, kill_process, set_child_subreaper, waitpid,
};

use super::LaunchError;
use crate::launcher::children_of;

/// How long an application may take to show its first picture after its launcher has exited (guess).
pub const LAUNCH_TIMEOUT: Duration = Duration::from_secs(10);

/// A signal to forward to the application.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ForwardedSignal {
    /// The signal.
    pub signal: Signal,
    /// Whether the user typed the signal at the terminal, which sent it to the whole foreground process group.
    pub typed: bool,
}

/// A started application. It continues when this value is dropped.
#[derive(Debug)]
pub struct Application {
    child: Child,
    status: Option<ExitStatus>,
    /// The last signal that only the first process got. The process may not have forwarded it.
    unforwarded: Option<Signal>,
}

impl Application {
    /// Starts the application in this process's group, so that terminal signals reach both processes.
    /// `Command::process_group` selects another group. This process becomes the subreaper of the application's orphans
    /// (`PR_SET_CHILD_SUBREAPER`, prctl(2)), whatever their process group or session; see
    /// [`has_orphans`](Application::has_orphans).
    ///
    /// # Errors
    /// Returns an error if the application cannot be started.
    pub fn start(mut command: Command) -> Result<Application, LaunchError> {
        // This process inherits the orphans of a launcher (Linux 3.4).
        let _ = set_child_subreaper(Some(getpid()));
        let program = command.get_program().display().to_string();
        let child = command.spawn();
        let child = child.map_err(LaunchError::system(format!("can't start {program}")))?;
        Ok(Application {
            child,
            status: None,
            unforwarded: None,
        })
    }

    /// The process id of the first process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Forwards new signals to the application's first process while it runs. If another process streams, that process
    /// gets a signal in two cases: the first process has exited, or the previous signal went only to the first process.
    /// The first signal does not go to both processes, because a launcher may forward it itself, and an application may
    /// treat a second signal as urgent. When the first process has exited, the streaming process also gets the last
    /// signal that only the first process got.
    ///
    /// A typed signal has reached this process group, so it is forwarded only to a streaming process in a different
    /// group.
    pub fn forward_signals(&mut self, signals: &[ForwardedSignal], streaming: Option<Pid>) {
        let started = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let other = streaming.filter(|streaming| Some(*streaming) != started);
        // Ignore errors of `kill_process`, because the process may just have ended.
        if self.status.is_some()
            && let (Some(other), Some(signal)) = (other, self.unforwarded)
        {
            let _ = kill_process(other, signal);
            self.unforwarded = None;
        }
        for ForwardedSignal { signal, typed } in signals {
            let outside_group = |pid: &Pid| getpgid(Some(*pid)).is_ok_and(|of| of != getpgrp());
            let other = match typed {
                true => other.filter(outside_group),
                false => other,
            };
            if *typed && other.is_none() {
                continue;
            }
            if let (None, Some(started), false) = (self.status, started, *typed) {
                let _ = kill_process(started, *signal);
            }
            match other {
                Some(other) if self.status.is_some() || self.unforwarded.is_some() => {
                    let _ = kill_process(other, *signal);
                    self.unforwarded = None;
                }
                _ => self.unforwarded = Some(*signal),
            }
        }
    }

    /// The exit status of the first process, if it has exited. Its children may continue.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status
    }

    /// Whether orphans of the application are running. A launcher that exited left these processes, and they are now
    /// children of this process. Reaps ended orphans; call it regularly, even while the application runs, so that no
    /// zombies accumulate. `helpers` are other children of this process, which other code reaps.
    pub fn has_orphans(&mut self, helpers: &[u32]) -> bool {
        loop {
            let (mut running, mut ended) = (false, false);
            for pid in children_of(getpid()) {
                let id = pid.as_raw_nonzero().get().unsigned_abs();
                if id == self.child.id() || helpers.contains(&id) {
                    continue;
                }
                match waitpid(Some(pid), WaitOptions::NOHANG) {
                    Ok(None) => running = true,
                    _ => ended = true,
                }
            }
            // If a process has just ended, its children have only now become children of this process, so check again.
            if running || !ended {
                return running;
            }
        }
    }
}
