//! Tests of client and host, which a seeded random channel connects on a virtual clock.

mod tickets;

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use proptest::prelude::*;
use zerocopy::IntoBytes;

use super::layout::{
    Answer, Begin, Challenge, Confirm, Finish, Hello, Kind, Pattern, Reason, Refused,
};
use super::*;
use crate::control::cookie::COOKIE;
use crate::id::PathId;
use crate::time::Instant;

const CLIENT: PathId = PathId([1; PathId::LEN]);
const OTHER: PathId = PathId([2; PathId::LEN]);
const MINUTE: Duration = Duration::from_secs(60);

fn pin(text: &str) -> Pin {
    Pin::parse(text).unwrap()
}

fn no_device(_: &ClientId) -> DeviceStatus {
    DeviceStatus::Unknown
}

/// Link conditions: chances in percent, delays in milliseconds.
#[derive(Clone, Copy)]
struct Impairments {
    loss: u64,
    twice: u64,
    delay: u64,
}

const PERFECT: Impairments = Impairments {
    loss: 0,
    twice: 0,
    delay: 1,
};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum To {
    Host,
    Client,
}

/// One client, one host, and the simulated channel between them.
struct World {
    now: Instant,
    client_identity: Identity,
    host_identity: Identity,
    client: ClientHandshake,
    host: HostHandshake,
    standing: DeviceStatus,
    impairments: Impairments,
    random: u64,
    sent: u64,
    flying: BTreeMap<(Instant, u64), (To, Vec<u8>)>,
    /// A message kind, and a range of bits. For each of these bits, a copy with the bit flipped arrives before the
    /// first datagram of this kind.
    flips: Option<(Kind, std::ops::Range<usize>)>,
    at_client: Vec<Established>,
    at_host: Vec<(Established, Paired)>,
    seen: Vec<(To, Vec<u8>)>,
}

impl World {
    fn new(trust: impl FnOnce(&Identity) -> Trust) -> World {
        Self::between(Versions::OURS, Versions::OURS, trust)
    }

    fn between(client: Versions, host: Versions, trust: impl FnOnce(&Identity) -> Trust) -> World {
        let now = Instant(1_000_000_000_000);
        let client_identity = Identity::generate().unwrap();
        let host_identity = Identity::generate().unwrap();
        let name = DeviceName::new("the attic");
        let trust = trust(&host_identity);
        World {
            now,
            client: ClientHandshake::with_versions(now, &client_identity, name, trust, client)
                .unwrap(),
            host: HostHandshake::with_versions(&host_identity, host).unwrap(),
            standing: DeviceStatus::Unknown,
            client_identity,
            host_identity,
            impairments: PERFECT,
            random: 7,
            sent: 0,
            flying: BTreeMap::new(),
            flips: None,
            at_client: Vec::new(),
            at_host: Vec::new(),
            seen: Vec::new(),
        }
    }

    /// A client that tries the PIN `typed`, and a host whose PIN is 123456.
    fn pairing(typed: &str) -> World {
        let mut world = World::new(|_| Trust::Pin(pin(typed)));
        world.host.open_pairing(world.now, pin("123456"), MINUTE);
        world
    }

    /// A client and a host that are already paired.
    fn reconnection() -> World {
        let mut world = World::new(|host| Trust::Known(host.public()));
        world.standing = DeviceStatus::Allowed(world.client_identity.public());
        world
    }

    /// The same client tries again with the PIN `typed`.
    fn again(&mut self, typed: &str) -> Result<(), HandshakeError> {
        let trust = Trust::Pin(pin(typed));
        self.client =
            ClientHandshake::new(self.now, &self.client_identity, DeviceName::new("x"), trust)
                .unwrap();
        self.run()
    }

    /// Runs until the client has a session or an error.
    fn run(&mut self) -> Result<(), HandshakeError> {
        loop {
            while let Some(datagram) = self.client.poll_transmit(self.now) {
                self.send(To::Host, datagram);
            }
            let arrival = self.flying.keys().next().map(|(due, _)| *due);
            let Some(next) = arrival.into_iter().chain(self.client.next_timeout()).min() else {
                return Ok(());
            };
            self.now = self.now.max(next);
            self.client.handle_timeout(self.now)?;
            while let Some(entry) = self.flying.first_entry() {
                if entry.key().0 > self.now {
                    break;
                }
                let (to, datagram) = entry.remove();
                self.deliver(to, &datagram)?;
            }
        }
    }

    fn send(&mut self, to: To, datagram: Vec<u8>) {
        assert!(datagram.len() <= 1400);
        self.seen.push((to, datagram.clone()));
        let copies = if self.chance(self.impairments.twice) {
            2
        } else {
            1
        };
        for _ in 0..copies {
            if !self.chance(self.impairments.loss) {
                let delay = Duration::from_millis(1 + self.draw() % self.impairments.delay);
                self.sent += 1;
                let key = (self.now + delay, self.sent);
                self.flying.insert(key, (to, datagram.clone()));
            }
        }
    }

