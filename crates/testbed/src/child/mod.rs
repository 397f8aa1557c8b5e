//! Child processes that are stopped when this process ends.

mod sys;

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use openuvr_clock as clock;

/// A running child in its own process group. Dropping this value stops the child and its process group.
#[derive(Debug)]
pub struct Child {
    name: &'static str,
    process: std::process::Child,
    log: Option<PathBuf>,
}

/// Configures a command so that its child runs in its own process group, and gets SIGTERM when the thread that started
/// the child ends.
pub(crate) fn own_child(command: &mut Command) {
    use std::os::unix::process::CommandExt as _;
    command.process_group(0);
    sys::die_with_parent(command);
}

/// How long a child may take to end gracefully before it is killed.
const TIMEOUT: Duration = Duration::from_secs(20);

impl Child {
    /// Starts `command`. `name` is the child's name in messages. The child's standard error goes to the file `log`;
    /// without `log`, it goes to the standard error of this process.
    pub fn start(name: &'static str, command: Command, log: Option<&Path>) -> Result<Child> {
        Child::start_with(name, command, log, Stdio::null())
    }

    /// Like [`start`](Self::start), with pipes as [`stdin`](Self::stdin) and [`stdout`](Self::stdout).
    pub fn start_piped(name: &'static str, mut command: Command, log: &Path) -> Result<Child> {
        command.stdout(Stdio::piped());
        Child::start_with(name, command, Some(log), Stdio::piped())
    }

    fn start_with(
        name: &'static str,
        mut command: Command,
        log: Option<&Path>,
        stdin: Stdio,
    ) -> Result<Child> {
        if let Some(log) = log {
            let file = File::create(log)
                .with_context(|| format!("can't write the log {}", log.display()))?;
            command.stderr(file);
        }
        command.stdin(stdin);
        own_child(&mut command);
        let program = command.get_program().to_string_lossy().into_owned();
        let process = command
            .spawn()
            .with_context(|| format!("can't start the {name} ({program})"))?;
        Ok(Child {
            name,
            process,
            log: log.map(Path::to_path_buf),
        })
    }

    /// The child's name in messages.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The child's process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Takes the child's standard input, if it is a pipe that has not been taken yet.
    pub fn stdin(&mut self) -> Option<std::process::ChildStdin> {
        self.process.stdin.take()
    }

    /// Takes the child's standard output, if it is a pipe that has not been taken yet.
    pub fn stdout(&mut self) -> Option<std::process::ChildStdout> {
        self.process.stdout.take()
    }

    /// The child's exit status, if the child has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().ok().flatten()
    }

    /// Returns an error, with the last lines of the child's log, if the child has ended.
    pub fn check(&mut self) -> Result<()> {
        match self.ended() {
            None => Ok(()),
            Some(status) => {
                anyhow::bail!(
                    "the {} ended early ({status}){}",
                    self.name,
                    self.last_words()
                )
            }
        }
    }

    /// The text after `words` in the last line of the child's log that contains them.
    pub fn log_value(&self, words: &str) -> Option<String> {
        let text = self.log_so_far();
        let mut lines = text.lines().rev();
        lines.find_map(|line| Some(line.split_once(words)?.1.trim().to_owned()))
    }

    fn log_so_far(&self) -> String {
        let mut text = String::new();
        if let Some(mut file) = self.log.as_ref().and_then(|path| File::open(path).ok()) {
            let _ = file.read_to_string(&mut text);
        }
        text
    }

    /// The last eight lines of the child's log, each preceded by a line break and the child's name.
    pub fn last_words(&self) -> String {
        let text = self.log_so_far();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(8)..]
            .iter()
            .map(|line| format!("\n  {}: {line}", self.name))
            .collect()
    }

    /// Sends SIGTERM to the child's process group, waits up to 20 s for the end of the child, and kills the group's
    /// remaining processes.
    pub fn stop(&mut self) {
        let Some(group) = self.pid() else { return };
        if self.ended().is_none() {
            let _ = kill_process_group(group, Signal::TERM);
            self.wait_for_end(TIMEOUT);
        }
        let _ = kill_process_group(group, Signal::KILL);
        let _ = self.process.wait();
    }

    /// Like [`stop`](Self::stop), but first sends SIGTERM only to the child and waits up to 20 s. The child forwards
    /// the signal to its own children, which would treat a second signal as a forced stop.
    pub fn stop_by_itself(&mut self) {
        self.stop_within(TIMEOUT);
    }

    /// Like [`stop_by_itself`](Self::stop_by_itself), with this timeout.
    pub fn stop_within(&mut self, timeout: Duration) {
        if let (None, Some(process)) = (self.ended(), self.pid()) {
            let _ = kill_process(process, Signal::TERM);
            self.wait_for_end(timeout);
        }
        self.stop();
    }

    fn pid(&self) -> Option<Pid> {
        i32::try_from(self.id()).ok().and_then(Pid::from_raw)
    }

    fn wait_for_end(&mut self, timeout: Duration) {
        let until = clock::now() + timeout;
        while self.ended().is_none() && clock::now() < until {
            clock::sleep_until(clock::now() + Duration::from_millis(5));
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.stop();
    }
}
