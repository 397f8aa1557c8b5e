//! Where a host sends: to who has shown that it receives there, and to nobody else.
#![allow(
    clippy::unwrap_used,
    reason = "a test knows its numbers, and ends with a panic"
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

/// A host and a client; each datagram takes a millisecond.
struct World {
    now: Instant,
    host: Option<Host>,
    client: ClientSession,
    /// Where the client's datagrams come from, and where they seem to come from.
    at: PathId,
    seems: Box<dyn FnMut(u32) -> Option<PathId>>,
    sent: u32,
    /// Bytes that came from each path, and that went there.
    heard: BTreeMap<[u8; PathId::LEN], usize>,
    went: BTreeMap<[u8; PathId::LEN], usize>,
    /// Where the video goes.
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
            heard: BTreeMap::new(),
            went: BTreeMap::new(),
            video: HOME,
            moved_at: Vec::new(),
            ended: false,
        }
    }

    fn up(&mut self, datagram: &[u8]) {
        let from = (self.seems)(self.sent).unwrap_or(self.at);
        self.sent += 1;
        *self.heard.entry(from.0).or_default() += datagram.len();
        let Some(host) = &mut self.host else { return };
        if host.handle_datagram(self.now, from, datagram) == Err(Reject::Session)
            && let Some(answer) = host.answer_unknown_session(self.now, from, datagram)
            && from == self.at
        {
            self.client.handle_unsealed(self.now, &answer);
        }
    }

    /// Both do what is due, for so many milliseconds.
    fn run(&mut self, millis: u32) {
        let mut out = Vec::new();
        for _ in 0..millis {
            self.now = self.now + MS;
            self.client.handle_timeout(self.now);
            while self.client.poll_transmit(self.now, &mut out) {
                self.up(&out);
            }
            // What answers the host goes the way that it came; here there is one to it.
            while self.client.poll_on_path(self.now, &mut out).is_some() {
                self.up(&out);
            }
            if let Some(host) = &mut self.host {
                host.handle_timeout(self.now);
                while let Some(to) = host.poll_transmit(self.now, &mut out) {
                    *self.went.entry(to.0).or_default() += out.len();
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
fn datagrams_from_an_address_that_never_answers_draw_little() {
    let mut world = World::new();
    world.run(100);
    // Somebody on the way has five, and then every other one, seem to come from the victim.
    let first = world.sent;
    world.seems = Box::new(move |n| (n < first + 5 || n % 2 == 0).then_some(VICTIM));
    world.run(20_000);
    let (heard, went) = (world.heard[&VICTIM.0], world.went[&VICTIM.0]);
    assert!(went <= 3 * heard, "{went} bytes for {heard}");
    assert_eq!(world.video, HOME, "no video goes there");
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
fn a_challenge_that_is_lost_is_said_again() {
    let mut world = World::new();
    world.run(1000);
    world.at = AWAY;
    world.client.moved(world.now);
    // What the client says first arrives, and nothing else for a while.
    let first = world.sent;
    world.seems = Box::new(move |n| (n > first && n < first + 3).then_some(VICTIM));
    world.run(200);
    assert_eq!(world.video, AWAY);
}

/// A host that was started again says that it does not know the session.
#[test]
fn a_session_ends_at_once_where_the_host_has_forgotten_it() {
    let mut world = World::new();
    world.run(3000);
    world.host = None;
    world.run(300);
    world.host = Some(new_host());
    let back = world.now;
    while !world.ended {
        world.run(1);
        assert!(world.now.since(back) <= 1000 * MS, "it waits in vain");
    }
}

#[test]
fn a_session_survives_any_word_that_the_host_forgot_it() {
    let mut world = World::new();
    world.run(1000);
    let mut out = Vec::new();
    for n in 0..200 {
        // Somebody on the way has seen every datagram.
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

/// The host gave up on it meanwhile: what it still reads was said before.
#[test]
fn a_client_that_was_stopped_for_long_ends_its_session_at_once() {
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
    assert!(!world.ended, "the host still knows it");
}

/// A client that was refused and moves lingers until it has heard why, and is asked about no path: that
/// timer would be due for ever, and its host would never sleep.
#[test]
fn who_was_refused_is_asked_about_no_path() {
    let mut now = Instant(1_000_000_000);
    let mut host = new_host();
    host.established(now, HOME, &established());
    let mut client = new_client(now, 0);
    let mut out = Vec::new();
    // It hears nothing of the host, says its offer again and again, and each from elsewhere.
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
        assert!(wakeups < 1000, "it is never over: {why:?}");
    }
    assert!(matches!(host.poll_event(), Some(HostEvent::Ended(..))));
}