    fn deliver(&mut self, to: To, datagram: &[u8]) -> Result<(), HandshakeError> {
        if let Some((kind, bits)) = self.flips.clone()
            && Kind::of(datagram) == Some(kind)
        {
            self.flips = None;
            let (clients, hosts) = (self.at_client.len(), self.at_host.len());
            for bit in bits {
                let mut flipped = datagram.to_vec();
                flipped[bit / 8] ^= 1 << (bit % 8);
                self.arrive(to, &flipped)?;
                assert_eq!(
                    self.at_client.len(),
                    clients,
                    "{kind:?} with bit {bit} flipped"
                );
                assert_eq!(self.at_host.len(), hosts, "{kind:?} with bit {bit} flipped");
            }
        }
        self.arrive(to, datagram)
    }

    fn arrive(&mut self, to: To, datagram: &[u8]) -> Result<(), HandshakeError> {
        match to {
            To::Client => {
                let established = self.client.handle_datagram(self.now, datagram)?;
                self.at_client.extend(established);
            }
            To::Host => {
                let standing = self.standing;
                let reaction = self
                    .host
                    .handle_datagram(self.now, CLIENT, datagram, &|_| standing);
                if let Some(reply) = reaction.reply {
                    assert!(
                        reply.len() <= datagram.len(),
                        "the reply is longer than the request"
                    );
                    self.send(To::Client, reply);
                }
                if let Some((from, established, paired)) = reaction.established {
                    assert_eq!(from, CLIENT);
                    self.at_host.push((established, paired));
                }
            }
        }
        Ok(())
    }

    /// The next random number, by SplitMix64 (Steele, Lea and Flood, 2014).
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.draw() % 100 < percent
    }

    /// Asserts that client and host each have exactly one session, and that both are the same session. Returns how the
    /// client authenticated.
    fn assert_agreed(&self) -> &Paired {
        assert_eq!((self.at_client.len(), self.at_host.len()), (1, 1));
        let (client, (host, paired)) = (&self.at_client[0], &self.at_host[0]);
        assert!(client.secret == host.secret);
        assert_eq!(client.session, host.session);
        assert_ne!(client.session, SessionId(0));
        assert_eq!(client.version, host.version);
        assert_eq!(client.peer, self.host_identity.public());
        assert_eq!(host.peer, self.client_identity.public());
        paired
    }
}

#[test]
fn the_right_pin_pairs_and_closes_the_window() {
    let mut world = World::pairing("123456");
    world.run().unwrap();
    let name = DeviceName::new("the attic");
    assert_eq!(world.assert_agreed(), &Paired::New { name });
    assert_eq!(world.seen.len(), 6);
    assert_eq!(world.host.pairing(world.now), None);
    assert_eq!(world.again("123456"), Err(HandshakeError::PairingClosed));
}

#[test]
fn a_known_client_reconnects_with_a_fresh_secret_each_time() {
    let mut secrets = HashSet::new();
    let mut world = World::reconnection();
    for _ in 0..5 {
        world.run().unwrap();
        assert_eq!(world.assert_agreed(), &Paired::Known);
        assert!(secrets.insert(world.at_client.remove(0).secret.0));
        world.at_host.clear();
        world.now = world.now + Duration::from_secs(1);
        let trust = Trust::Known(world.host_identity.public());
        let name = DeviceName::default();
        world.client =
            ClientHandshake::new(world.now, &world.client_identity, name, trust).unwrap();
    }
    assert_eq!(world.seen.len(), 5 * 6);
}

#[test]
fn with_impairments_both_sides_agree_or_fail_with_an_error() {
    let mut agreed = 0;
    for seed in 0..150 {
        let mut world = match seed % 2 {
            0 => World::pairing("123456"),
            _ => World::reconnection(),
        };
        world.random = seed;
        world.impairments = Impairments {
            loss: 20,
            twice: 20,
            delay: 400,
        };
        match world.run() {
            Ok(()) => {
                // Late duplicates may open further sessions at the host. One of the host's sessions must be the
                // client's.
                agreed += 1;
                let client = world.at_client[0].clone();
                let host_session = world
                    .at_host
                    .iter()
                    .find(|(host, _)| host.session == client.session);
                assert!(host_session.is_some_and(|(host, _)| host.secret == client.secret));
            }
            // The client may fail. For example, if every copy of a pairing's Confirm is lost, the client cannot try
            // again, because the host has already closed the window.
            Err(
                HandshakeError::TimedOut { .. }
                | HandshakeError::NotTheHost
                | HandshakeError::Unconfirmed
                | HandshakeError::PairingClosed,
            ) => {
                assert!(world.at_client.is_empty());
            }
            Err(why) => panic!("seed {seed}: {why}"),
        }
    }
    assert!(agreed >= 135, "{agreed} of 150");
}

