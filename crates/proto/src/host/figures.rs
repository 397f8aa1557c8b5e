//! Statistics of a host's subscribers: kind, role and, from their reports, frame rate and latency over a sliding window.
//!
//! The statistics are computed from the records of the [ledger](crate::ledger), outside of [`Host`](super::Host),
//! because readers must not block the sending threads. Unreported values are `None`, never zero.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};

use super::request::SubscriberKind;
use crate::control::negotiate::Role;
use crate::id::{SubscriberId, ViewId};
use crate::quantile::nearest_rank;
use crate::time::{Instant, Mapped};
use crate::trace::{DropCause, FrameRecord, Outcome};
use crate::validated::{Invalid, nanos};

/// The sliding window. At 60 frames/s, p99 is then the fourth worst of 300 frames.
pub const WINDOW: Duration = Duration::from_secs(5);

/// Minimum time over which a frame rate is calculated (guess).
const LEAST: Duration = Duration::from_secs(1);

/// Maximum frames kept per subscriber: the frames within [`WINDOW`] at 240 frames a second. At higher rates, the window
/// is shorter.
const FRAMES: usize = 1200;

/// Statistics of one subscriber.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct SubscriberFigures {
    /// Its kind.
    pub kind: SubscriberKind,
    /// Its role.
    pub role: Role,
    /// Completely displayed frames a second, of the first view. `None` if the subscriber does not report, has stopped
    /// reporting on the frames that it gets, or has reported for less than a second.
    #[serde(deserialize_with = "rate")]
    pub frames_per_second: Option<f64>,
    /// Latency of the completely displayed frames from [`Stage::Captured`](crate::trace::Stage::Captured) to the last
    /// reported stage. `None` if there are no such frames, or if no such frame has both times.
    pub latency: Option<LatencyFigures>,
    /// The share of datagrams with CE, 0–1, among the completely displayed frames' datagrams with ECT(1) or CE. `None`
    /// if there are no such datagrams, for example without L4S.
    #[serde(deserialize_with = "ratio")]
    pub ce_share: Option<f64>,
}

/// Latency percentiles by nearest rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "[u64; 3]", into = "[u64; 3]")]
pub struct LatencyFigures {
    /// The median.
    pub p50: Duration,
    /// The 99th percentile.
    pub p99: Duration,
    /// Maximum error of each percentile, from the clock map.
    pub bound: Duration,
}

/// A frame rate, if known: finite and not negative.
fn rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    let rate = Option::<f64>::deserialize(deserializer)?;
    match rate.is_none_or(|rate| rate.is_finite() && rate >= 0.0) {
        true => Ok(rate),
        false => Err(serde::de::Error::custom(Invalid("frame rate"))),
    }
}

/// Deserializes a share of 0–1, or `None` if the share is unknown.
fn ratio<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    let ratio = Option::<f64>::deserialize(deserializer)?;
    match ratio.is_none_or(|ratio| (0.0..=1.0).contains(&ratio)) {
        true => Ok(ratio),
        false => Err(serde::de::Error::custom(Invalid("share"))),
    }
}

impl TryFrom<[u64; 3]> for LatencyFigures {
    type Error = Invalid;

    fn try_from(nanos: [u64; 3]) -> Result<LatencyFigures, Invalid> {
        let [p50, p99, bound] = nanos.map(Duration::from_nanos);
        let figures = LatencyFigures { p50, p99, bound };
        (p50 <= p99).then_some(figures).ok_or(Invalid("latency"))
    }
}

impl From<LatencyFigures> for [u64; 3] {
    fn from(figures: LatencyFigures) -> [u64; 3] {
        [figures.p50, figures.p99, figures.bound].map(nanos)
    }
}

/// Statistics over all subscribers of one kind and role.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GroupFigures {
    /// Their kind.
    pub kind: SubscriberKind,
    /// Their role.
    pub role: Role,
    /// Their number; at least one.
    pub count: usize,
    /// The minimum of the known rates.
    pub frames_per_second: Option<f64>,
    /// For each field, the maximum of the known values.
    pub latency: Option<LatencyFigures>,
    /// The maximum of the known shares.
    pub ce_share: Option<f64>,
}

/// Groups subscribers by kind and role; players first, then in the order of [`SubscriberKind::ALL`].
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
                ce_share: of.ce_share,
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
        let shares = [self.ce_share, of.ce_share];
        self.ce_share = shares.into_iter().flatten().reduce(f64::max);
    }
}

/// The newest frames of each subscriber. Memory is allocated when a subscriber joins (29 KB), not per frame.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    subscribers: Vec<Newest>,
}

/// The newest frames of one subscriber.
#[derive(Clone, Debug)]
struct Newest {
    id: SubscriberId,
    kind: SubscriberKind,
    role: Role,
    /// Start of the counted time: the subscriber's first report, or the last frame that was evicted.
    since: Option<Instant>,
    /// Time of its last report.
    reported: Option<Instant>,
    /// Time of the last frame with a missing report.
    unreported: Option<Instant>,
    frames: VecDeque<DisplayedFrame>,
}

/// A completely displayed frame.
#[derive(Clone, Copy, Debug)]
struct DisplayedFrame {
    at: Instant,
    latency: Option<Micros>,
    /// Number of datagrams with ECT(1) or CE, and number of datagrams with CE.
    l4s: (u16, u16),
}

/// A latency and its error bound in microseconds: precise enough, and half as large as in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Micros {
    span: u32,
    bound: u32,
}

impl Figures {
    /// Adds a subscriber that joined.
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

    /// Records a subscriber's new role.
    pub fn role_changed(&mut self, id: SubscriberId, role: Role) {
        if let Some(of) = self.of(id) {
            of.role = role;
        }
    }

    /// Removes a subscriber that left.
    pub fn left(&mut self, id: SubscriberId) {
        self.subscribers.retain(|of| of.id != id);
    }

    /// Adds the record of a frame that just ended.
    pub fn note(&mut self, now: Instant, record: &FrameRecord) {
        if record.view == ViewId::FIRST
            && let Some(of) = self.of(record.subscriber)
        {
            of.note(now, record);
        }
    }

    /// All subscribers, in the order of joining.
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
            // A frame that ended at the host shows nothing about the client.
            Outcome::SentUnacknowledged | Outcome::Dropped { .. } => {}
        }
        if record.outcome.is_complete() {
            if self.frames.len() == FRAMES {
                self.since = self.frames.pop_front().map(|oldest| oldest.at);
            }
            self.frames.push_back(DisplayedFrame {
                at: now,
                latency: record.captured_to_last().map(Micros::of),
                l4s: record
                    .ecn
                    .map_or((0, 0), |ecn| (ecn.ect1.saturating_add(ecn.ce), ecn.ce)),
            });
        }
    }

    /// Whether the subscriber reports on its frames: `false` before the first report, and after it has stopped
    /// reporting on the frames that it gets. While it gets no frames (a still picture), the value does not change.
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
            ce_share: share(newest().map(|shown| shown.l4s)),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "at most FRAMES")]
fn per_second(count: usize, span: Duration) -> Option<f64> {
    (span >= LEAST).then(|| count as f64 / span.as_secs_f64())
}

/// The share of datagrams with CE, from pairs as in [`DisplayedFrame::l4s`].
fn share(counts: impl Iterator<Item = (u16, u16)>) -> Option<f64> {
    let (all, marked) = counts.fold((0_u32, 0_u32), |(all, marked), (frame, ce)| {
        (all + u32::from(frame), marked + u32::from(ce))
    });
    (all > 0).then(|| f64::from(marked) / f64::from(all))
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
