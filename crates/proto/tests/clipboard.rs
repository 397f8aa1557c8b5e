//! Clipboard text between a host and its clients. Tests the allowed directions, the player's exclusive access, and that
//! a long text does not block later messages.
#![allow(
    clippy::unwrap_used,
    reason = "test values are known to fit, and a test may panic"
)]

mod support;

use openuvr_proto::client::{ClientEvent, ClientSession};
use openuvr_proto::control::clipboard::{ClipboardDirections, ClipboardText, MAX_TEXT};
use openuvr_proto::control::negotiate::{ClientConstraints, Offer, Role};
use openuvr_proto::host::{Host, HostEvent, HostPolicy, SecondPlayer};
use openuvr_proto::id::{PathId, SessionId};
use openuvr_proto::input::keys::Keys;
use openuvr_proto::time::Instant;
use support::established;

const BOTH: ClipboardDirections = ClipboardDirections {
    to_host: true,
    to_client: true,
};

/// A host and its clients. The first client is the player.
struct World {
    host: Host,
    clients: Vec<(PathId, ClientSession)>,
    /// The clipboard texts received at the host.
    at_host: Vec<ClipboardText>,
    /// The clipboard texts received at each client.
    at_client: Vec<Vec<ClipboardText>>,
    /// Each notification to a client that the host's application uses relative motion: the client, and the number of
    /// datagrams that `World::settle` had delivered to clients by then.
    mouse: Vec<(usize, usize)>,
    now: Instant,
}

impl World {
    fn new(directions: ClipboardDirections, clients: u8) -> World {
        let mut host = Host::new(HostPolicy {
            name: "host".into(),
            codecs: 1 << 1,
            second_player: SecondPlayer::TakeOver,
            max_observers: 2,
            keys: Keys::default(),
            streams: Vec::new(),
        });
        host.clipboard_directions(directions);
        let mut world = World {
            host,
            clients: Vec::new(),
            at_host: Vec::new(),
            at_client: vec![Vec::new(); clients.into()],
            mouse: Vec::new(),
            now: Instant(0),
        };
        for n in 0..clients {
            world.join(n, false);
        }
        world
    }

    fn join(&mut self, n: u8, take_over: bool) {
        let path = PathId([n + 1; PathId::LEN]);
        let mut established = established();
        established.session = SessionId(u32::from(n) + 1);
        established.peer.0[0] = n + 1;
        self.host.established(self.now, path, &established);
        let offer = Offer {
            role: Role::Player,
            take_over,
            codecs: 2,
            name: String::new(),
            software: String::new(),
            constraints: ClientConstraints::default(),
            streams: Vec::new(),
        };
        let session = ClientSession::new(self.now, &established, offer);
        if usize::from(n) == self.at_client.len() {
            self.at_client.push(Vec::new());
        }
        self.clients.push((path, session));
        self.settle();
    }

    /// Delivers datagrams until no peer sends any more.
    fn settle(&mut self) {
        let mut out = Vec::new();
        let mut datagrams = 0;
        loop {
            let mut active = false;
            for (path, client) in &mut self.clients {
                while client.poll_transmit(self.now, &mut out) {
                    self.host.handle_datagram(self.now, *path, &out).unwrap();
                    active = true;
                }
            }
            while let Some(to) = self.host.poll_transmit(self.now, &mut out) {
                let client = self.clients.iter_mut().find(|(path, _)| *path == to);
                let (path, client) = client.unwrap();
                client.handle_datagram(self.now, *path, &out).unwrap();
                (active, datagrams) = (true, datagrams + 1);
            }
            while let Some(event) = self.host.poll_event() {
                if let HostEvent::Clipboard(_, text) = event {
                    self.at_host.push(text);
                }
            }
            for (n, (_, client)) in self.clients.iter_mut().enumerate() {
                while let Some(event) = client.poll_event() {
                    match event {
                        ClientEvent::Clipboard(text) => self.at_client[n].push(text),
                        ClientEvent::RelativeMouse(true) => self.mouse.push((n, datagrams)),
                        _ => {}
                    }
                }
            }
            if !active {
                return;
            }
        }
    }

