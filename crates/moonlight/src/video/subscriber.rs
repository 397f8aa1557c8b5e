//! Sends the host's frames to a Moonlight client, on the thread that the host gives each subscriber.
//!
//! The protocol's headers contain a frame's number of packets, so no part of a frame is sent before its last slice.

use std::sync::Arc;
use std::time::{Duration, Instant as WallInstant};

use openuvr_clock as clock;
use openuvr_proto::id::FrameId;
use openuvr_proto::send::subscriber::{Departure, Frame, Progress, Slice, Subscriber};
use openuvr_proto::send::update::Update;
use openuvr_proto::time::Instant;
use openuvr_proto::trace::{DropCause, Stage};
use openuvr_proto::units::Size;
use openuvr_proto::wire::extensions::Configuration;
use openuvr_proto::wire::video::FrameHeader;

use super::packets::{FrameProperties, Packetizer};
use crate::session::{SendOutcome, Session};

/// Nanoseconds per unit of the frame header's processing time.
const PROCESSING_UNIT: u128 = 100_000;

/// The clock rate of video in RTP (RFC 6184 section 8.2.1).
const RATE: i128 = 90_000;

/// How long the subscriber waits for a picture in the client's mode. A virtual display takes this mode within 0.1 s.
/// The wait avoids a later change of size, for which decoders of televisions need a restart.
const MODE_WAIT: Duration = Duration::from_secs(2);

/// The subscriber.
pub struct VideoSubscriber {
    session: Arc<Session>,
    packetizer: Packetizer,
    /// The awaited size of the first picture, and the time at which the wait ends.
    awaited: Option<(Size, WallInstant)>,
    open: Option<FrameHeader>,
    /// The open frame's bytes, kept to reuse their memory.
    stream: Vec<u8>,
}

impl VideoSubscriber {
    /// Creates a subscriber that sends through the session's outlet. `awaited` is the size that the display is about to
    /// have.
    #[must_use]
    pub fn new(
        session: Arc<Session>,
        packetizer: Packetizer,
        awaited: Option<Size>,
    ) -> VideoSubscriber {
        VideoSubscriber {
            session,
            packetizer,
            awaited: awaited.map(|size| (size, WallInstant::now() + MODE_WAIT)),
            open: None,
            stream: Vec::new(),
        }
    }

    /// Whether the subscriber still waits for a picture of the awaited size. After each frame that the subscriber
    /// refuses, the host makes a key frame.
    fn is_early(&mut self, frame: &Frame) -> bool {
        let Some((size, until)) = self.awaited else {
            return false;
        };
        let has_it = |configuration: Configuration| configuration.size == size;
        let over = WallInstant::now() >= until || !self.session.awaits_mode();
        let begins = frame.configuration.is_some_and(|c| has_it(c) || over);
        if begins {
            self.awaited = None;
        }
        !begins
    }

    fn send(&mut self, header: &FrameHeader) -> Option<Departure> {
        let session = &self.session;
        let kind = session.frames.record(self.packetizer.next_frame(), header);
        let (captured, now) = (Instant(header.captured), clock::now());
        let processing = now.since(captured).as_nanos() / PROCESSING_UNIT;
        let properties = FrameProperties {
            kind,
            // 0 would mean that the time is unknown.
            processing: u16::try_from(processing).unwrap_or(u16::MAX).max(1),
            time: rtp_time(captured),
            redundancy: session.redundancy.percent(WallInstant::now()),
        };
        let mut left = Departure::default();
        let count = self
            .packetizer
            .packets(&self.stream, &properties, |packet| {
                match session.video.send(packet) {
                    SendOutcome::Sent => {
                        let now = clock::now();
                        left.first.get_or_insert(now);
                        left.last = Some(now);
                        left.datagrams += 1;
                        left.bytes += u32::try_from(packet.len()).unwrap_or(u32::MAX);
                    }
                    SendOutcome::Full | SendOutcome::Nowhere => left.overflowed = true,
                }
            });
        match count {
            Ok(count) => {
                left.parity = count.parity;
                session.redundancy.sent(WallInstant::now(), count.all);
                Some(left)
            }
            Err(error) => {
                tracing::debug!(client = %session.owner.title, %error, "frame not sent");
                None
            }
        }
    }
}

/// A capture time on the RTP clock, which wraps.
fn rtp_time(captured: Instant) -> u32 {
    let ticks = i128::from(captured.0) * RATE / 1_000_000_000;
    let wrapped = ticks.rem_euclid(1 << 32);
    u32::try_from(wrapped).unwrap_or(0)
}

impl Subscriber for VideoSubscriber {
    fn start_frame(&mut self, _: Instant, frame: &Frame) {
        self.stream.clear();
        self.open = (!self.is_early(frame)).then_some(frame.header);
    }

    fn slice(&mut self, _: Instant, slice: &Slice<'_>) {
        if self.open.is_some() {
            self.stream.extend_from_slice(slice.bytes);
        }
    }

    fn end(&mut self, _: Instant) -> Progress {
        let header = self.open.take().filter(|_| !self.session.is_closed());
        let left = header.and_then(|header| self.send(&header));
        left.map_or(Progress::Missed, Progress::Sent)
    }

    fn dropped(&mut self, _: Instant, frame: FrameId, _: Stage, _: DropCause) {
        self.open.take_if(|open| open.frame == frame);
    }

    fn update(&mut self, _: Instant, update: Update) {
        self.session.updates.put(update);
    }
}
