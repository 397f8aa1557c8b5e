//! The access point's network with a server. The server is in one of three places: at the access point, at the end of a
//! wired link to it (a FIFO queue), or at a station.

mod relay;

use std::collections::VecDeque;

use super::bss::{Bss, Event};
use super::setup::{Category, Direction, Setup};
use super::{Impossible, Nanos, SECOND};
use relay::{Relay, Step};

/// The location of the server. The server sends the video and receives the controllers' packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    /// At the access point.
    AccessPoint,
    /// At the end of a wired link to the access point, with this rate in bits per second.
    Wired(u64),
    /// At the first station after the viewers. The access point relays the packets between the server and the viewers.
    Station,
}

/// A network with its server.
#[derive(Debug, Clone)]
pub struct Network {
    bss: Bss,
    /// The relay at the access point, if the server is at a station.
    relay: Option<Relay>,
    /// Unpolled events, both of relayed packets and of their transmissions.
    relayed: VecDeque<Event>,
    /// Rate of the wired link in bits per second. `None` means that there is no delay.
    wire: Option<u64>,
    /// Time from which the wired link is idle.
    wire_free: Nanos,
    /// Packets on the wired link, with their arrival times at the access point.
    on_wire: VecDeque<(Nanos, Offer)>,
    /// Packets that a queue did not accept, because it was full or because of its queue management: the time, and the
    /// packet's identifier.
    refused: VecDeque<(Nanos, u64)>,
    account: Account,
}

/// A packet for the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// The packet's direction.
    pub direction: Direction,
    /// The station that sends or receives the packet.
    pub station: usize,
    /// The packet's access category.
    pub category: Category,
    /// The packet's identifier in events.
    pub id: u64,
    /// The packet's length in bytes, including the IP header.
    pub bytes: u32,
}

/// An output of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// An event on the channel.
    Air(Event),
    /// A queue did not accept a packet, because the queue was full or because of its queue management.
    Refused {
        /// Time.
        at: Nanos,
        /// The packet.
        id: u64,
    },
}

/// Counters of packets. `offered` is the sum of `refused`, `delivered`, `given_up` and the packets in transit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Account {
    /// Packets offered to the network.
    pub offered: u64,
    /// Packets that a queue did not accept, because it was full or because of its queue management.
    pub refused: u64,
    /// Packets whose delivery has been polled.
    pub delivered: u64,
    /// Packets dropped at the retry limit.
    pub given_up: u64,
    /// Packets that arrived at the access point's queues. `found` is the number of packets that were queued at the
    /// access point at such an arrival, summed over these arrivals.
    pub came: u64,
    /// See `came`.
    pub found: u64,
    /// Number of these arrivals at which at least one packet was queued at the access point.
    pub found_some: u64,
}

impl Network {
    /// Creates a network. The first `viewers` stations are the viewers.
    ///
    /// # Errors
    /// Returns an error if the setup is impossible.
    pub fn new(
        setup: Setup,
        server: Server,
        viewers: usize,
        seed: u64,
    ) -> Result<Network, Impossible> {
        let (wire, relay) = match server {
            Server::Wired(0) => return Err(Impossible("wire=0: must be at least 1 bit/s".into())),
            Server::Wired(rate) => (Some(rate), None),
            Server::AccessPoint => (None, None),
            Server::Station if viewers < setup.stations.len() => (None, Some(Relay::new(viewers))),
            Server::Station => {
                return Err(Impossible(
                    "the server is a station, but the viewers use all stations".into(),
                ));
            }
        };
        Ok(Network {
            bss: Bss::new(setup, seed)?,
            relay,
            relayed: VecDeque::new(),
            wire,
            wire_free: 0,
            on_wire: VecDeque::new(),
            refused: VecDeque::new(),
            account: Account::default(),
        })
    }

