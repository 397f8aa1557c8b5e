//! A handshake between a client and a host, over a network that loses, repeats, delays, alters and forges datagrams. No
//! client is accepted without the PIN or an allowed key. Client and host agree on the session, or there is no session.

use std::collections::VecDeque;
use std::time::Duration;

use openuvr_proto::control::handshake::{
    ClientHandshake, ClientId, DeviceName, DeviceStatus, Established, HostHandshake, Identity,
    MAX_TRIES, Paired, PairingEvent, Pin, Trust,
};
use openuvr_proto::id::PathId;
use openuvr_proto::time::Instant;

use crate::Draw;

/// Maximum number of datagrams in flight in one direction; further datagrams are lost.
const WAITING: usize = 16;

struct World {
    now: Instant,
    host: HostHandshake,
    client: ClientHandshake,
    standing: DeviceStatus,
    /// Datagrams that the client has sent and that are not yet delivered to the host. `down` is the opposite direction.
    up: VecDeque<Vec<u8>>,
    down: VecDeque<Vec<u8>>,
    at_host: Vec<(Established, Paired)>,
    at_client: Vec<Established>,
    events: u32,
}

/// The first byte determines the keys and PINs that client and host have. The other bytes determine the steps.
pub fn handshake(bytes: &[u8]) {
    let mut draw = Draw(bytes);
    let pin = |text: &str| Pin::parse(text).expect("digits");
    let host = Identity::from_bytes([7; 32]);
    let client = Identity::from_bytes([9; 32]);
    let other_identity = Identity::from_bytes([11; 32]);
    let choice = draw.u8();
    let trust = match choice % 4 {
        0 => Trust::Pin(pin("123456")),
        1 => Trust::Pin(pin("000000")),
        2 => Trust::Known(host.public()),
        _ => Trust::Known(other_identity.public()),
    };
    let standing = match choice / 4 % 4 {
        0 => DeviceStatus::Unknown,
        1 => DeviceStatus::Allowed(client.public()),
        2 => DeviceStatus::Forbidden(client.public()),
        _ => DeviceStatus::Allowed(other_identity.public()),
    };
    let may_pair = choice % 4 == 0 && !matches!(standing, DeviceStatus::Forbidden(_));
    let may_return = standing == DeviceStatus::Allowed(client.public()) && choice % 4 == 2;
    let now = Instant(1_000_000_000);
    let made = ClientHandshake::new(now, &client, DeviceName::new("fuzz"), trust);
    let mut world = World {
        now,
        host: HostHandshake::new(&host).expect("randomness"),
        client: made.expect("randomness"),
        standing,
        up: VecDeque::new(),
        down: VecDeque::new(),
        at_host: Vec::new(),
        at_client: Vec::new(),
        events: 0,
    };
    let window = Duration::from_secs(30);
    world.host.open_pairing(now, pin("123456"), window);
    while !draw.is_empty() {
        world.step(&mut draw);
    }
    assert!(
        world.events <= MAX_TRIES + 1,
        "there were more events than are possible"
    );
    for (established, paired) in &world.at_host {
        assert!(established.peer == client.public());
        let allowed = match paired {
            Paired::New { .. } => may_pair,
            Paired::Known => may_return,
            // This host accepts no tickets.
            Paired::Ticket { .. } => false,
        };
        assert!(allowed, "{paired:?} with {choice}");
    }
    for established in &world.at_client {
        assert!(established.peer == host.public());
        let mut twins = world.at_host.iter().map(|(twin, _)| twin);
        let same = |twin: &Established| {
            twin.session == established.session && twin.secret == established.secret
        };
        assert!(twins.any(same), "the host does not know this session");
    }
    assert!(world.at_client.len() <= 1);
}

impl World {
    fn step(&mut self, draw: &mut Draw) {
        match draw.u8() % 12 {
            0..=3 => {
                while let Some(datagram) = self.client.poll_transmit(self.now) {
                    keep(&mut self.up, datagram);
                }
                if let Some(datagram) = self.up.pop_front() {
                    self.to_host(PathId([1; PathId::LEN]), &datagram);
                }
            }
            4..=6 => {
                if let Some(datagram) = self.down.pop_front() {
                    self.to_client(&datagram);
                }
            }
            7 => {
                self.now = self.now + Duration::from_millis(u64::from(draw.u16() % 2048));
                self.host.handle_timeout(self.now);
                // Success and failure are both valid.
                let _ = self.client.handle_timeout(self.now);
            }
            8 => {
                let (queue, at, bit) = (draw.u8(), draw.u16(), draw.u8());
                let queue = if queue % 2 == 0 {
                    &mut self.up
                } else {
                    &mut self.down
                };
                if let Some(datagram) = queue.front_mut() {
                    let at = usize::from(at) % datagram.len().max(1);
                    if let Some(byte) = datagram.get_mut(at) {
                        *byte ^= 1 << (bit % 8);
                    }
                }
            }
            9 => {
                // Repeat a datagram, possibly from a different path.
                let from = PathId([1 + draw.u8() % 3; PathId::LEN]);
                if let Some(datagram) = self.up.front().cloned() {
                    self.to_host(from, &datagram);
                }
                if let Some(datagram) = self.down.front().cloned() {
                    self.to_client(&datagram);
                }
            }
            _ => {
                // Forge a datagram with a valid header and arbitrary bytes.
                let mut datagram =
                    vec![1, 0, 0, 0, 0, 0, 0, 0, draw.u8() % 18, draw.u8() % 3, 0, 0];
                let longest = usize::from(draw.u8());
                datagram.extend_from_slice(draw.take(longest));
                datagram.resize(datagram.len().max(usize::from(draw.u16() % 256)), 0);
                match draw.u8() % 2 {
                    0 => self.to_host(PathId([2; PathId::LEN]), &datagram),
                    _ => self.to_client(&datagram),
                }
            }
        }
    }

    fn to_host(&mut self, from: PathId, datagram: &[u8]) {
        let standing = self.standing;
        let of = |_: &ClientId| standing;
        let reaction = self.host.handle_datagram(self.now, from, datagram, &of);
        if let Some(reply) = reaction.reply {
            assert!(
                reply.len() <= datagram.len(),
                "a response is longer than its request"
            );
            keep(&mut self.down, reply);
        }
        if let Some((path, established, paired)) = reaction.established {
            assert!(path == from);
            self.at_host.push((established, paired));
        }
        while let Some(event) = self.host.poll_event() {
            let of_window = matches!(event, PairingEvent::Expired | PairingEvent::TooManyWrong);
            assert!(of_window || self.events <= MAX_TRIES);
            self.events += 1;
        }
    }

    fn to_client(&mut self, datagram: &[u8]) {
        if let Ok(Some(established)) = self.client.handle_datagram(self.now, datagram) {
            self.at_client.push(established);
        }
    }
}

fn keep(queue: &mut VecDeque<Vec<u8>>, datagram: Vec<u8>) {
    if queue.len() < WAITING {
        queue.push_back(datagram);
    }
}
