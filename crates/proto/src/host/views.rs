//! The views of a client: their ledgers and beacons.

use std::time::Duration;

use crate::control::streams::Grant;
use crate::id::{FrameId, SubscriberId, ViewId};
use crate::ledger::Ledger;
use crate::recv::plane::MAX_VIEWS;
use crate::time::Instant;
use crate::trace::FrameRecord;
use crate::wire::control::Message;
use crate::wire::media::StreamKind;

/// Times after the newest frame at which its number is repeated, so that its loss is detected even if no frame follows
/// (`docs/protocol.md`, "Beacons").
const BEACONS: [Duration; 3] = [
    Duration::from_millis(5),
    Duration::from_millis(20),
    Duration::from_millis(100),
];

/// The interval of repetitions after the last of `BEACONS`.
const BEACON_EVERY: Duration = Duration::from_millis(500);

/// One view of one client.
pub(super) struct View {
    pub(super) id: ViewId,
    pub(super) ledger: Ledger,
    newest_sent: FrameId,
    /// When the next beacon is due, and the step of the schedule.
    beacon: Option<(Instant, usize)>,
}

impl View {
    fn new(subscriber: SubscriberId, reports: bool, id: ViewId) -> View {
        View {
            id,
            ledger: Ledger::new(subscriber, reports, id),
            newest_sent: FrameId::NONE,
            beacon: None,
        }
    }

    /// Announces the newest frame periodically until a newer one is sent.
    pub(super) fn announce(&mut self, now: Instant, frame: FrameId) {
        self.newest_sent = self.newest_sent.max(frame);
        self.beacon = Some((now + BEACONS[0], 0));
    }

    pub(super) fn poll_beacon(&mut self, now: Instant) -> Option<Message<'static>> {
        let (_, step) = self.beacon.filter(|(at, _)| *at <= now)?;
        let wait: Duration = match BEACONS.get(step + 1) {
            Some(next) => *next - BEACONS[step],
            None => BEACON_EVERY,
        };
        self.beacon = Some((now + wait, step + 1));
        Some(Message::Beacon {
            view: self.id,
            newest: self.newest_sent,
        })
    }

    pub(super) fn next_beacon(&self) -> Option<Instant> {
        self.beacon.map(|(at, _)| at)
    }
}

/// The views of a client: the first view and the granted ones.
pub(super) struct Views {
    subscriber: SubscriberId,
    reports: bool,
    all: Vec<View>,
}

impl Views {
    /// The views of a subscriber with or without reports.
    pub(super) fn new(subscriber: SubscriberId, reports: bool) -> Views {
        Views {
            subscriber,
            reports,
            all: vec![View::new(subscriber, reports, ViewId::FIRST)],
        }
    }

    /// Adds the granted views.
    pub(super) fn granted(&mut self, grants: &[Grant]) {
        let video = grants.iter().filter(|g| g.stream.kind == StreamKind::Video);
        for grant in video {
            for view in 0..grant.views {
                let stream = grant.stream.number;
                let id = ViewId { stream, view };
                if self.get(id).is_none() && self.all.len() < MAX_VIEWS {
                    let view = View::new(self.subscriber, self.reports, id);
                    self.all.push(view);
                }
            }
        }
    }

    pub(super) fn get(&mut self, id: ViewId) -> Option<&mut View> {
        self.all.iter_mut().find(|view| view.id == id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &View> {
        self.all.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut View> {
        self.all.iter_mut()
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        for view in &mut self.all {
            view.ledger.handle_timeout(now);
        }
    }

    /// When a ledger has a timeout.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let due = self
            .all
            .iter()
            .filter_map(|view| view.ledger.next_timeout());
        due.min()
    }

    /// The next frame record.
    pub(super) fn poll(&mut self) -> Option<FrameRecord> {
        self.all.iter_mut().find_map(|view| view.ledger.poll())
    }

    pub(super) fn check_invariants(&self) {
        self.all
            .iter()
            .for_each(|view| view.ledger.check_invariants());
    }
}