/// The events of the pairing window.
fn pairing_events(host: &mut HostHandshake) -> Vec<PairingEvent> {
    std::iter::from_fn(|| host.poll_event()).collect()
}

#[test]
fn wrong_pins_are_reported_delayed_and_limited() {
    let mut world = World::pairing("654321");
    assert_eq!(world.run(), Err(HandshakeError::WrongPin));
    let wrong = |tries_left| PairingEvent::WrongPin {
        from: CLIENT,
        tries_left,
    };
    assert_eq!(pairing_events(&mut world.host), [wrong(2)]);
    for (delay, tries_left) in [(1, 1), (2, 0)] {
        let retry_after = Duration::from_secs(delay);
        // The right PIN is delayed, too. Otherwise, an immediate answer would reveal that it is right.
        assert_eq!(
            world.again("123456"),
            Err(HandshakeError::Busy { retry_after })
        );
        assert_eq!(pairing_events(&mut world.host), []);
        world.now = world.now + retry_after;
        assert_eq!(world.again("000000"), Err(HandshakeError::WrongPin));
        assert_eq!(pairing_events(&mut world.host), [wrong(tries_left)]);
    }
    assert_eq!(world.again("123456"), Err(HandshakeError::PairingClosed));
    assert!(world.at_host.is_empty() && world.at_client.is_empty());
    // A client of another network has its own tries.
    let (mut client, finish) = up_to_finish(&mut world.host, world.now, OTHER, "123456");
    let reaction = (world.host).handle_datagram(world.now, OTHER, &finish, &no_device);
    let confirmed = client.handle_datagram(world.now, &reaction.reply.unwrap());
    assert!(reaction.established.is_some() && confirmed.unwrap().is_some());
    // A new window has new tries.
    world.host.open_pairing(world.now, pin("123456"), MINUTE);
    world.again("123456").unwrap();
    world.assert_agreed();
}

#[test]
fn a_legitimate_client_pairs_despite_many_wrong_pins() {
    let mut world = World::pairing("123456");
    let mut guessed = 0;
    // Seven addresses guess for 20 s, as fast as the host allows.
    for n in 0..400_u32 {
        let now = world.now + Duration::from_millis(50) * n;
        let mut from = OTHER;
        from.0[0] = 10 + u8::try_from(n % 7).unwrap();
        let begin = begin_with(&mut world.host, now, from, "000000");
        let Some((mut client, begin)) = begin else {
            continue;
        };
        let reply = (world.host).handle_datagram(now, from, &begin, &no_device);
        let Some(reply) = reply.reply else { continue };
        if client.handle_datagram(now, &reply).is_err() {
            continue;
        }
        if let Some(finish) = client.poll_transmit(now)
            && Kind::of(&finish) == Some(Kind::Finish)
        {
            (world.host).handle_datagram(now, from, &finish, &no_device);
            guessed += 1;
        }
    }
    world.now = world.now + Duration::from_secs(20);
    world.again("123456").unwrap();
    world.assert_agreed();
    assert_eq!(guessed, 7 * 3);
    // Each wrong PIN emits one event.
    let events = pairing_events(&mut world.host);
    assert_eq!(events.len(), 7 * 3);
    let wrong = |event: &PairingEvent| matches!(event, PairingEvent::WrongPin { .. });
    assert!(events.iter().all(wrong));
}

#[test]
fn the_end_of_a_pairing_window_is_reported_once() {
    // By timeout.
    let mut world = World::pairing("123456");
    world.host.handle_timeout(world.now + MINUTE);
    world.host.handle_timeout(world.now + MINUTE * 2);
    assert_eq!(pairing_events(&mut world.host), [PairingEvent::Expired]);
    // By wrong PINs.
    world.host.open_pairing(world.now, pin("123456"), MINUTE);
    for n in 0..MAX_TRIES {
        let now = world.now + Duration::from_millis(100) * n;
        let mut from = OTHER;
        from.0[0] = u8::try_from(n).unwrap();
        let (_, finish) = up_to_finish(&mut world.host, now, from, "000000");
        (world.host).handle_datagram(now, from, &finish, &no_device);
    }
    let mut events = pairing_events(&mut world.host);
    assert_eq!(events.pop(), Some(PairingEvent::TooManyWrong));
    assert_eq!(events.len(), usize::try_from(MAX_TRIES).unwrap());
    world.host.handle_timeout(world.now + MINUTE);
    assert_eq!(pairing_events(&mut world.host), []);
    assert_eq!(world.again("123456"), Err(HandshakeError::PairingClosed));
    // The success closes the window. The established session reports the success, so there is no pairing event.
    world.host.open_pairing(world.now, pin("123456"), MINUTE);
    world.again("123456").unwrap();
    world.host.handle_timeout(world.now + MINUTE);
    assert_eq!(pairing_events(&mut world.host), []);
}

