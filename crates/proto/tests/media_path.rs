//! The media path under link impairments. [`MediaSender`] fragments and seals, the datagrams are shuffled, repeated,
//! lost or damaged, and [`MediaReceiver`] reassembles them.
#![allow(
    clippy::cast_possible_truncation,
    reason = "test values are known to fit"
)]

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use openuvr_proto::id::{ConfigEpoch, FrameId};
use openuvr_proto::recv::plane::MediaReceiver;
use openuvr_proto::recv::reassemble::{REORDER_WAIT, VideoOutput};
use openuvr_proto::send::fec::{FecLevel, FecPlan};
use openuvr_proto::send::loss::Loss;
use openuvr_proto::send::packetize::{Protection, SendBuf, VideoSender};
use openuvr_proto::send::plane::MediaSender;
use openuvr_proto::time::Instant;
use openuvr_proto::trace::Fidelity;
use openuvr_proto::units::Size;
use openuvr_proto::wire::MAX_DATAGRAM;
use openuvr_proto::wire::video::{Configuration, Extensions, FrameHeader, InputEcho, SlicePlace};
use proptest::prelude::*;
use support::established;

/// A frame: whether it is a key frame, how many frame numbers are skipped before it, and the lengths of its slices.
#[derive(Clone, Debug)]
struct Frame {
    key: bool,
    skips: u32,
    slices: Vec<usize>,
}

fn frames(key: impl Strategy<Value = bool>) -> impl Strategy<Value = Vec<Frame>> {
    let slices = prop::collection::vec(0_usize..6000, 1..6);
    let frame =
        (key, 0_u32..3, slices).prop_map(|(key, skips, slices)| Frame { key, skips, slices });
    prop::collection::vec(frame, 1..10)
}

