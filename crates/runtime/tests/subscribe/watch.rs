//! Tests observers, with a recorder as the example.

use std::sync::mpsc::sync_channel;

use openuvr_media::barcode;
use openuvr_media::codec::Codec;
use openuvr_media::decode::{self, Chunk};
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::host::SubscribeRequest;
use openuvr_proto::id::FrameId;
use openuvr_proto::send::intake::Intake;
use openuvr_proto::send::subscriber::Feedback;
use openuvr_proto::trace::Outcome;
use openuvr_runtime::host::Notice;

use super::support::{MANY, TIMEOUT};
use super::{CodedFrame, Misbehaving, SIZE, Streaming, Writer, continues, start, watch};

/// Decodes the stream. Returns the number that the pattern drew into each picture.
fn decoded(written: &[CodedFrame]) -> Vec<u32> {
    let mut decoder = decode::open(Codec::H264).unwrap();
    let mut decode = |(frame, bytes): &CodedFrame| {
        let chunk = Chunk {
            frame: frame.header.frame,
            first: true,
            last: true,
            first_mb: 0,
            mbs: u16::try_from(SIZE.pixels() / 256).unwrap(),
            bytes: Some(bytes),
        };
        let picture = decoder.feed(&chunk).unwrap().expect("a complete frame");
        barcode::read(&picture).expect("a sharp picture").frame
    };
    written.iter().map(&mut decode).collect()
}

#[test]
fn an_observer_gets_the_players_frames() {
    let Streaming { host, player, .. } = &start("stranger");
    player.see(10);
    let (writer, written) = Writer::new();
    let id = watch(host, writer);
    let next = || written.recv_timeout(TIMEOUT).expect("a frame");
    let frames: Vec<CodedFrame> = std::iter::repeat_with(next).take(60).collect();
    let names: Vec<u32> = frames
        .iter()
        .map(|(frame, _)| frame.header.frame.0)
        .collect();
    assert!(frames.windows(2).all(continues), "{names:?}");
    let numbers = decoded(&frames);
    assert!(
        numbers.windows(2).all(|pair| pair[1] > pair[0]),
        "{numbers:?}"
    );
    // The player saw the same pictures, except those that it missed on a slow machine.
    let seen = player.see_up_to(numbers[59]);
    assert!(
        numbers.iter().any(|number| seen.contains(number)),
        "{seen:?} {numbers:?}"
    );
    let configuration = frames[0]
        .0
        .configuration
        .expect("it begins with a key frame");
    assert_eq!(configuration.size, SIZE);
    assert_eq!(Codec::try_from(configuration.codec).ok(), Some(Codec::H264));

    // The observer may request a key frame.
    let newest = frames[59].0.header.frame;
    let last_good = FrameId::NONE;
    host.feedback(id, Feedback::KeyFrame { last_good, newest });
    let more = std::iter::repeat_with(|| written.recv_timeout(TIMEOUT).expect("a frame"));
    let key = more
        .take(600)
        .find(|(frame, _)| frame.configuration.is_some());
    let key = key.expect("a key frame in two seconds");
    assert_eq!(decoded(&[key]).len(), 1, "it decodes independently");

    host.unsubscribe(id);
    // The observer's thread drops the subscriber after the pending frames.
    while written.recv_timeout(TIMEOUT).is_ok() {}
    player.see(10);
}