#[test]
fn a_finish_without_confirm_is_a_wrong_pin() {
    // The client reports that the PIN is unconfirmed, because the receiver of its Finish may have tested a guess.
    let mut world = World::pairing("123456");
    let now = world.now;
    let (mut client, _) = up_to_finish(&mut world.host, now, OTHER, "123456");
    let outcome = client.handle_timeout(now + HANDSHAKE_TIMEOUT);
    assert_eq!(outcome, Err(HandshakeError::Unconfirmed));
    // The host counts a wrong PIN, even if a forbidden device sends the right one.
    world.standing = DeviceStatus::Forbidden(world.client_identity.public());
    assert_eq!(world.run(), Err(HandshakeError::Forbidden));
    let tried = PairingEvent::ForbiddenTried {
        from: CLIENT,
        tries_left: 2,
    };
    assert_eq!(pairing_events(&mut world.host), [tried]);
    let tries_left = world.host.pairing(world.now).unwrap().tries_left;
    assert_eq!(tries_left, MAX_TRIES - 1);
}

/// Creates a client with the PIN `typed`. Returns the client and its Begin; `None` if the host rejects its Hello.
fn begin_with(
    host: &mut HostHandshake,
    now: Instant,
    from: PathId,
    typed: &str,
) -> Option<(ClientHandshake, Vec<u8>)> {
    let identity = Identity::generate().unwrap();
    let trust = Trust::Pin(pin(typed));
    let mut client = ClientHandshake::new(now, &identity, DeviceName::default(), trust).unwrap();
    let hello = client.poll_transmit(now)?;
    let challenge = host.handle_datagram(now, from, &hello, &no_device).reply?;
    client.handle_datagram(now, &challenge).ok()?;
    let begin = client.poll_transmit(now)?;
    Some((client, begin))
}

/// Creates a client and runs it until it has received an Answer. Returns the client and its Finish, which has not been
/// sent to the host.
fn up_to_finish(
    host: &mut HostHandshake,
    now: Instant,
    from: PathId,
    typed: &str,
) -> (ClientHandshake, Vec<u8>) {
    let identity = Identity::generate().unwrap();
    let trust = Trust::Pin(pin(typed));
    let mut client = ClientHandshake::new(now, &identity, DeviceName::default(), trust).unwrap();
    for _ in 0..2 {
        let ask = client.poll_transmit(now).unwrap();
        let reply = host
            .handle_datagram(now, from, &ask, &no_device)
            .reply
            .unwrap();
        client.handle_datagram(now, &reply).unwrap();
    }
    let finish = client.poll_transmit(now).unwrap();
    assert_eq!(Kind::of(&finish), Some(Kind::Finish));
    (client, finish)
}

#[test]
fn concurrent_exchanges_get_no_extra_tries() {
    let mut world = World::pairing("123456");
    let now = world.now;
    let guesses: Vec<_> = (0..PAIRINGS_PER_SECOND)
        .map(|n| {
            let mut from = OTHER;
            // The guesses come from four addresses, with four ports each.
            from.0[0] = u8::try_from(n % 4).unwrap();
            from.0[16] = u8::try_from(n).unwrap();
            let guess = up_to_finish(&mut world.host, now, from, &format!("{n:06}"));
            (from, guess)
        })
        .collect();
    let mut wrong = 0;
    for (from, (mut client, finish)) in guesses {
        let reply = world
            .host
            .handle_datagram(now, from, &finish, &no_device)
            .reply
            .unwrap();
        match client.handle_datagram(now, &reply) {
            Err(HandshakeError::WrongPin) => wrong += 1,
            Err(HandshakeError::Busy { .. }) => {}
            other => panic!("{other:?}"),
        }
    }
    // Each address gets one try.
    assert_eq!(wrong, 4);
    let tries_left = world.host.pairing(now).unwrap().tries_left;
    assert_eq!(tries_left, MAX_TRIES - 4);
}

#[test]
fn a_repeated_wrong_finish_is_one_try() {
    let mut world = World::pairing("123456");
    let now = world.now;
    let (_, finish) = up_to_finish(&mut world.host, now, CLIENT, "111111");
    let first = world
        .host
        .handle_datagram(now, CLIENT, &finish, &no_device)
        .reply;
    for _ in 0..10 {
        assert_eq!(
            world
                .host
                .handle_datagram(now, CLIENT, &finish, &no_device)
                .reply,
            first
        );
    }
    let tries_left = world.host.pairing(now).unwrap().tries_left;
    assert_eq!(tries_left, MAX_TRIES - 1);
}

