//! The application: a child with the hook in it, the signals that are passed on to it, and its end.

use std::process::{Child, Command, ExitStatus};

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid,
};

use super::LaunchError;

/// An application that was started. It goes on when this is dropped.
#[derive(Debug)]
pub struct Application {
    child: Child,
    status: Option<ExitStatus>,
    /// What it was sent, and may not have passed on.
    sent: Option<Signal>,
}

impl Application {
    /// Starts it, in the process group of this process, so that what is typed at a terminal goes to both;
    /// `Command::process_group` gives it one of its own. This process becomes the one that waits for what
    /// the application leaves behind (`PR_SET_CHILD_SUBREAPER`, prctl(2)): it must have no other children
    /// for whose end it waits while [`has_children`](Application::has_children) is asked.
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
            sent: None,
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
    pub fn pass_on(&mut self, signals: &[Signal], streaming: Option<Pid>) {
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

    /// How it ended, if it has; what it started may go on.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status
    }

    /// Whether something that it started goes on, after its end.
    pub fn has_children(&mut self) -> bool {
        while self.ended().is_some() {
            match waitpid(None, WaitOptions::NOHANG) {
                // One has ended.
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
        true
    }
}
