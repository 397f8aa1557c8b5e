//! The size of a client's window reaches the host: only the latest size is sent, and at a limited rate.
#![allow(
    clippy::unwrap_used,
    reason = "test values are known to fit, and a test may panic"
)]

mod support;

use openuvr_proto::client::ClientSession;
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::host::{Host, HostEvent};
use openuvr_proto::id::PathId;
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;
use support::{established, host, offer};

const PATH: PathId = PathId([1; PathId::LEN]);
const MS: i64 = 1_000_000;

fn pair() -> (Host, ClientSession) {
    let mut host = host(1);
    host.established(Instant(0), PATH, &established());
    let offer = offer(Role::Player, 1 << 1);
    let client = ClientSession::new(Instant(0), &established(), offer);
    (host, client)
}

/// Delivers datagrams until no peer sends any more. Returns the sizes that reached the host.
fn exchange(host: &mut Host, client: &mut ClientSession, now: Instant) -> Vec<Size> {
    let mut sizes = Vec::new();
    let mut out = Vec::new();
    loop {
        let mut active = false;
        while client.poll_transmit(now, &mut out) {
            host.handle_datagram(now, PATH, &out).unwrap();
            active = true;
        }
        while host.poll_transmit(now, &mut out).is_some() {
            client.handle_datagram(now, PATH, &out).unwrap();
            active = true;
        }
        while let Some(event) = host.poll_event() {
            if let HostEvent::WindowSize(_, size) = event {
                sizes.push(size);
            }
        }
        if !active {
            return sizes;
        }
    }
}

#[test]
fn the_latest_size_arrives_behind_the_offer() {
    let (mut host, mut client) = pair();
    let [first, last] = [Size::new(640, 360), Size::new(1280, 720)];
    // The client sets two sizes before the host has received the client's offer. The second size replaces the first.
    client.window_size(first);
    client.window_size(last);
    assert_eq!(exchange(&mut host, &mut client, Instant(0)), [last]);
    assert_eq!(exchange(&mut host, &mut client, Instant(MS)), []);
    client.window_size(first);
    assert_eq!(exchange(&mut host, &mut client, Instant(2 * MS)), [first]);
    client.check_invariants();
}

#[test]
fn excess_sizes_are_dropped_and_later_ones_accepted() {
    let (mut host, mut client) = pair();
    let mut count = 0;
    for n in 0..500_u32 {
        client.window_size(Size::new(640, 1 + n));
        let now = Instant(i64::from(n) * MS);
        count += exchange(&mut host, &mut client, now).len();
    }
    assert_eq!(count, 20, "within a second");
    let later = Size::new(800, 600);
    client.window_size(later);
    assert_eq!(
        exchange(&mut host, &mut client, Instant(1500 * MS)),
        [later]
    );
}
