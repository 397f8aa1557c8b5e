//! Processes of a test: they end with it, and what they said is shown if it fails.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustix::process::{Pid, Signal, geteuid, kill_process, kill_process_group};
use x11rb::protocol::xproto::{ConnectionExt as _, Family, HostMode};
use x11rb::rust_connection::{DefaultStream, RustConnection};

use super::{TIMEOUT, eventually, skip};

/// A running process.
pub(crate) struct Program {
    name: String,
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    readers: Vec<std::thread::JoinHandle<()>>,
    /// Kept open, as a person's terminal is.
    input: Option<ChildStdin>,
}

impl Program {
    /// Starts `command`, of which `name` is told in messages.
    pub(crate) fn start(name: &str, command: Command) -> Program {
        Program::spawn(name, command, None, Stdio::piped())
    }

    /// The same with its messages going elsewhere.
    pub(crate) fn telling(name: &str, command: Command, error: Stdio) -> Program {
        Program::spawn(name, command, None, error)
    }

    /// The same with an input that says nothing and ends at [`Program::hang_up`].
    pub(crate) fn listening(name: &str, command: Command) -> Program {
        Program::spawn(name, command, Some(""), Stdio::piped())
    }

    /// Its input ends.
    pub(crate) fn hang_up(&mut self) {
        self.input = None;
    }

    /// The same at a terminal of its own, at which somebody types.
    pub(crate) fn at_terminal(name: &str, command: &Command, keys: &str) -> Program {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
        let mut script = Command::new("script");
        // None of the words has a blank. What runs in the background of a shell that knows no jobs, as
        // tests do on some machines, would ignore Ctrl-C.
        script.args([
            "--quiet",
            "--return",
            "--command",
            &format!("exec env --default-signal=INT {}", words.join(" ")),
            "/dev/null",
        ]);
        Program::spawn(name, script, Some(keys), Stdio::piped())
    }

    fn spawn(name: &str, mut command: Command, line: Option<&str>, error: Stdio) -> Program {
        let input = line.map_or_else(Stdio::null, |_| Stdio::piped());
        command.stdin(input).stdout(Stdio::piped()).stderr(error);
        let mut child = command
            .spawn()
            .unwrap_or_else(|e| panic!("{name} does not start: {e}"));
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

    /// Somebody types more.
    pub(crate) fn types(&mut self, keys: &str) {
        let input = self.input.as_mut().expect("it has an input");
        input.write_all(keys.as_bytes()).expect("it reads");
    }

    fn lines(&self) -> MutexGuard<'_, Vec<String>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that it has said so far.
    pub(crate) fn text(&self) -> String {
        self.lines().join("\n")
    }

    /// How many lines with `part` it has said so far.
    pub(crate) fn count(&self, part: &str) -> usize {
        self.lines()
            .iter()
            .filter(|line| line.contains(part))
            .count()
    }

    /// Waits for its first line with `part`.
    pub(crate) fn line(&self, part: &str) -> String {
        self.nth_line(1, part)
    }

    /// Waits for its `n`-th line with `part`, counted from 1.
    pub(crate) fn nth_line(&self, n: usize, part: &str) -> String {
        let begun = Instant::now();
        loop {
            // Before the look: what was said just before the end has been collected then.
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
                "{} ended and did not say {part:?} {n} times",
                self.name
            );
            assert!(
                begun.elapsed() < TIMEOUT,
                "{} does not say {part:?} {n} times",
                self.name
            );
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Fails if it has ended.
    pub(crate) fn assert_running(&mut self) {
        let status = self.child.try_wait().expect("ours");
        assert!(status.is_none(), "{} has ended: {status:?}", self.name);
    }

    /// Waits for its end; how it ended, and all that it said.
    pub(crate) fn ended(&mut self) -> (ExitStatus, String) {
        let status = eventually(&format!("the end of {}", self.name), || {
            self.child.try_wait().expect("ours")
        });
        for reader in self.readers.drain(..) {
            reader.join().expect("reading does not fail");
        }
        (status, self.text())
    }

    /// Waits for its end, which has to be a failure, or wrong usage, told in one line of the program's own.
    pub(crate) fn fails_in_one_line(&mut self) -> String {
        let (status, text) = self.ended();
        let failed = matches!(status.code(), Some(1 | 2));
        assert!(failed, "{} ended with {status}: {text}", self.name);
        // A host that has no turn for a second is wondered about.
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
        kill_process(id, signal).expect("it is ours");
    }

    /// Asks it to stop as Ctrl-C does, and waits until it has; all that it said.
    pub(crate) fn stop(&mut self) -> String {
        self.signal(Signal::INT);
        let (status, text) = self.ended();
        assert!(status.success(), "{} after Ctrl-C: {status}", self.name);
        text
    }

    /// The same for what it started, if it is only a wrapper.
    pub(crate) fn stop_child(&mut self) {
        let id = self.child.id();
        let path = format!("/proc/{id}/task/{id}/children");
        let children = std::fs::read_to_string(path).expect("it runs");
        let child = children.trim().parse().ok().and_then(Pid::from_raw);
        kill_process(child.expect("one child"), Signal::INT).expect("it is ours");
        let (status, text) = self.ended();
        assert!(
            status.success(),
            "{} after Ctrl-C: {status}: {text}",
            self.name
        );
    }

    /// Ends it as a power cut would.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("ours");
        self.child.wait().expect("ours");
    }

    /// The same for all processes of its group, if it leads one.
    pub(crate) fn kill_group(&mut self) {
        let id = i32::try_from(self.child.id()).expect("a process id");
        let id = Pid::from_raw(id).expect("not 0");
        // Those that have ended already need not be killed.
        let _ = kill_process_group(id, Signal::KILL);
        self.kill();
    }

    /// Whether it has ended.
    pub(crate) fn is_over(&mut self) -> bool {
        self.child.try_wait().expect("ours").is_some()
    }

    /// How much memory it has now, in kB (proc(5), `VmRSS`).
    pub(crate) fn memory_kb(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let text = std::fs::read_to_string(path).expect("it runs");
        let line = text.lines().find(|line| line.starts_with("VmRSS"));
        line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok())
            .expect("the kernel says")
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
            eprintln!("---- {} ({status}) said:\n{}\n----", self.name, self.text());
        }
    }
}

