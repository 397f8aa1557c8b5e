//! The ledger: every captured frame ends in exactly one outcome per subscriber.

use std::collections::VecDeque;
use std::time::Duration;

use crate::control::clock::{ClockMap, Mapped};
use crate::id::{FrameId, SubscriberId, ViewId};
use crate::send::loss::LossMeter;
use crate::send::subscriber::Departure;
use crate::time::{Instant, PeerInstant};
use crate::trace::{ClientStamps, DropCause, FrameCost, FrameRecord, Outcome, Stage, Stamps};
use crate::wire::control::Report;

/// Time after which a frame counts as unreported if no report has closed it. Reports are repeated about every two round
/// trips, so several repetitions were lost.
pub const REPORT_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum number of frames without a report: the frames within [`REPORT_TIMEOUT`] at 240 frames/s, rounded up. The
/// limit does not apply while the oldest frame is in hand, that is, handed to a component but not sent yet. The
/// subscriber's queue limits the number of such frames (`send::intake`).
const MAX_PENDING: usize = 512;

/// A frame that was sent to a subscriber.
#[derive(Clone, Copy, Debug)]
pub struct SentFrame {
    /// The view.
    pub view: ViewId,
    /// Its frame.
    pub frame: FrameId,
    /// The host's timestamps, up to [`Stage::LastSent`].
    pub stamps: Stamps,
    /// Its cost.
    pub cost: FrameCost,
}

impl SentFrame {
    fn departed(&mut self, left: &Departure) {
        for (stage, at) in [(Stage::FirstSent, left.first), (Stage::LastSent, left.last)] {
            if let Some(at) = at {
                self.stamps.stamp(stage, at);
            }
        }
        if left.datagrams > 0 {
            (self.cost.datagrams, self.cost.parity) = (left.datagrams, left.parity);
            self.cost.bytes = left.bytes;
        }
    }
}

/// The record of a frame as its client reports it. `here` maps the client's clock to the host's. The record contains
/// neither the host's timestamps of the frame nor its cost.
pub fn of_report(
    subscriber: SubscriberId,
    report: &Report,
    here: impl Fn(PeerInstant) -> Option<Mapped<Instant>>,
) -> FrameRecord {
    FrameRecord {
        client: ClientStamps {
            first_received: report.first_received,
            first_received_here: report.first_received.and_then(here),
            recoverable: report.recoverable,
            decoded: report.decoded,
            submitted: report.submitted,
            presented: report.presented,
        },
        motion_to_photon: report.motion_to_photon,
        echo: report.echo,
        received: report.datagrams,
        missing: report.missing,
        runs: report.runs,
        repaired: report.repaired,
        resent: report.resent,
        pose: report.pose,
        ecn: report.ecn,
        age: report.age,
        ..FrameRecord::new(subscriber, (report.view, report.frame), report.outcome)
    }
}

/// An update on a frame after it was sent.
#[derive(Clone, Copy, Debug)]
enum FrameUpdate {
    /// The client reported on it.
    Report(Report),
    /// The component to which the frame was handed has sent it.
    Departed(FrameId, Departure),
    /// The component did not accept the frame.
    Missed(FrameId, Stage, DropCause),
}

impl FrameUpdate {
    fn frame(&self) -> FrameId {
        match self {
            FrameUpdate::Report(report) => report.frame,
            FrameUpdate::Departed(frame, _) | FrameUpdate::Missed(frame, ..) => *frame,
        }
    }
}

/// Maximum number of deferred updates, which arrive before the media thread reports their frames as sent. A rendition
/// in its own thread reports through the control thread, which may be late by some frames.
const MAX_EARLY: usize = 32;

/// A frame without a final outcome.
#[derive(Clone, Copy, Debug)]
struct PendingFrame {
    /// The send time; for a frame in hand, the time at which it was handed over.
    since: Instant,
    sent: SentFrame,
    /// The frame was handed to a component that has not sent it yet. The client's report on the frame is deferred.
    in_hand: bool,
}

/// A subscriber's frames of one view.
#[derive(Debug)]
pub(crate) struct Ledger {
    subscriber: SubscriberId,
    view: ViewId,
    /// Whether the subscriber reports on its frames. If it does not, a frame is closed when it has departed.
    reports: bool,
    pending: VecDeque<PendingFrame>,
    newest_sent: FrameId,
    early: VecDeque<FrameUpdate>,
    /// The newest frame up to which all reports have arrived.
    reported_through: FrameId,
    closed: VecDeque<FrameRecord>,
}

