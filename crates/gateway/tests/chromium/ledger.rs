//! What a host says of each frame of each subscriber, kept while a test does something else.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use openuvr_proto::control::negotiate::Role;
use openuvr_proto::id::{RenditionId, SubscriberId};
use openuvr_proto::trace::{Fidelity, FrameRecord, Outcome};
use openuvr_runtime::host::{Notice, Notices};

/// What the host said until now.
#[derive(Default)]
pub(super) struct Ledger {
    /// Who came, as what, and the rendition of each.
    pub(super) subscribers: HashMap<SubscriberId, (Role, String, RenditionId)>,
    /// How each frame ended, as often as the host said so.
    pub(super) records: HashMap<SubscriberId, BTreeMap<u32, Vec<Outcome>>>,
    pub(super) encoders_opened: usize,
    /// Those that came for a description of the stream alone, and leave again.
    asked: HashSet<SubscriberId>,
    /// What is not to be: somebody left, a notice was lost, an encoder was closed.
    pub(super) wrong: Vec<String>,
}

impl Ledger {
    fn note(&mut self, notice: Notice) {
        match notice {
            Notice::Subscribed {
                subscriber,
                software,
                ..
            } if software == "the description of the stream" => {
                self.asked.insert(subscriber);
            }
            Notice::Ended(subscriber, _) if self.asked.contains(&subscriber) => {}
            Notice::Record(record) if self.asked.contains(&record.subscriber) => {}
            Notice::Subscribed {
                subscriber,
                role,
                software,
                rendition,
                ..
            } => {
                self.subscribers
                    .insert(subscriber, (role, software, rendition));
            }
            Notice::Record(record) => self.record(&record),
            Notice::EncoderOpened { .. } => self.encoders_opened += 1,
            wrong @ (Notice::EncoderClosed(_)
            | Notice::Ended(..)
            | Notice::Lost(_)
            | Notice::Failed(_)) => self.wrong.push(format!("{wrong:?}")),
            _ => {}
        }
    }

    fn record(&mut self, record: &FrameRecord) {
        let of = self.records.entry(record.subscriber).or_default();
        of.entry(record.frame.0).or_default().push(record.outcome);
    }

    pub(super) fn newest(&self) -> u32 {
        let newest = self
            .records
            .values()
            .filter_map(|frames| frames.keys().last());
        newest.max().copied().unwrap_or(0)
    }

    /// Frames of a subscriber that came to where they can be seen.
    pub(super) fn arrived(&self, whose: SubscriberId) -> usize {
        let arrives = |outcome: &Outcome| {
            matches!(outcome, Outcome::Displayed(Fidelity::Whole) | Outcome::Left)
        };
        let frames = self.records.get(&whose).into_iter().flatten();
        frames
            .filter(|(_, outcomes)| outcomes.iter().any(arrives))
            .count()
    }

    /// The first frame up to `last` of which nothing was said to somebody who had one before it.
    pub(super) fn unaccounted(&self, last: u32) -> Option<(SubscriberId, u32)> {
        self.subscribers.keys().find_map(|whose| {
            let frames = self.records.get(whose)?;
            let first = *frames.keys().next()?;
            (first..=last)
                .find(|frame| !frames.contains_key(frame))
                .map(|frame| (*whose, frame))
        })
    }

    /// Who has subscribed as this and with a program of this name.
    pub(super) fn who(&self, role: Role, software: &str) -> Vec<SubscriberId> {
        let fits = |(_, (is, by, _)): &(&SubscriberId, &(Role, String, RenditionId))| {
            *is == role && by.contains(software)
        };
        self.subscribers
            .iter()
            .filter(fits)
            .map(|(id, _)| *id)
            .collect()
    }
}

/// Something that goes on in a thread until it is dropped.
pub(super) struct Going {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Going {
    pub(super) fn on(mut turn: impl FnMut() + Send + 'static) -> Going {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                turn();
            }
        });
        Going {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        if ended.is_some_and(|ended| ended.is_err()) && !std::thread::panicking() {
            panic!("a thread of the test panicked");
        }
    }
}

pub(super) fn listen(notices: Notices) -> (Going, Arc<Mutex<Ledger>>) {
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    let noted = ledger.clone();
    let going = Going::on(move || {
        if let Some(notice) = notices.next(Duration::from_millis(20)) {
            noted
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .note(notice);
        }
    });
    (going, ledger)
}
