//! What the host decided about the stream reaches the person who watches.
#![allow(clippy::cast_possible_truncation, reason = "a test knows its numbers")]

mod support;

use openuvr_proto::client::{ClientEvent, ClientSession};
use openuvr_proto::control::negotiate::{Offer, Role, Wishes};
use openuvr_proto::host::{Host, HostPolicy, SecondPlayer};
use openuvr_proto::id::PathId;
use openuvr_proto::input::keys::Keys;
use openuvr_proto::time::Instant;
use support::established;

const NOW: Instant = Instant(1_000_000_000);
const PATH: PathId = PathId([3; PathId::LEN]);

/// Lets both say what they want to say, until neither does.
fn talk(host: &mut Host, client: &mut ClientSession) {
    let mut datagram = Vec::new();
    for _ in 0..10 {
        while client.poll_transmit(NOW, &mut datagram) {
            host.handle_datagram(NOW, PATH, &datagram).expect("honest");
        }
        while host.poll_transmit(NOW, &mut datagram).is_some() {
            client
                .handle_datagram(NOW, PATH, &datagram)
                .expect("honest");
        }
    }
}

#[test]
fn words_arrive_once_and_are_cut_between_characters() {
    let mut host = Host::new(HostPolicy {
        name: "host".into(),
        codecs: 1 << 1,
        second_player: SecondPlayer::Refuse,
        max_observers: 1,
        keys: Keys::default(),
    });
    // Nobody listens yet.
    host.decided("lost");
    host.established(NOW, PATH, &established());
    let offer = Offer {
        role: Role::Player,
        take_over: false,
        codecs: 2,
        name: String::new(),
        software: String::new(),
        wishes: Wishes::default(),
    };
    let mut client = ClientSession::new(NOW, &established(), offer);
    talk(&mut host, &mut client);
    host.decided("8 Mb/s: the queue grows");
    // 2 bytes each: the limit of 255 falls into one of them.
    host.decided(&"é".repeat(200));
    talk(&mut host, &mut client);
    let words: Vec<String> = std::iter::from_fn(|| client.poll_event())
        .filter_map(|event| match event {
            ClientEvent::Decided(words) => Some(words),
            _ => None,
        })
        .collect();
    let cut = "é".repeat(127);
    assert_eq!(words, ["8 Mb/s: the queue grows".to_owned(), cut]);
}