#[test]
fn a_closed_window_pairs_no_client() {
    let mut world = World::pairing("123456");
    let (_, finish) = up_to_finish(&mut world.host, world.now, OTHER, "123456");
    // The new window replaces the open one, and closes at once.
    let over = Duration::ZERO;
    world.host.open_pairing(world.now, pin("123456"), over);
    let reaction = world
        .host
        .handle_datagram(world.now, OTHER, &finish, &no_device);
    assert!(reaction.established.is_none());

    let mut world = World::pairing("123456");
    assert_eq!(world.host.next_timeout(), Some(world.now + MINUTE));
    world.now = world.now + MINUTE;
    assert_eq!(world.again("123456"), Err(HandshakeError::PairingClosed));

    // A handshake that began in one window cannot finish in the next, even with the same PIN.
    let mut world = World::pairing("123456");
    let (mut client, finish) = up_to_finish(&mut world.host, world.now, OTHER, "123456");
    world.host.open_pairing(world.now, pin("123456"), MINUTE);
    let reply = world
        .host
        .handle_datagram(world.now, OTHER, &finish, &no_device)
        .reply
        .unwrap();
    let outcome = client.handle_datagram(world.now, &reply);
    assert_eq!(outcome.unwrap_err(), HandshakeError::PairingClosed);
}

#[test]
fn unknown_and_forbidden_devices_are_refused() {
    let mut world = World::reconnection();
    world.standing = DeviceStatus::Unknown;
    assert_eq!(world.run(), Err(HandshakeError::UnknownDevice));
    assert_eq!(world.host.half_open(), 0);
    // A forbidden device is refused, whether it uses its key or the right PIN.
    for mut world in [World::reconnection(), World::pairing("123456")] {
        world.standing = DeviceStatus::Forbidden(world.client_identity.public());
        assert_eq!(world.run(), Err(HandshakeError::Forbidden));
        assert!(world.at_host.is_empty());
    }
    // A client that has only the id of a known device gets the same replies whether the device is forbidden or allowed.
    for standing in [DeviceStatus::Forbidden, DeviceStatus::Allowed] {
        let mut world = World::reconnection();
        world.standing = standing(Identity::generate().unwrap().public());
        assert_eq!(world.run(), Err(HandshakeError::NotTheHost));
        let heard = world.seen.iter().filter(|(to, _)| *to == To::Client);
        let challenges = heard
            .clone()
            .filter(|(_, d)| Kind::of(d) == Some(Kind::Challenge));
        assert_eq!(heard.clone().count(), challenges.count());
    }
    // A device that becomes forbidden between its Begin and its Finish is refused.
    let mut world = World::reconnection();
    let (now, key) = (world.now, world.client_identity.public());
    let mut last = Ok(None);
    for standing in [
        DeviceStatus::Allowed(key),
        DeviceStatus::Allowed(key),
        DeviceStatus::Forbidden(key),
    ] {
        let ask = world.client.poll_transmit(now).unwrap();
        let reaction = (world.host).handle_datagram(now, CLIENT, &ask, &|_| standing);
        assert!(reaction.established.is_none());
        last = world.client.handle_datagram(now, &reaction.reply.unwrap());
    }
    assert_eq!(last.unwrap_err(), HandshakeError::Forbidden);
    // A client that has another device's id, but not its key, is not admitted.
    let mut world = World::reconnection();
    world.standing = DeviceStatus::Allowed(Identity::generate().unwrap().public());
    assert_eq!(world.run(), Err(HandshakeError::NotTheHost));
    assert!(world.at_host.is_empty());
}

#[test]
fn a_host_with_another_key_is_not_trusted() {
    let other_host = Identity::generate().unwrap().public();
    let mut world = World::new(|_| Trust::Known(other_host));
    world.standing = DeviceStatus::Allowed(world.client_identity.public());
    assert_eq!(world.run(), Err(HandshakeError::NotTheHost));
    assert!(world.at_host.is_empty());
}

#[test]
fn versions_are_negotiated_or_refused_with_a_reason() {
    let range = |min, max| Versions { min, max };
    for (client, host, agreed) in [
        (range(1, 1), range(1, 3), 1),
        (range(1, 4), range(2, 3), 3),
        (range(2, 2), range(1, 2), 2),
    ] {
        let mut world = World::between(client, host, |_| Trust::Pin(pin("123456")));
        world.host.open_pairing(world.now, pin("123456"), MINUTE);
        world.run().unwrap();
        world.assert_agreed();
        assert_eq!(world.at_client[0].version, agreed);
    }
    let (ours, theirs) = (range(1, 1), range(2, 3));
    let mut world = World::between(ours, theirs, |_| Trust::Pin(pin("123456")));
    world.host.open_pairing(world.now, pin("123456"), MINUTE);
    let why = world.run().unwrap_err();
    assert_eq!(why, HandshakeError::Version { ours, theirs });
    assert_eq!(
        why.to_string(),
        "the host uses protocol versions 2 to 3, and this program uses version 1: update the older program"
    );
}

