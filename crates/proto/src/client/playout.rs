//! What a received frame becomes, and what is reported of it.
//!
//! A value: the client's media thread and the deterministic world of the tests are this with a decoder,
//! a display and a clock of their own.

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

/// A session's media, from their datagrams to the reports on each view's frames.
pub struct Playout {
    /// Makes slices and payloads of datagrams. What a view's receiver says of a frame's end goes to
    /// [`Playout::finish`].
    pub media: MediaReceiver,
    /// What was reported of the datagrams.
    counted: Counters,
    /// The newest input that a displayed frame was the first to show.
    shown_input: InputSeq,
    /// The newest pose that a displayed frame was drawn with.
    shown_pose: Option<PoseId>,
}

/// The end of a frame at the receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "one for each frame, which moves once: a box would be an allocation for each"
)]
pub enum FrameResult {
    /// It came out.
    Completed(FrameEnd),
    /// Nothing of it did.
    Dropped {
        /// The frame.
        frame: FrameId,
        /// Why.
        why: DropCause,
        /// When its first datagram arrived, if one did.
        first_received: Option<Instant>,
    },
}

impl FrameResult {
    /// The end that a step is, if it is one.
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

/// What decoder and display made of a frame that came out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Presentation {
    /// When its picture was there.
    pub decoded: Option<Instant>,
    /// When it was handed to the display.
    pub submitted: Option<Instant>,
    /// The stage that did not happen, and why, if one did not.
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

    /// Tells the session what it has to ask for, and learns from it how far the host is. Call it whenever
    /// something arrived, and when [`MediaReceiver::next_timeout`](crate::recv::plane::MediaReceiver::next_timeout) is over.
    pub fn consult(&mut self, now: Instant, session: &mut ClientSession) {
        for view in self.media.views_mut() {
            session.picture(now, view.view(), view.picture(), view.epoch());
            view.round_trip(session.round_trip());
            while let Some(request) = view.poll_request(now) {
                session.resend(request);
            }
        }
    }

    /// A frame of a view is over: what is reported of it.
    pub fn finish(
        &mut self,
        now: Instant,
        view: ViewId,
        fate: &FrameResult,
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
            outcome: outcome(fate, presentation),
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
            age: DisplayLatency::default(),
        };
        match fate {
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

    /// A frame that is the first to show a pose, and names no input: its motion is the head's.
    fn first_of_pose(&mut self, report: &mut Report, end: &FrameEnd) {
        let Some(echo) = end.pose else { return };
        let shown = self.shown_pose.replace(echo.pose);
        let is_new = shown.is_none_or(|shown| seq::newer(echo.pose.0, shown.0));
        if is_new && report.echo == EchoKind::None && report.age.imu_to_display.is_some() {
            report.motion_to_photon = report.age.imu_to_display;
            report.echo = EchoKind::Consumed;
        }
    }

    /// The latency from the newest input, if this frame is the first to show it.
    fn motion_to_photon(
        &mut self,
        session: &ClientSession,
        end: &FrameEnd,
        presentation: &Presentation,
    ) -> Option<Duration> {
        let echo = end.header.echo;
        // An older one was shown by an earlier frame, whatever that one said.
        if echo.kind == EchoKind::None || echo.seq <= self.shown_input {
            return None;
        }
        self.shown_input = echo.seq;
        Some(presentation.submitted?.since(session.sampled(echo.seq)?))
    }
}

/// How old what it shows is.
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

/// How the frame ended. One that waits for a key frame arrived, as far as it was looked at, and could not
/// be decoded.
fn outcome(fate: &FrameResult, presentation: &Presentation) -> Outcome {
    let (stage, why) = match fate {
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
