//! The path on which a host sends video. The host uses a path only after the client has shown that it receives there.
#![allow(
    clippy::unwrap_used,
    reason = "test values are known to fit, and a test may panic"
)]

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use openuvr_proto::client::{ClientEvent, ClientSession};
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::control::no_session;
use openuvr_proto::host::{Host, HostEvent};
use openuvr_proto::id::PathId;
use openuvr_proto::time::Instant;
use openuvr_proto::wire::Reject;
use support::{established, host, offer};

const HOME: PathId = PathId([1; PathId::LEN]);
const AWAY: PathId = PathId([2; PathId::LEN]);
const VICTIM: PathId = PathId([3; PathId::LEN]);
const MS: Duration = Duration::from_millis(1);

fn new_host() -> Host {
    host(0)
}

fn new_client(now: Instant, codecs: u32) -> ClientSession {
    let offer = offer(Role::Player, codecs);
    ClientSession::new(now, &established(), offer)
}

/// A host and a client. Time advances in steps of a millisecond.
struct World {
    now: Instant,
    host: Option<Host>,
    client: ClientSession,
    /// The actual source path of the client's datagrams, and the forged path that the host sees instead, if any.
    at: PathId,
    seems: Box<dyn FnMut(u32) -> Option<PathId>>,
    sent: u32,
    /// The number of bytes that the host received from each path, and sent to each path.
    received_bytes: BTreeMap<[u8; PathId::LEN], usize>,
    sent_bytes: BTreeMap<[u8; PathId::LEN], usize>,
    /// The path on which the host sends video.
    video: PathId,
    moved_at: Vec<Instant>,
    ended: bool,
}

impl World {
    fn new() -> World {
        let now = Instant(1_000_000_000);
        let mut host = new_host();
        host.established(now, HOME, &established());
        World {
            now,
            host: Some(host),
            client: new_client(now, 2),
            at: HOME,
            seems: Box::new(|_| None),
            sent: 0,
            received_bytes: BTreeMap::new(),
            sent_bytes: BTreeMap::new(),
            video: HOME,
            moved_at: Vec::new(),
            ended: false,
        }
    }

    fn up(&mut self, datagram: &[u8]) {
        let from = (self.seems)(self.sent).unwrap_or(self.at);
        self.sent += 1;
        *self.received_bytes.entry(from.0).or_default() += datagram.len();
        let Some(host) = &mut self.host else { return };
        if host.handle_datagram(self.now, from, datagram) == Err(Reject::Session)
            && let Some(answer) = host.answer_unknown_session(self.now, from, datagram)
            && from == self.at
        {
            self.client.handle_unsealed(self.now, &answer);
        }
    }

    /// Both peers handle their timers for this many milliseconds.
    fn run(&mut self, millis: u32) {
        let mut out = Vec::new();
        for _ in 0..millis {
            self.now = self.now + MS;
            self.client.handle_timeout(self.now);
            while self.client.poll_transmit(self.now, &mut out) {
                self.up(&out);
            }
            // A response to the host takes the path of its request. Here, there is only one path.
            while self.client.poll_on_path(self.now, &mut out).is_some() {
                self.up(&out);
            }
            if let Some(host) = &mut self.host {
                host.handle_timeout(self.now);
                while let Some(to) = host.poll_transmit(self.now, &mut out) {
                    *self.sent_bytes.entry(to.0).or_default() += out.len();
                    if to == self.at {
                        let _ = self.client.handle_datagram(self.now, to, &out);
                    }
                }
                host.check_invariants();
                while let Some(event) = host.poll_event() {
                    match event {
                        HostEvent::Subscribed { path, .. } => self.video = path,
                        HostEvent::PathChanged { path, .. } => {
                            self.video = path;
                            self.moved_at.push(self.now);
                        }
                        _ => {}
                    }
                }
            }
            self.client.check_invariants();
            while let Some(event) = self.client.poll_event() {
                self.ended |= matches!(event, ClientEvent::Ended(_));
            }
        }
    }
}

#[test]
fn an_unresponsive_address_receives_few_datagrams() {
    let mut world = World::new();
    world.run(100);
    // An attacker on the path replaces the source address of five datagrams with the victim's, then that of every
    // second datagram.
    let first = world.sent;
    world.seems = Box::new(move |n| (n < first + 5 || n % 2 == 0).then_some(VICTIM));
    world.run(20_000);
    let (received_bytes, sent_bytes) =
        (world.received_bytes[&VICTIM.0], world.sent_bytes[&VICTIM.0]);
    assert!(
        sent_bytes <= 3 * received_bytes,
        "{sent_bytes} bytes for {received_bytes} received"
    );
    assert_eq!(world.video, HOME, "no video is sent there");
    assert!(world.moved_at.is_empty() && !world.ended);
}

