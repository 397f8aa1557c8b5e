//! The control stream, with each message chosen by the test.

use std::net::UdpSocket;

use openuvr_proto::control::negotiate::Role;
use openuvr_proto::host::SubscribeRequest;
use openuvr_proto::id::FrameId;
use openuvr_proto::input::event::{InputEvent, KeyCode};
use openuvr_proto::send::subscriber::{Departure, Frame, Progress, Slice, Subscriber};
use openuvr_proto::time::Instant;
use openuvr_proto::trace::{DropCause, Stage};
use rusty_enet::{Host, Packet};

use super::fairness::{control, eventually};
use super::peer::{Streams, element, play, sealed_control};
use super::support::Rig;
use super::{launch, paired};

/// The type of messages with input, and the kinds of its packets.
const INPUT: u16 = 0x0206;
const KEY_DOWN: u32 = 3;
const PAD_ARRIVED: u32 = 0x5500_0004;

/// Fields of a pad that arrives: number, kind, abilities.
const PAD: [u8; 4] = [0, 1, 2, 0];

/// A sealed message with an input packet of this kind and these fields.
fn input(number: u32, kind: u32, fields: &[u8]) -> Vec<u8> {
    let length = u32::try_from(4 + fields.len()).unwrap();
    let packet = [&length.to_be_bytes()[..], &kind.to_le_bytes(), fields].concat();
    let length = u16::try_from(packet.len()).unwrap();
    let message = [&INPUT.to_le_bytes()[..], &length.to_le_bytes(), &packet].concat();
    sealed_control(number, &message)
}

/// A sealed message: the key with this virtual-key code is pressed.
fn pressed(number: u32, code: u8) -> Vec<u8> {
    input(number, KEY_DOWN, &[0, code, 0x80, 0, 0, 0])
}

/// The streams of a paired client that plays.
fn streams(rig: &Rig) -> Streams {
    let launched = launch(rig, &paired(rig), "");
    assert_eq!(element(&launched, "gamesession"), "1", "{launched}");
    play(rig.door.addresses().rtsp, 1, (640, 384, 60)).unwrap()
}

fn send(enet: &mut Host<UdpSocket>, message: &[u8]) {
    let peer = enet.connected_peers_mut().next().unwrap();
    peer.send(0, &Packet::reliable(message)).unwrap();
}

/// The application's next input that `choose` accepts. The session goes on in the meantime.
fn awaited<T>(
    rig: &Rig,
    (enet, streams): (&mut Host<UdpSocket>, &Streams),
    choose: impl Fn(InputEvent) -> Option<T>,
) -> T {
    eventually("input", || {
        enet.service().unwrap();
        streams.packet();
        rig.input.try_iter().find_map(&choose)
    })
}

fn connected(event: InputEvent) -> Option<()> {
    matches!(event, InputEvent::PadConnected { .. }).then_some(())
}

fn disconnected(event: InputEvent) -> Option<()> {
    matches!(event, InputEvent::PadDisconnected { .. }).then_some(())
}

fn key(event: InputEvent) -> Option<KeyCode> {
    match event {
        InputEvent::Key {
            code,
            pressed: true,
            ..
        } => Some(code),
        _ => None,
    }
}

/// A subscriber that ignores its frames.
struct Blind;

impl Subscriber for Blind {
    fn start_frame(&mut self, _: Instant, _: &Frame) {}

    fn slice(&mut self, _: Instant, _: &Slice<'_>) {}

    fn end(&mut self, _: Instant) -> Progress {
        Progress::Sent(Departure::default())
    }

    fn dropped(&mut self, _: Instant, _: FrameId, _: Stage, _: DropCause) {}
}

#[test]
fn a_pad_returns_with_the_role_of_its_player() {
    let rig = Rig::new("moonlight-pad");
    let streams = streams(&rig);
    let mut enet = control(&rig, &streams);
    send(&mut enet, &input(1, PAD_ARRIVED, &PAD));
    awaited(&rig, (&mut enet, &streams), connected);
    let request = SubscribeRequest {
        take_over: true,
        ..SubscribeRequest::new(Role::Player, "another player")
    };
    let (other, grant) = rig.host.subscribe(request, Box::new(Blind)).unwrap();
    assert_eq!(grant.role, Role::Player);
    awaited(&rig, (&mut enet, &streams), disconnected);
    // The client sends nothing new, but plays again.
    rig.host.unsubscribe(other);
    awaited(&rig, (&mut enet, &streams), connected);
}

#[test]
fn a_recorded_message_has_no_effect_on_a_new_connection() {
    let rig = Rig::new("moonlight-replay");
    let streams = streams(&rig);
    let mut enet = control(&rig, &streams);
    // The pad shows that the host takes input.
    send(&mut enet, &input(1, PAD_ARRIVED, &PAD));
    awaited(&rig, (&mut enet, &streams), connected);
    let recorded = pressed(2, 0x41);
    send(&mut enet, &recorded);
    let first = awaited(&rig, (&mut enet, &streams), key);
    assert_eq!(first, KeyCode(30), "A");
    let mut again = control(&rig, &streams);
    send(&mut again, &recorded);
    send(&mut again, &pressed(3, 0x42));
    let next = awaited(&rig, (&mut again, &streams), key);
    assert_eq!(next, KeyCode(48), "B");
}
