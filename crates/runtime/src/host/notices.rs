//! Notices of a host's events for any number of readers. A reader cannot delay the host: each reader has its own queue,
//! and a slow reader loses the oldest notices.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

pub use openuvr_ipc::notice::Notice;

/// Maximum number of notices that wait for a reader. At 60 frames/s, these are the frame records of about a minute with
/// one client, and of a second with 64 clients.
const MAX_PENDING: usize = 4096;

/// A reader of a host's notices. Dropping the reader removes its queue. See
/// [`HostRuntime::notices`](super::HostRuntime::notices).
pub struct Notices(Arc<Queue>);

impl Notices {
    /// The next notice; `None` after `timeout`. Callable from any thread.
    #[must_use]
    pub fn next(&self, timeout: Duration) -> Option<Notice> {
        let nothing = |state: &mut State| !state.has_any();
        let waited = (self.0.arrived).wait_timeout_while(self.0.lock(), timeout, nothing);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.pop()
    }

    /// Takes all pending notices.
    pub(super) fn drain(&self) -> Vec<Notice> {
        let mut state = self.0.lock();
        std::iter::from_fn(|| state.pop()).collect()
    }
}

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    arrived: Condvar,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Default)]
struct State {
    pending: VecDeque<Notice>,
    /// Number of notices that were lost before the oldest pending notice.
    lost: u64,
    /// The notice of the host's end. It follows all other notices.
    end: Option<Notice>,
}

impl State {
    fn has_any(&self) -> bool {
        self.lost > 0 || !self.pending.is_empty() || self.end.is_some()
    }

    fn push(&mut self, notice: Notice) {
        if self.pending.len() == MAX_PENDING {
            self.pending.pop_front();
            self.lost += 1;
        }
        self.pending.push_back(notice);
    }

    fn pop(&mut self) -> Option<Notice> {
        match std::mem::take(&mut self.lost) {
            0 => self.pending.pop_front().or_else(|| self.end.take()),
            lost => Some(Notice::Lost(lost)),
        }
    }
}

/// Distributes the notices of the host's threads.
#[derive(Default)]
pub(super) struct Board(Mutex<Posted>);

#[derive(Default)]
struct Posted {
    readers: Vec<Weak<Queue>>,
    end: Option<Notice>,
}

impl Board {
    /// Creates a reader of all notices from now on. After the host's end, a new reader gets only the notice of the end.
    pub(super) fn reader(&self) -> Notices {
        let queue = Arc::<Queue>::default();
        let mut posted = self.lock();
        queue.lock().end = posted.end.clone();
        posted.readers.push(Arc::downgrade(&queue));
        Notices(queue)
    }

    /// Posts a notice to every reader.
    pub(super) fn post(&self, notice: Notice) {
        self.lock().each(notice, State::push);
    }

    /// Posts the notice of the host's end. Only the first such notice counts.
    pub(super) fn finish(&self, notice: Notice) {
        let mut posted = self.lock();
        if posted.end.is_none() {
            posted.end = Some(notice.clone());
            posted.each(notice, |state, notice| state.end = Some(notice));
        }
    }

    /// Whether [`Board::finish`] was called.
    pub(super) fn is_finished(&self) -> bool {
        self.lock().end.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Posted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Posted {
    /// Passes the notice to each remaining reader.
    fn each(&mut self, notice: Notice, give: impl Fn(&mut State, Notice)) {
        self.readers.retain(|reader| reader.strong_count() > 0);
        let Some((last, others)) = self.readers.split_last() else {
            return;
        };
        let one = |reader: &Weak<Queue>, notice| {
            if let Some(queue) = reader.upgrade() {
                give(&mut queue.lock(), notice);
                queue.arrived.notify_one();
            }
        };
        for reader in others {
            one(reader, notice.clone());
        }
        one(last, notice);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(n: usize) -> Notice {
        Notice::Warning(n.to_string())
    }

    #[test]
    fn each_reader_gets_all_and_a_slow_one_learns_its_losses() {
        let board = Board::default();
        let (quick, slow) = (board.reader(), board.reader());
        let (more, mut read) = (7, Vec::new());
        for n in 0..MAX_PENDING + more {
            board.post(note(n));
            read.extend(quick.next(Duration::ZERO));
        }
        let all: Vec<_> = (0..MAX_PENDING + more).map(note).collect();
        assert_eq!(read, all);
        assert_eq!(quick.next(Duration::ZERO), None);
        let late = slow.drain();
        assert_eq!(late[0], Notice::Lost(more as u64));
        assert_eq!(late[1..], all[more..]);
    }

    #[test]
    fn the_end_comes_last_to_each_reader_and_once() {
        let board = Board::default();
        let reader = board.reader();
        board.finish(Notice::Failed("first".into()));
        board.finish(Notice::Failed("second".into()));
        // After the end, threads post more notices than the queue holds.
        (0..=MAX_PENDING)
            .map(note)
            .for_each(|notice| board.post(notice));
        let (read, late) = (reader.drain(), board.reader().drain());
        assert_eq!(read.len(), MAX_PENDING + 2);
        assert_eq!(read.last(), Some(&Notice::Failed("first".into())));
        assert_eq!(late, [Notice::Failed("first".into())]);
        assert_eq!(reader.next(Duration::ZERO), None);
    }

    #[test]
    fn a_reader_that_waits_is_woken_and_one_that_left_is_forgotten() {
        let board = Board::default();
        let (reader, gone) = (board.reader(), board.reader());
        drop(gone);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| reader.next(Duration::from_secs(30)));
            board.post(note(1));
            assert_eq!(waits.join().expect("it returns"), Some(note(1)));
        });
        assert_eq!(board.lock().readers.len(), 1);
    }
}
