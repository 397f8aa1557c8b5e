//! Determines the outcome of each video frame that the receiver finished, and reports the outcome to the host.
//!
//! The module is sans-I/O: the caller provides a decoder, a display and a clock. The callers are the client's media
//! thread and the tests' deterministic simulation.

#[cfg(test)]
mod tests;

use std::time::Duration;

use super::ClientSession;
use crate::control::handshake::Established;
use crate::id::{FrameId, InputSeq, PoseId, ViewId};
use crate::recv::output::Counters;
use crate::recv::plane::MediaReceiver;
use crate::recv::reassemble::{FrameEnd, VideoOutput};
use crate::seq;
use crate::time::{Instant, PeerInstant};
use crate::trace::{DisplayLatency, DropCause, Outcome, Stage};
use crate::wire::control::Report;
use crate::wire::video::EchoKind;

/// Processes the media of a session, from received datagrams to frame reports.
pub struct Playout {
    /// Assembles datagrams into slices and payloads. Pass its frame results to [`Playout::finish`].
    pub media: MediaReceiver,
    /// The receiver's counters at the time of the last report.
    counted: Counters,
    /// The newest input that a displayed frame has echoed.
    shown_input: InputSeq,
    /// The pose of the last displayed frame that contained one.
    shown_pose: Option<PoseId>,
}

/// How the receiver finished a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "one per frame, moved once: boxing would allocate per frame"
)]
pub enum FrameResult {
    /// Slices were delivered.
    Completed(FrameEnd),
    /// Nothing was delivered.
    Dropped {
        /// The frame.
        frame: FrameId,
        /// The cause.
        why: DropCause,
        /// When the frame's first datagram arrived; `None` if none arrived.
        first_received: Option<Instant>,
    },
}

impl FrameResult {
    /// The frame result that this output contains; `None` if it contains none.
    #[must_use]
    pub fn of(step: &VideoOutput<'_>) -> Option<FrameResult> {
        match *step {
            VideoOutput::End(end) => Some(FrameResult::Completed(end)),
            VideoOutput::Dropped {
                frame,
                why,
                first_received,
            } => Some(FrameResult::Dropped {
                frame,
                why,
                first_received,
            }),
            VideoOutput::Slice { .. } | VideoOutput::Missing { .. } => None,
        }
    }
}

/// The result of decoding and displaying a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Presentation {
    /// When decoding completed.
    pub decoded: Option<Instant>,
    /// When the picture was handed to the display.
    pub submitted: Option<Instant>,
    /// The stage that failed, and the cause.
    pub failure: Option<(Stage, DropCause)>,
}

impl Playout {
    /// The media of a session.
    #[must_use]
    pub fn new(established: &Established) -> Playout {
        Playout {
            media: MediaReceiver::new(established),
            counted: Counters::default(),
            shown_input: InputSeq::default(),
            shown_pose: None,
        }
    }

    /// Passes each view's picture state and retransmission requests to the session, and the session's round-trip time
    /// to the receiver. Call it after each datagram, and at
    /// [`MediaReceiver::next_timeout`](crate::recv::plane::MediaReceiver::next_timeout).
    pub fn consult(&mut self, now: Instant, session: &mut ClientSession) {
        for view in self.media.views_mut() {
            session.picture(now, view.view(), view.picture(), view.epoch());
            view.round_trip(session.round_trip());
            while let Some(request) = view.poll_request(now) {
                session.resend(request);
            }
        }
    }

