//! The application: a child with the hook in it, the signals that are passed on to it, its end, and the processes
//! that it leaves behind.

use std::fs;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use rustix::process::{
    Pid, Signal, WaitOptions, getpgid, getpgrp, getpid, kill_process, set_child_subreaper, waitpid,
};

use super::LaunchError;

/// How long a launcher that has ended may take to bring its application to a first picture (guess).
pub const LAUNCH_TIMEOUT: Duration = Duration::from_secs(10);

/// A signal for the application.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ForwardedSignal {
    /// Which one.
    pub signal: Signal,
    /// The terminal has sent it to all processes of its foreground process group.
    pub typed: bool,
}

/// An application that was started. It goes on when this is dropped.
#[derive(Debug)]
pub struct Application {
    child: Child,
    status: Option<ExitStatus>,
    /// What it was sent, and may not have passed on.
    unforwarded: Option<Signal>,
}

impl Application {
    /// Starts it, in the process group of this process, so that what is typed at a terminal goes to both;
    /// `Command::process_group` gives it one of its own. This process becomes the one that waits for what
    /// the application leaves behind (`PR_SET_CHILD_SUBREAPER`, prctl(2)), in whatever process group or session that
    /// is: see [`has_orphans`](Application::has_orphans).
    ///
    /// # Errors
    /// It can't be started.
    pub fn start(mut command: Command) -> Result<Application, LaunchError> {
        // What a launcher leaves behind is ours to wait for; refused by no kernel since 3.4.
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

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Passes signals on, those that came now and an earlier one: to the application, and if that was
    /// only a launcher, which has ended of it or is sent a second one, to who streams. Not to both at
    /// once: a launcher may pass it on by itself, and an application take the second for impatience.
    ///
    /// A typed signal has reached all of our process group, and is for who streams where that is in another one.
    pub fn forward_signals(&mut self, signals: &[ForwardedSignal], streaming: Option<Pid>) {
        let started = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let other = streaming.filter(|streaming| Some(*streaming) != started);
        // One of them may have ended just now.
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

    /// How it ended, if it has; what it started may go on.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status
    }

    /// Whether something that it started goes on without a parent of its own, so that it is this process's child now:
    /// what a launcher that ended has left behind. Those that have ended are waited for, so that none stays a zombie:
    /// to be called now and then, also while the application runs. `helpers`: the other children of this process, for
    /// whose end it waits elsewhere.
    pub fn has_orphans(&mut self, helpers: &[u32]) -> bool {
        loop {
            let (mut goes_on, mut ended) = (false, false);
            for pid in children() {
                let id = pid.as_raw_nonzero().get().unsigned_abs();
                if id == self.child.id() || helpers.contains(&id) {
                    continue;
                }
                match waitpid(Some(pid), WaitOptions::NOHANG) {
                    Ok(None) => goes_on = true,
                    _ => ended = true,
                }
            }
            // The children of one that has just ended are this process's only since then.
            if goes_on || !ended {
                return goes_on;
            }
        }
    }
}

/// The children of this process, also those that have ended and that were not waited for (proc(5),
/// `/proc/PID/task/TID/children`). A child belongs to the thread that started or inherited it.
fn children() -> Vec<Pid> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten();
    let lists = threads
        .flatten()
        .map(|thread| fs::read_to_string(thread.path().join("children")).unwrap_or_default());
    let lists: Vec<String> = lists.collect();
    let words = lists.iter().flat_map(|list| list.split_whitespace());
    words
        .filter_map(|word| word.parse().ok().and_then(Pid::from_raw))
        .collect()
}
