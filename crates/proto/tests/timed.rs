//! Timed streams from [`TimedSender`](openuvr_proto::send::timed::TimedSender) to the receiver of the stream, over a
//! link with any impairments. Each payload is output exactly once and in order, or is reported as missing.
#![allow(
    clippy::cast_possible_truncation,
    reason = "test values are known to fit"
)]

mod support;

use std::time::Duration;

use openuvr_proto::control::streams::Grant;
use openuvr_proto::id::PayloadSeq;
use openuvr_proto::recv::plane::MediaReceiver;
use openuvr_proto::recv::timed::{MAX_WAITING, TimedCounters, TimedOutput};
use openuvr_proto::send::loss::Loss;
use openuvr_proto::send::packetize::SendBuf;
use openuvr_proto::send::plane::MediaSender;
use openuvr_proto::send::timed::TooLong;
use openuvr_proto::time::{Instant, PeerInstant};
use openuvr_proto::wire::MAX_DATAGRAM;
use openuvr_proto::wire::header::{HEADER, Plane, TAG};
use openuvr_proto::wire::media::{StreamId, StreamKind};
use openuvr_proto::wire::seal::{Direction, Sealer};
use openuvr_proto::wire::timed::{MAX_BLOCKS, MAX_PAYLOAD};
use proptest::prelude::*;
use support::established;

const AUDIO: StreamId = StreamId::first(StreamKind::Audio);
const EVERY: Duration = Duration::from_millis(5);

fn at(payload: u64) -> Instant {
    Instant(0) + EVERY * payload as u32
}

/// The content of a payload, derived from its number.
fn content(payload: u64, length: usize) -> Vec<u8> {
    (0..length as u64)
        .map(|i| (i * 7 + payload * 31) as u8)
        .collect()
}

/// A receiver with a granted audio stream.
fn hearing() -> MediaReceiver {
    let mut receiver = MediaReceiver::new(&established());
    receiver.granted(&[Grant {
        stream: AUDIO,
        to_client: true,
        to_host: false,
        format: 0,
        views: 0,
    }]);
    receiver
}

/// The datagrams of payloads with these lengths, 5 ms apart. The sender adapts to the loss `loss`.
fn sent(loss: Loss, lengths: &[usize]) -> Vec<Vec<u8>> {
    let mut sender = MediaSender::new(&established()).timed(AUDIO);
    sender.follow(loss);
    let mut out = SendBuf::default();
    let datagrams = (0..).zip(lengths).map(|(payload, length)| {
        let now = at(payload);
        let bytes = content(payload, *length);
        let seq = sender.send(now, (now, 240), &bytes, &mut out);
        assert_eq!(seq, Ok(PayloadSeq(payload)));
        let mut datagrams = out.iter();
        let datagram = datagrams.next().expect("one datagram").to_vec();
        assert!(datagrams.next().is_none() && datagram.len() <= MAX_DATAGRAM);
        datagram
    });
    datagrams.collect()
}

/// The receiver's output: whether each payload arrived, starting with the first known payload.
#[derive(Default)]
struct Received(Vec<bool>, u64);

impl Received {
    fn drain(&mut self, receiver: &mut MediaReceiver, now: Instant, lengths: &[usize]) {
        let stream = receiver.timed(AUDIO).expect("audio was granted");
        while let Some(step) = stream.poll(now) {
            if let (TimedOutput::Payload(payload, _), true) = (&step, self.0.is_empty()) {
                self.1 = payload.seq.0;
            }
            let next = self.1 + self.0.len() as u64;
            match step {
                TimedOutput::Payload(payload, arrived) => {
                    assert_eq!(payload.seq, PayloadSeq(next), "in order, once");
                    assert_eq!(payload.bytes, content(next, lengths[next as usize]));
                    assert_eq!(payload.captured, PeerInstant(at(next).0));
                    assert_eq!((payload.samples, arrived <= now), (240, true));
                    self.0.push(true);
                }
                TimedOutput::Missing { first, count } => {
                    assert_eq!(first, PayloadSeq(next), "in order, once");
                    self.0.extend((0..count).map(|_| false));
                }
            }
        }
        receiver.check_invariants();
    }
}