#[test]
fn no_answer_is_reported_after_ten_seconds() {
    let mut world = World::pairing("123456");
    world.impairments.loss = 100;
    let start = world.now;
    assert_eq!(
        world.run(),
        Err(HandshakeError::TimedOut {
            after: HANDSHAKE_TIMEOUT
        })
    );
    assert_eq!(world.now, start + HANDSHAKE_TIMEOUT);
    assert!(
        (20..=24).contains(&world.seen.len()),
        "{} sends",
        world.seen.len()
    );
    assert_eq!(world.client.next_timeout(), None);
    assert_eq!(world.client.poll_transmit(world.now), None);
}

#[test]
fn no_flipped_bit_establishes_or_kills_the_honest_handshake() {
    let lengths = [
        (Kind::Hello, size_of::<Hello>()),
        (Kind::Challenge, size_of::<Challenge>()),
        (Kind::Begin, size_of::<Begin>()),
        (Kind::Answer, size_of::<Answer>()),
        (Kind::Finish, size_of::<Finish>()),
        (Kind::Confirm, size_of::<Confirm>()),
    ];
    for make in [|| World::pairing("123456"), World::reconnection] {
        let flip = |kind, bits: std::ops::Range<usize>| {
            let mut world = make();
            world.flips = Some((kind, bits.clone()));
            let outcome = world.run();
            assert_eq!(outcome, Ok(()), "{kind:?}, bits {bits:?}");
            assert!(world.flips.is_none());
            world.assert_agreed();
        };
        for (kind, length) in lengths {
            // A client accepts only one Challenge and one Answer head per attempt, even if they are damaged, and must
            // then restart. Therefore, each flipped bit in them gets its own handshake.
            let alone = match kind {
                Kind::Challenge => length * 8,
                Kind::Answer => 12 * 8,
                _ => 0,
            };
            (0..alone).for_each(|bit| flip(kind, bit..bit + 1));
            flip(kind, alone..length * 8);
        }
    }
}

#[test]
fn replayed_messages_open_nothing() {
    let mut world = World::reconnection();
    world.run().unwrap();
    world.assert_agreed();
    let seen = world.seen.clone();
    let reply = |world: &mut World, from, datagram: &[u8]| {
        let standing = world.standing;
        world
            .host
            .handle_datagram(world.now, from, datagram, &|_| standing)
    };
    // An immediate replay gets the same answers and opens no second session. A replay from another path gets no answer.
    for ((_, ask), (_, answer)) in seen.iter().zip(&seen[1..]).skip(2).step_by(2) {
        let again = reply(&mut world, CLIENT, ask);
        assert_eq!(again.reply.as_ref(), Some(answer));
        assert!(again.established.is_none());
        let elsewhere = reply(&mut world, OTHER, ask);
        assert!(elsewhere.reply.is_none() && elsewhere.established.is_none());
    }
    // After the handshake has expired, a replayed Begin may open a new handshake, but a replayed Finish matches none.
    world.now = world.now + HALF_OPEN_TIMEOUT;
    for (to, datagram) in &seen {
        let again = reply(&mut world, CLIENT, datagram);
        assert!(again.established.is_none());
        assert!(*to == To::Host || again.reply.is_none());
    }
    // The client ignores a second Confirm.
    let confirm = &seen[5].1;
    assert!(
        world
            .client
            .handle_datagram(world.now, confirm)
            .unwrap()
            .is_none()
    );
}

#[test]
fn spoofed_hellos_and_cookies_store_nothing() {
    let mut world = World::pairing("123456");
    for n in 0..10_000_u64 {
        let mut from = PathId([0; PathId::LEN]);
        from.0[..8].copy_from_slice(&n.to_le_bytes());
        let mut nonce = [0; 16];
        nonce[..8].copy_from_slice(&world.draw().to_le_bytes());
        let hello = Hello::new(Versions::OURS, nonce);
        let reaction = world
            .host
            .handle_datagram(world.now, from, hello.as_bytes(), &no_device);
        let challenge = reaction.reply.unwrap();
        assert!(challenge.len() < size_of::<Hello>());
        let opening = super::layout::Opening::Reconnection(ClientId([7; 16]));
        let begin = Begin::new(Versions::OURS, nonce, [9; COOKIE], &opening, [1; 48]);
        let asked = std::cell::Cell::new(false);
        let reaction = world
            .host
            .handle_datagram(world.now, from, begin.as_bytes(), &|_| {
                asked.set(true);
                DeviceStatus::Unknown
            });
        assert!(reaction.reply.is_none() && !asked.get());
    }
    assert_eq!(world.host.half_open(), 0);
}

