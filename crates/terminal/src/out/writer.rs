//! The thread that writes messages and draws the table, and its queue.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use openuvr_clock as clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::fstat;
use rustix::io::Errno;

use super::limit::Limiter;
use super::screen::{Screen, TerminalSize};
use super::{error_is_terminal, is_terminal, stderr, stdout};

/// A task of the writer.
pub(super) enum Job {
    /// A message: one line or more.
    Message(String),
    /// A prompt, without a line break.
    Prompt(String),
    /// The rows of the table.
    Table(Vec<String>),
    /// Erases the table.
    EndTable,
    /// Optional lines for standard output.
    Lines(String),
    /// Output of a child process.
    ChildOutput(String),
    /// Typed lines are reported from now on.
    TrackTypedLines,
    /// A line was typed.
    LineTyped,
}

/// Maximum number of queued jobs.
const MAX_QUEUED: usize = 1024;

/// Maximum time to wait for a stalled terminal at the end of the program, after a prompt, and before a print to
/// standard output.
const TIMEOUT: Duration = Duration::from_secs(2);

pub(super) static WRITER: Shared = Shared {
    state: Mutex::new(None),
    queued: Condvar::new(),
    written: Condvar::new(),
};

/// The writer's state, shared by all threads.
pub(super) struct Shared {
    state: Mutex<Option<State>>,
    queued: Condvar,
    written: Condvar,
}

struct State {
    limit: Limiter,
    queue: VecDeque<Job>,
    /// Jobs dropped because the queue was full.
    lost: u64,
    /// Whether a job is being written.
    busy: bool,
    /// Whether the writer thread runs. Otherwise, the calling thread writes.
    threaded: bool,
    /// `None` while a job is being written.
    terminal: Option<Terminal>,
}

impl Shared {
    /// Starts the writer thread. If that fails, callers write themselves.
    pub(super) fn start(&'static self) {
        let name = "ouvr-output".to_owned();
        // The new thread waits for this lock.
        let mut state = self.state();
        let thread = std::thread::Builder::new().name(name);
        let started = thread.spawn(move || self.run());
        if let Some(state) = &mut *state {
            state.threaded = started.is_ok();
        }
    }

    /// Writes `before` and then `text`, unless the rate limit suppresses `text`.
    pub(super) fn limited_message(&self, text: &str, before: &str) {
        let mut state = self.state();
        let allows = (state.as_mut()).is_none_or(|state| state.limit.allows(clock::now(), text));
        // A suppressed line is reported later by the writer thread.
        drop(state);
        match allows {
            true => self.put(Job::Message(format!("{before}{text}"))),
            false => self.queued.notify_one(),
        }
    }

    /// Queues a job, or drops it if the queue is full.
    pub(super) fn put(&self, job: Job) {
        let mut state = self.state();
        if let Some(state) = &mut *state {
            match state.queue.len() < MAX_QUEUED {
                true => state.queue.push_back(job),
                false => state.lost += 1,
            }
        }
        self.wake_writer(state);
    }

    /// Queues a job. Blocks while the queue is full.
    pub(super) fn put_blocking(&self, job: Job) {
        let full = |state: &mut Option<State>| {
            let state = state.as_ref();
            state.is_some_and(|state| state.threaded && state.queue.len() >= MAX_QUEUED)
        };
        let waited = self.written.wait_while(self.state(), full);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        if let Some(state) = &mut *state {
            state.queue.push_back(job);
        }
        self.wake_writer(state);
    }

    fn wake_writer(&self, mut state: MutexGuard<'_, Option<State>>) {
        match &mut *state {
            Some(open) if !open.threaded => while open.write_one().is_some() {},
            _ => self.queued.notify_one(),
        }
    }

    /// Waits until the queue is empty, for [`TIMEOUT`] at most.
    pub(super) fn flush(&self) {
        let unwritten = |state: &mut Option<State>| {
            let state = state.as_ref();
            state.is_some_and(|state| state.busy || !state.queue.is_empty())
        };
        let state = self.state();
        drop(self.written.wait_timeout_while(state, TIMEOUT, unwritten));
    }

    /// Called at the end of the program: reports suppressed lines and erases the table.
    pub(super) fn finish(&self) {
        let mut state = self.state();
        let rest = state.as_mut().map(|state| state.limit.rest());
        drop(state);
        for text in rest.unwrap_or_default() {
            self.put(Job::Message(text));
        }
        self.put(Job::EndTable);
        self.flush();
    }

