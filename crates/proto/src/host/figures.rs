//! How a host's subscribers see it now: their kinds and roles, and, of those that report on their frames, how many
//! they display a second and how late, over the newest seconds.
//!
//! Fed with the records of the [ledger](crate::ledger), beside [`Host`](super::Host) and not in it: whoever reads
//! figures must not hold up who sends frames. What nobody has reported is `None`, never zero.

use std::collections::VecDeque;
use std::time::Duration;

use super::request::SubscriberKind;
use crate::control::negotiate::Role;
use crate::id::{SubscriberId, ViewId};
use crate::quantile::nearest_rank;
use crate::time::{Instant, Mapped};
use crate::trace::{DropCause, FrameRecord, Outcome};

/// How far back figures look: p99 of 60 frames/s is then the third worst of 300.
pub const WINDOW: Duration = Duration::from_secs(5);

/// Frames a second of less time than this say too little (guess).
const LEAST: Duration = Duration::from_secs(1);

/// The most frames of a subscriber that are kept: those of [`WINDOW`] at 240 a second. Of more frames a second, a
/// shorter time is looked at.
const FRAMES: usize = 1200;

/// How one subscriber sees the host now.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SubscriberFigures {
    /// What it is.
    pub kind: SubscriberKind,
    /// Whether it plays.
    pub role: Role,
    /// Frames that it displayed whole, a second; of several views the first one's. `None`: it does not report, or
    /// has not done so for long enough.
    pub frames_per_second: Option<f64>,
    /// From [`Stage::Captured`](crate::trace::Stage::Captured) to the last stage that it reports, of these frames.
    /// `None`: there were none, or none with both times.
    pub latency: Option<LatencyFigures>,
}

/// Percentiles by nearest rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LatencyFigures {
    /// Half of the frames took no longer.
    pub p50: Duration,
    /// 99 of 100 frames took no longer.
    pub p99: Duration,
    /// Each may be off by so much, since two clocks are compared.
    pub bound: Duration,
}

/// What holds of all subscribers of one kind and role.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GroupFigures {
    /// What they are.
    pub kind: SubscriberKind,
    /// Whether they play.
    pub role: Role,
    /// How many they are; at least one.
    pub count: usize,
    /// The least that one of those has that are known.
    pub frames_per_second: Option<f64>,
    /// The largest that one of them has, each by itself.
    pub latency: Option<LatencyFigures>,
}

/// Puts those of one kind and role together; players first, then in the order of [`SubscriberKind::ALL`].
#[must_use]
pub fn grouped(all: &[SubscriberFigures]) -> Vec<GroupFigures> {
    let mut groups: Vec<GroupFigures> = Vec::new();
    for of in all {
        let same = |group: &&mut GroupFigures| (group.kind, group.role) == (of.kind, of.role);
        match groups.iter_mut().find(same) {
            Some(group) => group.add(of),
            None => groups.push(GroupFigures {
                kind: of.kind,
                role: of.role,
                count: 1,
                frames_per_second: of.frames_per_second,
                latency: of.latency,
            }),
        }
    }
    groups.sort_by_key(|group| (group.role != Role::Player, group.kind));
    groups
}

impl GroupFigures {
    fn add(&mut self, of: &SubscriberFigures) {
        self.count += 1;
        let rates = [self.frames_per_second, of.frames_per_second];
        self.frames_per_second = rates.into_iter().flatten().reduce(f64::min);
        let latencies = [self.latency, of.latency].into_iter().flatten();
        self.latency = latencies.reduce(|a, b| LatencyFigures {
            p50: a.p50.max(b.p50),
            p99: a.p99.max(b.p99),
            bound: a.bound.max(b.bound),
        });
    }
}

/// The newest frames of each subscriber. Its memory is taken when a subscriber comes (29 KB); noting a frame takes
/// none.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    subscribers: Vec<Newest>,
}

/// The newest frames of one.
#[derive(Clone, Debug)]
struct Newest {
    id: SubscriberId,
    kind: SubscriberKind,
    role: Role,
    /// From when on frames are counted: since its first report, or since a frame that had to make room.
    since: Option<Instant>,
    /// When it last reported on a frame …
    reported: Option<Instant>,
    /// … and when a frame last ended without a report that should have come.
    unreported: Option<Instant>,
    frames: VecDeque<DisplayedFrame>,
}

/// A frame that was displayed whole.
#[derive(Clone, Copy, Debug)]
struct DisplayedFrame {
    at: Instant,
    latency: Option<Micros>,
}

