//! Tests that a flood of Begins from few addresses does not starve an honest client. The tests use a virtual clock.

use std::time::Duration;

use zerocopy::IntoBytes;

use super::layout::{Begin, Challenge, Hello, Opening};
use super::*;
use crate::id::PathId;
use crate::time::Instant;

const LEGITIMATE: PathId = PathId([1; PathId::LEN]);
const ATTACKERS: u8 = 8;
const A_SECOND: u32 = 3000;
/// Deadline for the honest client.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The credential that the attackers' Begins contain.
#[derive(Clone, Copy, Debug)]
enum Attack {
    /// A wrong PIN, while a pairing window is open.
    Pairing,
    /// The honest client's id, without its key. An on-path attacker can read the id.
    ItsId,
    /// Unknown ids.
    Ids,
}

struct World {
    now: Instant,
    host: HostHandshake,
    identity: Identity,
    /// The attackers' paths, nonces and cookies. The attackers obtain the cookies by normal Hellos.
    shown: Vec<(PathId, [u8; 16], [u8; crate::control::cookie::COOKIE])>,
    /// Number of the attackers' Begins that the host has answered.
    answered: usize,
}

impl World {
    fn new() -> (World, Identity) {
        let host_identity = Identity::generate().unwrap();
        let identity = Identity::generate().unwrap();
        let mut host = HostHandshake::new(&host_identity).unwrap();
        let now = Instant(1_000_000_000_000);
        let pin = Pin::parse("123456").unwrap();
        host.open_pairing(now, pin, Duration::from_secs(600));
        let world = World {
            now,
            host,
            identity,
            shown: Vec::new(),
            answered: 0,
        };
        (world, host_identity)
    }

    fn send(&mut self, from: PathId, datagram: &[u8]) -> Reaction {
        let key = self.identity.public();
        let known = ClientId::of(&key);
        let standing = |id: &ClientId| match *id == known {
            true => DeviceStatus::Allowed(key),
            false => DeviceStatus::Unknown,
        };
        self.host
            .handle_datagram(self.now, from, datagram, &standing)
    }

    /// Renews the attackers' cookies.
    fn show(&mut self) {
        self.shown.clear();
        for n in 0..ATTACKERS {
            let from = PathId([100 + n; PathId::LEN]);
            let nonce = [n; 16];
            let hello = Hello::new(Versions::OURS, nonce);
            let challenge = self.send(from, hello.as_bytes()).reply.unwrap();
            let cookie = Challenge::parse(&challenge).unwrap().cookie;
            self.shown.push((from, nonce, cookie));
        }
    }

    fn attack(&mut self, attack: Attack, n: u32) {
        let shown = self.shown[n as usize % self.shown.len()];
        let (from, nonce, cookie) = shown;
        let mut noise = [9; 48];
        noise[..4].copy_from_slice(&n.to_le_bytes());
        let opening = match attack {
            Attack::Pairing => {
                let pin = Pin::parse("000000").unwrap();
                Opening::Pairing(crate::control::pairing::PinExchange::client(&pin).1)
            }
            Attack::ItsId => Opening::Reconnection(ClientId::of(&self.identity.public())),
            Attack::Ids => {
                let mut id = [7; 16];
                id[..4].copy_from_slice(&n.to_le_bytes());
                Opening::Reconnection(ClientId(id))
            }
        };
        let mut begin = Begin::new(Versions::OURS, nonce, cookie, &opening, noise);
        if matches!(opening, Opening::Reconnection(_)) {
            begin.tag = [n.to_le_bytes()[0]; 32];
        }
        let reaction = self.send(from, begin.as_bytes());
        assert!(reaction.established.is_none());
        self.answered += usize::from(reaction.reply.is_some());
    }

