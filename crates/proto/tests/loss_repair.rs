//! FEC and retransmission, from [`MediaSender`] to [`MediaReceiver`]: losses are repaired as far as possible,
//! and the output is never wrong.
#![allow(
    clippy::cast_possible_truncation,
    reason = "test values are known to fit"
)]

mod support;

use std::time::Duration;

use openuvr_proto::id::{ConfigEpoch, FrameId, ViewId};
use openuvr_proto::recv::plane::MediaReceiver;
use openuvr_proto::recv::reassemble::{REORDER_WAIT, VideoOutput};
use openuvr_proto::send::fec::{FecLevel, FecPlan};
use openuvr_proto::send::loss::Loss;
use openuvr_proto::send::packetize::{Protection, SendBuf, VideoSender};
use openuvr_proto::send::plane::MediaSender;
use openuvr_proto::time::Instant;
use openuvr_proto::trace::{DropCause, Fidelity};
use openuvr_proto::units::Size;
use openuvr_proto::wire::control::{MissingRange, RetransmissionRequest};
use openuvr_proto::wire::video::{Configuration, Extensions, FrameHeader, InputEcho, SlicePlace};
use proptest::prelude::*;
use support::established;

const ROUND_TRIP: Duration = Duration::from_millis(2);
const INTERVAL: Duration = Duration::from_micros(16_667);

fn ms(ms: i64) -> Instant {
    Instant(ms * 1_000_000)
}

/// A sender, and the slices of its current frame.
struct Sender {
    media: VideoSender,
    slices: Vec<Vec<u8>>,
}

impl Sender {
    fn new(parity: bool, resend: bool) -> Sender {
        let mut media = MediaSender::new(&established()).video();
        let loss = Loss {
            rate: 0.02,
            run: 1.0,
        };
        let mut protection = Protection {
            resend,
            ..Protection::default()
        };
        if parity {
            protection.parity = FecPlan::of(loss, FecLevel::Standard);
        }
        media.protect(&protection);
        let slices = Vec::new();
        Sender { media, slices }
    }

    /// The datagrams of a frame whose slices have these lengths, and the number of repair datagrams among them.
    fn frame(&mut self, frame: u32, reference: u32, lengths: &[usize]) -> (Vec<Vec<u8>>, usize) {
        let header = FrameHeader {
            frame: FrameId(frame),
            reference: FrameId(reference),
            epoch: ConfigEpoch(1),
            stream: 0,
            view: 0,
            captured: 7,
            clock_epoch: 0,
            echo: InputEcho::default(),
        };
        let configuration = (reference == 0).then_some(Configuration {
            size: Size::new(640, 16 * lengths.len() as u32),
            codec: 1,
            colour: 1,
            fps: 60,
        });
        let extensions = Extensions {
            configuration,
            ..Extensions::default()
        };
        let mut datagrams = Vec::new();
        let mut out = SendBuf::default();
        let mut parity = 0;
        self.slices.clear();
        for (index, length) in lengths.iter().enumerate() {
            let bytes: Vec<u8> = (0..*length)
                .map(|i| (i * 7 + i / 256 + index * 31 + frame as usize) as u8)
                .collect();
            let place = SlicePlace {
                index: index as u8,
                count: lengths.len() as u8,
                first_mb: index as u16 * 40,
                mbs: 40,
            };
            self.media
                .slice(ms(0), &header, extensions, place, &bytes, &mut out);
            datagrams.extend(out.iter().map(<[u8]>::to_vec));
            parity += out.parity();
            self.slices.push(bytes);
        }
        self.media.parity(ms(0), &mut out);
        datagrams.extend(out.iter().map(<[u8]>::to_vec));
        (datagrams, parity + out.parity())
    }

    fn again(&mut self, now: Instant, request: &RetransmissionRequest) -> Vec<Vec<u8>> {
        let mut out = SendBuf::default();
        self.media.resend(now, request, &mut out);
        out.iter().map(<[u8]>::to_vec).collect()
    }
}

/// The results of the output frames. Compares every output slice with the sent slice.
fn ends(receiver: &mut MediaReceiver, now: Instant, sender: &Sender) -> Vec<(u32, Fidelity)> {
    let mut ends = Vec::new();
    while let Some(step) = receiver.first().poll(now) {
        match step {
            VideoOutput::Slice {
                macroblocks, bytes, ..
            } => assert_eq!(bytes, sender.slices[usize::from(macroblocks.0 / 40)]),
            VideoOutput::End(end) => ends.push((end.header.frame.0, end.fidelity)),
            VideoOutput::Missing { .. } => {}
            VideoOutput::Dropped { frame, why, .. } => panic!("{frame:?} was dropped: {why:?}"),
        }
    }
    receiver.check_invariants();
    ends
}

