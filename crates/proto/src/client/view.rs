//! The client's feedback for one view: frame reports and key-frame requests.

use std::collections::VecDeque;
use std::time::Duration;

use super::INPUT_RESEND_MIN;
use crate::control::plane::ControlPlane;
use crate::id::{FrameId, ViewId};
use crate::recv::reassemble::PictureState;
use crate::time::Instant;
use crate::wire::control::{Message, Report};

/// Maximum number of unacknowledged reports: four seconds at 60 frames/s.
const MAX_REPORTS: usize = 256;

/// Maximum number of reports in one datagram: 21 reports of at most 62 bytes each fit, after a
/// [`Message::ReportsAfter`] of 9 bytes.
const REPORTS_PER_DATAGRAM: usize = 21;

/// Number of earlier unacknowledged reports that accompany a new report (guess). Two consecutive datagrams may then be
/// lost without a timeout.
const REPORTS_REPEATED: usize = 2;

/// The client's side of one view.
pub(super) struct View {
    pub(super) id: ViewId,
    /// The unacknowledged reports, each with the time of its last transmission.
    reports: VecDeque<(Report, Option<Instant>)>,
    report_again: Option<Instant>,
    picture: PictureState,
    key_frame_again: Option<Instant>,
}

impl View {
    pub(super) fn new(id: ViewId) -> View {
        View {
            id,
            reports: VecDeque::new(),
            report_again: None,
            picture: PictureState::default(),
            key_frame_again: None,
        }
    }

    /// Queues the report of a frame.
    pub(super) fn report(&mut self, now: Instant, report: Report, plane: &mut ControlPlane) {
        let place = self
            .reports
            .partition_point(|(r, _)| r.frame < report.frame);
        match self.reports.get_mut(place) {
            Some(known) if known.0.frame == report.frame => *known = (report, None),
            _ => self.reports.insert(place, (report, None)),
        }
        if self.reports.len() > MAX_REPORTS {
            self.reports.pop_front();
        }
        self.send_reports(now, plane);
    }

    /// Finds the oldest report that is new or has timed out. Sends this report, all later reports, and up to
    /// `REPORTS_REPEATED` earlier reports.
    fn send_reports(&mut self, now: Instant, plane: &mut ControlPlane) {
        let wait = report_wait(plane);
        let due = |at: Option<Instant>| at.is_none_or(|at| at + wait <= now);
        let Some(first) = self.reports.iter().position(|(_, at)| due(*at)) else {
            self.report_again = self.report_due(plane);
            return;
        };
        let first = first.saturating_sub(REPORTS_REPEATED);
        let before = first.checked_sub(1).and_then(|i| self.reports.get(i));
        let mut after = before.map(|(r, _)| r.frame);
        let view = self.id;
        let rest = &mut self.reports.make_contiguous()[first..];
        for some in rest.chunks_mut(REPORTS_PER_DATAGRAM) {
            let reports = some.iter().map(|(report, _)| Message::Report(*report));
            let follow = after.map(|frame| Message::ReportsAfter { view, frame });
            plane.queue_together(follow.into_iter().chain(reports));
            after = some.last().map(|(r, _)| r.frame);
            some.iter_mut().for_each(|(_, at)| *at = Some(now));
        }
        self.report_again = self.report_due(plane);
    }

    /// When the oldest report times out. All later reports were sent at the same time or later.
    fn report_due(&self, plane: &ControlPlane) -> Option<Instant> {
        let (_, at) = self.reports.front()?;
        Some((*at)? + report_wait(plane))
    }

    /// Handles the host's acknowledgement of all reports up to that on frame `through`.
    pub(super) fn reports_seen(&mut self, through: FrameId, plane: &ControlPlane) {
        self.reports.retain(|(r, _)| r.frame > through);
        self.report_again = self.report_due(plane);
    }

    /// Sets the picture's state. While the picture is broken, key-frame requests are repeated (OpenUVR paper, section
    /// IV-B, which repeats the request after every frame).
    pub(super) fn picture(&mut self, now: Instant, state: PictureState, plane: &mut ControlPlane) {
        let news = state != self.picture;
        self.picture = state;
        if !state.broken {
            self.key_frame_again = None;
        } else if news || self.key_frame_again.is_none() {
            self.request_key_frame(now, plane);
        }
    }

    fn request_key_frame(&mut self, now: Instant, plane: &mut ControlPlane) {
        let PictureState {
            last_good, newest, ..
        } = self.picture;
        plane.queue(&Message::KeyFrameRequest {
            view: self.id,
            last_good,
            newest,
        });
        self.key_frame_again = Some(now + (plane.round_trip() * 2).max(Duration::from_millis(20)));
    }

    pub(super) fn handle_timeout(&mut self, now: Instant, plane: &mut ControlPlane) {
        if self.report_again.is_some_and(|at| at <= now) {
            self.send_reports(now, plane);
        }
        if self.key_frame_again.is_some_and(|at| at <= now) {
            self.request_key_frame(now, plane);
        }
    }

    /// When reports are retransmitted.
    pub(super) fn next_report(&self) -> Option<Instant> {
        self.report_again
    }

    /// When a key-frame request is repeated.
    pub(super) fn next_key_frame(&self) -> Option<Instant> {
        self.key_frame_again
    }

    pub(super) fn check_invariants(&self) {
        assert!(self.reports.len() <= MAX_REPORTS);
        let frames = self.reports.iter().map(|(r, _)| r.frame);
        assert!(frames.clone().zip(frames.skip(1)).all(|(a, b)| a < b));
    }
}

/// Retransmission timeout of a report.
fn report_wait(plane: &ControlPlane) -> Duration {
    plane.round_trip() * 2 + INPUT_RESEND_MIN
}
