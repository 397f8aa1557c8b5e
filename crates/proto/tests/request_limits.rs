//! The host limits the requests of a client without affecting other clients.
#![allow(
    clippy::unwrap_used,
    reason = "test values are known to fit, and a test may panic"
)]

mod support;

use openuvr_proto::client::ClientSession;
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::host::{Host, HostEvent};
use openuvr_proto::id::{FrameId, PathId, ViewId};
use openuvr_proto::time::Instant;
use openuvr_proto::wire::control::RetransmissionRequest;
use support::{established, host, offer};

const PATH: PathId = PathId([1; PathId::LEN]);
const MS: i64 = 1_000_000;

/// Delivers all datagrams of the client. Returns the number of retransmission requests that the host accepted.
fn exchange(host: &mut Host, client: &mut ClientSession, now: Instant) -> usize {
    let mut out = Vec::new();
    while client.poll_transmit(now, &mut out) {
        host.handle_datagram(now, PATH, &out).unwrap();
    }
    let events = std::iter::from_fn(|| host.poll_event());
    let asks = events.filter(|event| matches!(event, HostEvent::RetransmissionRequested(..)));
    asks.count()
}

#[test]
fn excess_requests_are_dropped_and_later_ones_accepted() {
    let mut host = host(1);
    host.established(Instant(0), PATH, &established());
    let offer = offer(Role::Observer, 1 << 1);
    let mut client = ClientSession::new(Instant(0), &established(), offer);
    assert_eq!(exchange(&mut host, &mut client, Instant(0)), 0);
    // The client sends a hundred requests per frame for one second.
    for n in 0..60_u32 {
        let now = Instant(i64::from(n) * 16 * MS);
        let mut of_frame = 0;
        for _ in 0..100 {
            let frame = FrameId(n + 1);
            client.resend(RetransmissionRequest {
                view: ViewId::FIRST,
                frame,
                ranges: Vec::new(),
            });
            of_frame += exchange(&mut host, &mut client, now);
        }
        // Two accepted requests may count towards the interval that started with the previous frame.
        assert!((30..=32).contains(&of_frame), "{of_frame} for frame {n}");
        // Later, the host accepts two requests, as a normal client would send.
        let later = now + std::time::Duration::from_millis(12);
        for _ in 0..2 {
            client.resend(RetransmissionRequest {
                view: ViewId::FIRST,
                frame: FrameId(n + 1),
                ranges: Vec::new(),
            });
        }
        assert_eq!(exchange(&mut host, &mut client, later), 2);
    }
}
