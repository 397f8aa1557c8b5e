//! What was sent lately, so that it can be sent again.
//!
//! It keeps bodies, not datagrams: what is sent again is sealed anew, under a number of its own.
//! Whether it is asked for, and until when that helps, is the client's decision.

use std::collections::VecDeque;
use std::time::Duration;

use crate::id::FrameId;
use crate::time::Instant;
use crate::wire::control::RetransmissionRequest;

/// Nothing older is sent again: six frame intervals at 60 frames/s, far behind any deadline.
const KEPT_FOR: Duration = Duration::from_millis(100);

/// Bodies kept at most: 2.8 MB, or 100 ms at 220 Mb/s.
const KEPT: usize = 2048;

/// How often a body is sent again at most: a client that asks without end costs three times the
/// video's rate.
const MAX_RETRANSMISSIONS: u8 = 2;

/// A body that was sent.
#[derive(Debug, Default)]
struct Body {
    frame: FrameId,
    slice: u8,
    fragment: u16,
    at: Instant,
    retransmissions: u8,
    bytes: Vec<u8>,
}

/// The last bodies, oldest first.
#[derive(Debug, Default)]
pub(super) struct SentBodies {
    kept: VecDeque<Body>,
    /// Storage of those that are not kept any more.
    spare: Vec<Body>,
}

impl SentBodies {
    /// Notes a body that is being sent.
    pub(super) fn push(
        &mut self,
        now: Instant,
        frame: FrameId,
        (slice, fragment): (u8, u16),
        bytes: &[u8],
    ) {
        self.expire(now);
        if self.kept.len() == KEPT {
            self.spare.extend(self.kept.pop_front());
        }
        let mut body = self.spare.pop().unwrap_or_default();
        body.bytes.clear();
        body.bytes.extend_from_slice(bytes);
        (body.frame, body.slice, body.fragment) = (frame, slice, fragment);
        (body.at, body.retransmissions) = (now, 0);
        self.kept.push_back(body);
    }

    fn expire(&mut self, now: Instant) {
        while self.kept.front().is_some_and(|b| b.at + KEPT_FOR <= now) {
            self.spare.extend(self.kept.pop_front());
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = SentBodies::default();
    }

    /// The bodies that are asked for, young, and were not sent again too often.
    pub(super) fn requested(
        &mut self,
        now: Instant,
        request: &RetransmissionRequest,
    ) -> impl Iterator<Item = &[u8]> {
        self.expire(now);
        let wanted = |b: &&mut Body| {
            b.retransmissions < MAX_RETRANSMISSIONS && request.wants(b.frame, b.slice, b.fragment)
        };
        self.kept.iter_mut().filter(wanted).map(|body| {
            body.retransmissions += 1;
            body.bytes.as_slice()
        })
    }
}
