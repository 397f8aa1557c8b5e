//! An authentic host that sends inconsistent data: fragments that contradict each other, that refer to arbitrary frames
//! or that never complete a frame, and FEC repair shards without their block.

use std::time::Duration;

use openuvr_proto::control::streams::{MICROPHONE, granted};
use openuvr_proto::id::{ConfigEpoch, FrameId, PayloadSeq, SessionId};
use openuvr_proto::recv::plane::MediaReceiver;
use openuvr_proto::recv::reassemble::VideoOutput;
use openuvr_proto::recv::timed::{TimedOutput, TimedReceiver};
use openuvr_proto::recv::uplink::UplinkReceiver;
use openuvr_proto::time::{Instant, PeerInstant};
use openuvr_proto::units::Size;
use openuvr_proto::wire::fec::{FecRepair, SHARD_LENGTH};
use openuvr_proto::wire::header::{HEADER, Plane, TAG};
use openuvr_proto::wire::media::{StreamId, StreamKind};
use openuvr_proto::wire::seal::{Direction, Sealer};
use openuvr_proto::wire::timed::{Payload, TimedWriter};
use openuvr_proto::wire::video::{
    Configuration, Extensions, FecPlace, Flags, Fragment, FragmentPlace, FrameHeader, InputEcho,
    SlicePlace, VIDEO_HEADER,
};

use crate::{Draw, established};

/// The frame that ended last, and the frame whose slices are being output.
#[derive(Default)]
struct Order {
    ended: FrameId,
    coming: Option<FrameId>,
}

impl Order {
    fn slice(&mut self, frame: FrameId) {
        assert!(
            frame > self.ended,
            "a slice arrived for a frame that had ended"
        );
        assert!(self.coming.is_none_or(|f| f == frame), "frames are mixed");
        self.coming = Some(frame);
    }

    fn end(&mut self, frame: FrameId) {
        assert!(frame > self.ended, "frames ended out of order");
        assert!(self.coming.is_none_or(|f| f == frame), "frames are mixed");
        self.coming = None;
        self.ended = frame;
    }
}

pub(crate) fn receiver(bytes: &[u8]) {
    let mut draw = Draw(bytes);
    let e = established(1, 5);
    let (direction, plane) = (Direction::HostToClient, Plane::Media);
    let mut sealer = Sealer::new(&e.secret, SessionId(5), direction, plane);
    let mut receiver = MediaReceiver::new(&e);
    receiver.first().round_trip(Some(Duration::from_millis(2)));
    let mut order = Order::default();
    let mut now = Instant(0);
    let mut base = 0_u32;
    while !draw.is_empty() {
        let what = draw.u8();
        match what % 8 {
            0 => now.0 += i64::from(draw.u16()) * 1000,
            1 => receiver
                .first()
                .announce(now, FrameId(base.wrapping_add(draw.u8().into()))),
            2 => base = base.wrapping_add(draw.u16().into()),
            3 if what & 64 == 0 => receiver.first().decoding_failed(),
            3 | 4 => {
                let datagram = absurd_parity(&mut draw, &mut sealer, base, now);
                let _ = receiver.handle_datagram(now, &datagram);
            }
            _ => {
                let datagram = absurd(&mut draw, &mut sealer, base, now);
                let _ = receiver.handle_datagram(now, &datagram);
            }
        }
        receiver.check_invariants();
        if what < 128 {
            drain(&mut receiver, now, &mut order);
        }
    }
    // Advance the time until no frame is incomplete.
    for _ in 0..100 {
        drain(&mut receiver, now, &mut order);
        let Some(at) = receiver.first().next_timeout() else {
            break;
        };
        now = at;
    }
}

