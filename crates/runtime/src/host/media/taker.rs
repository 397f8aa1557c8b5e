//! Who takes the frames of this host: sessions at once, in the media thread; all others in threads of
//! their own.

use openuvr_proto::id::FrameId;
use openuvr_proto::send::packetize::Protection;
use openuvr_proto::send::session::Session;
use openuvr_proto::send::subscriber::{Frame, Progress, Slice, Subscriber};
use openuvr_proto::time::Instant;
use openuvr_proto::trace::{DropCause, Stage};

use super::way::Way;
use crate::host::subscribe::Detached;

pub(super) enum Taker {
    Session(Box<Session<Way>>),
    Other(Detached),
}

impl Taker {
    pub(super) fn session(&mut self) -> Option<&mut Session<Way>> {
        match self {
            Taker::Session(session) => Some(session),
            Taker::Other(_) => None,
        }
    }
}

impl Subscriber for Taker {
    fn begin(&mut self, now: Instant, frame: &Frame) {
        match self {
            Taker::Session(session) => session.begin(now, frame),
            Taker::Other(other) => other.begin(now, frame),
        }
    }

    fn slice(&mut self, now: Instant, slice: &Slice<'_>) {
        match self {
            Taker::Session(session) => session.slice(now, slice),
            Taker::Other(other) => other.slice(now, slice),
        }
    }

    fn end(&mut self, now: Instant) -> Progress {
        match self {
            Taker::Session(session) => session.end(now),
            Taker::Other(other) => other.end(now),
        }
    }

    fn dropped(&mut self, now: Instant, frame: FrameId, stage: Stage, why: DropCause) {
        match self {
            Taker::Session(session) => session.dropped(now, frame, stage, why),
            Taker::Other(other) => other.dropped(now, frame, stage, why),
        }
    }

    fn protection(&self) -> Option<&Protection> {
        match self {
            Taker::Session(session) => session.protection(),
            Taker::Other(other) => other.protection(),
        }
    }
}
