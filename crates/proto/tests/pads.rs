//! Gamepads between clients and a host. Tests which clients are notified and when, that queued states are merged, and
//! rumble.
#![allow(
    clippy::unwrap_used,
    reason = "test values are known to fit, and a test may panic"
)]

mod support;

use std::time::Duration;

use openuvr_proto::client::{ClientEvent, ClientSession};
use openuvr_proto::control::negotiate::{ClientConstraints, Offer, Role};
use openuvr_proto::host::{Host, HostEvent, HostPolicy, SecondPlayer};
use openuvr_proto::id::{PathId, SessionId};
use openuvr_proto::input::event::InputEvent;
use openuvr_proto::input::keys::Keys;
use openuvr_proto::input::pad::{PadButton, PadId, PadIdentity, PadName, PadState, Rumble};
use openuvr_proto::input::pads::Pads;
use openuvr_proto::time::Instant;
use support::established;

/// A host and its clients. Each client has its set of gamepads, as a runtime keeps it.
struct World {
    host: Host,
    clients: Vec<(PathId, ClientSession, Pads)>,
    /// The input events that reached the host.
    inputs: Vec<InputEvent>,
    /// Each rumble of a client's gamepad: the client, the time, the gamepad and the strength.
    rumbled: Vec<(usize, u64, PadId, Rumble)>,
    now: Instant,
    lossy: bool,
}

fn pad(number: u8) -> PadId {
    PadId::new(number).unwrap()
}

fn connected(number: u8) -> InputEvent {
    InputEvent::PadConnected {
        pad: pad(number),
        identity: PadIdentity {
            name: PadName::new("Pad"),
            vendor: 1,
            product: 2,
            buttons: 0x1_ffff,
            sticks: [true, true],
            rumbles: true,
        },
    }
}

fn held(number: u8, buttons: u32, x: i16) -> InputEvent {
    let state = PadState {
        buttons,
        sticks: [x, 0, 0, 0],
        triggers: [0, 0],
    };
    InputEvent::Pad {
        pad: pad(number),
        state,
    }
}

impl World {
    fn new(taken: u8) -> World {
        let mut host = Host::new(HostPolicy {
            name: "host".into(),
            codecs: 1 << 1,
            second_player: SecondPlayer::TakeOver,
            max_observers: 2,
            keys: Keys::default(),
            streams: Vec::new(),
        });
        host.pads_taken(taken);
        World {
            host,
            clients: Vec::new(),
            inputs: Vec::new(),
            rumbled: Vec::new(),
            now: Instant(0),
            lossy: false,
        }
    }

    fn join(&mut self, pads: Pads, take_over: bool) {
        let n = u8::try_from(self.clients.len()).unwrap();
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
        self.clients.push((path, session, pads));
        self.settle();
    }

    fn input(&mut self, client: usize, event: InputEvent) {
        let (_, session, pads) = &mut self.clients[client];
        pads.note(&event);
        session.input(self.now, event, self.now);
    }

    fn pass(&mut self, millis: u64) {
        for _ in 0..millis {
            self.now = self.now + Duration::from_millis(1);
            self.host.handle_timeout(self.now);
            for (_, client, _) in &mut self.clients {
                client.handle_timeout(self.now);
            }
            self.settle();
        }
    }

    /// Delivers datagrams until no peer sends any more. While the link is lossy, it loses every datagram to the host.
    fn settle(&mut self) {
        let mut out = Vec::new();
        loop {
            let mut active = false;
            for (path, client, _) in &mut self.clients {
                while client.poll_transmit(self.now, &mut out) {
                    active = true;
                    if !self.lossy {
                        self.host.handle_datagram(self.now, *path, &out).unwrap();
                    }
                }
            }
            while let Some(to) = self.host.poll_transmit(self.now, &mut out) {
                let client = self.clients.iter_mut().find(|(path, ..)| *path == to);
                let (path, client, _) = client.unwrap();
                client.handle_datagram(self.now, *path, &out).unwrap();
                active = true;
            }
            while let Some(event) = self.host.poll_event() {
                if let HostEvent::Input { arrived, .. } = event {
                    self.inputs.push(arrived.event);
                }
            }
            for (n, (_, client, pads)) in self.clients.iter_mut().enumerate() {
                while let Some(event) = client.poll_event() {
                    match event {
                        ClientEvent::PadsTaken(_) => {
                            for event in pads.announcements() {
                                client.input(self.now, event, self.now);
                            }
                            active = true;
                        }
                        ClientEvent::Rumble(pad, rumble, _) => {
                            let at = u64::try_from(self.now.0).unwrap() / 1_000_000;
                            self.rumbled.push((n, at, pad, rumble));
                        }
                        _ => {}
                    }
                }
            }
            if !active {
                return;
            }
        }
    }

    fn inputs(&mut self) -> Vec<InputEvent> {
        self.settle();
        std::mem::take(&mut self.inputs)
    }
}

fn pads(events: &[InputEvent]) -> Pads {
    let mut pads = Pads::default();
    events.iter().for_each(|event| pads.note(event));
    pads
}

