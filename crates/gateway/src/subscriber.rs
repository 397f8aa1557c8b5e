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
use crate::packetise::{payloads, vp9};
use crate::peer::{Packet, Peer};
use crate::updates::Updates;
use crate::video_codec::VideoCodec;
use crate::views::Views;

/// The subscriber for a browser.
pub(crate) struct Slices {
    peer: Arc<Peer>,
    updates: Arc<Updates>,
    frames: Frames,
    views: Views,
    open: Option<OpenFrame>,
    /// The codec of the newest key frame.
    codec: Option<VideoCodec>,
    vp9: vp9::Packetiser,
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
            codec: None,
            vp9: vp9::Packetiser::default(),
        }
    }
}

impl Subscriber for Slices {
    fn start_frame(&mut self, now: Instant, frame: &Frame) {
        if let Some(message) = self.views.begins(frame) {
            self.peer.send_control(&message);
        }
        if let Some(configuration) = frame.configuration {
            self.codec = VideoCodec::numbered(configuration.codec);
        }
        self.open = Some(OpenFrame {
            header: frame.header,
            first_slice: None,
            newest_slice: now,
            departure: Departure::default(),
        });
    }

    fn slice(&mut self, now: Instant, slice: &Slice<'_>) {
        let (Some(open), Some(codec)) = (&mut self.open, self.codec) else {
            return;
        };
        open.first_slice.get_or_insert(now);
        open.newest_slice = now;
        let ends = slice.place.index + 1 == slice.place.count;
        let captured = Instant(open.header.captured);
        let mut packets = Vec::new();
        let add = |payload: &[u8], last: bool| {
            packets.push(Packet {
                codec,
                payload: payload.into(),
                last: last && ends,
                captured,
            });
        };
        match codec {
            VideoCodec::H264 => payloads(slice.bytes, add),
            VideoCodec::Vp9 => self.vp9.payloads(slice.bytes, add),
        }
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
