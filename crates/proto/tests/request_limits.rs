//! A client that wishes without end is heard now and then, and nobody else less for it.
#![allow(
    clippy::unwrap_used,
    reason = "a test knows its numbers, and ends with a panic"
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

/// Has the client say all that it has to say; how often the host was asked to send again.
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
fn wishes_without_end_are_not_all_heard_but_the_next_are() {
    let mut host = host(1);
    host.established(Instant(0), PATH, &established());
    let offer = offer(Role::Observer, 1 << 1);
    let mut client = ClientSession::new(Instant(0), &established(), offer);
    assert_eq!(exchange(&mut host, &mut client, Instant(0)), 0);
    // For each frame of a second a hundred wishes.
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
        // Two may be of the time that began with the frame before.
        assert!((30..=32).contains(&of_frame), "{of_frame} of frame {n}");
        // Afterwards an honest client's two are heard.
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