fn drain(receiver: &mut MediaReceiver, now: Instant, order: &mut Order) {
    for steps in 0.. {
        assert!(steps < 10_000, "poll returns events without end");
        match receiver.first().poll(now) {
            Some(VideoOutput::Slice { header, .. } | VideoOutput::Missing { header, .. }) => {
                order.slice(header.frame);
            }
            Some(VideoOutput::End(end)) => order.end(end.header.frame),
            Some(VideoOutput::Dropped { frame, .. }) => order.end(frame),
            None => break,
        }
    }
    for requests in 0.. {
        assert!(requests < 10_000, "unlimited requests");
        if receiver.first().poll_request(now).is_none() {
            break;
        }
    }
    let due = receiver.first().next_timeout();
    assert!(
        due.is_none_or(|at| at > now),
        "an expired timer had no effect"
    );
    receiver.check_invariants();
}

/// A sealed fragment. Most of its values are small, so that fragments collide; some are large.
fn absurd(draw: &mut Draw<'_>, sealer: &mut Sealer, base: u32, now: Instant) -> Vec<u8> {
    let flags = draw.u8();
    let places = draw.u8();
    let frame = base.wrapping_add(u32::from(draw.u8() % 32));
    let back = if flags & 1 == 0 {
        1
    } else {
        u32::from(draw.u8())
    };
    let large = flags & 2 != 0;
    let header = FrameHeader {
        frame: FrameId(frame),
        reference: FrameId(if flags & 4 == 0 {
            frame.wrapping_sub(back)
        } else {
            0
        }),
        epoch: ConfigEpoch(u16::from(flags >> 6)),
        stream: 0,
        view: 0,
        captured: 0,
        clock_epoch: 0,
        echo: InputEcho::default(),
    };
    let slice = SlicePlace {
        index: places % 4,
        count: if large { draw.u8() } else { 1 + places / 4 % 4 },
        first_mb: u16::from(places % 4) * 10,
        mbs: if flags & 8 == 0 { 10 } else { draw.u16() },
    };
    let place = FragmentPlace {
        index: u16::from(places / 16 % 4),
        count: if large {
            draw.u16()
        } else {
            1 + u16::from(places / 64)
        },
        offset: match (places / 16 % 4, large) {
            (0, _) => 0,
            (n, false) => u32::from(n) * 8,
            (_, true) => draw.u64(3) as u32 * 2,
        },
    };
    let configuration = (flags & 16 != 0).then_some(Configuration {
        size: Size::new(160, 16 + u32::from(places)),
        codec: 1,
        colour: 1,
        fps: 60,
    });
    let fragment = Fragment {
        header,
        slice,
        place,
        fec: FecPlace {
            block: flags >> 7,
            index: places % 8,
        },
        flags: Flags {
            resend: flags & 32 == 0,
            parity: flags & 8 != 0,
            again: flags & 64 != 0,
        },
        extensions: Extensions {
            configuration,
            clean_after: (places & 32 != 0).then_some(u16::from(places % 4)),
            ..Extensions::default()
        },
        payload: &[flags; 8],
    };
    let mut body = Vec::new();
    fragment.write(&mut body);
    sealed(sealer, now, &body)
}

/// A sealed repair shard of a small block, valid or not.
fn absurd_parity(draw: &mut Draw<'_>, sealer: &mut Sealer, base: u32, now: Instant) -> Vec<u8> {
    let (shape, place) = (draw.u8(), draw.u8());
    let length = usize::from(draw.u8() / 4 * 2);
    let mut shard = draw.take(length).to_vec();
    // The shard is at least as long as the shards of most fragments.
    let least = SHARD_LENGTH + VIDEO_HEADER + 8;
    shard.resize(shard.len().max(least), place);
    let parity = FecRepair {
        stream: 0,
        view: 0,
        last: shape & 128 != 0,
        frame: FrameId(base.wrapping_add(u32::from(draw.u8() % 32))),
        block: place >> 7,
        index: place % 4,
        data: 1 + shape % 8,
        parity: 1 + shape / 8 % 4,
        shard: &shard,
    };
    let mut body = Vec::new();
    parity.write(&mut body);
    sealed(sealer, now, &body)
}

