//! The thread that writes messages and draws the table, and the queue before it.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use openuvr_runtime::clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::fstat;
use rustix::io::Errno;

use super::limit::Limit;
use super::screen::{Room, Screen};
use super::{error_is_terminal, is_terminal, stderr, stdout};

/// What is to be written.
pub(super) enum Job {
    /// A message: one line or more.
    Message(String),
    /// A question: no line ends behind it.
    Question(String),
    /// The rows of the table.
    Table(Vec<String>),
    /// The table is over.
    EndTable,
    /// Lines for standard output that nobody has to read.
    Lines(String),
    /// What another program has written.
    Output(String),
    /// Typed lines are told.
    KeepTyped,
    /// One was typed.
    LineTyped,
}

/// Jobs that may wait. Nobody reads so many at once.
const MOST: usize = 1024;

/// How long the end of the program, or a question, waits for a terminal that takes nothing.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The only one.
pub(super) static WRITER: Shared = Shared {
    state: Mutex::new(None),
    queued: Condvar::new(),
    written: Condvar::new(),
};

/// The writer, as all threads see it.
pub(super) struct Shared {
    state: Mutex<Option<State>>,
    queued: Condvar,
    written: Condvar,
}

struct State {
    limit: Limit,
    queue: VecDeque<Job>,
    /// Jobs that did not fit.
    lost: u64,
    /// A job is being written.
    busy: bool,
    /// Whether a thread writes; else whoever says something does.
    threaded: bool,
    /// Where it is written to while nobody does.
    place: Option<Place>,
}

impl Shared {
    /// Starts the thread. Without one everybody writes by himself.
    pub(super) fn start(&'static self) {
        let name = "ouvr-output".to_owned();
        // The thread waits for the lock.
        let mut state = self.state();
        let thread = std::thread::Builder::new().name(name);
        let started = thread.spawn(move || self.write_on());
        if let Some(state) = &mut *state {
            state.threaded = started.is_ok();
        }
    }

    /// Writes `text` behind `before`, unless the limit holds it back.
    pub(super) fn tell(&self, text: &str, before: &str) {
        let mut state = self.state();
        let lets_by = (state.as_mut()).is_none_or(|state| state.limit.lets_by(clock::now(), text));
        // What is held back is told in time.
        drop(state);
        match lets_by {
            true => self.put(Job::Message(format!("{before}{text}"))),
            false => self.queued.notify_one(),
        }
    }

    /// Takes a job, if there is room.
    pub(super) fn put(&self, job: Job) {
        let mut state = self.state();
        if let Some(state) = &mut *state {
            match state.queue.len() < MOST {
                true => state.queue.push_back(job),
                false => state.lost += 1,
            }
        }
        self.hand_over(state);
    }

    /// Takes a job, as soon as there is room.
    pub(super) fn put_patiently(&self, job: Job) {
        let full = |state: &mut Option<State>| {
            let state = state.as_ref();
            state.is_some_and(|state| state.threaded && state.queue.len() >= MOST)
        };
        let waited = self.written.wait_while(self.state(), full);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        if let Some(state) = &mut *state {
            state.queue.push_back(job);
        }
        self.hand_over(state);
    }

    fn hand_over(&self, mut state: MutexGuard<'_, Option<State>>) {
        match &mut *state {
            Some(open) if !open.threaded => while open.write_one().is_some() {},
            _ => self.queued.notify_one(),
        }
    }

    /// Waits until all is written, but not for long.
    pub(super) fn flush(&self) {
        let unwritten = |state: &mut Option<State>| {
            let state = state.as_ref();
            state.is_some_and(|state| state.busy || !state.queue.is_empty())
        };
        let state = self.state();
        drop(self.written.wait_timeout_while(state, TIMEOUT, unwritten));
    }

    /// The end of the program: tells what was held back, and takes the table away.
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