fn loss(rate: f64, run: f64) -> Loss {
    Loss { rate, run }
}

proptest! {
    /// Datagrams are lost, late, repeated and in any order. A payload is output if any datagram with it arrives in
    /// time.
    #[test]
    fn payloads_come_out_once_in_order_or_are_named(
        lengths in prop::collection::vec(0_usize..600, 20..60),
        deliveries in prop::collection::vec((0..4_u8, 0_i64..30_000), 60),
        rate in 0.0..0.3_f64,
    ) {
        let datagrams = sent(loss(rate, 2.0), &lengths);
        // Arrival times in microseconds. The last datagram always arrives, which completes the stream.
        let mut arrivals: Vec<(i64, usize)> = Vec::new();
        for (payload, (delivery, late)) in (0..datagrams.len()).zip(&deliveries) {
            let sent = at(payload as u64).0 / 1000;
            if *delivery > 0 || payload + 1 == datagrams.len() {
                arrivals.push((sent + late, payload));
            }
            if *delivery == 2 {
                arrivals.push((sent + late + 100, payload));
            }
        }
        arrivals.sort_unstable();
        let mut receiver = hearing();
        let mut received = Received::default();
        let mut seen = vec![false; datagrams.len()];
        for (us, payload) in arrivals {
            let now = Instant(us * 1000);
            while let Some(due) = receiver.next_timeout().filter(|due| *due <= now) {
                received.drain(&mut receiver, due, &lengths);
            }
            let again = std::mem::replace(&mut seen[payload], true);
            let taken = receiver.handle_datagram(now, &datagrams[payload]);
            prop_assert_eq!(taken.is_err(), again);
            received.drain(&mut receiver, now, &lengths);
        }
        while let Some(due) = receiver.next_timeout() {
            received.drain(&mut receiver, due, &lengths);
        }
        // The payloads before the first arrived payload are unknown to the receiver.
        let counted = receiver.timed(AUDIO).unwrap().counters();
        let (whole, missing) = (
            received.0.iter().filter(|received| **received).count() as u64,
            received.0.iter().filter(|received| !**received).count() as u64,
        );
        prop_assert_eq!((counted.delivered, counted.missing), (whole, missing));
    }
}

#[test]
fn repeated_payloads_repair_losses() {
    let lengths = [100; 40];
    let datagrams = sent(loss(0.05, 3.0), &lengths);
    let (mut receiver, mut received) = (hearing(), Received::default());
    // Three consecutive datagrams and a single one are lost.
    let lost = [10, 11, 12, 30];
    for (payload, datagram) in datagrams.iter().enumerate() {
        if !lost.contains(&payload) {
            let now = at(payload as u64);
            receiver.handle_datagram(now, datagram).unwrap();
            received.drain(&mut receiver, now, &lengths);
        }
    }
    assert_eq!(received.0, [true; 40]);
    let counters = receiver.timed(AUDIO).unwrap().counters();
    let repaired = TimedCounters {
        delivered: 40,
        repaired: 4,
        missing: 0,
    };
    assert_eq!(counters, repaired);
}

#[test]
fn lost_payloads_are_skipped_at_their_deadline() {
    let lengths = [1000; 4];
    let datagrams = sent(Loss::NONE, &lengths);
    let (mut receiver, mut received) = (hearing(), Received::default());
    let wait = Duration::from_millis(12);
    receiver.timed(AUDIO).unwrap().set_wait(wait);
    receiver.handle_datagram(at(0), &datagrams[0]).unwrap();
    // The payloads are too long to be repeated, so the payload of the lost second datagram is missing.
    receiver.handle_datagram(at(2), &datagrams[2]).unwrap();
    receiver.handle_datagram(at(3), &datagrams[3]).unwrap();
    received.drain(&mut receiver, at(3), &lengths);
    assert_eq!(received.0, [true]);
    let due = at(2) + wait;
    assert_eq!(receiver.next_timeout(), Some(due));
    received.drain(&mut receiver, Instant(due.0 - 1), &lengths);
    assert_eq!(received.0, [true]);
    received.drain(&mut receiver, due, &lengths);
    assert_eq!(received.0, [true, false, true, true]);
    // The second datagram now arrives too late.
    receiver.handle_datagram(due, &datagrams[1]).unwrap();
    received.drain(&mut receiver, due, &lengths);
    assert_eq!((received.0.len(), receiver.next_timeout()), (4, None));
}

