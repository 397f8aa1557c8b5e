//! Sends the host's frames to a browser. Each slice is packetized and sent at once, on the thread that the host gives each
//! subscriber.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use openuvr_clock as clock;
use openuvr_proto::id::FrameId;
use openuvr_proto::send::subscriber::{Departure, Frame, Progress, Slice, Subscriber};
use openuvr_proto::send::update::Update;
use openuvr_proto::time::Instant;
use openuvr_proto::trace::{DropCause, Stage};
use openuvr_proto::wire::video::FrameHeader;

use crate::frames::{Encoding, Frames};
use crate::packetise::payloads;
use crate::peer::{Packet, Peer};
use crate::updates::Updates;
use crate::views::Views;

/// The subscriber for a browser.
pub(crate) struct Slices {
    peer: Arc<Peer>,
    updates: Arc<Updates>,
    frames: Frames,
    views: Views,
    open: Option<OpenFrame>,
}

/// The frame in progress.
struct OpenFrame {
    header: FrameHeader,
    first_slice: Option<Instant>,
    newest_slice: Instant,
    departure: Departure,
}

impl Slices {
    pub(crate) fn new(peer: Arc<Peer>, updates: Arc<Updates>) -> Slices {
        Slices {
            peer,
            updates,
            frames: Frames::default(),
            views: Views::default(),
            open: None,
        }
    }
}

impl Subscriber for Slices {
    fn start_frame(&mut self, now: Instant, frame: &Frame) {
        if let Some(message) = self.views.begins(frame) {
            self.peer.send_control(&message);
        }
        self.open = Some(OpenFrame {
            header: frame.header,
            first_slice: None,
            newest_slice: now,
            departure: Departure::default(),
        });
    }

    fn slice(&mut self, now: Instant, slice: &Slice<'_>) {
        let Some(open) = &mut self.open else { return };
        open.first_slice.get_or_insert(now);
        open.newest_slice = now;
        let ends = slice.place.index + 1 == slice.place.count;
        let captured = Instant(open.header.captured);
        let mut packets = Vec::new();
        payloads(slice.bytes, |payload, last| {
            packets.push(Packet {
                payload: payload.into(),
                last: last && ends,
                captured,
            });
        });
        (self.peer.newest).store(open.header.frame.0, Ordering::Release);
        let before = self.peer.traffic();
        let after = self.peer.video(&packets);
        let sent = clock::now();
        let left = &mut open.departure;
        left.first.get_or_insert(sent);
        left.last = Some(sent);
        left.datagrams += u32::try_from(packets.len()).unwrap_or(u32::MAX);
        let bytes = after.bytes.saturating_sub(before.bytes);
        left.bytes += u32::try_from(bytes).unwrap_or(u32::MAX);
        left.overflowed |= after.overflowed > before.overflowed;
    }

    fn end(&mut self, _: Instant) -> Progress {
        let Some(open) = self.open.take() else {
            return Progress::Missed;
        };
        let encoding = Encoding {
            first_slice: open.first_slice.unwrap_or(open.newest_slice),
            last_slice: open.newest_slice,
        };
        let message = self.frames.left(&open.header, encoding, &open.departure);
        self.peer.send_control(&message);
        Progress::Sent(open.departure)
    }

    fn dropped(&mut self, _: Instant, frame: FrameId, _: Stage, _: DropCause) {
        self.open.take_if(|open| open.header.frame == frame);
    }

    fn update(&mut self, _: Instant, update: Update) {
        self.updates.put(update);
        self.peer.woken.notify_one();
    }
}