fn sealed(sealer: &mut Sealer, now: Instant, body: &[u8]) -> Vec<u8> {
    let mut datagram = vec![0; HEADER];
    datagram.extend_from_slice(body);
    datagram.extend_from_slice(&[0; TAG]);
    sealer.seal(now, &mut datagram);
    datagram
}

/// An authentic client that sends inconsistent streams to its host: arbitrary bodies in valid datagrams, and arbitrary
/// datagrams.
pub(crate) fn uplink_receiver(bytes: &[u8]) {
    let mut draw = Draw(bytes);
    let session = established(1, 5);
    let mut receiver = UplinkReceiver::new(&session);
    receiver.granted(&granted(&[MICROPHONE], &[MICROPHONE]));
    let (secret, id) = (&session.secret, session.session);
    let mut sealer = Sealer::new(secret, id, Direction::ClientToHost, Plane::Media);
    let mut now = Instant(0);
    while !draw.is_empty() {
        now.0 += i64::from(draw.u8()) * 100_000;
        let what = draw.u8();
        let body = draw.take(usize::from(what)).to_vec();
        let datagram = match what % 4 {
            0 => body,
            _ => sealed(&mut sealer, now, &body),
        };
        let _ = receiver.handle_datagram(now, &datagram);
        while (receiver.timed(MICROPHONE.stream)).is_some_and(|timed| timed.poll(now).is_some()) {}
        receiver.check_invariants();
    }
}

/// An authentic peer that sends inconsistent data of a timed stream. Each payload is output once and in order, or is
/// reported as missing.
pub(crate) fn timed_receiver(bytes: &[u8]) {
    let mut draw = Draw(bytes);
    let stream = StreamId::first(StreamKind::Audio);
    let mut receiver = TimedReceiver::new(stream);
    let (mut now, mut next, mut base) = (Instant(0), None, 0_u64);
    while !draw.is_empty() {
        let what = draw.u8();
        match what % 8 {
            0 => now.0 += i64::from(draw.u16()) * 1000,
            1 => base = base.wrapping_add(draw.u64(1 + usize::from(what / 32))),
            2 => {
                let body = draw.take(64).to_vec();
                let _ = receiver.handle_body(now, &body);
            }
            _ => {
                let number = base.wrapping_add(u64::from(draw.u8() % 80));
                let bytes = [what; 3];
                let payload = |seq| Payload {
                    seq: PayloadSeq(seq),
                    captured: PeerInstant(0),
                    samples: 1,
                    bytes: &bytes,
                };
                let mut body = Vec::new();
                let mut writer = TimedWriter::new(&mut body, stream, &payload(number));
                for back in 1..=u64::from(what / 8 % 4) {
                    writer.repeat(&payload(number.wrapping_sub(back)));
                }
                let _ = receiver.handle_body(now, &body);
            }
        }
        take_out(&mut receiver, now, &mut next);
    }
    // Advance the time until no timer is left.
    while let Some(at) = receiver.next_timeout() {
        assert!(at > now, "an expired timer had no effect");
        now = at;
        take_out(&mut receiver, now, &mut next);
    }
}

fn take_out(receiver: &mut TimedReceiver, now: Instant, next: &mut Option<u64>) {
    for steps in 0.. {
        assert!(steps < 10_000, "poll returns events without end");
        let (first, count) = match receiver.poll(now) {
            Some(TimedOutput::Payload(payload, arrived)) => {
                assert!(arrived <= now, "an arrival time is in the future");
                (payload.seq.0, 1)
            }
            Some(TimedOutput::Missing { first, count }) => (first.0, count),
            None => break,
        };
        assert!(
            count > 0 && next.is_none_or(|next| next == first),
            "payloads were skipped or repeated"
        );
        *next = Some(first + count);
    }
    receiver.check_invariants();
}
