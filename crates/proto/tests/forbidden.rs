//! Sessions that the host ends, for example those of a device that is now forbidden.
#![allow(
    clippy::unwrap_used,
    reason = "test values are known to fit, and a test may panic"
)]

mod support;

use openuvr_proto::client::ClientSession;
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::host::HostEvent;
use openuvr_proto::id::PathId;
use openuvr_proto::time::Instant;
use openuvr_proto::wire::control::GoodbyeReason;
use support::{established, host, offer};

const PATH: PathId = PathId([1; PathId::LEN]);

/// A thread that only sends, such as that of the pointer, may run before the next timeout is handled.
#[test]
fn an_ended_player_frees_its_role_before_it_is_removed() {
    let (now, mut out) = (Instant(0), Vec::new());
    let mut host = host(1);
    host.established(now, PATH, &established());
    let offer = offer(Role::Player, 1 << 1);
    let mut client = ClientSession::new(now, &established(), offer);
    while client.poll_transmit(now, &mut out) {
        host.handle_datagram(now, PATH, &out).unwrap();
    }
    assert_eq!(host.player(), Some(established().session.into()));
    host.end(GoodbyeReason::Forbidden, |_| true);
    while host.poll_transmit(now, &mut out).is_some() {}
    assert_eq!(host.player(), None);
    let (mut released, mut ended) = (0, 0);
    while let Some(event) = host.poll_event() {
        match event {
            HostEvent::ReleaseInput => released += 1,
            HostEvent::Ended(..) => ended += 1,
            _ => {}
        }
    }
    assert_eq!((released, ended), (1, 1));
}