#[test]
fn an_observer_that_blocks_or_is_slow_delays_no_player() {
    let Streaming { host, player, .. } = &start("slow");
    let (writer, written) = Writer::new();
    // The observer waits at each slice until the test lets it continue.
    let (go, proceed) = sync_channel::<()>(MANY);
    let (reached, at_a_slice) = sync_channel(MANY);
    let slow = Misbehaving(writer, move || {
        let _ = reached.send(());
        let _ = proceed.recv();
    });
    watch(host, slow);
    at_a_slice.recv_timeout(TIMEOUT).expect("its first slice");
    // The observer blocks; the player continues.
    player.see(120);
    assert_eq!(at_a_slice.try_iter().count(), 0, "it is at its first slice");
    assert!(written.try_recv().is_err());
    // The observer is now slow: it takes one slice per three pictures of the player.
    let mut frames: Vec<CodedFrame> = Vec::new();
    while frames.len() < 6 {
        let _ = go.send(());
        player.see(3);
        frames.extend(written.try_iter());
    }
    // The observer missed frames, but the rest is decodable, because each gap ends with a key frame.
    let gap = |pair: &&[CodedFrame]| pair[1].0.header.frame.0 > pair[0].0.header.frame.0 + 1;
    let gaps = frames.windows(2).filter(gap);
    let keys = gaps.map(|pair| pair[1].0.configuration.is_some());
    let keys: Vec<bool> = keys.collect();
    assert!(!keys.is_empty() && keys.iter().all(|key| *key), "{keys:?}");
    assert_eq!(decoded(&frames).len(), frames.len());
    // The host stops although the observer blocks again.
}

/// Tests a subscriber that pauses at its third slice until the player has seen `pictures` more pictures. The subscriber
/// gets every frame, and the ledger records all of them as sent.
fn paused_recorder(name: &str, pictures: usize) {
    let Streaming { host, player, .. } = &start(name);
    let notices = host.notices();
    let (writer, written) = Writer::new();
    let (go, proceed) = sync_channel::<()>(1);
    let (reached, at_a_slice) = sync_channel(MANY);
    let mut slices = 0;
    let stopped = Misbehaving(writer, move || {
        slices += 1;
        if slices == 3 {
            let _ = reached.send(());
            let _ = proceed.recv();
        }
    });
    let request = SubscribeRequest {
        intake: Intake::Complete,
        ..SubscribeRequest::new(Role::Observer, "recorder")
    };
    let (id, _) = host.subscribe(request, Box::new(stopped)).unwrap();
    at_a_slice.recv_timeout(TIMEOUT).expect("its third slice");
    player.see(pictures);
    go.send(()).expect("it listens");
    let next = || written.recv_timeout(TIMEOUT).expect("a frame");
    let frames: Vec<CodedFrame> = std::iter::repeat_with(next).take(pictures + 60).collect();
    let names: Vec<u32> = frames
        .iter()
        .map(|(frame, _)| frame.header.frame.0)
        .collect();
    let follow = names.windows(2).all(|pair| pair[1] == pair[0] + 1);
    assert!(follow, "{names:?}");
    assert_eq!(decoded(&frames).len(), frames.len());
    // Each frame has one outcome, even if it waited longer than the report timeout.
    let mut left = Vec::new();
    while left.last() != names.last() {
        match notices.next(TIMEOUT).expect("a notice") {
            Notice::Record(record) if record.subscriber == id && record.frame.0 >= names[0] => {
                assert_eq!(
                    record.outcome,
                    Outcome::SentUnacknowledged,
                    "{}",
                    record.frame.0
                );
                left.push(record.frame.0);
            }
            _ => {}
        }
    }
    assert_eq!(left, names);
}

#[test]
fn a_recorder_paused_for_seconds_gets_every_frame() {
    paused_recorder("stopped", 180);
}

#[test]
fn an_observer_that_panics_is_reported_and_removed() {
    let Streaming { host, player, .. } = &start("panics");
    let (writer, written) = Writer::new();
    let mut slices = 0;
    let bad = Misbehaving(writer, move || {
        slices += 1;
        assert!(slices < 20, "intended panic");
    });
    watch(host, bad);
    let warning = || match host.notice(TIMEOUT).expect("a notice") {
        Notice::Warning(why) => Some(why),
        _ => None,
    };
    let why = std::iter::repeat_with(warning).take(MANY).flatten().next();
    assert!(why.unwrap().contains("a subscriber panicked"));
    assert!(written.try_iter().count() > 0);
    player.see(60);
    // The host still serves another subscriber.
    let (writer, written) = Writer::new();
    watch(host, writer);
    let (first, _) = written.recv_timeout(TIMEOUT).expect("a frame");
    assert!(first.configuration.is_some());
}
