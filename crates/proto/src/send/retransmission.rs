//! Recently sent bodies, for retransmission.
//!
//! The module keeps bodies, not datagrams, because a retransmission is sealed again with a new packet number. The
//! client decides whether, and until when, it requests a retransmission.

use std::collections::VecDeque;
use std::time::Duration;

use crate::id::FrameId;
use crate::time::Instant;
use crate::wire::control::RetransmissionRequest;

/// Maximum age: six frame intervals at 60 frames/s, far beyond any deadline.
const KEPT_FOR: Duration = Duration::from_millis(100);

/// Maximum bodies: 2.8 MB, or 100 ms at 220 Mb/s.
const KEPT: usize = 2048;

/// Maximum retransmissions of a body, so that a client with endless requests costs three times the video's rate at most.
const MAX_RETRANSMISSIONS: u8 = 2;

/// A sent body.
#[derive(Debug, Default)]
struct Body {
    frame: FrameId,
    slice: u8,
    fragment: u16,
    at: Instant,
    retransmissions: u8,
    bytes: Vec<u8>,
}

/// The recent bodies, oldest first.
#[derive(Debug, Default)]
pub(super) struct SentBodies {
    kept: VecDeque<Body>,
    /// Storage for reuse.
    spare: Vec<Body>,
}

impl SentBodies {
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

    pub(super) fn clear(&mut self) {
        *self = SentBodies::default();
    }

    /// The requested bodies within the limits of age and retransmissions.
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
