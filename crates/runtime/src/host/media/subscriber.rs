//! The subscribers of a rendition. Sessions send directly in the rendition's thread. Each other subscriber has its own
//! thread.

use openuvr_proto::id::FrameId;
use openuvr_proto::send::intake::Intake;
use openuvr_proto::send::packetize::Protection;
use openuvr_proto::send::session::Session;
use openuvr_proto::send::subscriber::{Frame, Progress, Slice, Subscriber};
use openuvr_proto::time::Instant;
use openuvr_proto::trace::{DropCause, Stage};

use super::session_path::SessionPath;
use crate::host::subscribe::Detached;

pub(super) enum HostSubscriber {
    Session(Box<Session<SessionPath>>),
    Other(Detached),
}

impl HostSubscriber {
    pub(super) fn session(&mut self) -> Option<&mut Session<SessionPath>> {
        match self {
            HostSubscriber::Session(session) => Some(session),
            HostSubscriber::Other(_) => None,
        }
    }
}

impl Subscriber for HostSubscriber {
    fn start_frame(&mut self, now: Instant, frame: &Frame) {
        match self {
            HostSubscriber::Session(session) => session.start_frame(now, frame),
            HostSubscriber::Other(other) => other.start_frame(now, frame),
        }
    }

    fn slice(&mut self, now: Instant, slice: &Slice<'_>) {
        match self {
            HostSubscriber::Session(session) => session.slice(now, slice),
            HostSubscriber::Other(other) => other.slice(now, slice),
        }
    }

    fn end(&mut self, now: Instant) -> Progress {
        match self {
            HostSubscriber::Session(session) => session.end(now),
            HostSubscriber::Other(other) => other.end(now),
        }
    }

    fn dropped(&mut self, now: Instant, frame: FrameId, stage: Stage, why: DropCause) {
        match self {
            HostSubscriber::Session(session) => session.dropped(now, frame, stage, why),
            HostSubscriber::Other(other) => other.dropped(now, frame, stage, why),
        }
    }

    fn protection(&self) -> Option<&Protection> {
        match self {
            HostSubscriber::Session(session) => session.protection(),
            HostSubscriber::Other(other) => other.protection(),
        }
    }

    fn intake(&self) -> Intake {
        match self {
            HostSubscriber::Session(session) => session.intake(),
            HostSubscriber::Other(other) => other.intake(),
        }
    }
}
