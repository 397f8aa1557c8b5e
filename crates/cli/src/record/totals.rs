//! Totals: how many frames ended how, for each subscriber.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use openuvr_proto::control::negotiate::Role;
use openuvr_proto::id::SubscriberId;
use openuvr_proto::printable::is_printable;
use openuvr_proto::time::Instant;
use openuvr_proto::trace::{Fidelity, FrameRecord, Outcome};

/// Subscribers that are kept apart: a player and 64 observers, and as many that just left. Of
/// more, the one that was silent for longest is added to [`Summary::earlier`].
pub(super) const MOST: usize = 130;

/// How many frames ended how.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Count {
    /// Records that were made: frames that were captured.
    pub(crate) captured: u64,
    /// Displayed with every byte.
    pub(crate) whole: u64,
    /// Displayed with something patched.
    pub(crate) concealed: u64,
    /// Displayed on top of a patched one.
    pub(crate) tainted: u64,
    /// Left for one who says nothing of them.
    pub(crate) left: u64,
    /// Not displayed: how many for which cause, by the name of its variant.
    pub(crate) dropped: BTreeMap<String, u64>,
}

impl Count {
    fn note(&mut self, outcome: Outcome) {
        self.captured += 1;
        match outcome {
            Outcome::Displayed(Fidelity::Whole) => self.whole += 1,
            Outcome::Displayed(Fidelity::Concealed) => self.concealed += 1,
            Outcome::Displayed(Fidelity::Tainted) => self.tainted += 1,
            Outcome::Left => self.left += 1,
            Outcome::Dropped { why, .. } => {
                *self.dropped.entry(format!("{why:?}")).or_default() += 1;
            }
        }
    }

    fn add(&mut self, other: &Count) {
        self.captured += other.captured;
        self.whole += other.whole;
        self.concealed += other.concealed;
        self.tainted += other.tainted;
        self.left += other.left;
        for (cause, count) in &other.dropped {
            *self.dropped.entry(cause.clone()).or_default() += count;
        }
    }

    /// Frames that were dropped, for whatever cause.
    pub(crate) fn all_dropped(&self) -> u64 {
        self.dropped.values().sum()
    }

    /// Whether each captured frame ended in exactly one way.
    pub(crate) fn adds_up(&self) -> bool {
        let displayed = self.whole + self.concealed + self.tainted;
        self.captured == displayed + self.left + self.all_dropped()
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Count {
            captured,
            whole,
            concealed,
            tainted,
            left,
            dropped,
        } = self;
        let all = self.all_dropped();
        write!(
            f,
            "{captured} captured = {whole} whole + {concealed} concealed + {tainted} tainted + "
        )?;
        // Only of one who says nothing of its frames.
        if *left > 0 {
            write!(f, "{left} left + ")?;
        }
        write!(f, "{all} dropped")?;
        let causes: Vec<String> = dropped
            .iter()
            .map(|(why, n)| format!("{why} {n}"))
            .collect();
        if causes.is_empty() {
            Ok(())
        } else {
            write!(f, " ({})", causes.join(", "))
        }
    }
}

/// One subscriber's frames.
#[derive(Clone, Debug)]
pub(crate) struct Subscriber {
    /// Its name, made fit for a terminal.
    pub(crate) name: String,
    /// Its role when it was heard last.
    pub(crate) role: Role,
    /// How its frames ended.
    pub(crate) count: Count,
    /// When its last record came.
    pub(super) heard: Instant,
    lowest: u32,
    highest: u32,
}

impl Subscriber {
    /// Frames between its first and its last of which no record came: none at the host, where
    /// each captured frame has an end. A client knows nothing of what did not leave the host.
    pub(crate) fn unaccounted(&self) -> u64 {
        let span = u64::from(self.highest - self.lowest) + 1;
        span.saturating_sub(self.count.captured)
    }
}

/// The totals of all subscribers while they run.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    subscribers: HashMap<SubscriberId, Subscriber>,
    earlier: Count,
}

impl Totals {
    pub(super) fn count(&mut self, now: Instant, record: &FrameRecord, role: Role, name: &str) {
        let known = self.subscribers.contains_key(&record.subscriber);
        if !known && self.subscribers.len() == MOST {
            self.forget_one();
        }
        let frame = record.frame.0;
        let subscriber = self
            .subscribers
            .entry(record.subscriber)
            .or_insert_with(|| Subscriber {
                name: name.chars().filter(|c| is_printable(*c)).take(64).collect(),
                role,
                count: Count::default(),
                heard: now,
                lowest: frame,
                highest: frame,
            });
        subscriber.role = role;
        subscriber.heard = now;
        subscriber.lowest = subscriber.lowest.min(frame);
        subscriber.highest = subscriber.highest.max(frame);
        subscriber.count.note(record.outcome);
    }

    fn forget_one(&mut self) {
        let silent = self.subscribers.iter().min_by_key(|(_, s)| s.heard);
        let Some(id) = silent.map(|(id, _)| *id) else {
            return;
        };
        if let Some(gone) = self.subscribers.remove(&id) {
            self.earlier.add(&gone.count);
        }
    }

    /// A subscriber, if it is still kept apart.
    pub(super) fn of(&self, id: SubscriberId) -> Option<&Subscriber> {
        self.subscribers.get(&id)
    }

    /// All that are kept apart: players first, then by name.
    pub(super) fn in_order(&self) -> Vec<(SubscriberId, &Subscriber)> {
        let mut all: Vec<_> = self.subscribers.iter().map(|(id, s)| (*id, s)).collect();
        all.sort_by_key(|(id, s)| (s.role != Role::Player, s.name.clone(), id.number()));
        all
    }

    pub(super) fn into_summary(self) -> Summary {
        let subscribers: Vec<Subscriber> = self
            .in_order()
            .into_iter()
            .map(|(_, s)| s.clone())
            .collect();
        let summary = Summary {
            subscribers,
            earlier: self.earlier,
        };
        debug_assert!(summary.adds_up(), "{summary}");
        summary
    }
}

/// How all frames of a run ended.
#[derive(Clone, Debug)]
pub(crate) struct Summary {
    /// Each subscriber: players first, then by name.
    pub(crate) subscribers: Vec<Subscriber>,
    /// Those that are not kept apart any more, added up.
    pub(crate) earlier: Count,
}

impl Summary {
    /// Whether each captured frame ended in exactly one way, for each subscriber.
    pub(crate) fn adds_up(&self) -> bool {
        self.earlier.adds_up() && self.subscribers.iter().all(|s| s.count.adds_up())
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for subscriber in &self.subscribers {
            writeln!(
                f,
                "{} ({}): {}",
                subscriber.name,
                subscriber.role.name(),
                subscriber.count
            )?;
        }
        if self.earlier.captured > 0 {
            writeln!(f, "earlier clients: {}", self.earlier)?;
        }
        Ok(())
    }
}