fn receiver() -> MediaReceiver {
    let mut receiver = MediaReceiver::new(&established());
    receiver.first().round_trip(Some(ROUND_TRIP));
    receiver
}

fn take(receiver: &mut MediaReceiver, now: Instant, datagrams: &[Vec<u8>]) {
    for datagram in datagrams {
        let taken = receiver.handle_datagram(now, datagram);
        assert_eq!(taken, Ok(()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// A block tolerates the loss of as many datagrams as it has repair shards, whichever datagrams are lost and in
    /// whatever order the others arrive. The frame is complete at once.
    #[test]
    fn fec_recovers_a_block(
        lengths in prop::collection::vec(0_usize..9000, 1..8),
        picks in prop::collection::vec(any::<prop::sample::Index>(), 80),
        lost in any::<prop::sample::Index>(),
    ) {
        let mut sender = Sender::new(true, false);
        let mut receiver = receiver();
        let (mut datagrams, parity) = sender.frame(1, 0, &lengths);
        prop_assert!(parity > 0);
        for pick in picks.iter().take(lost.index(parity + 1)) {
            datagrams.remove(pick.index(datagrams.len()));
        }
        let count = datagrams.len();
        for (i, pick) in picks.iter().enumerate().take(count) {
            datagrams.swap(i, pick.index(count));
        }
        take(&mut receiver, ms(1), &datagrams);
        prop_assert_eq!(ends(&mut receiver, ms(1), &sender), [(1, Fidelity::Complete)]);
        prop_assert_eq!(receiver.first().next_timeout(), None);
    }

    /// Whichever fragments are lost and requested, the frame is complete if the retransmissions arrive, and ends in
    /// time if they do not arrive.
    #[test]
    fn requested_fragments_are_retransmitted(
        lengths in prop::collection::vec(0_usize..9000, 1..8),
        lost in prop::collection::vec(any::<bool>(), 1..40),
        parity: bool, answered: bool,
    ) {
        let mut sender = Sender::new(parity, true);
        let mut receiver = receiver();
        let (datagrams, _) = sender.frame(1, 0, &lengths);
        let mut arrived = 0;
        for (i, datagram) in datagrams.iter().enumerate() {
            // The first datagram always arrives. It contains the configuration, without which the frame cannot be
            // displayed.
            if i == 0 || !lost[i % lost.len()] {
                receiver.handle_datagram(ms(0), datagram).unwrap();
                arrived += 1;
            }
        }
        receiver.first().announce(ms(0), FrameId(1));
        let mut now = ms(0);
        let mut out = ends(&mut receiver, now, &sender);
        let mut asked = 0;
        while let Some(at) = receiver.first().next_timeout() {
            prop_assert!(at > now, "an expired timer without effect");
            now = at;
            out.extend(ends(&mut receiver, now, &sender));
            while let Some(request) = receiver.first().poll_request(now) {
                prop_assert_eq!(request.frame, FrameId(1));
                asked += 1;
                let again = sender.again(now, &request);
                prop_assert!(!again.is_empty());
                if answered {
                    now = now + ROUND_TRIP;
                    take(&mut receiver, now, &again);
                }
            }
            out.extend(ends(&mut receiver, now, &sender));
        }
        prop_assert_eq!(out.len(), 1);
        let all = arrived == datagrams.len();
        let whole = out[0].1 == Fidelity::Complete;
        prop_assert!(whole || !(answered || all));
        prop_assert!(!all || asked == 0);
        prop_assert!(asked <= 2);
        prop_assert!(now <= ms(0) + INTERVAL, "{now:?}");
    }
}

/// More datagrams are lost than there are repair shards. The client requests the missing fragments only after the
/// repair shards have arrived.
#[test]
fn requests_wait_for_repair_datagrams() {
    let mut sender = Sender::new(true, true);
    let mut receiver = receiver();
    let (datagrams, parity) = sender.frame(1, 0, &[1000; 12]);
    assert_eq!(datagrams.len(), 12 + parity);
    let arrives = [&datagrams[..1], &datagrams[6..12]].concat();
    take(&mut receiver, ms(0), &arrives);
    assert_eq!(ends(&mut receiver, ms(5), &sender), []);
    assert_eq!(
        receiver.first().poll_request(ms(5)),
        None,
        "repair datagrams may follow"
    );
    take(&mut receiver, ms(5), &datagrams[12..]);
    assert_eq!(
        receiver.first().poll_request(ms(5)),
        None,
        "late datagrams may follow"
    );
    let request = receiver
        .first()
        .poll_request(ms(6))
        .expect("five are missing");
    let again = sender.again(ms(7), &request);
    assert_eq!(again.len(), 5);
    // Together with the repair shards, fewer retransmissions than requested are sufficient.
    take(&mut receiver, ms(8), &again[..5 - parity]);
    assert_eq!(
        ends(&mut receiver, ms(8), &sender),
        [(1, Fidelity::Complete)]
    );
}

/// With a round trip of 12 ms, an answer arrives after the next frame is due. It is awaited, because the next frame
/// refers to this one.
#[test]
fn a_retransmission_may_arrive_after_the_next_frame_is_due() {
    for answered in [true, false] {
        let mut sender = Sender::new(false, true);
        let mut receiver = receiver();
        (receiver.first()).round_trip(Some(Duration::from_millis(12)));
        let (datagrams, _) = sender.frame(1, 0, &[1000; 4]);
        take(&mut receiver, ms(0), &datagrams[..2]);
        take(&mut receiver, ms(6), &datagrams[3..]);
        let request = receiver
            .first()
            .poll_request(ms(7))
            .expect("one is missing");
        assert_eq!(ends(&mut receiver, ms(20), &sender), []);
        if answered {
            take(&mut receiver, ms(20), &sender.again(ms(13), &request));
        }
        let (at, fidelity) = match answered {
            true => (ms(20), Fidelity::Complete),
            false => (ms(29), Fidelity::Concealed),
        };
        assert_eq!(ends(&mut receiver, at, &sender), [(1, fidelity)]);
    }
}

#[test]
fn without_retransmission_there_is_no_wait() {
    let mut sender = Sender::new(false, false);
    let mut receiver = receiver();
    let (datagrams, _) = sender.frame(1, 0, &[1000; 4]);
    take(&mut receiver, ms(0), &datagrams[..2]);
    take(&mut receiver, ms(0), &datagrams[3..]);
    assert_eq!(receiver.first().poll_request(ms(2)), None);
    let at = ms(0) + REORDER_WAIT;
    assert_eq!(ends(&mut receiver, at, &sender), [(1, Fidelity::Concealed)]);
    let request = RetransmissionRequest {
        view: ViewId::FIRST,
        frame: FrameId(1),
        ranges: Vec::new(),
    };
    assert!(sender.again(ms(3), &request).is_empty());
}

/// If no datagram of a frame arrives, the receiver requests the whole frame and waits for it.
#[test]
fn an_entirely_lost_frame_is_retransmitted() {
    let mut sender = Sender::new(false, true);
    let mut receiver = receiver();
    let (first, _) = sender.frame(1, 0, &[3000; 3]);
    take(&mut receiver, ms(0), &first);
    assert_eq!(
        ends(&mut receiver, ms(0), &sender),
        [(1, Fidelity::Complete)]
    );
    let (lost, _) = sender.frame(2, 1, &[3000; 3]);
    let slices = sender.slices.clone();
    let (third, _) = sender.frame(3, 2, &[3000; 3]);
    take(&mut receiver, ms(10), &third);
    assert_eq!(ends(&mut receiver, ms(10), &sender), []);
    let request = receiver
        .first()
        .poll_request(ms(11))
        .expect("frame 2 is missing");
    assert_eq!((request.frame, request.ranges.len()), (FrameId(2), 0));
    let again = sender.again(ms(12), &request);
    assert_eq!(again.len(), lost.len());
    take(&mut receiver, ms(13), &again);
    let third = std::mem::replace(&mut sender.slices, slices);
    let mut out = Vec::new();
    while let Some(step) = receiver.first().poll(ms(13)) {
        if let VideoOutput::End(end) = step {
            out.push((end.header.frame.0, end.fidelity, end.resent));
            sender.slices.clone_from(&third);
        }
    }
    let whole = Fidelity::Complete;
    assert_eq!(out, [(2, whole, lost.len() as u16), (3, whole, 0)]);
}

#[test]
fn a_body_is_retransmitted_twice_and_only_while_recent() {
    let mut sender = Sender::new(false, true);
    let (datagrams, _) = sender.frame(1, 0, &[5000]);
    let one = RetransmissionRequest {
        view: ViewId::FIRST,
        frame: FrameId(1),
        ranges: vec![MissingRange {
            slice: 0,
            first: 1,
            last: 2,
        }],
    };
    let all = RetransmissionRequest {
        view: ViewId::FIRST,
        frame: FrameId(1),
        ranges: Vec::new(),
    };
    assert_eq!(sender.again(ms(1), &one).len(), 2);
    assert_eq!(sender.again(ms(1), &one).len(), 2);
    assert_eq!(sender.again(ms(1), &one).len(), 0);
    assert_eq!(sender.again(ms(1), &all).len(), datagrams.len() - 2);
    assert_eq!(sender.again(ms(101), &all).len(), 0);
}

/// After a loss, the host can reference an older frame that the client has. The picture is then correct again without a
/// key frame.
#[test]
fn a_frame_has_the_fidelity_of_its_reference() {
    let mut sender = Sender::new(false, false);
    let mut receiver = receiver();
    let mut ended = Vec::new();
    let mut now = ms(0);
    for (frame, reference, arrives) in [
        (1, 0, true),
        (2, 1, true),
        (3, 2, false),
        (4, 3, true),
        (5, 4, true),
        (6, 2, true),
        (7, 6, true),
        (8, 3, true),
        (9, 7, true),
    ] {
        let (datagrams, _) = sender.frame(frame, reference, &[500; 2]);
        if arrives {
            take(&mut receiver, now, &datagrams);
        }
        now = now + INTERVAL;
        while let Some(step) = receiver.first().poll(now) {
            match step {
                VideoOutput::End(end) => ended.push((end.header.frame.0, Some(end.fidelity))),
                VideoOutput::Dropped { frame, why, .. } => {
                    assert_eq!(why, DropCause::Lost);
                    ended.push((frame.0, None));
                }
                _ => {}
            }
        }
        let last = ended.last().and_then(|(_, fidelity)| *fidelity);
        assert_eq!(
            receiver.first().picture().broken,
            last != Some(Fidelity::Complete)
        );
    }
    let (whole, tainted) = (Some(Fidelity::Complete), Some(Fidelity::Tainted));
    let expected = [
        (1, whole),
        (2, whole),
        (3, None),
        (4, tainted),
        (5, tainted),
        (6, whole),
        (7, whole),
        (8, tainted),
        (9, whole),
    ];
    assert_eq!(ended, expected);
    assert_eq!(receiver.first().picture().last_good, FrameId(9));
}

/// An incomplete frame is discarded when a frame that does not reference it is available.
#[test]
fn an_unneeded_frame_is_discarded() {
    let mut sender = Sender::new(true, true);
    let mut receiver = receiver();
    let (first, _) = sender.frame(1, 0, &[500; 2]);
    take(&mut receiver, ms(0), &first);
    while receiver.first().poll(ms(0)).is_some() {}
    let (second, _) = sender.frame(2, 1, &[500; 2]);
    take(&mut receiver, ms(1), &second[..1]);
    assert!(receiver.first().poll(ms(1)).is_some(), "its first slice");
    let (third, _) = sender.frame(3, 1, &[500; 2]);
    take(&mut receiver, ms(2), &third);
    let ended = ends(&mut receiver, ms(2), &sender);
    assert_eq!(ended, [(2, Fidelity::Concealed), (3, Fidelity::Complete)]);
}

/// The receiver waits for unreferenced frames only for the reordering time.
#[test]
fn unreferenced_frames_are_waited_for_briefly() {
    let mut sender = Sender::new(false, false);
    let mut receiver = receiver();
    let (first, _) = sender.frame(1, 0, &[500; 2]);
    take(&mut receiver, ms(0), &first);
    let (second, _) = sender.frame(2, 1, &[500; 2]);
    take(&mut receiver, ms(0), &second);
    while receiver.first().poll(ms(0)).is_some() {}
    let (third, _) = sender.frame(3, 2, &[500; 2]);
    let late = sender.slices.clone();
    let (fourth, _) = sender.frame(4, 1, &[500; 2]);
    take(&mut receiver, ms(1), &fourth);
    assert_eq!(ends(&mut receiver, ms(1), &sender), []);
    let until = ms(1) + REORDER_WAIT;
    assert_eq!(receiver.first().next_timeout(), Some(until));
    assert_eq!(
        ends(&mut receiver, until, &sender),
        [(4, Fidelity::Complete)]
    );
    sender.slices = late;
    take(&mut receiver, until, &third);
    assert_eq!(ends(&mut receiver, until, &sender), []);
}