impl Ledger {
    pub(crate) fn new(subscriber: SubscriberId, reports: bool, view: ViewId) -> Ledger {
        Ledger {
            subscriber,
            view,
            reports,
            pending: VecDeque::new(),
            newest_sent: FrameId::NONE,
            early: VecDeque::new(),
            reported_through: FrameId::NONE,
            closed: VecDeque::new(),
        }
    }

    /// Adds a frame that was sent, or that was handed to a component. That component later causes a call of
    /// [`Ledger::departed`] or `Ledger::missed`.
    pub(crate) fn sent(
        &mut self,
        now: Instant,
        sent: SentFrame,
        in_hand: bool,
        clock: &ClockMap,
        loss: &mut LossMeter,
    ) {
        if self.pending.len() >= MAX_PENDING && self.pending.front().is_some_and(|w| !w.in_hand) {
            self.close_front(DropCause::Unreported);
        }
        self.pending.push_back(PendingFrame {
            since: now,
            sent,
            in_hand,
        });
        self.newest_sent = self.newest_sent.max(sent.frame);
        self.apply_early(now, sent.frame, clock, loss);
    }

    /// Applies the deferred updates on a frame.
    fn apply_early(
        &mut self,
        now: Instant,
        frame: FrameId,
        clock: &ClockMap,
        loss: &mut LossMeter,
    ) {
        // Tries each update once, in order. Updates that are still early move to the end.
        for _ in 0..self.early.len() {
            match self.early.pop_front() {
                Some(update) if update.frame() == frame => self.apply(now, update, clock, loss),
                Some(other) => self.early.push_back(other),
                None => break,
            }
        }
    }

    /// Records that a captured frame ended at the host.
    pub(crate) fn dropped(&mut self, frame: FrameId, stamps: Stamps, stage: Stage, why: DropCause) {
        self.closed.push_back(FrameRecord {
            host: stamps,
            ..FrameRecord::new(
                self.subscriber,
                (self.view, frame),
                Outcome::Dropped { stage, why },
            )
        });
    }

    /// Applies the client's report on a frame and updates `loss`. A repeated report, or one on a frame that was never sent,
    /// changes nothing.
    pub(crate) fn reported(
        &mut self,
        now: Instant,
        report: &Report,
        clock: &ClockMap,
        loss: &mut LossMeter,
    ) {
        self.apply(now, FrameUpdate::Report(*report), clock, loss);
    }

    /// Records that the component to which the frame was handed has sent it, with the exact times.
    pub(crate) fn departed(
        &mut self,
        now: Instant,
        frame: FrameId,
        left: Departure,
        clock: &ClockMap,
        loss: &mut LossMeter,
    ) {
        self.apply(now, FrameUpdate::Departed(frame, left), clock, loss);
    }

    /// Records that the component did not accept the frame.
    pub(crate) fn missed(
        &mut self,
        now: Instant,
        frame: FrameId,
        (stage, why): (Stage, DropCause),
        clock: &ClockMap,
        loss: &mut LossMeter,
    ) {
        self.apply(now, FrameUpdate::Missed(frame, stage, why), clock, loss);
    }

    fn apply(&mut self, now: Instant, update: FrameUpdate, clock: &ClockMap, loss: &mut LossMeter) {
        let frame = update.frame();
        if !matches!(update, FrameUpdate::Report(_)) {
            self.close_older(frame);
        }
        let place = self.pending.iter().position(|w| w.sent.frame == frame);
        let entry = place.and_then(|place| self.pending.get_mut(place));
        match (update, entry) {
            (FrameUpdate::Report(_), Some(PendingFrame { in_hand: true, .. })) => self.keep(update),
            (_, None) if frame > self.newest_sent => self.keep(update),
            (_, None) => {}
            (FrameUpdate::Departed(_, left), Some(pending)) if self.reports => {
                (pending.in_hand, pending.since) = (false, now);
                pending.sent.departed(&left);
                self.apply_early(now, frame, clock, loss);
            }
            (update, Some(_)) => {
                let pending = place.and_then(|place| self.pending.remove(place));
                if let Some(pending) = pending {
                    self.close(now, pending.sent, update, clock, loss);
                }
            }
        }
    }

