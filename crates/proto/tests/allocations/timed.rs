//! Sending and receiving a payload of a timed stream does not allocate, although payloads are repeated and datagrams
//! are lost.

use openuvr_proto::control::streams::Grant;
use openuvr_proto::recv::plane::MediaReceiver;
use openuvr_proto::recv::timed::TimedOutput;
use openuvr_proto::send::loss::Loss;
use openuvr_proto::send::packetize::SendBuf;
use openuvr_proto::send::plane::MediaSender;
use openuvr_proto::time::Instant;
use openuvr_proto::wire::media::{StreamId, StreamKind};

use crate::support::established;
use crate::sys;

const STREAM: StreamId = StreamId::first(StreamKind::Audio);

/// Number of payloads until every slot of the receiver has been used.
const START_UP: i64 = 200;
const PAYLOADS: i64 = 2000;

#[test]
fn a_payload_costs_no_allocation() {
    let mut sender = MediaSender::new(&established()).timed(STREAM);
    sender.follow(Loss {
        rate: 0.05,
        run: 2.0,
    });
    let mut receiver = MediaReceiver::new(&established());
    receiver.granted(&[Grant {
        stream: STREAM,
        to_client: true,
        to_host: false,
        format: 0,
        views: 0,
    }]);
    let mut out = SendBuf::default();
    let bytes = [7; 150];
    let mut received = 0;
    for number in 0..START_UP + PAYLOADS {
        if number == START_UP {
            sys::count();
            received = 0;
        }
        let now = Instant(number * 2_500_000);
        sender.send(now, (now, 120), &bytes, &mut out).unwrap();
        // Two consecutive payloads are lost periodically.
        if number % 20 > 1 {
            for datagram in out.iter() {
                receiver.handle_datagram(now, datagram).unwrap();
            }
        }
        let stream = receiver.timed(STREAM).unwrap();
        while let Some(step) = stream.poll(now) {
            received += i64::from(matches!(step, TimedOutput::Payload(..)));
        }
    }
    let counted = sys::counted();
    assert!(
        received >= PAYLOADS - 2,
        "nearly all payloads arrived: {received}"
    );
    assert_eq!(counted, 0, "allocations for {PAYLOADS} payloads");
}