#[test]
fn half_open_handshakes_are_bounded_and_expire() {
    let mut world = World::pairing("123456");
    let mut last = None;
    for n in 0..MAX_HALF_OPEN + 10 {
        let mut from = OTHER;
        from.0[0] = u8::try_from(n).unwrap();
        // The handshakes arrive at the host's rate limit.
        world.now =
            world.now + Duration::from_secs(1) / u32::try_from(PAIRINGS_PER_SECOND).unwrap();
        last = Some((
            from,
            up_to_finish(&mut world.host, world.now, from, "123456"),
        ));
        assert_eq!(world.host.half_open(), (n + 1).min(MAX_HALF_OPEN));
    }
    let due = world.now + HALF_OPEN_TIMEOUT;
    assert!(world.host.next_timeout().unwrap() < due);
    // The newest handshake is still open.
    let (from, (mut client, finish)) = last.unwrap();
    let reaction = world
        .host
        .handle_datagram(world.now, from, &finish, &no_device);
    assert!(reaction.established.is_some());
    let confirmed = client.handle_datagram(world.now, &reaction.reply.unwrap());
    assert!(confirmed.unwrap().is_some());
    world.host.handle_timeout(due);
    assert_eq!(world.host.half_open(), 0);
    assert_eq!(world.host.next_timeout(), None);
}

/// Creates a client at `from` and returns its valid Begin.
fn up_to_begin(host: &mut HostHandshake, now: Instant, from: PathId) -> Vec<u8> {
    let identity = Identity::generate().unwrap();
    let trust = Trust::Pin(pin("000000"));
    let mut client = ClientHandshake::new(now, &identity, DeviceName::default(), trust).unwrap();
    let hello = client.poll_transmit(now).unwrap();
    let challenge = host.handle_datagram(now, from, &hello, &no_device).reply;
    client.handle_datagram(now, &challenge.unwrap()).unwrap();
    client.poll_transmit(now).unwrap()
}

#[test]
fn one_address_has_a_limit_and_evicts_no_other() {
    let mut world = World::pairing("123456");
    let (mut client, finish) = up_to_finish(&mut world.host, world.now, CLIENT, "123456");
    let mut worked = 0;
    for n in 0..160_u64 {
        let now = world.now + Duration::from_millis(25 * n);
        // Different ports count as one address.
        let mut from = OTHER;
        from.0[16] = u8::try_from(n).unwrap();
        let begin = up_to_begin(&mut world.host, now, from);
        let reply = world.host.handle_datagram(now, from, &begin, &no_device);
        worked += usize::from(reply.reply.is_some());
    }
    assert_eq!(worked, 4 * PAIRINGS_PER_NETWORK);
    // The earlier client can still finish its handshake.
    world.now = world.now + Duration::from_secs(4);
    let reaction = world
        .host
        .handle_datagram(world.now, CLIENT, &finish, &no_device);
    assert!(reaction.established.is_some());
    let confirmed = client.handle_datagram(world.now, &reaction.reply.unwrap());
    assert!(confirmed.unwrap().is_some());
}

/// A few addresses fill the table at the rate limit. Further handshakes of these addresses evict only handshakes of the
/// same addresses.
#[test]
fn the_owner_with_most_handshakes_is_evicted() {
    let mut world = World::pairing("123456");
    let (_, finish) = up_to_finish(&mut world.host, world.now, CLIENT, "123456");
    for n in 0..18_u8 {
        world.now = world.now + Duration::from_millis(250);
        for address in 10..14 {
            let mut from = OTHER;
            (from.0[0], from.0[16]) = (address, n);
            let begin = up_to_begin(&mut world.host, world.now, from);
            world
                .host
                .handle_datagram(world.now, from, &begin, &no_device);
        }
    }
    assert_eq!(world.host.half_open(), MAX_HALF_OPEN);
    let reaction = world
        .host
        .handle_datagram(world.now, CLIENT, &finish, &no_device);
    assert!(reaction.established.is_some());
}

#[test]
fn failed_work_counts_too() {
    let mut world = World::pairing("123456");
    let begin = up_to_begin(&mut world.host, world.now, OTHER);
    let mut ask = |from, begin: &[u8]| {
        let reaction = (world.host).handle_datagram(world.now, from, begin, &no_device);
        reaction.reply.is_some()
    };
    for n in 1..=PAIRINGS_PER_NETWORK {
        let mut damaged = begin.clone();
        damaged[110] ^= u8::try_from(n).unwrap();
        assert!(!ask(OTHER, &damaged));
    }
    assert!(!ask(OTHER, &begin), "its budget is used up");
    world.now = world.now + Duration::from_secs(1);
    let reaction = (world.host).handle_datagram(world.now, OTHER, &begin, &no_device);
    assert!(reaction.reply.is_some());
}

