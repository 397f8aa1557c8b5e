//! External programs: finding them, running them to their end, and keeping them running.
//!
//! The programs are `iw`, `ip`, hostapd, dnsmasq, wpa_supplicant, `nmcli` and a DHCP client. They belong to the
//! distribution, and are started but never linked.

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead as _, BufReader, Read};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use openuvr_terminal::one_line::visible;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use crate::sys;

/// The folders of programs for administration, which are not in every user's `PATH`.
const ADMINISTRATION: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Maximum length of output that is read. A scan of a hall full of networks has about 2 MB.
const LONGEST_OUTPUT: u64 = 8 << 20;

/// Maximum length of a log line that is read.
const LONGEST_LINE: u64 = 4096;

/// Maximum number of lines that wait for the reader of a log. Additional ones are lost.
const WAITING_LINES: usize = 256;

/// The number of a program's newest log lines that are searched for the reason of the program's end.
const RECENT_LINES: usize = 40;

/// The interval at which this process checks whether a program has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The time for a graceful end, before a program is killed (guess: hostapd notifies its clients first).
const GRACE_PERIOD: Duration = Duration::from_secs(5);

/// Runs a command, and ends it on SIGTERM. SIGTERM may also arrive before the command has started. The trap interrupts
/// the first `wait`; the second one waits for the end of the command.
const SHELL_SCRIPT: &str = r#"trap 'ended=yes; kill $! 2>/dev/null' TERM; "$@" & [ -z "$ended" ] || kill $!; wait $!; wait $!"#;

/// A program of the distribution.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    name: &'static str,
    path: PathBuf,
}

impl Program {
    /// Finds the program; `None` if it is not installed.
    pub(crate) fn find(name: &'static str) -> Option<Program> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&path).chain(ADMINISTRATION.map(PathBuf::from));
        let runs = |file: &PathBuf| {
            let mode = fs::metadata(file).map(|data| (data.is_file(), data.permissions().mode()));
            mode.is_ok_and(|(is_file, mode)| is_file && mode & 0o111 != 0)
        };
        let path = folders.map(|folder| folder.join(name)).find(runs)?;
        Some(Program { name, path })
    }

