//! Child processes of a test. They are killed at the test's end, and their output is shown if the test fails.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use openuvr_xserver::Xvfb;
use openuvr_xserver::fixture::{self, admit_own_user};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::{TIMEOUT, eventually};

/// A running process.
pub(crate) struct Program {
    name: String,
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    readers: Vec<std::thread::JoinHandle<()>>,
    /// Standard input, kept open as by a terminal.
    input: Option<ChildStdin>,
}

impl Program {
    /// Starts `command`; `name` is its name in messages.
    pub(crate) fn start(name: &str, command: Command) -> Program {
        Program::spawn(name, command, None, Stdio::piped())
    }

    /// Like [`Program::start`], but with stderr redirected.
    pub(crate) fn with_stderr(name: &str, command: Command, error: Stdio) -> Program {
        Program::spawn(name, command, None, error)
    }

    /// Like [`Program::start`], but with an empty stdin that stays open until [`Program::close_stdin`].
    pub(crate) fn with_stdin(name: &str, command: Command) -> Program {
        Program::spawn(name, command, Some(""), Stdio::piped())
    }

    pub(crate) fn close_stdin(&mut self) {
        self.input = None;
    }

    /// Like [`Program::start`], in its own terminal, with typed input.
    pub(crate) fn at_terminal(name: &str, command: &Command, keys: &str) -> Program {
        let args = std::iter::once(command.get_program()).chain(command.get_args());
        let args: Vec<_> = args.map(|word| word.to_string_lossy()).collect();
        let mut script = Command::new("script");
        // The arguments contain no blanks. `env` restores the default reaction to Ctrl-C: some machines run the tests
        // as background processes of a shell without job control, which start with Ctrl-C ignored.
        script.args([
            "--quiet",
            "--return",
            "--command",
            &format!("exec env --default-signal=INT {}", args.join(" ")),
            "/dev/null",
        ]);
        Program::spawn(name, script, Some(keys), Stdio::piped())
    }

    fn spawn(name: &str, mut command: Command, line: Option<&str>, error: Stdio) -> Program {
        let input = line.map_or_else(Stdio::null, |_| Stdio::piped());
        command.stdin(input).stdout(Stdio::piped()).stderr(error);
        let mut child = command
            .spawn()
            .unwrap_or_else(|e| panic!("{name} failed to start: {e}"));
        let lines = Arc::new(Mutex::new(Vec::new()));
        let mut readers = Vec::new();
        if let Some(out) = child.stdout.take() {
            readers.push(collect(out, lines.clone()));
        }
        if let Some(out) = child.stderr.take() {
            readers.push(collect(out, lines.clone()));
        }
        let mut input = child.stdin.take();
        if let (Some(input), Some(line)) = (&mut input, line) {
            input.write_all(line.as_bytes()).expect("it reads");
        }
        Program {
            name: name.to_owned(),
            child,
            lines,
            readers,
            input,
        }
    }

    /// Types more input.
    pub(crate) fn type_text(&mut self, keys: &str) {
        let input = self.input.as_mut().expect("it has an input");
        input.write_all(keys.as_bytes()).expect("it reads");
    }

    fn lines(&self) -> MutexGuard<'_, Vec<String>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its output so far.
    pub(crate) fn text(&self) -> String {
        self.lines().join("\n")
    }

    /// Number of lines so far that contain `part`.
    pub(crate) fn count(&self, part: &str) -> usize {
        self.lines()
            .iter()
            .filter(|line| line.contains(part))
            .count()
    }

    /// Waits for the first line that contains `part`.
    pub(crate) fn line(&self, part: &str) -> String {
        self.nth_line(1, part)
    }