#[test]
fn many_addresses_share_a_budget() {
    let mut world = World::pairing("123456");
    let mut worked = 0;
    for n in 0..100_u32 {
        let now = world.now + Duration::from_millis(9 * u64::from(n));
        let mut from = OTHER;
        from.0[..4].copy_from_slice(&n.to_le_bytes());
        let begin = up_to_begin(&mut world.host, now, from);
        let reply = world.host.handle_datagram(now, from, &begin, &no_device);
        worked += usize::from(reply.reply.is_some());
    }
    assert_eq!(worked, PAIRINGS_PER_SECOND);
    // Later, the budget is available again.
    world.now = world.now + Duration::from_secs(2);
    world.run().unwrap();
    world.assert_agreed();
}

#[test]
fn an_evicted_client_restarts_its_handshake() {
    let mut world = World::reconnection();
    let now = world.now;
    let standing = world.standing;
    for _ in 0..2 {
        let ask = world.client.poll_transmit(now).unwrap();
        let reaction = world.host.handle_datagram(now, CLIENT, &ask, &|_| standing);
        world
            .client
            .handle_datagram(now, &reaction.reply.unwrap())
            .unwrap();
    }
    world.host.handle_timeout(now + HALF_OPEN_TIMEOUT);
    world.run().unwrap();
    world.assert_agreed();
}

#[test]
fn a_forged_refusal_does_not_prevent_a_valid_answer() {
    let mut world = World::pairing("123456");
    let hello = world.client.poll_transmit(world.now).unwrap();
    let nonce = Hello::parse(&hello).unwrap().nonce;
    for reason in [
        Reason::PairingClosed,
        Reason::UnknownDevice,
        Reason::PairingFailed,
    ] {
        let forged = Refused::new(SessionId(0), Versions::OURS, nonce, reason, 0);
        assert!(
            world
                .client
                .handle_datagram(world.now, forged.as_bytes())
                .unwrap()
                .is_none()
        );
    }
    world.send(To::Host, hello);
    world.run().unwrap();
    world.assert_agreed();
}

#[test]
fn layouts_are_golden() {
    let versions = Versions { min: 1, max: 2 };
    let nonce: [u8; 16] = std::array::from_fn(|n| u8::try_from(n).unwrap());
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let nonce_hex = "000102030405060708090a0b0c0d0e0f";
    let hello = Hello::new(versions, nonce);
    assert_eq!(
        hex(hello.as_bytes()),
        format!(
            "010000000000000003000000{}{nonce_hex}{}",
            "01020000",
            "00".repeat(64)
        )
    );
    let challenge = Challenge::new(versions, nonce, [0xcc; COOKIE]);
    assert_eq!(
        hex(challenge.as_bytes()),
        format!(
            "010000000000000005000000{}{nonce_hex}{}",
            "01020000",
            "cc".repeat(20)
        )
    );
    let refused = Refused::new(SessionId(0x0a0b_0c0d), versions, nonce, Reason::Busy, 258);
    assert_eq!(
        hex(refused.as_bytes()),
        format!(
            "010000000d0c0b0a0f000000{}{nonce_hex}02010000{}",
            "01020400",
            "00".repeat(32)
        )
    );
    let confirm = Confirm::new(SessionId(1), Pattern::Reconnection);
    assert_eq!(
        hex(confirm.as_bytes()),
        format!("01000000010000000c020000{}", "00".repeat(32))
    );
    let sizes = [size_of::<Begin>(), size_of::<Answer>(), size_of::<Finish>()];
    assert_eq!(sizes, [193, 193, 173]);
}

#[test]
fn a_typed_pin_is_reported_to_the_host_once() {
    let mut world = World::pairing("123456");
    let now = world.now;
    let (mut client, finish) = up_to_finish(&mut world.host, now, OTHER, "123456");
    while let Some(due) = client.next_timeout() {
        if client.handle_timeout(due).is_err() {
            break;
        }
        if let Some(datagram) = client.poll_transmit(due) {
            assert!(datagram == finish);
        }
    }
    assert_eq!(client.next_timeout(), None);
}

#[test]
fn secrets_are_not_shown() {
    let secret = SessionSecret([0x5a; 32]);
    assert_eq!(format!("{secret:?}"), "SessionSecret(..)");
    fn is_send<T: Send>() {}
    is_send::<ClientHandshake>();
    is_send::<HostHandshake>();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn arbitrary_bytes_have_no_effect(
        kind in prop::sample::select(vec![3_u8, 5, 6, 9, 10, 12, 15, 0, 255]),
        length in prop::sample::select(vec![0_usize, 1, 11, 12, 44, 52, 68, 96, 173, 193, 1400]),
        fill in prop::collection::vec(any::<u8>(), 1400),
    ) {
        let mut datagram = fill;
        datagram[..12].copy_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0, kind, 1, 0, 0]);
        datagram.truncate(length);
        let mut world = World::pairing("123456");
        world.arrive(To::Host, &datagram).unwrap();
        world.arrive(To::Client, &datagram).unwrap();
        prop_assert_eq!(world.host.half_open(), 0);
        world.run().unwrap();
        world.assert_agreed();
    }
}
