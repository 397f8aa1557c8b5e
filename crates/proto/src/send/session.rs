//! An OpenUVR session as a subscriber. It seals slices into datagrams, and paces them on a full link.

use std::collections::VecDeque;
use std::ops::Range;

use crate::id::FrameId;
use crate::send::fec::FecPlan;
use crate::send::pace::{Pacer, Pacing};
use crate::send::packetize::{Protection, SendBuf, VideoSender};
use crate::send::policy::TRANSPORT_HEADERS;
use crate::send::subscriber::{Departure, Frame, Progress, Slice, Subscriber};
use crate::time::Instant;
use crate::trace::{DropCause, Stage};
use crate::wire::control::RetransmissionRequest;
use crate::wire::video::{Extensions, SlicePlace};

/// A path for datagrams.
pub trait Transmit: Send {
    /// Sends `datagrams`. Never blocks; datagrams that the path cannot take at once are lost.
    fn transmit(&mut self, now: Instant, datagrams: &SendBuf) -> Transmitted;
}

/// The result of sending datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Transmitted {
    /// Earliest send time of the first accepted datagram.
    pub first: Option<Instant>,
    /// Latest send time of the last accepted datagram.
    pub last: Option<Instant>,
    /// Whether some datagrams were not accepted.
    pub overflowed: bool,
}

/// The allowed loss protection; initially all kinds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allowed {
    /// FEC.
    pub parity: bool,
    /// Retransmission.
    pub resend: bool,
}

/// One view of the video of one session.
pub struct Session<T> {
    media: Box<VideoSender>,
    path: T,
    protection: Protection,
    allowed: Allowed,
    /// Keeps bursts within the link's capacity.
    pacer: Pacer,
    pacing: Option<Pacing>,
    /// The current frame.
    frame: Option<Frame>,
    waiting: PendingSlices,
    out: SendBuf,
    /// The sent part of the frame.
    left: Departure,
    /// Bytes retransmitted since the previous frame.
    again: u32,
}

/// Slices that wait for the link. The storage is reused.
#[derive(Default)]
struct PendingSlices {
    bytes: Vec<u8>,
    slices: VecDeque<(SlicePlace, Option<u16>, Range<usize>)>,
    /// When the first of them is sent.
    due: Option<Instant>,
}

impl PendingSlices {
    fn push(&mut self, slice: &Slice<'_>) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(slice.bytes);
        let place = start..self.bytes.len();
        let waiting = (slice.place, slice.clean_after, place);
        self.slices.push_back(waiting);
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.slices.clear();
        self.due = None;
    }
}

impl<T: Transmit> Session<T> {
    /// The sender of one view over a path.
    #[must_use]
    pub fn new(media: Box<VideoSender>, path: T) -> Session<T> {
        Session {
            media,
            path,
            protection: Protection::default(),
            allowed: Allowed {
                parity: true,
                resend: true,
            },
            pacer: Pacer::default(),
            pacing: None,
            frame: None,
            waiting: PendingSlices::default(),
            out: SendBuf::default(),
            left: Departure::default(),
            again: 0,
        }
    }

    /// The path to the client.
    pub fn transmit_path(&mut self) -> &mut T {
        &mut self.path
    }

    /// Sets the allowed protection from the next frame on.
    pub fn allow(&mut self, allowed: Allowed) {
        self.allowed = allowed;
    }

    /// Retransmits requested parts.
    pub fn resend(&mut self, now: Instant, request: &RetransmissionRequest) {
        self.media.resend(now, request, &mut self.out);
        // Datagrams that the path cannot take at once are lost again.
        let _ = self.path.transmit(now, &self.out);
        self.again += count(self.out.len()) + count(self.out.datagrams()) * TRANSPORT_HEADERS;
    }

    fn send(&mut self, now: Instant, slice: &Slice<'_>) {
        let Some(frame) = self.frame else { return };
        let extensions = Extensions {
            configuration: frame.configuration,
            clean_after: slice.clean_after,
            pose: frame.pose,
            views: frame.views,
            times: frame.times,
        };
        (self.media).slice(
            now,
            &frame.header,
            extensions,
            slice.place,
            slice.bytes,
            &mut self.out,
        );
        self.transmit(now);
    }

    fn transmit(&mut self, now: Instant) {
        let sent = self.path.transmit(now, &self.out);
        self.left.first = self.left.first.or(sent.first);
        self.left.last = sent.last.or(self.left.last);
        self.left.overflowed |= sent.overflowed;
        self.left.datagrams += count(self.out.datagrams());
        self.left.parity += count(self.out.parity());
        self.left.bytes += count(self.out.len());
    }

    /// When `bytes` further bytes may be sent; `None` if they may be sent now.
    fn pace(&mut self, now: Instant, bytes: usize) -> Option<Instant> {
        let wait = self.pacer.wait(now, bytes, self.pacing);
        (!wait.is_zero()).then(|| now + wait)
    }

    /// Sends waiting slices that are due.
    fn release(&mut self, now: Instant) {
        while let Some((place, clean_after, range)) = self.waiting.slices.front().cloned() {
            if self.waiting.due.is_none() {
                self.waiting.due = self.pace(now, range.len());
            }
            if self.waiting.due.is_some_and(|at| at > now) {
                return;
            }
            self.waiting.slices.pop_front();
            self.waiting.due = None;
            let bytes = std::mem::take(&mut self.waiting.bytes);
            let slice = Slice {
                place,
                clean_after,
                bytes: &bytes[range],
            };
            self.send(now, &slice);
            self.waiting.bytes = bytes;
        }
        self.waiting.clear();
    }
}

impl<T: Transmit> Subscriber for Session<T> {
    fn start_frame(&mut self, _: Instant, frame: &Frame) {
        if let Some(link) = frame.link {
            self.protection.follow(&link, frame.interval);
        }
        self.protection.resend &= self.allowed.resend;
        if !self.allowed.parity {
            self.protection.parity = FecPlan::NONE;
        }
        self.media.protect(&self.protection);
        self.pacing = frame.pacing;
        self.out.set_ecn(frame.ecn);
        self.pacer.start_frame();
        self.waiting.clear();
        self.left = Departure::default();
        self.frame = Some(*frame);
    }

    fn slice(&mut self, now: Instant, slice: &Slice<'_>) {
        self.release(now);
        if self.waiting.slices.is_empty() {
            let due = self.pace(now, slice.bytes.len());
            if due.is_none() {
                return self.send(now, slice);
            }
            self.waiting.due = due;
        }
        self.waiting.push(slice);
    }

    fn end(&mut self, now: Instant) -> Progress {
        self.release(now);
        if let Some(at) = self.waiting.due {
            return Progress::Deferred(at);
        }
        if self.frame.take().is_some() {
            self.media.parity(now, &mut self.out);
            self.transmit(now);
        }
        Progress::Sent(Departure {
            again: std::mem::take(&mut self.again),
            ..self.left
        })
    }

    fn dropped(&mut self, _: Instant, frame: FrameId, _: Stage, _: DropCause) {
        // Parts of the frame may have been sent; the client conceals the rest.
        if self.frame.is_some_and(|begun| begun.header.frame == frame) {
            self.frame = None;
            self.waiting.clear();
        }
    }

    fn protection(&self) -> Option<&Protection> {
        Some(&self.protection)
    }
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