    /// The thread.
    fn write_on(&self) {
        let mut state = self.state();
        loop {
            let Some(open) = &mut *state else { return };
            let now = clock::now();
            for text in open.limit.due(now) {
                open.queue.push_back(Job::Message(text));
            }
            if let Some(job) = open.next_job()
                && let Some(mut place) = open.place.take()
            {
                open.busy = true;
                // Whoever says something now waits for the lock, not for the terminal.
                drop(state);
                place.write(job);
                state = self.state();
                if let Some(open) = &mut *state {
                    (open.place, open.busy) = (Some(place), false);
                }
                self.written.notify_all();
                continue;
            }
            let next = open.limit.next().map(|at| at.since(now));
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
            limit: Limit::new(),
            queue: VecDeque::new(),
            lost: 0,
            busy: false,
            threaded: false,
            place: Some(Place::this()),
        });
        state
    }
}

impl State {
    fn next_job(&mut self) -> Option<Job> {
        if self.queue.len() < MOST / 2 && self.lost > 0 {
            let lost = std::mem::take(&mut self.lost);
            let words = format!("openuvr: {lost} more lines are lost: they were not taken in time");
            self.queue.push_back(Job::Message(words));
        }
        self.queue.pop_front()
    }

    /// Without a thread.
    fn write_one(&mut self) -> Option<()> {
        let job = self.next_job()?;
        self.place.as_mut()?.write(job);
        Some(())
    }
}

/// Where messages and the table go.
struct Place {
    screen: Screen,
    /// Whether messages go to the terminal that the table is drawn on.
    shared: bool,
    /// The table has gone, or nobody takes it.
    over: bool,
}

impl Place {
    fn this() -> Place {
        let (out, error) = (stdout(), stderr());
        let (out_is, error_is) = (is_terminal(), error_is_terminal());
        let same = || {
            let (out, error) = (fstat(&out).ok()?, fstat(&error).ok()?);
            Some((out.st_dev, out.st_ino) == (error.st_dev, error.st_ino))
        };
        Place {
            screen: Screen::default(),
            shared: error_is && (!out_is || same() == Some(true)),
            over: false,
        }
    }

    fn write(&mut self, job: Job) {
        match job {
            Job::Message(text) => self.message(&text),
            Job::Question(text) => _ = write_all(stderr().as_fd(), text.as_bytes()),
            Job::Table(rows) if !self.over => {
                self.screen.set_table(rows);
                self.draw("");
            }
            Job::Table(_) => {}
            Job::EndTable => {
                let bytes = self.screen.close(room());
                self.show(&bytes);
            }
            Job::Lines(text) if !self.over => {
                self.over = write_all(stdout().as_fd(), text.as_bytes()).is_err();
            }
            Job::Lines(_) => {}
            Job::Output(text) => {
                let lines = self.screen.take_output(&text);
                self.draw(&lines);
            }
            Job::KeepTyped => self.screen.keep_typed(),
            Job::LineTyped => self.screen.line_typed(),
        }
    }

    fn message(&mut self, text: &str) {
        if self.shared {
            self.draw(text);
        } else {
            // In one piece: others may write to the same file.
            let line = format!("{}\n", text.trim_end_matches('\n'));
            // Nobody may be there to read it.
            let _ = write_all(stderr().as_fd(), line.as_bytes());
        }
    }

    fn draw(&mut self, above: &str) {
        let bytes = self.screen.draw(above, room());
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
pub(super) fn room() -> Room {
    let size = rustix::termios::tcgetwinsize(stdout());
    let size = size.or_else(|_| rustix::termios::tcgetwinsize(stderr()));
    let known = |n: u16, usual: usize| match n {
        0 => usual,
        n => n.into(),
    };
    let (columns, rows) = size.map_or((0, 0), |size| (size.ws_col, size.ws_row));
    Room {
        columns: known(columns, 80),
        rows: known(rows, 24),
    }
}

/// Writes all of it, also where a program that shares the terminal has made it non-blocking.
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
