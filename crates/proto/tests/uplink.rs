//! Streams from client to host. Granted streams are output; all others are skipped or rejected.

mod support;

use openuvr_proto::bytes::Reject;
use openuvr_proto::control::streams::{HOST_AUDIO, MICROPHONE, granted};
use openuvr_proto::id::PayloadSeq;
use openuvr_proto::recv::timed::TimedOutput;
use openuvr_proto::recv::uplink::UplinkReceiver;
use openuvr_proto::send::packetize::SendBuf;
use openuvr_proto::send::plane::MediaSender;
use openuvr_proto::time::Instant;
use openuvr_proto::wire::media::StreamId;
use support::established;

const NOW: Instant = Instant(7_000_000);

fn datagram(media: &MediaSender, stream: StreamId, bytes: &[u8]) -> Vec<u8> {
    let mut out = SendBuf::default();
    let mut sender = media.timed(stream);
    (sender.send(NOW, (NOW, 240), bytes, &mut out)).expect("it is short");
    out.iter().next().expect("one datagram").to_vec()
}

/// A host that grants the client's microphone.
fn listening() -> UplinkReceiver {
    let mut uplink = UplinkReceiver::new(&established());
    assert!(!uplink.is_open());
    let both = [HOST_AUDIO, MICROPHONE];
    uplink.granted(&granted(&both, &both));
    assert!(uplink.is_open());
    uplink
}

#[test]
fn a_granted_payload_comes_out_once() {
    let mut uplink = listening();
    let media = MediaSender::of_client(&established());
    let datagram = datagram(&media, MICROPHONE.stream, b"voice");
    assert_eq!(uplink.handle_datagram(NOW, &datagram), Ok(()));
    assert!(
        uplink.handle_datagram(NOW, &datagram).is_err(),
        "a second time"
    );
    let timed = uplink.timed(MICROPHONE.stream).expect("granted stream");
    let Some(TimedOutput::Payload(payload, _)) = timed.poll(NOW) else {
        panic!("a payload");
    };
    assert_eq!((payload.seq, payload.bytes), (PayloadSeq(0), &b"voice"[..]));
    assert_eq!(timed.poll(NOW), None);
    uplink.check_invariants();
}

#[test]
fn streams_that_were_not_granted_are_skipped() {
    let mut uplink = listening();
    assert!(
        uplink.timed(HOST_AUDIO.stream).is_none(),
        "a downlink stream"
    );
    let media = MediaSender::of_client(&established());
    let other = datagram(&media, HOST_AUDIO.stream, b"voice");
    assert_eq!(uplink.handle_datagram(NOW, &other), Ok(()));
    assert_eq!(uplink.counters(), (1, 1));
}

#[test]
fn datagrams_of_the_host_itself_are_rejected() {
    let mut uplink = listening();
    let media = MediaSender::new(&established());
    let own = datagram(&media, MICROPHONE.stream, b"voice");
    assert_eq!(uplink.handle_datagram(NOW, &own), Err(Reject::Forged));
    let mut short = own.clone();
    short.truncate(30);
    assert!(uplink.handle_datagram(NOW, &short).is_err());
    assert_eq!(uplink.counters(), (0, 0));
}