    /// Finds the program. The error names `package`, its package in Debian.
    ///
    /// # Errors
    /// Returns an error if it is not installed.
    pub(crate) fn require(name: &'static str, package: &str) -> Result<Program> {
        let found = Program::find(name);
        found.ok_or_else(|| anyhow!("the program {name} is missing: run apt install {package}"))
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// A command with untranslated messages. It has its own process group, so that Ctrl-C at the terminal does not
    /// reach it.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.path);
        command.args(arguments).env("LC_ALL", "C").process_group(0);
        command.stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs the program to its end and returns its standard output.
    ///
    /// # Errors
    /// Returns a one-line error if it fails or takes too long. If it fails, the message contains the last line of its
    /// output.
    pub(crate) fn run(&self, arguments: &[&str], timeout: Duration) -> Result<String> {
        let mut process = self.command(arguments).spawn();
        let started = process
            .as_mut()
            .map_err(|why| anyhow!("can't run {}: {why}", self.name));
        let process = started?;
        let (output, errors) = (process.stdout.take(), process.stderr.take());
        let output = thread::spawn(move || all_of(output));
        let errors = thread::spawn(move || all_of(errors));
        let end = Instant::now() + timeout;
        let status = loop {
            if let Some(status) = process.try_wait()? {
                break status;
            }
            if Instant::now() >= end {
                let _ = process.kill();
                let _ = process.wait();
                bail!(
                    "{} did not end within {} s",
                    self.shown(arguments),
                    timeout.as_secs()
                );
            }
            thread::sleep(POLL_INTERVAL);
        };
        let output = output.join().unwrap_or_default();
        if status.success() {
            return Ok(output);
        }
        let errors = errors.join().unwrap_or_default();
        let mut lines = errors.lines().chain(output.lines()).map(str::trim);
        let last = lines
            .rfind(|line| !line.is_empty())
            .unwrap_or("without a reason");
        bail!("{} failed: {}", self.shown(arguments), visible(last))
    }

    /// The command as messages show it: the program's name and the first four arguments.
    fn shown(&self, arguments: &[&str]) -> String {
        let words = arguments.iter().take(4).copied();
        visible(
            &[self.name]
                .into_iter()
                .chain(words)
                .collect::<Vec<_>>()
                .join(" "),
        )
    }

    /// Starts the program, which keeps running in the foreground. The kernel ends it at the latest when the calling
    /// thread ends.
    ///
    /// # Errors
    /// Returns an error if it cannot be started.
    pub(crate) fn start(&self, arguments: &[&str]) -> Result<Daemon> {
        self.start_command(self.command(arguments))
    }

    /// Like [`start`](Self::start), for a program that changes its user. The kernel then no longer ends the program
    /// with its parent (prctl(2), `PR_SET_PDEATHSIG`). The program therefore runs under a shell, which keeps its user
    /// and ends the program.
    ///
    /// # Errors
    /// Returns an error if the shell cannot be started.
    pub(crate) fn start_behind_shell(&self, arguments: &[&str]) -> Result<Daemon> {
        let shell = Program {
            name: self.name,
            path: PathBuf::from("/bin/sh"),
        };
        let path = self.path.to_string_lossy();
        let words = ["-c", SHELL_SCRIPT, "sh", &path];
        self.start_command(shell.command(&[&words, arguments].concat()))
    }

    fn start_command(&self, mut command: Command) -> Result<Daemon> {
        sys::die_with_parent(&mut command);
        let spawned = command.spawn();
        let mut process = spawned.with_context(|| format!("can't start {}", self.name))?;
        let (sender, lines) = sync_channel(WAITING_LINES);
        if let Some(output) = process.stdout.take() {
            let sender = sender.clone();
            thread::spawn(move || forward(output, &sender));
        }
        if let Some(errors) = process.stderr.take() {
            thread::spawn(move || forward(errors, &sender));
        }
        Ok(Daemon {
            name: self.name,
            process,
            lines,
            recent: VecDeque::new(),
        })
    }
}

/// The output of a program, at most [`LONGEST_OUTPUT`]. The rest is discarded.
fn all_of(output: Option<impl Read>) -> String {
    let Some(mut output) = output else {
        return String::new();
    };
    let mut bytes = Vec::new();
    let _ = output.by_ref().take(LONGEST_OUTPUT).read_to_end(&mut bytes);
    let _ = std::io::copy(&mut output, &mut std::io::sink());
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Sends the lines of the program's output until it ends. The rest of a long line is sent as a separate line.
fn forward(output: impl Read, lines: &SyncSender<String>) {
    let mut output = BufReader::new(output);
    loop {
        let mut line = Vec::new();
        match output
            .by_ref()
            .take(LONGEST_LINE)
            .read_until(b'\n', &mut line)
        {
            Ok(0) | Err(_) => return,
            // A slow reader loses lines, because the program must not wait for it.
            Ok(_) => _ = lines.try_send(String::from_utf8_lossy(&line).trim_end().to_owned()),
        }
    }
}

/// A running program. It is ended when this value is dropped.
#[derive(Debug)]
pub(crate) struct Daemon {
    name: &'static str,
    process: Child,
    lines: Receiver<String>,
    recent: VecDeque<String>,
}

impl Daemon {
    /// The identity of the program's process.
    pub(crate) fn id(&self) -> ProcessId {
        ProcessId::of(self.process.id())
    }

    /// The next line of its log, if there is one within this time.
    ///
    /// # Errors
    /// Returns an error if the program has ended. The reason in the error is the first of the last [`RECENT_LINES`]
    /// lines for which `is_cause` is true. If there is no such line, the reason is the last line.
    pub(crate) fn line(
        &mut self,
        timeout: Duration,
        is_cause: fn(&str) -> bool,
    ) -> Result<Option<String>> {
        let line = match self.lines.recv_timeout(timeout) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => return Ok(None),
            // The program has closed its output, so it is ending.
            Err(RecvTimeoutError::Disconnected) => {
                wait_within(&mut self.process, GRACE_PERIOD);
                let cause = self.recent.iter().find(|line| is_cause(line));
                let cause = cause.or(self.recent.back()).map(|line| visible(line));
                let cause = cause.unwrap_or_else(|| "without a reason".to_owned());
                bail!("{} has ended: {cause}", self.name);
            }
        };
        if self.recent.len() >= RECENT_LINES {
            self.recent.pop_front();
        }
        if !line.is_empty() {
            self.recent.push_back(line.clone());
        }
        Ok(Some(line))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let Some(pid) = i32::try_from(self.process.id())
            .ok()
            .and_then(Pid::from_raw)
        else {
            return;
        };
        // The process number belongs to this child until the child has been reaped.
        if let Ok(None) = self.process.try_wait() {
            let _ = kill_process(pid, Signal::TERM);
            wait_within(&mut self.process, GRACE_PERIOD);
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
    }
}

fn wait_within(process: &mut Child, time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end && matches!(process.try_wait(), Ok(None)) {
        thread::sleep(POLL_INTERVAL);
    }
}

/// The identity of a process: its number, which may be reused, and its start time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct ProcessId {
    number: u32,
    /// In ticks since the machine's start (proc_pid_stat(5), field 22); 0 if unknown.
    start: u64,
}

impl ProcessId {
    fn of(number: u32) -> ProcessId {
        let start = start_of(number).unwrap_or(0);
        ProcessId { number, start }
    }