/// The bytes of a slice. Each slice has different bytes.
fn bytes(frame: FrameId, index: usize, length: usize) -> Vec<u8> {
    let seed = u64::from(frame.0) << 8 | index as u64;
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

/// The runs of `out` contain exactly its datagrams, in order. All datagrams of a run have the same length, except the
/// last.
fn check_runs(out: &SendBuf) {
    let chunks = out.runs().flat_map(|(bytes, each)| bytes.chunks(each));
    assert!(chunks.eq(out.iter()));
    assert!(out.iter().all(|d| d.len() <= MAX_DATAGRAM));
}

/// Sent data: all datagrams in order, and the slices of each frame.
type Sent = (Vec<Vec<u8>>, BTreeMap<FrameId, Vec<Vec<u8>>>);

fn send(frames: &[Frame]) -> Sent {
    send_with(&mut MediaSender::new(&established()).video(), frames)
}

fn send_with(sender: &mut VideoSender, frames: &[Frame]) -> Sent {
    let (mut datagrams, mut sent) = (Vec::new(), BTreeMap::new());
    let mut newest = FrameId::NONE;
    for (i, frame) in frames.iter().enumerate() {
        let key = frame.key || i == 0;
        let header = FrameHeader {
            frame: FrameId(newest.0 + 1 + frame.skips),
            reference: if key { FrameId::NONE } else { newest },
            epoch: ConfigEpoch(3),
            stream: 0,
            view: 0,
            captured: 5,
            clock_epoch: 0,
            echo: InputEcho::default(),
        };
        newest = header.frame;
        let configuration = key.then_some(Configuration {
            size: Size::new(640, 16 * frame.slices.len() as u32),
            codec: 1,
            colour: 1,
            fps: 60,
        });
        let extensions = Extensions {
            configuration,
            ..Extensions::default()
        };
        let mut slices = Vec::new();
        for (index, length) in frame.slices.iter().enumerate() {
            let place = SlicePlace {
                index: index as u8,
                count: frame.slices.len() as u8,
                first_mb: index as u16 * 40,
                mbs: 40,
            };
            let bytes = bytes(newest, index, *length);
            let mut out = SendBuf::default();
            sender.slice(Instant(1), &header, extensions, place, &bytes, &mut out);
            check_runs(&out);
            datagrams.extend(out.iter().map(<[u8]>::to_vec));
            slices.push(bytes);
        }
        let mut out = SendBuf::default();
        sender.parity(Instant(1), &mut out);
        check_runs(&out);
        datagrams.extend(out.iter().map(<[u8]>::to_vec));
        sent.insert(newest, slices);
    }
    (datagrams, sent)
}

/// The output of a receiver.
#[derive(Default, Debug, PartialEq, Eq)]
struct ReceiverOutput {
    /// Slices by frame and first macroblock.
    slices: BTreeMap<(FrameId, u16), Vec<u8>>,
    ends: Vec<(FrameId, Option<Fidelity>)>,
    /// The first macroblock of the next expected output of the current frame.
    next_mb: u16,
}

impl ReceiverOutput {
    /// Polls all outputs and checks that they are in order.
    fn drain(&mut self, receiver: &mut MediaReceiver, now: Instant) {
        let mut steps = 0;
        while let Some(step) = receiver.first().poll(now) {
            steps += 1;
            assert!(steps < 10_000, "poll does not end");
            let newest = self.ends.last().map_or(FrameId::NONE, |e| e.0);
            match step {
                VideoOutput::Slice {
                    header,
                    macroblocks,
                    bytes,
                    first,
                    ..
                } => {
                    assert!(header.frame > newest);
                    assert_eq!(first, macroblocks.0 == 0);
                    assert_eq!(macroblocks.0, self.next_mb);
                    self.next_mb = macroblocks.0 + macroblocks.1;
                    let place = (header.frame, macroblocks.0);
                    assert!(self.slices.insert(place, bytes.to_vec()).is_none());
                }
                VideoOutput::Missing {
                    header,
                    macroblocks,
                    ..
                } => {
                    assert!(header.frame > newest);
                    assert_eq!(macroblocks.0, self.next_mb);
                    self.next_mb += macroblocks.1;
                }
                VideoOutput::End(end) => {
                    assert!(end.header.frame > newest);
                    self.ends.push((end.header.frame, Some(end.fidelity)));
                    self.next_mb = 0;
                }
                VideoOutput::Dropped { frame, .. } => {
                    assert!(frame > newest);
                    self.ends.push((frame, None));
                    self.next_mb = 0;
                }
            }
        }
        assert!(
            receiver.first().next_timeout().is_none_or(|at| at > now),
            "an expired timer"
        );
        receiver.check_invariants();
    }
}

/// The indices of the datagrams in some order. Each datagram occurs at least once, and some are repeated.
fn shuffled(count: usize, order: &[usize]) -> Vec<usize> {
    let mut all: Vec<usize> = (0..count).collect();
    for (i, swap) in order.iter().enumerate() {
        let (a, b) = (i % count, swap % count);
        all.swap(a, b);
    }
    all.extend(order.iter().map(|i| i % count).take(count / 4));
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// If datagrams are reordered and duplicated within the reordering time, all frames are complete.
    #[test]
    fn any_order_gives_the_same_frames(
        frames in frames(Just(false)),
        order in prop::collection::vec(any::<usize>(), 0..200),
        polls in any::<u64>(),
    ) {
        let (datagrams, sent) = send(&frames);
        let mut receiver = MediaReceiver::new(&established());
        let mut out = ReceiverOutput::default();
        let order = shuffled(datagrams.len(), &order);
        let span = REORDER_WAIT.as_nanos() as i64 - 1;
        for (i, datagram) in order.iter().enumerate() {
            let now = Instant(span * i as i64 / order.len() as i64);
            let _ = receiver.handle_datagram(now, &datagrams[*datagram]);
            if polls >> (i % 64) & 1 == 1 {
                out.drain(&mut receiver, now);
            }
        }
        out.drain(&mut receiver, Instant(span));
        let whole: Vec<_> = sent.keys().map(|f| (*f, Some(Fidelity::Complete))).collect();
        prop_assert_eq!(&out.ends, &whole);
        let slices: Vec<_> = sent.values().flatten().cloned().collect();
        prop_assert_eq!(out.slices.into_values().collect::<Vec<_>>(), slices);
        prop_assert_eq!(receiver.first().next_timeout(), None);
        prop_assert!(!receiver.first().picture().broken);
    }

    /// With any loss, reordering, duplication and delay, no output byte is wrong and outputs are in order. Each frame
    /// ends at most once, and frames that are reported as complete are complete. In the end, no timers are left.
    #[test]
    fn any_subset_gives_no_wrong_byte(
        frames in frames(prop::bool::weighted(0.2)),
        order in prop::collection::vec(any::<usize>(), 0..200),
        deliveries in prop::collection::vec((0_u8..4, 0_u64..4), 1..200),
        parity: bool,
    ) {
        let mut sender = MediaSender::new(&established()).video();
        if parity {
            let loss = Loss { rate: 0.05, run: 2.0 };
            let parity = FecPlan::of(loss, FecLevel::Standard);
            sender.protect(&Protection { parity, resend: false });
        }
        let (datagrams, sent) = send_with(&mut sender, &frames);
        let mut receiver = MediaReceiver::new(&established());
        let mut out = ReceiverOutput::default();
        let mut now = Instant(0);
        for (i, datagram) in shuffled(datagrams.len(), &order).into_iter().enumerate() {
            let (what, later) = deliveries[i % deliveries.len()];
            match what {
                0 => {} // lost
                1 => {
                    now = now + Duration::from_millis(later);
                    let _ = receiver.handle_datagram(now, &datagrams[datagram]);
                }
                _ => {
                    let _ = receiver.handle_datagram(now, &datagrams[datagram]);
                    out.drain(&mut receiver, now);
                }
            }
        }
        let newest = *sent.last_key_value().unwrap().0;
        receiver.first().announce(now, newest);
        // The receiver waits for repair datagrams until the next frame is due.
        for _ in 0..12 * (sent.len() + 1) {
            now = now + REORDER_WAIT;
            out.drain(&mut receiver, now);
        }
        prop_assert_eq!(receiver.first().next_timeout(), None);
        prop_assert_eq!(out.ends.last().map(|e| e.0), Some(newest));
        for ((frame, first_mb), bytes) in &out.slices {
            let slices = sent.get(frame);
            prop_assert_eq!(slices.map(|s| &s[usize::from(first_mb / 40)]), Some(bytes));
        }
        for (frame, fidelity) in &out.ends {
            let came = out.slices.keys().filter(|(f, _)| f == frame).count();
            let slices = sent.get(frame).map_or(0, Vec::len);
            match fidelity {
                Some(Fidelity::Complete | Fidelity::Tainted) => prop_assert_eq!(came, slices),
                Some(Fidelity::Concealed) => prop_assert!(came < slices),
                None => prop_assert!(came == 0),
            }
        }
    }

    /// A datagram in which any byte was changed is refused, and does not affect the receiver.
    #[test]
    fn a_changed_byte_is_refused(
        frames in frames(Just(false)),
        damage in prop::collection::vec((any::<prop::sample::Index>(), 1_u8..), 1..40),
    ) {
        let (datagrams, sent) = send(&frames);
        let mut receiver = MediaReceiver::new(&established());
        let mut out = ReceiverOutput::default();
        for (i, datagram) in datagrams.iter().enumerate() {
            let (place, flip) = damage[i % damage.len()];
            let mut damaged = datagram.clone();
            damaged[place.index(datagram.len())] ^= flip;
            prop_assert!(receiver.handle_datagram(Instant(0), &damaged).is_err());
            receiver.handle_datagram(Instant(0), datagram).unwrap();
            out.drain(&mut receiver, Instant(0));
        }
        prop_assert_eq!(out.ends.len(), sent.len());
    }
}

#[test]
fn a_slice_that_is_too_long_is_not_truncated() {
    let mut sender = MediaSender::new(&established()).video();
    let header = FrameHeader {
        frame: FrameId(1),
        reference: FrameId::NONE,
        epoch: ConfigEpoch(1),
        stream: 0,
        view: 0,
        captured: 0,
        clock_epoch: 0,
        echo: InputEcho::default(),
    };
    let place = SlicePlace {
        index: 0,
        count: 1,
        first_mb: 0,
        mbs: 1,
    };
    let mut out = SendBuf::default();
    let long = vec![0; 21 << 20];
    let none = Extensions::default();
    sender.slice(Instant(0), &header, none, place, &long, &mut out);
    assert_eq!(out.datagrams(), 0);
}

/// With constant reordering, there is always a gap in the received datagrams, but each gap closes in time.
#[test]
fn constant_reordering_has_no_effect() {
    let frame = Frame {
        key: true,
        skips: 0,
        slices: vec![200_000],
    };
    let (datagrams, _) = send(&[frame]);
    let mut receiver = MediaReceiver::new(&established());
    let mut out = ReceiverOutput::default();
    // A datagram is sent every 0.25 ms. Every fifth datagram is delayed by 2 ms.
    let mut arrivals: Vec<_> = (0_i64..)
        .zip(&datagrams)
        .map(|(i, d)| (i * 250_000 + if i % 5 == 2 { 2_000_000 } else { 0 }, d))
        .collect();
    arrivals.sort_by_key(|a| a.0);
    for (at, datagram) in arrivals {
        receiver.handle_datagram(Instant(at), datagram).unwrap();
        out.drain(&mut receiver, Instant(at));
    }
    assert_eq!(out.ends, [(FrameId(1), Some(Fidelity::Complete))]);
}

/// The receiver stops waiting for both gaps of a frame after the reordering time, and does not wait for the next frame.
#[test]
fn a_second_gap_does_not_wait_for_the_next_frame() {
    let frame = Frame {
        key: true,
        skips: 0,
        slices: vec![100; 6],
    };
    let (datagrams, _) = send(&[
        frame.clone(),
        Frame {
            key: false,
            ..frame
        },
    ]);
    let mut receiver = MediaReceiver::new(&established());
    let mut out = ReceiverOutput::default();
    // Slices 1 and 4 of the second frame are lost.
    for (i, datagram) in datagrams.iter().enumerate() {
        if i != 7 && i != 10 {
            receiver.handle_datagram(Instant(0), datagram).unwrap();
        }
    }
    out.drain(&mut receiver, Instant(0));
    out.drain(&mut receiver, Instant(0) + REORDER_WAIT);
    let ends = [
        (FrameId(1), Some(Fidelity::Complete)),
        (FrameId(2), Some(Fidelity::Concealed)),
    ];
    assert_eq!(out.ends, ends);
}

/// A key frame that arrived complete but was not decoded leaves the picture damaged, so the client requests another key
/// frame.
#[test]
fn a_key_frame_that_was_not_decoded_is_requested_again() {
    let key = Frame {
        key: true,
        skips: 0,
        slices: vec![100; 2],
    };
    let (datagrams, _) = send(&[key]);
    let mut receiver = MediaReceiver::new(&established());
    for datagram in &datagrams {
        receiver.handle_datagram(Instant(0), datagram).unwrap();
        assert!(receiver.first().has_begun());
    }
    let step = receiver.first().poll(Instant(0));
    assert!(matches!(step, Some(VideoOutput::Slice { .. })), "{step:?}");
    receiver.first().decoding_failed();
    while receiver.first().poll(Instant(0)).is_some() {}
    assert!(receiver.first().has_begun(), "after the frame's end");
    let picture = receiver.first().picture();
    assert!(picture.broken, "{picture:?}");
    assert_eq!(picture.last_good, FrameId::NONE);
}