    /// Reports a finished frame.
    pub fn finish(
        &mut self,
        now: Instant,
        view: ViewId,
        result: &FrameResult,
        presentation: &Presentation,
        session: &mut ClientSession,
    ) -> Report {
        self.media.settle(view);
        let counters = self.media.counters();
        let counted = std::mem::replace(&mut self.counted, counters);
        let news =
            |now: u64, then: u64| u16::try_from(now.saturating_sub(then)).unwrap_or(u16::MAX);
        let mut report = Report {
            view,
            frame: FrameId::NONE,
            outcome: outcome(result, presentation),
            first_received: None,
            recoverable: None,
            decoded: None,
            submitted: None,
            presented: None,
            motion_to_photon: None,
            echo: EchoKind::None,
            datagrams: news(counters.received, counted.received),
            missing: news(counters.missing, counted.missing),
            runs: news(counters.runs, counted.runs),
            repaired: 0,
            resent: 0,
            pose: None,
            ecn: self.media.take_ecn(view),
            age: DisplayLatency::default(),
        };
        match result {
            FrameResult::Dropped {
                frame,
                first_received,
                ..
            } => {
                report.frame = *frame;
                report.first_received = first_received.map(|at| PeerInstant(at.0));
            }
            FrameResult::Completed(end) => {
                let since = |at: Option<Instant>| Some(at?.since(end.first_received));
                report.frame = end.header.frame;
                report.first_received = Some(PeerInstant(end.first_received.0));
                report.recoverable = since(end.recoverable);
                report.decoded = since(presentation.decoded);
                report.repaired = end.repaired;
                report.resent = end.resent;
                report.pose = end.pose.map(|echo| echo.pose);
                if let Outcome::Displayed(_) = report.outcome {
                    report.submitted = since(presentation.submitted);
                    report.motion_to_photon = self.motion_to_photon(session, end, presentation);
                    report.echo = end.header.echo.kind;
                    report.age = age(now, session, end, presentation);
                    self.first_of_pose(&mut report, end);
                }
            }
        }
        session.report(now, report);
        if let Some(view) = self.media.view(view) {
            session.picture(now, view.view(), view.picture(), view.epoch());
        }
        report
    }

    /// Sets the report's motion-to-photon latency to the latency of the head pose, if this frame is the first with this
    /// pose and shows no new input.
    fn first_of_pose(&mut self, report: &mut Report, end: &FrameEnd) {
        let Some(echo) = end.pose else { return };
        let shown = self.shown_pose.replace(echo.pose);
        let is_new = shown.is_none_or(|shown| seq::newer(echo.pose.0, shown.0));
        if is_new && report.motion_to_photon.is_none() && report.age.imu_to_display.is_some() {
            report.motion_to_photon = report.age.imu_to_display;
            report.echo = EchoKind::Consumed;
        }
    }

    /// The latency from the echoed input to display, if this frame is the first to show the input.
    fn motion_to_photon(
        &mut self,
        session: &ClientSession,
        end: &FrameEnd,
        presentation: &Presentation,
    ) -> Option<Duration> {
        let echo = end.header.echo;
        // An earlier frame has already shown this input.
        if echo.kind == EchoKind::None || echo.seq <= self.shown_input {
            return None;
        }
        self.shown_input = echo.seq;
        Some(presentation.submitted?.since(session.sampled(echo.seq)?))
    }
}

/// The age of the frame when it is submitted to the display.
fn age(
    now: Instant,
    session: &ClientSession,
    end: &FrameEnd,
    presentation: &Presentation,
) -> DisplayLatency {
    let Some(submitted) = presentation.submitted else {
        return DisplayLatency::default();
    };
    let since = |at: PeerInstant| {
        let mine = session.clock().to_mine(at, now)?;
        Some((submitted.since(mine.at), mine.bound))
    };
    let sampled = end.pose.and_then(|echo| session.pose_sampled(echo.pose));
    let predicted = end.times.predicted.and_then(since);
    let begun = end.times.begun.and_then(since);
    DisplayLatency {
        imu_to_display: sampled.map(|at| submitted.since(at)),
        predict_to_display: predicted.map(|(span, _)| span),
        render_to_display: begun.map(|(span, _)| span),
        bound: (predicted.into_iter().chain(begun))
            .map(|(_, bound)| bound)
            .max(),
    }
}

/// The frame's outcome. If a frame arrived but the decoder waits for a key frame, the frame counts as not decoded.
fn outcome(result: &FrameResult, presentation: &Presentation) -> Outcome {
    let (stage, why) = match result {
        FrameResult::Completed(end) => match presentation.failure {
            Some(failure) => failure,
            None if presentation.submitted.is_some() => return Outcome::Displayed(end.fidelity),
            None => (Stage::Decoded, DropCause::DecodeFailed),
        },
        FrameResult::Dropped {
            why,
            first_received,
            ..
        } => {
            let stage = match why {
                DropCause::AwaitingKeyFrame => Stage::Decoded,
                _ if first_received.is_some() => Stage::Recoverable,
                _ => Stage::FirstReceived,
            };
            (stage, *why)
        }
    };
    Outcome::Dropped { stage, why }
}