const SOUTH: u32 = 1;

#[test]
fn a_player_announces_its_pads_once_the_host_accepts_them() {
    let mut world = World::new(2);
    let there = [connected(1), held(1, SOUTH, 5)];
    world.join(pads(&there), false);
    assert_eq!(world.inputs(), there);
    world.input(0, held(1, 0, 0));
    assert_eq!(world.inputs(), [held(1, 0, 0)]);
    // The host accepts only the gamepads 0 and 1.
    world.input(0, connected(2));
    world.input(0, held(2, SOUTH, 0));
    assert_eq!(world.inputs(), []);
    world.input(0, InputEvent::PadDisconnected { pad: pad(1) });
    assert_eq!(
        world.inputs(),
        [InputEvent::PadDisconnected { pad: pad(1) }]
    );
}

#[test]
fn a_host_without_pads_receives_no_pad_events() {
    let mut world = World::new(0);
    world.join(pads(&[connected(0)]), false);
    world.input(0, held(0, SOUTH, 0));
    assert_eq!(world.inputs(), []);
}

#[test]
fn pads_are_announced_again_with_the_role() {
    let mut world = World::new(4);
    world.join(pads(&[connected(0)]), false);
    assert_eq!(world.inputs(), [connected(0)]);
    world.join(pads(&[connected(3)]), true);
    assert_eq!(world.inputs(), [connected(3)], "the new player's");
    world.input(0, held(0, SOUTH, 0));
    assert_eq!(world.inputs(), [], "the observer's");
    world.clients[1]
        .1
        .goodbye(openuvr_proto::wire::control::GoodbyeReason::Quit);
    assert_eq!(world.inputs(), [connected(0), held(0, SOUTH, 0)]);
}

#[test]
fn sticks_are_merged_on_a_bad_link_and_presses_are_not() {
    let mut world = World::new(4);
    world.join(pads(&[connected(0)]), false);
    world.inputs();
    world.lossy = true;
    for x in 0..500 {
        world.input(0, held(0, 0, x));
    }
    world.input(0, held(0, SOUTH, 7));
    for x in 0..500 {
        world.input(0, held(0, 0, x));
    }
    world.settle();
    world.lossy = false;
    world.pass(300);
    let inputs = world.inputs();
    let tail = &inputs[inputs.len() - 3..];
    let expected = [held(0, 0, 499), held(0, SOUTH, 7), held(0, 0, 499)];
    assert_eq!(tail, expected);
    assert!(inputs.len() < 100, "{}", inputs.len());
}

#[test]
fn pads_are_announced_again_after_a_silence_of_the_host() {
    let mut world = World::new(4);
    world.join(pads(&[connected(0)]), false);
    world.inputs();
    world.lossy = true;
    for n in 0..1000 {
        world.input(0, held(0, SOUTH, n));
        world.input(0, held(0, 0, n));
    }
    world.settle();
    world.lossy = false;
    world.pass(2000);
    let inputs = world.inputs();
    assert_eq!(inputs[..2], [InputEvent::ReleaseAll, connected(0)]);
    assert_eq!(inputs.last(), Some(&held(0, 0, 999)));
}

#[test]
fn a_held_stick_takes_effect_again_after_a_silence() {
    let mut world = World::new(4);
    world.join(pads(&[connected(0), connected(1)]), false);
    world.input(0, held(0, SOUTH, 9));
    world.inputs();
    world.lossy = true;
    world.pass(2000);
    world.lossy = false;
    world.pass(1000);
    assert_eq!(world.inputs(), [held(0, SOUTH, 9)]);
}

#[test]
fn a_rumble_reaches_the_player_alone_and_ends_with_the_role() {
    let mut world = World::new(4);
    world.join(pads(&[connected(0)]), false);
    world.join(Pads::default(), false);
    let hard = Rumble {
        strong: 0xffff,
        weak: 0x100,
    };
    world.host.rumble(world.now, pad(0), hard);
    world.pass(250);
    let rumbles: Vec<_> = world
        .rumbled
        .drain(..)
        .map(|(n, _, p, r)| (n, p, r))
        .collect();
    assert_eq!(rumbles, [(0, pad(0), hard); 3], "repeated while it lasts");
    world.join(Pads::default(), true);
    world.pass(500);
    assert_eq!(world.rumbled, []);
    world.host.rumble(world.now, pad(0), Rumble::OFF);
    world.pass(500);
    assert_eq!(world.rumbled, [], "nothing ran");
    world.host.rumble(world.now, pad(0), hard);
    world.pass(1);
    world.host.rumble(world.now, pad(0), Rumble::OFF);
    world.pass(500);
    let rumbles: Vec<_> = world.rumbled.iter().map(|(n, _, _, r)| (*n, *r)).collect();
    assert_eq!(
        rumbles,
        [
            (2, hard),
            (2, Rumble::OFF),
            (2, Rumble::OFF),
            (2, Rumble::OFF)
        ]
    );
    let state = PadState::NEUTRAL.with(PadButton::Guide, true);
    assert!(state.is_down(PadButton::Guide));
}