    /// The body of the writer thread.
    fn run(&self) {
        let mut state = self.state();
        loop {
            let Some(open) = &mut *state else { return };
            let now = clock::now();
            for text in open.limit.due(now) {
                open.queue.push_back(Job::Message(text));
            }
            if let Some(job) = open.next_job()
                && let Some(mut terminal) = open.terminal.take()
            {
                open.busy = true;
                // Callers must only wait for the lock, not for the terminal.
                drop(state);
                terminal.write(job);
                state = self.state();
                if let Some(open) = &mut *state {
                    (open.terminal, open.busy) = (Some(terminal), false);
                }
                self.written.notify_all();
                continue;
            }
            let next = open.limit.next_report().map(|at| at.since(now));
            state = match next {
                Some(wait) => {
                    let woken = self.queued.wait_timeout(state, wait);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
                None => (self.queued.wait(state)).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn state(&self) -> MutexGuard<'_, Option<State>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.get_or_insert_with(|| State {
            limit: Limiter::new(),
            queue: VecDeque::new(),
            lost: 0,
            busy: false,
            threaded: false,
            terminal: Some(Terminal::new()),
        });
        state
    }
}

impl State {
    fn next_job(&mut self) -> Option<Job> {
        if self.queue.len() < MAX_QUEUED / 2 && self.lost > 0 {
            let lost = std::mem::take(&mut self.lost);
            let text = format!("openuvr: {lost} lines lost: the output was too slow");
            self.queue.push_back(Job::Message(text));
        }
        self.queue.pop_front()
    }

    /// Writes one job on the calling thread.
    fn write_one(&mut self) -> Option<()> {
        let job = self.next_job()?;
        self.terminal.as_mut()?.write(job);
        Some(())
    }
}

/// The destination of messages and the table.
struct Terminal {
    screen: Screen,
    /// Whether messages go to the terminal on which the table is drawn.
    shared: bool,
    /// Whether writing the table or optional lines has failed. If so, neither tables nor optional lines are written any
    /// more.
    over: bool,
}

impl Terminal {
    fn new() -> Terminal {
        let (out, error) = (stdout(), stderr());
        let (out_is, error_is) = (is_terminal(), error_is_terminal());
        let same = || {
            let (out, error) = (fstat(&out).ok()?, fstat(&error).ok()?);
            Some((out.st_dev, out.st_ino) == (error.st_dev, error.st_ino))
        };
        Terminal {
            screen: Screen::default(),
            shared: error_is && (!out_is || same() == Some(true)),
            over: false,
        }
    }

    fn write(&mut self, job: Job) {
        match job {
            Job::Message(text) => self.message(&text),
            Job::Prompt(text) => _ = write_all(stderr().as_fd(), text.as_bytes()),
            Job::Table(rows) if !self.over => {
                self.screen.set_table(rows);
                self.draw("");
            }
            Job::Table(_) => {}
            Job::EndTable => {
                let bytes = self.screen.close(terminal_size());
                self.show(&bytes);
            }
            Job::Lines(text) if !self.over => {
                self.over = write_all(stdout().as_fd(), text.as_bytes()).is_err();
            }
            Job::Lines(_) => {}
            Job::ChildOutput(text) => {
                let lines = self.screen.take_output(&text);
                self.draw(&lines);
            }
            Job::TrackTypedLines => self.screen.track_typed_lines(),
            Job::LineTyped => self.screen.line_typed(),
        }
    }

    fn message(&mut self, text: &str) {
        if self.shared {
            self.draw(text);
        } else {
            // Written in one call, because other processes may append to the same file.
            let line = format!("{}\n", text.trim_end_matches('\n'));
            // A closed stderr is not an error.
            let _ = write_all(stderr().as_fd(), line.as_bytes());
        }
    }

    fn draw(&mut self, above: &str) {
        let bytes = self.screen.draw(above, terminal_size());
        self.show(&bytes);
    }

    fn show(&mut self, bytes: &str) {
        let out = match is_terminal() {
            true => write_all(stdout().as_fd(), bytes.as_bytes()),
            false => write_all(stderr().as_fd(), bytes.as_bytes()),
        };
        self.over |= out.is_err();
    }
}

/// The size of the terminal that is drawn on.
pub(super) fn terminal_size() -> TerminalSize {
    let size = rustix::termios::tcgetwinsize(stdout());
    let size = size.or_else(|_| rustix::termios::tcgetwinsize(stderr()));
    let known = |n: u16, usual: usize| match n {
        0 => usual,
        n => n.into(),
    };
    let (columns, rows) = size.map_or((0, 0), |size| (size.ws_col, size.ws_row));
    TerminalSize {
        columns: known(columns, 80),
        rows: known(rows, 24),
    }
}

/// Writes all bytes, even if a process that shares the terminal has made it non-blocking.
fn write_all(to: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(to, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let wait = Timespec {
                    tv_sec: 1,
                    tv_nsec: 0,
                };
                let _ = poll(&mut [PollFd::new(&to, PollFlags::OUT)], Some(&wait));
            }
            Err(why) => return Err(why.into()),
        }
    }
    Ok(())
}