    /// The time that the honest client takes to connect during the attack.
    fn reconnects_in(&mut self, attack: Attack, trust: &Trust) -> Duration {
        let began = self.now;
        let name = DeviceName::default();
        let mut client =
            ClientHandshake::new(self.now, &self.identity, name, trust.clone()).unwrap();
        let mut n = 0;
        while self.now.since(began) < TIMEOUT {
            if n % (A_SECOND * 4) == 0 {
                self.show();
            }
            for _ in 0..A_SECOND / 1000 {
                self.attack(attack, n);
                n += 1;
            }
            client.handle_timeout(self.now).unwrap();
            while let Some(datagram) = client.poll_transmit(self.now) {
                let Some(reply) = self.send(LEGITIMATE, &datagram).reply else {
                    continue;
                };
                if let Some(met) = client.handle_datagram(self.now, &reply).unwrap() {
                    let known = matches!(trust, Trust::Known(key) if *key == met.peer);
                    assert!(known || matches!(trust, Trust::Pin(_)));
                    return self.now.since(began);
                }
            }
            self.now = self.now + Duration::from_millis(1);
        }
        panic!("{attack:?} keeps an honest client out");
    }
}

#[test]
fn a_known_client_connects_despite_3000_begins_a_second() {
    for attack in [Attack::Pairing, Attack::ItsId, Attack::Ids] {
        let (mut world, host) = World::new();
        let trust = Trust::Known(host.public());
        // The client connects five times, as on a lossy link, to check that its own budget does not run out.
        for _ in 0..5 {
            let took = world.reconnects_in(attack, &trust);
            assert!(took < Duration::from_millis(100), "{attack:?}: {took:?}");
            world.now = world.now + Duration::from_secs(1);
        }
        assert!(world.host.half_open() <= 2 * MAX_HALF_OPEN);
    }
}

#[test]
fn a_pairing_succeeds_despite_3000_begins_a_second() {
    let (mut world, _) = World::new();
    let trust = Trust::Pin(Pin::parse("123456").unwrap());
    let took = world.reconnects_in(Attack::Pairing, &trust);
    assert!(took < TIMEOUT, "{took:?}");
}

#[test]
fn begins_without_the_devices_key_cost_no_work() {
    let (mut world, _) = World::new();
    world.show();
    for n in 0..A_SECOND {
        world.attack(Attack::ItsId, n);
    }
    assert_eq!((world.answered, world.host.half_open()), (0, 0));
}

#[test]
fn a_tagged_begin_is_valid_only_from_its_own_address() {
    let (mut world, host) = World::new();
    let trust = Trust::Known(host.public());
    let name = DeviceName::default();
    let mut client = ClientHandshake::new(world.now, &world.identity, name, trust).unwrap();
    let hello = client.poll_transmit(world.now).unwrap();
    let challenge = world.send(LEGITIMATE, &hello).reply.unwrap();
    client.handle_datagram(world.now, &challenge).unwrap();
    let begin = client.poll_transmit(world.now).unwrap();
    // An eavesdropper replays the Begin from another address, with a cookie for that address.
    let elsewhere = PathId([100; PathId::LEN]);
    let own = world.send(elsewhere, &hello).reply.unwrap();
    let mut copied = *Begin::parse(&begin).unwrap().0;
    copied.cookie = Challenge::parse(&own).unwrap().cookie;
    assert!(world.send(elsewhere, copied.as_bytes()).reply.is_none());
    assert_eq!(world.host.half_open(), 0);
    assert!(world.send(LEGITIMATE, &begin).reply.is_some());
}

/// Many addresses in one network get no more tries than a single address.
#[test]
fn addresses_of_one_network_share() {
    let path = |bytes: &[u8]| {
        let mut path = PathId::default();
        path.0[..bytes.len()].copy_from_slice(bytes);
        path.network()
    };
    let v6 = |last| path(&[0x20, 1, 0xd, 0xb8, 0, 1, 0, 2, 3, 4, 5, 6, 7, 8, 9, last]);
    assert_eq!(v6(1), v6(2));
    assert_ne!(v6(1), path(&[0x20, 1, 0xd, 0xb8, 0, 1, 0, 3]));
    let v4 = |last| path(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, last]);
    assert_ne!(v4(1), v4(2));
    let station = |mac, interface| path(&[0xff, 0, 2, 0, 0, 0, 0, mac, 0, 0, 0, interface]);
    assert_eq!(station(1, 3), station(2, 3));
    assert_ne!(station(1, 3), station(1, 4));
}