    fn copies(&mut self, client: usize, text: &str) -> bool {
        let active = self.clients[client].1.clipboard(text.into());
        self.settle();
        active
    }

    fn host_copies(&mut self, text: &str) -> bool {
        let active = self.host.clipboard(text.into());
        self.settle();
        active
    }
}

fn long() -> String {
    "wörd 😀 ".repeat(MAX_TEXT / 13)
}

#[test]
fn text_of_any_length_is_sent_in_both_directions() {
    let mut world = World::new(BOTH, 1);
    for text in ["a", "Grüße 😀\n", &long(), &"x".repeat(MAX_TEXT)] {
        let text = ClipboardText::from(text);
        assert!(world.copies(0, &text.0));
        assert_eq!(world.at_host.pop(), Some(text.clone()));
        assert!(world.host_copies(&text.0));
        assert_eq!(world.at_client[0].pop(), Some(text));
    }
    assert!(!world.copies(0, &"x".repeat(MAX_TEXT + 1)));
    assert!(!world.host_copies(""));
    assert!(world.at_host.is_empty() && world.at_client[0].is_empty());
    world.clients[0].1.check_invariants();
}

#[test]
fn text_is_sent_only_in_allowed_directions() {
    for (to_host, to_client) in [(false, false), (true, false), (false, true)] {
        let mut world = World::new(ClipboardDirections { to_host, to_client }, 1);
        assert_eq!(world.copies(0, "from the client"), to_host);
        assert_eq!(world.host_copies("from the host"), to_client);
        assert_eq!(world.at_host.len(), usize::from(to_host));
        assert_eq!(world.at_client[0].len(), usize::from(to_client));
    }
}

#[test]
fn observers_neither_send_nor_receive_clipboard_text() {
    let mut world = World::new(BOTH, 2);
    assert!(!world.copies(1, "of the observer"));
    assert!(world.host_copies("for the player"));
    assert!(world.at_host.is_empty() && world.at_client[1].is_empty());
    assert_eq!(world.at_client[0].len(), 1);
    // A third client takes over as player while texts to and from the previous player are in transit.
    assert!(world.clients[0].1.clipboard(long().as_str().into()));
    assert!(world.host.clipboard(long().as_str().into()));
    world.join(2, true);
    assert!(world.at_host.is_empty() && world.at_client[2].is_empty());
    assert_eq!(world.at_client[0].len(), 1);
    assert!(!world.copies(0, "too late"));
    assert!(world.copies(2, "mine"));
    assert_eq!(world.at_host, ["mine".into()]);
    assert!(world.host_copies("yours"));
    assert_eq!(world.at_client[2], ["yours".into()]);
}

#[test]
fn a_new_text_replaces_a_partly_received_one() {
    let mut world = World::new(BOTH, 1);
    assert!(world.host.clipboard(long().as_str().into()));
    assert!(world.host.clipboard("newest".into()));
    assert!(world.clients[0].1.clipboard(long().as_str().into()));
    assert!(world.copies(0, "mine"));
    assert_eq!(world.at_client[0], ["newest".into()]);
    assert_eq!(world.at_host, ["mine".into()]);
}

/// A message that is sent after the start of a long text overtakes the rest of the text.
#[test]
fn a_long_text_delays_others_by_one_piece_at_most() {
    let mut world = World::new(BOTH, 1);
    assert!(world.host.clipboard("x".repeat(MAX_TEXT).as_str().into()));
    let mut out = Vec::new();
    // The host sends the first part of the text.
    assert!(world.host.poll_transmit(world.now, &mut out).is_some());
    let (path, client) = &mut world.clients[0];
    client.handle_datagram(world.now, *path, &out).unwrap();
    world.host.relative_mouse(true);
    world.settle();
    let &[(0, datagrams)] = &world.mouse[..] else {
        panic!("expected one notification: {:?}", world.mouse);
    };
    assert!(datagrams < 10, "a piece has 7: {datagrams}");
    assert_eq!(world.at_client[0].len(), 1);
}
