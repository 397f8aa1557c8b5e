//! The host's request for ECN counts, which it sends to each player and to no observer.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use openuvr_proto::client::{ClientEvent, ClientSession};
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::host::Host;
use openuvr_proto::id::{PathId, SessionId};
use openuvr_proto::time::Instant;
use support::{established, host, offer};

const NOW: Instant = Instant(0);

/// A host and its clients.
struct World {
    host: Host,
    clients: Vec<(PathId, ClientSession)>,
    /// The clients that were asked for counts.
    asked: Vec<usize>,
}

impl World {
    fn new(wanted: bool) -> World {
        let mut host = host(2);
        if wanted {
            host.request_ecn_feedback();
        }
        World {
            host,
            clients: Vec::new(),
            asked: Vec::new(),
        }
    }

    fn join(&mut self, role: Role) {
        let n = u8::try_from(self.clients.len()).unwrap() + 1;
        let path = PathId([n; PathId::LEN]);
        let mut established = established();
        established.session = SessionId(u32::from(n));
        established.peer.0[0] = n;
        self.host.established(NOW, path, &established);
        let session = ClientSession::new(NOW, &established, offer(role, 2));
        self.clients.push((path, session));
        self.settle();
    }

    /// Delivers datagrams until no peer sends any more.
    fn settle(&mut self) {
        let mut out = Vec::new();
        loop {
            let mut active = false;
            for (n, (path, client)) in self.clients.iter_mut().enumerate() {
                while client.poll_transmit(NOW, &mut out) {
                    active = true;
                    self.host.handle_datagram(NOW, *path, &out).unwrap();
                }
                while let Some(event) = client.poll_event() {
                    if event == ClientEvent::EcnFeedback {
                        self.asked.push(n);
                    }
                }
            }
            while let Some(to) = self.host.poll_transmit(NOW, &mut out) {
                let mut clients = self.clients.iter_mut();
                let (path, client) = clients.find(|(path, _)| *path == to).unwrap();
                client.handle_datagram(NOW, *path, &out).unwrap();
                active = true;
            }
            while self.host.poll_event().is_some() {}
            if !active {
                return;
            }
        }
    }
}

#[test]
fn only_players_are_asked_for_ecn_counts() {
    let mut world = World::new(true);
    world.join(Role::Player);
    world.join(Role::Observer);
    assert_eq!(world.asked, [0]);
}

#[test]
fn without_l4s_no_client_is_asked_for_ecn_counts() {
    let mut world = World::new(false);
    world.join(Role::Player);
    world.join(Role::Observer);
    assert_eq!(world.asked, [0_usize; 0]);
}
