//! The host announces when the client should sample poses, and the client converts the times to its own clock.
#![allow(
    clippy::unwrap_used,
    reason = "test values are known to fit, and a test may panic"
)]

mod support;

use std::time::Duration;

use openuvr_proto::client::ClientSession;
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::display::RefreshTiming;
use openuvr_proto::id::PathId;
use openuvr_proto::time::Instant;
use support::{established, host, offer};

/// Offset of the client's clock from the host's.
const AHEAD: i64 = 7_000_000_000;

#[test]
fn the_pose_schedule_is_converted_to_the_clients_clock() {
    let path = PathId([1; PathId::LEN]);
    let established = established();
    let mut host = host(2);
    let here = |host: Instant| Instant(host.0 + AHEAD);
    let mut now = Instant(0);
    host.established(now, path, &established);
    let mut client = ClientSession::new(here(now), &established, offer(Role::Player, 2));
    let mut out = Vec::new();
    let period = Duration::from_millis(11);
    let phase = |now: Instant| now + Duration::from_millis(4);
    let mut sent = 0;
    assert_eq!(
        client.pose_schedule(here(now)),
        None,
        "no schedule received yet"
    );
    for _ in 0..300 {
        while client.poll_transmit(here(now), &mut out) {
            host.handle_datagram(now, path, &out).unwrap();
        }
        let wanted = RefreshTiming {
            phase: phase(now),
            period,
        };
        sent += u32::from(host.pose_schedule(now, wanted));
        while let Some(to) = host.poll_transmit(now, &mut out) {
            assert_eq!(to, path);
            client.handle_datagram(here(now), path, &out).unwrap();
        }
        now = now + period;
        host.handle_timeout(now);
        client.handle_timeout(here(now));
    }
    let wanted = client.pose_schedule(here(now)).unwrap();
    assert_eq!(wanted.period, period);
    let off = (wanted.phase.0 - here(phase(now)).0).rem_euclid(11_000_000);
    assert!(off.min(11_000_000 - off) < 1_000_000, "{off}");
    assert!(
        (3..6).contains(&sent),
        "{sent}: one a second, as the times are constant"
    );
}