    /// Waits for the `n`-th line that contains `part`, counted from 1.
    pub(crate) fn nth_line(&self, n: usize, part: &str) -> String {
        let started = Instant::now();
        loop {
            // The exit is queried before the search, so that the search covers all output up to the exit.
            let over = self
                .readers
                .iter()
                .all(std::thread::JoinHandle::is_finished);
            let found = (self.lines().iter())
                .filter(|line| line.contains(part))
                .nth(n - 1)
                .cloned();
            if let Some(line) = found {
                return line;
            }
            assert!(
                !over,
                "{} ended without {n} lines that contain {part:?}",
                self.name
            );
            assert!(
                started.elapsed() < TIMEOUT,
                "timeout: {} has not printed {n} lines that contain {part:?}",
                self.name
            );
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Panics if the process has ended.
    pub(crate) fn assert_running(&mut self) {
        let status = self.child.try_wait().expect("a child process");
        assert!(status.is_none(), "{} has ended: {status:?}", self.name);
    }

    /// Waits for the end of the process; returns its exit status and output.
    pub(crate) fn wait(&mut self) -> (ExitStatus, String) {
        let status = eventually(&format!("the end of {}", self.name), || {
            self.child.try_wait().expect("a child process")
        });
        for reader in self.readers.drain(..) {
            reader.join().expect("the reader thread ended");
        }
        (status, self.text())
    }

    /// Waits for the end of the process, which must have the exit code 1 or 2 and at most one line of output, apart
    /// from the client's warning that the host does not answer. Returns the output.
    pub(crate) fn fails_in_one_line(&mut self) -> String {
        let (status, text) = self.wait();
        let failed = matches!(status.code(), Some(1 | 2));
        assert!(failed, "{} ended with {status}: {text}", self.name);
        // Ignores the client's warning that the host does not answer yet.
        let wonders = |line: &&str| line.contains("no answer from");
        let lines = text.lines().filter(|line| !wonders(line)).count();
        assert!(
            lines <= 1 && text.lines().count() >= 1,
            "{}: {text}",
            self.name
        );
        text
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).expect("a process id");
        let id = Pid::from_raw(id).expect("not 0");
        kill_process(id, signal).expect("a child process");
    }

    /// Stops the process with Ctrl-C, and waits for its end; returns its output.
    pub(crate) fn stop(&mut self) -> String {
        self.signal(Signal::INT);
        let (status, text) = self.wait();
        assert!(status.success(), "{} after Ctrl-C: {status}", self.name);
        text
    }

    /// Like [`Program::stop`], for a process that only wraps another process: sends Ctrl-C to its only child.
    pub(crate) fn stop_child(&mut self) {
        let id = self.child.id();
        let path = format!("/proc/{id}/task/{id}/children");
        let children = std::fs::read_to_string(path).expect("it runs");
        let child = children.trim().parse().ok().and_then(Pid::from_raw);
        kill_process(child.expect("one child"), Signal::INT).expect("a child process");
        let (status, text) = self.wait();
        assert!(
            status.success(),
            "{} after Ctrl-C: {status}: {text}",
            self.name
        );
    }

    /// Kills the process with SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("a child process");
        self.child.wait().expect("a child process");
    }

    /// Kills all processes of the group that this process leads.
    pub(crate) fn kill_group(&mut self) {
        let id = i32::try_from(self.child.id()).expect("a process id");
        let id = Pid::from_raw(id).expect("not 0");
        // Processes that have ended are ignored.
        let _ = kill_process_group(id, Signal::KILL);
        self.kill();
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child process").is_some()
    }

    /// Resident memory in kB.
    pub(crate) fn memory_kb(&self) -> u64 {
        self.status_kb("VmRSS:")
    }

    /// Resident memory in kB, without memory that is mapped from files, such as the program and its libraries.
    pub(crate) fn allocated_kb(&self) -> u64 {
        self.status_kb("RssAnon:") + self.status_kb("RssShmem:")
    }

    /// A size from the kernel's status of the process (proc_pid_status(5)).
    fn status_kb(&self, field: &str) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let text = std::fs::read_to_string(path).expect("it runs");
        let line = text.lines().find(|line| line.starts_with(field));
        line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok())
            .expect("a line of the kernel")
    }
}

fn collect(
    from: impl Read + Send + 'static,
    lines: Arc<Mutex<Vec<String>>>,
) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        for line in BufReader::new(from).split(b'\n') {
            let Ok(line) = line else { return };
            let line = String::from_utf8_lossy(&line).into_owned();
            lines
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(line);
        }
    })
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let status = self.child.wait();
        if std::thread::panicking() {
            let status = status.map_or_else(|e| e.to_string(), |s| s.to_string());
            eprintln!(
                "---- {} ({status}) output:\n{}\n----",
                self.name,
                self.text()
            );
        }
    }
}

/// An X server for a test.
pub(crate) struct Display {
    /// `None` if another program has started the server.
    server: Option<Xvfb>,
    /// The argument of `--display`.
    pub(crate) name: String,
}

impl Display {
    /// Starts a server with a screen of `size` (`640x360`) and 24 bits of depth. Prints a message and returns `None` if
    /// Xvfb is not installed.
    pub(crate) fn start(size: &str) -> Option<Display> {
        Display::with(size, &[])
    }

    /// Like [`Display::start`], but with more arguments.
    pub(crate) fn with(size: &str, args: &[&str]) -> Option<Display> {
        Display::of_depth(size, 24, args)
    }

    /// Like [`Display::with`], but with another depth.
    pub(crate) fn of_depth(size: &str, depth: u8, args: &[&str]) -> Option<Display> {
        let screen = format!("{size}x{depth}");
        let args = [&["-screen", "0", &screen], args].concat();
        let server = fixture::xvfb(size, &args)?;
        Some(Display {
            name: server.display.clone(),
            server: Some(server),
        })
    }

    /// A display that the program under test has started, with its cookie in the file `authority`. Access is granted to
    /// all processes of this user, because other helpers of the test connect, too.
    pub(crate) fn of_another(name: &str, authority: &str) -> Display {
        let admitted = admit_own_user(name, Path::new(authority));
        admitted.expect("the display runs and has this cookie");
        Display {
            name: name.to_owned(),
            server: None,
        }
    }

    /// Kills the server, as a crash would.
    pub(crate) fn kill(&mut self) {
        let server = self.server.as_mut().expect("a server of the test");
        server.kill();
    }
}