/// A latency and its bound in microseconds, which are precise enough and half as large.
#[derive(Clone, Copy, Debug)]
struct Micros {
    span: u32,
    bound: u32,
}

impl Figures {
    /// Somebody subscribed.
    pub fn joined(&mut self, id: SubscriberId, kind: SubscriberKind, role: Role) {
        self.left(id);
        self.subscribers.push(Newest {
            id,
            kind,
            role,
            since: None,
            reported: None,
            unreported: None,
            frames: VecDeque::with_capacity(FRAMES),
        });
    }

    /// Its role changed.
    pub fn role_changed(&mut self, id: SubscriberId, role: Role) {
        if let Some(of) = self.of(id) {
            of.role = role;
        }
    }

    /// It is gone.
    pub fn left(&mut self, id: SubscriberId) {
        self.subscribers.retain(|of| of.id != id);
    }

    /// A frame ended for a subscriber, which was just heard of.
    pub fn note(&mut self, now: Instant, record: &FrameRecord) {
        if record.view == ViewId::FIRST
            && let Some(of) = self.of(record.subscriber)
        {
            of.note(now, record);
        }
    }

    /// All subscribers, in the order in which they came.
    #[must_use]
    pub fn read(&self, now: Instant) -> Vec<SubscriberFigures> {
        self.subscribers.iter().map(|of| of.read(now)).collect()
    }

    fn of(&mut self, id: SubscriberId) -> Option<&mut Newest> {
        self.subscribers.iter_mut().find(|of| of.id == id)
    }
}

impl Newest {
    fn note(&mut self, now: Instant, record: &FrameRecord) {
        match record.outcome {
            Outcome::Displayed(_)
            | Outcome::Dropped {
                why: DropCause::Lost | DropCause::DecodeFailed,
                ..
            } => {
                self.reported = Some(now);
                self.since.get_or_insert(now);
            }
            Outcome::Dropped {
                why: DropCause::Unreported,
                ..
            } => self.unreported = Some(now),
            // What the host alone has decided says nothing of the other end.
            Outcome::SentUnacknowledged | Outcome::Dropped { .. } => {}
        }
        if record.outcome.is_complete() {
            if self.frames.len() == FRAMES {
                self.since = self.frames.pop_front().map(|oldest| oldest.at);
            }
            self.frames.push_back(DisplayedFrame {
                at: now,
                latency: record.captured_to_last().map(Micros::of),
            });
        }
    }

    /// Whether it is known what becomes of its frames: of one that fell silent it is no more, of one that has got no
    /// frame for long (a still picture) it is.
    fn reports(&self) -> bool {
        let silent = |reported: Instant| {
            let unreported = self.unreported;
            unreported.is_some_and(|unreported| unreported.since(reported) >= WINDOW)
        };
        self.reported.is_some_and(|reported| !silent(reported))
    }

    fn read(&self, now: Instant) -> SubscriberFigures {
        let from = now - WINDOW;
        let newest = || self.frames.iter().filter(|shown| shown.at > from);
        let since = self.since.filter(|_| self.reports());
        SubscriberFigures {
            kind: self.kind,
            role: self.role,
            frames_per_second: since.and_then(|since| {
                let since = since.max(from);
                let count = newest().filter(|shown| shown.at > since).count();
                per_second(count, now.since(since))
            }),
            latency: latency(newest().filter_map(|shown| shown.latency)),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "at most FRAMES")]
fn per_second(count: usize, span: Duration) -> Option<f64> {
    (span >= LEAST).then(|| count as f64 / span.as_secs_f64())
}

fn latency(measured: impl Iterator<Item = Micros>) -> Option<LatencyFigures> {
    let mut bound = 0;
    let noted = measured.map(|of| {
        bound = bound.max(of.bound);
        of.span
    });
    let mut sorted: Vec<u32> = noted.collect();
    sorted.sort_unstable();
    let span = |micros| Duration::from_micros(u64::from(micros));
    Some(LatencyFigures {
        p50: span(nearest_rank(&sorted, 50)?),
        p99: span(nearest_rank(&sorted, 99)?),
        bound: span(bound),
    })
}

impl Micros {
    fn of(span: Mapped<Duration>) -> Micros {
        let micros = |span: Duration| u32::try_from(span.as_micros()).unwrap_or(u32::MAX);
        Micros {
            span: micros(span.at),
            bound: micros(span.bound),
        }
    }
}

#[cfg(test)]
mod tests;
