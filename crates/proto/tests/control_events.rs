//! Rate-control events of the host reach the client for display.
#![allow(
    clippy::cast_possible_truncation,
    reason = "test values are known to fit"
)]

mod support;

use std::time::Duration;

use openuvr_proto::client::{ClientEvent, ClientSession};
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::control_event::{ControlEvent, RateChange};
use openuvr_proto::host::Host;
use openuvr_proto::id::{FrameId, PathId};
use openuvr_proto::time::Instant;
use openuvr_proto::units::Bitrate;
use openuvr_proto::wire::control::{Message, Messages};
use support::{established, host, offer};

const NOW: Instant = Instant(1_000_000_000);
const PATH: PathId = PathId([3; PathId::LEN]);

/// Exchanges datagrams until no peer sends any more.
fn talk(host: &mut Host, client: &mut ClientSession) {
    let mut datagram = Vec::new();
    for _ in 0..10 {
        while client.poll_transmit(NOW, &mut datagram) {
            host.handle_datagram(NOW, PATH, &datagram).expect("honest");
        }
        while host.poll_transmit(NOW, &mut datagram).is_some() {
            client
                .handle_datagram(NOW, PATH, &datagram)
                .expect("honest");
        }
    }
}

#[test]
fn control_events_reach_the_player_as_values() {
    let mut host = host(1);
    // No subscriber yet.
    host.control_event(ControlEvent::CongestionSkip {
        wait: Duration::from_millis(1),
    });
    host.established(NOW, PATH, &established());
    let offer = offer(Role::Player, 1 << 1);
    let mut client = ClientSession::new(NOW, &established(), offer);
    talk(&mut host, &mut client);
    let to = Bitrate::from_mbps(8);
    let events = [
        ControlEvent::Rate(RateChange::Increase { to }),
        ControlEvent::ReferenceInvalidation {
            frame: FrameId(7),
            to: FrameId(5),
        },
    ];
    for decision in events {
        host.control_event(decision);
    }
    talk(&mut host, &mut client);
    let arrived: Vec<ControlEvent> = std::iter::from_fn(|| client.poll_event())
        .filter_map(|event| match event {
            ClientEvent::ControlEvent(decision) => Some(decision),
            _ => None,
        })
        .collect();
    assert_eq!(arrived, events);
    assert_eq!(
        arrived[0].to_string(),
        "rate up to 8.0 Mb/s and rising: no queue delay"
    );
}

#[test]
fn a_control_event_of_a_newer_host_is_skipped() {
    let known = Message::ControlEvent(ControlEvent::CongestionSkip {
        wait: Duration::from_millis(1),
    });
    let mut body = Vec::new();
    let mut unknown = |decision: &[u8]| {
        body.extend([14, decision.len() as u8, 0]);
        body.extend(decision);
    };
    // An unknown kind, and an unknown reason for a key frame.
    unknown(&[200, 1, 2, 3]);
    unknown(&[9, 1, 0, 0, 0, 99]);
    known.write(&mut body);
    let read: Result<Vec<_>, _> = Messages::new(&body).collect();
    assert_eq!(read, Ok(vec![known]));
}
