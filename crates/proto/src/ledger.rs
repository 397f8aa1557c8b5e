//! The ledger: every captured frame ends in exactly one outcome per subscriber.

use std::collections::VecDeque;
use std::time::Duration;

use crate::control::clock::ClockMap;
use crate::id::{FrameId, SessionId};
use crate::send::loss::LossMeter;
use crate::time::Instant;
use crate::trace::{ClientStamps, DropCause, FrameCost, FrameRecord, Outcome, Stage, Stamps};
use crate::wire::control::Report;
use crate::wire::video::EchoKind;

/// A frame that the client has not reported on after this long, nor on a newer one, counts as
/// unreported: a report is repeated each two round trips, so many were lost.
pub const REPORT_TIMEOUT: Duration = Duration::from_secs(2);

/// Frames that may wait for a report: [`REPORT_TIMEOUT`] at 240 frames/s.
const MAX_WAITING: usize = 512;

/// A frame that left for a client.
#[derive(Clone, Copy, Debug)]
pub struct SentFrame {
    /// The frame.
    pub frame: FrameId,
    /// The host's stamps, up to [`Stage::LastSent`].
    pub stamps: Stamps,
    /// What it cost.
    pub cost: FrameCost,
}

/// One subscriber's frames.
#[derive(Debug)]
pub(crate) struct Ledger {
    session: SessionId,
    /// Frames, and when they left.
    waiting: VecDeque<(Instant, SentFrame)>,
    newest_sent: FrameId,
    /// Reports that came before the media thread told of the frame.
    early: VecDeque<Report>,
    /// What became of all frames up to this one is known.
    reported_through: FrameId,
    closed: VecDeque<FrameRecord>,
    /// What its reports say of the link.
    pub(crate) loss: LossMeter,
}

impl Ledger {
    pub(crate) fn new(session: SessionId) -> Ledger {
        Ledger {
            session,
            waiting: VecDeque::new(),
            newest_sent: FrameId::NONE,
            early: VecDeque::new(),
            reported_through: FrameId::NONE,
            closed: VecDeque::new(),
            loss: LossMeter::default(),
        }
    }

    /// A frame left; what becomes of it will be reported.
    pub(crate) fn sent(&mut self, now: Instant, frame: SentFrame, clock: &ClockMap) {
        if self.waiting.len() == MAX_WAITING {
            self.close_front(DropCause::Unreported);
        }
        self.waiting.push_back((now, frame));
        self.newest_sent = self.newest_sent.max(frame.frame);
        if let Some(i) = self.early.iter().position(|r| r.frame == frame.frame)
            && let Some(report) = self.early.remove(i)
        {
            self.reported(now, &report, clock);
        }
    }

    /// A captured frame ended at the host.
    pub(crate) fn dropped(&mut self, frame: FrameId, stamps: Stamps, stage: Stage, why: DropCause) {
        self.closed.push_back(FrameRecord {
            session: self.session,
            frame,
            host: stamps,
            client: ClientStamps::default(),
            outcome: Outcome::Dropped { stage, why },
            cost: FrameCost::default(),
            motion_to_photon: None,
            echo: EchoKind::None,
            missing: 0,
            runs: 0,
            repaired: 0,
            resent: 0,
        });
    }

    /// The client reported on a frame. A repeated report, or one on a frame that never left,
    /// changes nothing.
    pub(crate) fn reported(&mut self, now: Instant, report: &Report, clock: &ClockMap) {
        let place = |(_, f): &(Instant, SentFrame)| f.frame == report.frame;
        let Some(i) = self.waiting.iter().position(place) else {
            // At most one frame is between the link and `sent`; keep a few to be sure.
            if report.frame > self.newest_sent
                && !self.early.iter().any(|r| r.frame == report.frame)
            {
                if self.early.len() == 8 {
                    self.early.pop_front();
                }
                self.early.push_back(*report);
            }
            return;
        };
        let Some((_, sent)) = self.waiting.remove(i) else {
            return;
        };
        self.closed.push_back(FrameRecord {
            session: self.session,
            frame: sent.frame,
            host: sent.stamps,
            client: ClientStamps {
                first_received: report.first_received,
                first_received_here: report.first_received.and_then(|at| clock.to_mine(at, now)),
                recoverable: report.recoverable,
                decoded: report.decoded,
                submitted: report.submitted,
                presented: report.presented,
            },
            outcome: report.outcome,
            cost: sent.cost,
            motion_to_photon: report.motion_to_photon,
            echo: report.echo,
            missing: report.missing,
            runs: report.runs,
            repaired: report.repaired,
            resent: report.resent,
        });
        self.loss.note(now, report);
    }

    /// A report on `frame` followed the one on `after` without a gap: if that one has arrived, the
    /// client has never heard of what lies between.
    pub(crate) fn followed(&mut self, after: FrameId, frame: FrameId) {
        if after <= self.reported_through {
            self.reported_through = self.reported_through.max(frame);
        }
    }

    /// Closes the frames of which the client has never heard.
    pub(crate) fn close_lost(&mut self) {
        let through = self.reported_through;
        while self.waiting.front().is_some_and(|(_, f)| f.frame < through) {
            self.close_front(DropCause::Lost);
        }
    }

    fn close_front(&mut self, why: DropCause) {
        if let Some((_, sent)) = self.waiting.pop_front() {
            let stage = Stage::FirstReceived;
            self.dropped(sent.frame, sent.stamps, stage, why);
            if let Some(record) = self.closed.back_mut() {
                record.cost = sent.cost;
            }
        }
    }

    fn front_due(&self) -> Option<Instant> {
        let (sent_at, _) = self.waiting.front()?;
        Some(*sent_at + REPORT_TIMEOUT)
    }

    /// Closes what was not reported on in time.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        while self.front_due().is_some_and(|at| at <= now) {
            self.close_front(DropCause::Unreported);
        }
    }

    /// The session is over: closes everything.
    pub(crate) fn end(&mut self) {
        while !self.waiting.is_empty() {
            self.close_front(DropCause::SessionEnded);
        }
    }

    /// The newest frame up to which all reports arrived.
    pub(crate) fn reported_through(&self) -> FrameId {
        self.reported_through
    }

    pub(crate) fn poll(&mut self) -> Option<FrameRecord> {
        self.closed.pop_front()
    }

    pub(crate) fn check_invariants(&self) {
        assert!(self.waiting.len() <= MAX_WAITING);
        assert!(self.early.len() <= 8);
    }

    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.front_due()
    }
}