    /// Closes older frames that are still in hand. A component sends its frames in order, so the updates on the older
    /// frames were lost.
    fn close_older(&mut self, frame: FrameId) {
        let in_hand = |pending: &PendingFrame| pending.in_hand;
        while let Some(place) = self.pending.iter().position(in_hand)
            && let Some(PendingFrame { sent, .. }) = self.pending.get(place).copied()
            && sent.frame < frame
        {
            self.pending.remove(place);
            self.close_sent(sent, DropCause::Unreported);
        }
    }

    /// Defers an update on a frame that has not been reported as sent yet, and a report on a frame that is still in
    /// hand. A repeated update is ignored. Beyond [`MAX_EARLY`], the oldest is dropped.
    fn keep(&mut self, update: FrameUpdate) {
        let same = |early: &FrameUpdate| {
            let kind = std::mem::discriminant(early) == std::mem::discriminant(&update);
            kind && early.frame() == update.frame()
        };
        if !self.early.iter().any(same) {
            if self.early.len() == MAX_EARLY {
                self.early.pop_front();
            }
            self.early.push_back(update);
        }
    }

    fn close(
        &mut self,
        now: Instant,
        mut sent: SentFrame,
        update: FrameUpdate,
        clock: &ClockMap,
        loss: &mut LossMeter,
    ) {
        let (subscriber, view, frame) = (self.subscriber, self.view, sent.frame);
        self.early.retain(|early| early.frame() != frame);
        let record = match update {
            FrameUpdate::Report(report) => {
                loss.note(now, &report);
                of_report(subscriber, &report, |at| clock.to_mine(at, now))
            }
            FrameUpdate::Departed(_, left) => {
                sent.departed(&left);
                FrameRecord::new(subscriber, (view, frame), Outcome::SentUnacknowledged)
            }
            FrameUpdate::Missed(_, stage, why) => {
                FrameRecord::new(subscriber, (view, frame), Outcome::Dropped { stage, why })
            }
        };
        self.closed.push_back(FrameRecord {
            host: sent.stamps,
            cost: sent.cost,
            ..record
        });
    }

    /// Records that the report on `frame` followed the report on `after` without a gap. If the report on `after` has
    /// arrived, no datagram of the frames in between reached the client.
    pub(crate) fn followed(&mut self, after: FrameId, frame: FrameId) {
        if after <= self.reported_through {
            self.reported_through = self.reported_through.max(frame);
        }
    }

    /// Closes the frames of which no datagram reached the client.
    pub(crate) fn close_lost(&mut self) {
        let through = self.reported_through;
        while self.pending.front().is_some_and(|w| w.sent.frame < through) {
            self.close_front(DropCause::Lost);
        }
    }

    fn close_front(&mut self, why: DropCause) {
        if let Some(PendingFrame { sent, .. }) = self.pending.pop_front() {
            self.close_sent(sent, why);
        }
    }

    fn close_sent(&mut self, sent: SentFrame, why: DropCause) {
        self.dropped(sent.frame, sent.stamps, Stage::FirstReceived, why);
        if let Some(record) = self.closed.back_mut() {
            record.cost = sent.cost;
        }
    }

    /// When the oldest frame's timeout expires. A frame in hand has no timeout, because its component reports the outcome,
    /// however late.
    fn front_due(&self) -> Option<Instant> {
        let front = self.pending.front().filter(|front| !front.in_hand)?;
        Some(front.since + REPORT_TIMEOUT)
    }

    /// Closes the frames with an expired timeout.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        while self.front_due().is_some_and(|at| at <= now) {
            self.close_front(DropCause::Unreported);
        }
    }

    /// Closes all frames because the session is over.
    pub(crate) fn end(&mut self) {
        while !self.pending.is_empty() {
            self.close_front(DropCause::SessionEnded);
        }
    }

    /// The newest frame up to which all reports have arrived.
    pub(crate) fn reported_through(&self) -> FrameId {
        self.reported_through
    }

    pub(crate) fn poll(&mut self) -> Option<FrameRecord> {
        self.closed.pop_front()
    }

    pub(crate) fn check_invariants(&self) {
        let left = self.pending.iter().filter(|pending| !pending.in_hand);
        assert!(left.count() <= MAX_PENDING);
        assert!(self.early.len() <= MAX_EARLY);
    }

    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.front_due()
    }
}
