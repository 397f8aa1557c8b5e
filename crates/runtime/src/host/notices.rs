//! What the host says of what happens, to any number of readers. None of them can slow the host: each has
//! a queue of its own, and one that is slow loses the oldest.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use openuvr_proto::control::ladder::Rung;
use openuvr_proto::control::negotiate::{Role, Wishes};
use openuvr_proto::decision::Decision;
use openuvr_proto::host::Ending;
use openuvr_proto::id::{RenditionId, SessionId, SubscriberId};
use openuvr_proto::trace::FrameRecord;
use openuvr_proto::units::Size;
use openuvr_proto::wire::control::AudioReport;

/// Notices that may wait for a reader: a few seconds of records.
const MAX_PENDING: usize = 4096;

/// Something that the application may want to show or write down.
#[derive(Clone, PartialEq, Debug)]
pub enum Notice {
    /// A device paired: its name and fingerprint.
    Paired {
        /// What it calls itself.
        name: String,
        /// Its key's fingerprint.
        fingerprint: String,
    },
    /// What happened to the pairing window, in words: each wrong PIN and where it came from, and
    /// that the window closed. At most [`MAX_TRIES`](openuvr_proto::control::pairing::MAX_TRIES) and
    /// its end for each window.
    Pairing(String),
    /// Somebody subscribed.
    Subscribed {
        /// Who.
        subscriber: SubscriberId,
        /// Its role.
        role: Role,
        /// What it is called. For a client: the name that is stored for the device, and beside it what
        /// it calls itself now, if that is another.
        name: String,
        /// Its program and version.
        software: String,
        /// What it wants of the video while it plays.
        wishes: Wishes,
        /// Which rendition it gets, as long as it is here.
        rendition: RenditionId,
    },
    /// A subscriber's role changed.
    RoleChanged(SubscriberId, Role),
    /// A client's video goes with this transport now.
    Link(SessionId, Rung),
    /// A subscriber is gone.
    Ended(SubscriberId, Ending),
    /// A frame's end.
    Record(Box<FrameRecord>),
    /// How a client plays the sound that it gets.
    Audio(SessionId, AudioReport),
    /// The policy of a rendition decided something.
    Decision {
        /// The rendition.
        rendition: RenditionId,
        /// The decision, with its reason.
        decision: Decision,
    },
    /// An encoder was opened: somebody takes this rendition, or it goes on in another size or thread.
    EncoderOpened {
        /// The rendition.
        rendition: RenditionId,
        /// The encoder's name in [`BACKENDS`](openuvr_media::encode::BACKENDS).
        encoder: String,
        /// Of its pictures.
        size: Size,
    },
    /// The encoder of a rendition was closed: nobody takes it any more, or it goes on in another thread. At the
    /// host's end all are closed, and none is told of.
    EncoderClosed(RenditionId),
    /// The player's picture has a new size, and a new configuration epoch began.
    Resized(Size),
    /// The player's window has this size now, in pixels; `None`: nobody plays, or in no window.
    PlayerWindow(Option<Size>),
    /// A client has waited for two seconds, and the application has handed over no picture yet
    /// ([`guest`](crate::guest)).
    NoPicture,
    /// Whether the source is to be seen: a window that was minimised is not.
    SourceShown(bool),
    /// From now on keys and clicks are kept back for this reason, since they would not reach the
    /// streamed window; `None`: they reach it again.
    InputWithheld(Option<&'static str>),
    /// What the person should know of the clipboard that the player shares: never what was copied.
    Clipboard(String),
    /// What the person should know of the sound: that it is captured from another device.
    Sound(String),
    /// The source ended in an orderly way; the host stops.
    SourceEnded(&'static str),
    /// Something failed for good; the host stops.
    Failed(String),
    /// Something failed and the host goes on.
    Warning(String),
    /// This reader was too slow: so many notices that stood here are lost to it.
    Lost(u64),
}

/// A reader of a host's notices; dropping it ends its queue. See
/// [`HostRuntime::notices`](super::HostRuntime::notices).
pub struct Notices(Arc<Queue>);

impl Notices {
    /// The next notice; `None` when `timeout` is over. From any thread.
    #[must_use]
    pub fn next(&self, timeout: Duration) -> Option<Notice> {
        let nothing = |state: &mut State| !state.has_any();
        let waited = (self.0.arrived).wait_timeout_while(self.0.lock(), timeout, nothing);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.pop()
    }

    /// All that wait.
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
    /// How many were lost in front of the oldest.
    lost: u64,
    /// The host's end, behind everything else.
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

/// Where the host's threads put their notices.
#[derive(Default)]
pub(super) struct Board(Mutex<Posted>);

#[derive(Default)]
struct Posted {
    readers: Vec<Weak<Queue>>,
    end: Option<Notice>,
}

impl Board {
    /// A reader of everything from now on; of a host that has ended, of its end.
    pub(super) fn reader(&self) -> Notices {
        let queue = Arc::<Queue>::default();
        let mut posted = self.lock();
        queue.lock().end = posted.end.clone();
        posted.readers.push(Arc::downgrade(&queue));
        Notices(queue)
    }

    /// For every reader.
    pub(super) fn post(&self, notice: Notice) {
        self.lock().each(notice, State::push);
    }

    /// The host's end; the first one counts.
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
    /// Gives it to each reader that is still there.
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
        // What the threads still say, more than there is room for.
        (0..=MAX_PENDING).map(note).for_each(|notice| board.post(notice));
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