    fn runs(self) -> bool {
        self.start != 0 && start_of(self.number) == Some(self.start)
    }

    /// Ends the process, if its number still refers to the same process.
    pub(crate) fn end(self) {
        let pid = i32::try_from(self.number).ok().and_then(Pid::from_raw);
        let Some(pid) = pid.filter(|_| self.runs()) else {
            return;
        };
        let _ = kill_process(pid, Signal::TERM);
        let end = Instant::now() + GRACE_PERIOD;
        while self.runs() {
            if Instant::now() >= end {
                let _ = kill_process(pid, Signal::KILL);
                return;
            }
            thread::sleep(POLL_INTERVAL);
        }
    }
}

/// The start time of a process; `None` if no process has this number, or if the process is waiting to be reaped.
fn start_of(number: u32) -> Option<u64> {
    let stat = fs::read_to_string(Path::new("/proc").join(number.to_string()).join("stat")).ok()?;
    // The name in parentheses may contain anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let start = fields.nth(18)?.parse().ok()?;
    (state != "Z").then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    fn shell() -> Program {
        Program::find("sh").unwrap()
    }

    #[test]
    fn output_and_failures_are_reported() {
        let shell = shell();
        assert_eq!(
            shell.run(&["-c", "echo a; echo b >&2"], SOON).unwrap(),
            "a\n"
        );
        let failed = shell.run(
            &["-c", "echo first >&2; printf 'last\\033' >&2; exit 3"],
            SOON,
        );
        let why = failed.unwrap_err().to_string();
        assert!(why.ends_with("failed: last\\u{1b}"), "{why}");
        let late = shell.run(&["-c", "exec sleep 1000"], Duration::from_millis(20));
        assert!(late.unwrap_err().to_string().contains("did not end"));
        assert!(Program::find("no-such-program-of-openuvr").is_none());
        let missing = Program::require("no-such-program-of-openuvr", "p").unwrap_err();
        assert!(missing.to_string().contains("apt install p"));
    }

    #[test]
    fn a_daemon_is_read_and_ended() {
        let mut daemon = shell().start(&["-c", "echo one; exec sleep 1000"]).unwrap();
        assert_eq!(
            daemon.line(SOON, |_| false).unwrap().as_deref(),
            Some("one")
        );
        let id = daemon.id();
        assert!(id.runs());
        drop(daemon);
        assert!(!id.runs());
        // Another process with this number would have another start time.
        ProcessId {
            number: std::process::id(),
            start: 1,
        }
        .end();
    }

    #[test]
    fn a_daemon_behind_a_shell_ends_with_it() {
        let script = "echo $$; exec sleep 1000";
        let mut daemon = shell().start_behind_shell(&["-c", script]).unwrap();
        let line = daemon.line(SOON, |_| false).unwrap().unwrap();
        let program = ProcessId::of(line.parse().unwrap());
        assert!(program.runs());
        assert_ne!(program, daemon.id());
        drop(daemon);
        assert!(!program.runs());
        // The shell ends with its program, too.
        let mut ended = shell().start_behind_shell(&["-c", "echo bye"]).unwrap();
        let why = loop {
            match ended.line(SOON, |_| false) {
                Ok(_) => {}
                Err(why) => break why.to_string(),
            }
        };
        assert_eq!(why, "sh has ended: bye");
    }

    #[test]
    fn the_cause_of_an_end_is_not_its_last_line() {
        let script = "echo fine; echo Could not begin; echo bye";
        let mut daemon = shell().start(&["-c", script]).unwrap();
        let why = loop {
            match daemon.line(SOON, |line| line.starts_with("Could not")) {
                Ok(_) => {}
                Err(why) => break why.to_string(),
            }
        };
        assert_eq!(why, "sh has ended: Could not begin");
    }
}