#[test]
fn a_client_that_moves_is_followed_within_a_round_trip() {
    let mut world = World::new();
    world.run(1000);
    for (place, at) in [AWAY, HOME, AWAY, VICTIM].into_iter().enumerate() {
        world.at = at;
        world.client.moved(world.now);
        let left = world.now;
        world.run(10);
        assert_eq!(world.video, at);
        assert_eq!(world.moved_at.len(), place + 1, "once");
        let took = world.moved_at[place].since(left);
        assert!(took <= 3 * MS, "{took:?}");
    }
}

#[test]
fn a_lost_challenge_is_repeated() {
    let mut world = World::new();
    world.run(1000);
    world.at = AWAY;
    world.client.moved(world.now);
    // The client's first datagram after the move arrives. The next two appear to come from another address.
    let first = world.sent;
    world.seems = Box::new(move |n| (n > first && n < first + 3).then_some(VICTIM));
    world.run(200);
    assert_eq!(world.video, AWAY);
}

/// A restarted host reports that it does not know the session.
#[test]
fn a_session_unknown_to_the_host_ends_at_once() {
    let mut world = World::new();
    world.run(3000);
    world.host = None;
    world.run(300);
    world.host = Some(new_host());
    let back = world.now;
    while !world.ended {
        world.run(1);
        assert!(
            world.now.since(back) <= 1000 * MS,
            "the client ends after the host's return"
        );
    }
}

#[test]
fn a_session_survives_forged_unknown_session_replies() {
    let mut world = World::new();
    world.run(1000);
    let mut out = Vec::new();
    for n in 0..200 {
        // An attacker on the path captures every datagram and forges the host's reply for an unknown session.
        world.client.moved(world.now);
        if world.client.poll_transmit(world.now, &mut out) {
            let forged = no_session::answer_to(&out).unwrap();
            world.up(&out.clone());
            world.client.handle_unsealed(world.now, &forged);
            let mut other = forged;
            other[4] ^= 1;
            world.client.handle_unsealed(world.now, &other);
        }
        world.run(10 + n % 7);
        assert!(!world.ended);
    }
}

/// The host closes a session while the client is stopped for a long time. The resumed client therefore ends the session
/// itself.
#[test]
fn a_client_resumed_after_a_long_stop_ends_at_once() {
    for stopped in [5000, 10_000, 100_000] {
        let mut world = World::new();
        world.run(1000);
        world.now = world.now + MS * stopped;
        world.run(1);
        assert!(world.ended, "after {stopped} ms");
    }
    let mut world = World::new();
    world.run(1000);
    world.now = world.now + MS * 3000;
    world.run(100);
    assert!(!world.ended, "the host still has the session");
}

/// A refused client that migrates is kept until it has received the reason. The host does not challenge its path: the
/// timer of that challenge would never be cleared, so the host would never sleep.
#[test]
fn a_refused_client_gets_no_path_challenge() {
    let mut now = Instant(1_000_000_000);
    let mut host = new_host();
    host.established(now, HOME, &established());
    let mut client = new_client(now, 0);
    let mut out = Vec::new();
    // The client receives nothing from the host, and repeats its offer from changing addresses.
    let mut paths = [HOME, AWAY, VICTIM].into_iter().cycle();
    for _ in 0..1000 {
        now = now + MS;
        client.handle_timeout(now);
        while client.poll_transmit(now, &mut out) {
            let from = paths.next().expect("a cycle");
            host.handle_datagram(now, from, &out).expect("authentic");
        }
        host.handle_timeout(now);
        while host.poll_transmit(now, &mut out).is_some() {}
    }
    let mut wakeups = 0;
    while let Some((due, why)) = host.next_timeout() {
        now = now.max(due);
        host.handle_timeout(now);
        while host.poll_transmit(now, &mut out).is_some() {}
        wakeups += 1;
        assert!(wakeups < 1000, "the timers never end: {why:?}");
    }
    assert!(matches!(host.poll_event(), Some(HostEvent::Ended(..))));
}
