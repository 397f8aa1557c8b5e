//! The counts of frames by outcome, for each subscriber.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use openuvr_proto::control::negotiate::Role;
use openuvr_proto::id::SubscriberId;
use openuvr_proto::printable::is_printable;
use openuvr_proto::time::Instant;
use openuvr_proto::trace::{Fidelity, FrameRecord, Outcome};

/// Maximum number of separately counted subscribers: a player and 64 observers, and as many former subscribers. Beyond
/// this number, the subscriber without records for the longest time is added to [`Summary::earlier`].
pub(super) const MAX_SUBSCRIBERS: usize = 130;

/// The numbers of frames by outcome.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Count {
    /// The number of records. Each captured frame has a record.
    pub captured: u64,
    /// Displayed completely.
    pub complete: u64,
    /// Displayed with concealed errors.
    pub concealed: u64,
    /// Displayed, but predicted from a concealed or tainted frame.
    pub tainted: u64,
    /// Sent to a subscriber without reports.
    pub unacknowledged: u64,
    /// Frames that were not displayed, by the name of the cause.
    pub dropped: BTreeMap<String, u64>,
}

impl Count {
    fn count_outcome(&mut self, outcome: Outcome) {
        self.captured += 1;
        match outcome {
            Outcome::Displayed(Fidelity::Complete) => self.complete += 1,
            Outcome::Displayed(Fidelity::Concealed) => self.concealed += 1,
            Outcome::Displayed(Fidelity::Tainted) => self.tainted += 1,
            Outcome::SentUnacknowledged => self.unacknowledged += 1,
            Outcome::Dropped { why, .. } => {
                *self.dropped.entry(format!("{why:?}")).or_default() += 1;
            }
        }
    }

    fn add(&mut self, other: &Count) {
        self.captured += other.captured;
        self.complete += other.complete;
        self.concealed += other.concealed;
        self.tainted += other.tainted;
        self.unacknowledged += other.unacknowledged;
        for (cause, count) in &other.dropped {
            *self.dropped.entry(cause.clone()).or_default() += count;
        }
    }

    /// The number of frames dropped for any cause.
    pub fn all_dropped(&self) -> u64 {
        self.dropped.values().sum()
    }

    /// Whether each captured frame has exactly one outcome.
    pub fn adds_up(&self) -> bool {
        let displayed = self.complete + self.concealed + self.tainted;
        self.captured == displayed + self.unacknowledged + self.all_dropped()
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Count {
            captured,
            complete,
            concealed,
            tainted,
            unacknowledged,
            dropped,
        } = self;
        let all = self.all_dropped();
        write!(
            f,
            "{captured} captured = {complete} complete + {concealed} concealed + {tainted} tainted + "
        )?;
        // This count is shown only for a subscriber without reports.
        if *unacknowledged > 0 {
            write!(f, "{unacknowledged} sent + ")?;
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
pub struct Subscriber {
    /// The subscriber's name, sanitised for a terminal.
    pub name: String,
    /// The subscriber's role in its last record.
    pub role: Role,
    /// The subscriber's frames by outcome.
    pub count: Count,
    /// The time of the subscriber's last record.
    pub(super) last_record: Instant,
    lowest: u32,
    highest: u32,
}

impl Subscriber {
    /// The number of missing records between the subscriber's first and last frame. At the host, where each captured
    /// frame has an outcome, this number is zero. A client does not know which frames the host never sent.
    pub fn unaccounted(&self) -> u64 {
        let span = u64::from(self.highest - self.lowest) + 1;
        span.saturating_sub(self.count.captured)
    }
}

/// The counts of all subscribers of a running stream.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    subscribers: HashMap<SubscriberId, Subscriber>,
    earlier: Count,
}

impl Totals {
    pub(super) fn count(&mut self, now: Instant, record: &FrameRecord, role: Role, name: &str) {
        let known = self.subscribers.contains_key(&record.subscriber);
        if !known && self.subscribers.len() == MAX_SUBSCRIBERS {
            self.merge_oldest();
        }
        let frame = record.frame.0;
        let subscriber = self
            .subscribers
            .entry(record.subscriber)
            .or_insert_with(|| Subscriber {
                name: name.chars().filter(|c| is_printable(*c)).take(64).collect(),
                role,
                count: Count::default(),
                last_record: now,
                lowest: frame,
                highest: frame,
            });
        subscriber.role = role;
        subscriber.last_record = now;
        subscriber.lowest = subscriber.lowest.min(frame);
        subscriber.highest = subscriber.highest.max(frame);
        subscriber.count.count_outcome(record.outcome);
    }

    fn merge_oldest(&mut self) {
        let silent = self.subscribers.iter().min_by_key(|(_, s)| s.last_record);
        let Some(id) = silent.map(|(id, _)| *id) else {
            return;
        };
        if let Some(gone) = self.subscribers.remove(&id) {
            self.earlier.add(&gone.count);
        }
    }

    /// A subscriber, if it is still counted separately.
    pub(super) fn of(&self, id: SubscriberId) -> Option<&Subscriber> {
        self.subscribers.get(&id)
    }

    /// All separately counted subscribers: players first, then by name.
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

/// The outcomes of all frames of a run.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Each subscriber: players first, then by name.
    pub subscribers: Vec<Subscriber>,
    /// The summed counts of the subscribers that are no longer counted separately.
    pub earlier: Count,
}

impl Summary {
    /// Whether each captured frame has exactly one outcome, for each subscriber.
    pub fn adds_up(&self) -> bool {
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