/// An X server of a test's own.
pub(crate) struct Display {
    /// `None`: somebody else's.
    server: Option<Child>,
    /// What to put behind `--display`.
    pub(crate) name: String,
}

impl Display {
    /// Starts one with a screen of `size` (`640x360`), 24 bits deep; `None`, said aloud, if Xvfb
    /// is not installed.
    pub(crate) fn start(size: &str) -> Option<Display> {
        Display::with(size, &[])
    }

    /// The same with more words for its command line.
    pub(crate) fn with(size: &str, words: &[&str]) -> Option<Display> {
        Display::of_depth(size, 24, words)
    }

    /// The same with another depth.
    pub(crate) fn of_depth(size: &str, depth: u8, words: &[&str]) -> Option<Display> {
        let mut command = Command::new("Xvfb");
        command
            .args([
                "-displayfd",
                "1",
                "-screen",
                "0",
                &format!("{size}x{depth}"),
            ])
            .args(["-nolisten", "tcp", "-noreset", "+extension", "GLX"])
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let Ok(mut server) = command.spawn() else {
            skip("Xvfb is not installed");
            return None;
        };
        let mut line = String::new();
        let output = server.stdout.take().expect("piped");
        BufReader::new(output)
            .read_line(&mut line)
            .expect("Xvfb names its display");
        let number = line.trim();
        assert!(!number.is_empty(), "Xvfb ended without naming a display");
        Some(Display {
            name: format!(":{number}"),
            server: Some(server),
        })
    }

    /// One that the program under test has started, whose cookie is in the file `authority`. All of this user's
    /// processes are admitted to it: the test connects to others as well.
    pub(crate) fn of_another(name: &str, authority: &str) -> Display {
        let path = format!("/tmp/.X11-unix/X{}", &name[1..]);
        let stream = UnixStream::connect(path).expect("the display runs");
        let (stream, _) = DefaultStream::from_unix_stream(stream).expect("a socket");
        let file = std::fs::read(authority).expect("it is there");
        let cookie = file[file.len() - 16..].to_vec();
        let protocol = b"MIT-MAGIC-COOKIE-1".to_vec();
        let conn = RustConnection::connect_to_stream_with_auth_info(stream, 0, protocol, cookie);
        let conn = conn.expect("it has the cookie");
        let user = format!("localuser\0#{}", geteuid().as_raw());
        let (mode, family) = (HostMode::INSERT, Family::SERVER_INTERPRETED);
        let asked = conn.change_hosts(mode, family, user.as_bytes());
        asked.expect("sent").check().expect("admitted");
        Display {
            name: name.to_owned(),
            server: None,
        }
    }

    /// Kills the server as a crash would.
    pub(crate) fn kill(&mut self) {
        let server = self.server.as_mut().expect("ours");
        server.kill().expect("ours");
        server.wait().expect("ours");
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        let Some(server) = &mut self.server else {
            return;
        };
        // SIGTERM lets it take its socket and its lock file with it.
        if let Some(id) = i32::try_from(server.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(id, Signal::TERM);
        }
        let _ = server.wait();
    }
}