    /// Sends a packet from the server or a station at the time `now`. The time must not decrease between calls.
    pub fn send(&mut self, now: Nanos, offer: Offer) {
        self.account.offered += 1;
        let offer = match &mut self.relay {
            None => offer,
            Some(relay) => {
                let first = relay.first_hop(offer);
                // Packets that begin their second hop before `now` come first.
                if let Some(before) = now.checked_sub(1) {
                    self.relay_until(before);
                }
                first
            }
        };
        let wire = self.wire.filter(|_| offer.direction == Direction::Down);
        let Some(rate) = wire else {
            self.arrive_until(now);
            return self.arrive(now, offer);
        };
        let lasts = (u64::from(offer.bytes) * 8 * SECOND).div_ceil(rate);
        self.wire_free = self.wire_free.max(now) + lasts;
        self.on_wire.push_back((self.wire_free, offer));
    }

    /// Returns the next outcome if it occurs by `now`.
    pub fn poll(&mut self, now: Nanos) -> Option<Outcome> {
        self.arrive_until(now);
        match self.relay {
            None => self.bss.advance(now),
            Some(_) => self.relay_until(now),
        }
        let first = self.refused.front().copied();
        if let Some((at, id)) = first.filter(|(at, _)| *at <= now) {
            self.refused.pop_front();
            return Some(Outcome::Refused { at, id });
        }
        let event = match self.relay {
            None => self.bss.poll(now)?,
            Some(_) => self.relayed.pop_front_if(|event| event.at() <= now)?,
        };
        match event {
            Event::Delivered { .. } => self.account.delivered += 1,
            Event::GivenUp { .. } => self.account.given_up += 1,
            Event::Sent(_) | Event::Collided { .. } => {}
        }
        Some(Outcome::Air(event))
    }

    /// The time at which [`Network::poll`] must be called next.
    pub fn next_timeout(&mut self) -> Option<Nanos> {
        let wire = self.on_wire.front().map(|(at, _)| *at);
        let refused = self.refused.front().map(|(at, _)| *at);
        let relayed = self.relayed.front().map(Event::at);
        let air = self.bss.next_timeout();
        [wire, refused, relayed, air].into_iter().flatten().min()
    }

    /// The counters until now.
    #[must_use]
    pub fn account(&self) -> Account {
        self.account
    }

    /// Delivers the packets that arrive from the wired link at the access point until `now`.
    fn arrive_until(&mut self, now: Nanos) {
        while let Some((at, offer)) = self.on_wire.front().copied().filter(|(at, _)| *at <= now) {
            self.on_wire.pop_front();
            self.arrive(at, offer);
        }
    }

    /// Carries packets over both hops until `until`.
    fn relay_until(&mut self, until: Nanos) {
        // Advance event by event, because a packet's second hop begins when its first hop ends.
        while let Some(next) = self.bss.next_timeout().filter(|next| *next <= until) {
            while let Some(event) = self.bss.poll(next) {
                let step = match &mut self.relay {
                    None => Step::Outcome(event),
                    Some(relay) => relay.follow(event),
                };
                match step {
                    Step::Outcome(event) => self.relayed.push_back(event),
                    Step::SecondHop(at, offer) => self.arrive(at, offer),
                }
            }
            self.bss.advance(next);
        }
    }

    fn arrive(&mut self, at: Nanos, offer: Offer) {
        let Offer {
            direction,
            station,
            category,
            id,
            bytes,
        } = offer;
        if direction == Direction::Down {
            // Transmissions that start before this arrival come first.
            if let Some(before) = at.checked_sub(1) {
                self.bss.advance(before);
            }
            let found = self.bss.waiting_at_access_point() as u64;
            self.account.came += 1;
            self.account.found += found;
            self.account.found_some += u64::from(found > 0);
        }
        if !self
            .bss
            .offer(at, (direction, station), category, id, bytes)
        {
            if let Some(relay) = &mut self.relay {
                relay.forget(id);
            }
            self.account.refused += 1;
            self.refused.push_back((at, id));
        }
    }
}