#[test]
fn a_long_gap_ends_at_once_and_costs_no_memory() {
    let count = 3 * MAX_WAITING as usize;
    let lengths = vec![20; count];
    let datagrams = sent(Loss::NONE, &lengths);
    let (mut receiver, mut received) = (hearing(), Received::default());
    receiver.handle_datagram(at(0), &datagrams[0]).unwrap();
    receiver.handle_datagram(at(9), &datagrams[9]).unwrap();
    let last = &datagrams[count - 1];
    receiver.handle_datagram(at(9), last).unwrap();
    received.drain(&mut receiver, at(9), &lengths);
    // All payloads before the newest `MAX_WAITING` are skipped, including those that have arrived. The receiver waits
    // for the payloads that are missing among the newest.
    assert_eq!(received.0.len(), count - MAX_WAITING as usize);
    let due = receiver.next_timeout().unwrap();
    received.drain(&mut receiver, due, &lengths);
    assert_eq!((received.0.len(), received.0[count - 1]), (count, true));
}

#[test]
fn more_loss_means_more_repetition() {
    let mut sender = MediaSender::new(&established()).timed(AUDIO);
    let mut repeats = |rate, run| {
        sender.follow(loss(rate, run));
        sender.repeats()
    };
    assert_eq!(repeats(0.0, 1.0), 1);
    assert_eq!(repeats(0.005, 1.0), 1, "0.005² < 10⁻⁴");
    assert_eq!(repeats(0.02, 1.0), 2, "0.02³ < 10⁻⁴ < 0.02²");
    assert_eq!(
        repeats(0.02, 2.0),
        8 - 1,
        "half of the datagrams after a lost one are lost"
    );
    assert_eq!(repeats(1.0, 50.0), MAX_BLOCKS - 1);
}

#[test]
fn a_payload_that_is_too_long_has_no_number() {
    let mut sender = MediaSender::new(&established()).timed(AUDIO);
    let mut out = SendBuf::default();
    let mut send = |length| sender.send(at(0), (at(0), 240), &content(0, length), &mut out);
    assert_eq!(send(MAX_PAYLOAD), Ok(PayloadSeq(0)));
    let bytes = MAX_PAYLOAD + 1;
    assert_eq!(send(bytes), Err(TooLong { bytes }));
    assert_eq!(send(7), Ok(PayloadSeq(1)));
}

#[test]
fn sound_does_not_count_as_the_beginning_of_the_video() {
    let mut receiver = hearing();
    for datagram in sent(Loss::NONE, &[100; 2]) {
        receiver.handle_datagram(at(0), &datagram).unwrap();
    }
    assert_eq!(receiver.counters().received, 2);
    assert!(!receiver.first().has_begun());
}

#[test]
fn unknown_and_ungranted_streams_are_counted_and_skipped() {
    let mut receiver = MediaReceiver::new(&established());
    let e = established();
    let mut sealer = Sealer::new(&e.secret, e.session, Direction::HostToClient, Plane::Media);
    // A kind of a newer protocol version, audio that was not requested, and fragments and repair shards of views that
    // were not granted.
    for body in [[99, 0, 0, 7], [2, 0, 1, 0], [1, 0, 1, 0], [3, 5, 0, 0]] {
        let mut datagram = vec![0; HEADER];
        datagram.extend_from_slice(&body);
        datagram.extend_from_slice(&[0; TAG]);
        sealer.seal(at(0), &mut datagram);
        assert_eq!(receiver.handle_datagram(at(0), &datagram), Ok(()));
        assert!(receiver.handle_datagram(at(0), &datagram).is_err(), "twice");
    }
    let counters = receiver.counters();
    assert_eq!((counters.received, counters.skipped), (4, 4));
    assert_eq!((receiver.next_timeout(), counters.missing), (None, 0));
}
