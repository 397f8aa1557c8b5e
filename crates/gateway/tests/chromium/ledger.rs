//! Records in the background a host's reports about each frame of each subscriber.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use openuvr_proto::control::negotiate::Role;
use openuvr_proto::id::{RenditionId, SubscriberId};
use openuvr_proto::trace::{Fidelity, FrameRecord, Outcome};
use openuvr_runtime::host::{Notice, Notices};

/// The reports so far.
#[derive(Default)]
pub(super) struct Ledger {
    pub(super) subscribers: HashMap<SubscriberId, (Role, String, RenditionId)>,
    /// Results of each frame, including duplicates.
    pub(super) records: HashMap<SubscriberId, BTreeMap<u32, Vec<Outcome>>>,
    pub(super) encoders_opened: usize,
    /// Subscribers that only fetch a description of the stream and leave.
    asked: HashSet<SubscriberId>,
    /// Unexpected events: a subscriber left, a notice was lost, an encoder was closed.
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

    /// Number of a subscriber's frames that were displayed completely, or sent to a subscriber without reports.
    pub(super) fn arrived(&self, subscriber: SubscriberId) -> usize {
        let arrives = |outcome: &Outcome| {
            matches!(
                outcome,
                Outcome::Displayed(Fidelity::Complete) | Outcome::SentUnacknowledged
            )
        };
        let frames = self.records.get(&subscriber).into_iter().flatten();
        frames
            .filter(|(_, outcomes)| outcomes.iter().any(arrives))
            .count()
    }

    /// The first missing report up to frame `last`: a subscriber that had earlier reports, and the frame.
    pub(super) fn unaccounted(&self, last: u32) -> Option<(SubscriberId, u32)> {
        self.subscribers.keys().find_map(|subscriber| {
            let frames = self.records.get(subscriber)?;
            let first = *frames.keys().next()?;
            (first..=last)
                .find(|frame| !frames.contains_key(frame))
                .map(|frame| (*subscriber, frame))
        })
    }

    /// Subscribers with this role and program name.
    pub(super) fn subscribers_as(&self, role: Role, software: &str) -> Vec<SubscriberId> {
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

/// A background thread that ends when this value is dropped.
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
            panic!("a background thread panicked");
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
