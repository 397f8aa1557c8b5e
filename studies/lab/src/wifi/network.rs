//! The access point's network with its server: at the access point, behind a wired link (a FIFO
//! queue), or at a station.

mod relay;

use std::collections::VecDeque;

use super::bss::{Bss, Event};
use super::setup::{Category, Direction, Setup};
use super::{Impossible, Nanos, SECOND};
use relay::{Relay, Step};

/// Place of the server, which sends the video and takes the controllers' packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    /// At the access point.
    AccessPoint,
    /// At the end of a wired link to it, with this rate in bits per second.
    Wired(u64),
    /// At a station of its own, the one after the viewers: the access point relays.
    Station,
}

/// A network with its server.
#[derive(Debug, Clone)]
pub struct Network {
    bss: Bss,
    /// For a server at a station.
    relay: Option<Relay>,
    /// Events of relayed packets and of their transmissions, until polled.
    relayed: VecDeque<Event>,
    /// Rate of the wired link in bits per second; `None`: no delay.
    wire: Option<u64>,
    /// When the wired link becomes idle.
    wire_free: Nanos,
    /// Packets on the wired link, with their arrival times at the access point.
    on_wire: VecDeque<(Nanos, Offer)>,
    /// Packets dropped at a full queue, with the time.
    refused: VecDeque<(Nanos, u64)>,
    account: Account,
}

/// A packet for the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// Its direction.
    pub direction: Direction,
    /// Its station.
    pub station: usize,
    /// Its access category.
    pub category: Category,
    /// Its identifier in events.
    pub id: u64,
    /// Its length from the IP header on.
    pub bytes: u32,
}

/// An output of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// An event on the channel.
    Air(Event),
    /// A packet was dropped at a full queue.
    Refused {
        /// Time.
        at: Nanos,
        /// The packet.
        id: u64,
    },
}

/// Counters of packets: `offered = refused + delivered + given_up` + those in transit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Account {
    /// Offered to the network.
    pub offered: u64,
    /// Dropped at a full queue.
    pub refused: u64,
    /// Delivered, as far as polled.
    pub delivered: u64,
    /// Dropped at the retry limit.
    pub given_up: u64,
    /// Packets to the access point's queues; `found` sums the queue lengths at their arrivals.
    pub came: u64,
    /// See `came`.
    pub found: u64,
    /// Packets that found a non-empty queue.
    pub found_some: u64,
}

impl Network {
    /// A new network. The first stations are `viewers`.
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
            Server::Wired(0) => return Err(Impossible("wire=0: at least 1 bit/s".into())),
            Server::Wired(rate) => (Some(rate), None),
            Server::AccessPoint => (None, None),
            Server::Station if viewers < setup.stations.len() => (None, Some(Relay::new(viewers))),
            Server::Station => {
                return Err(Impossible("the server has no station".into()));
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

    /// Sends a packet from the server or a station at `now`, which must not decrease between calls.
    pub fn send(&mut self, now: Nanos, offer: Offer) {
        self.account.offered += 1;
        let offer = match &mut self.relay {
            None => offer,
            Some(relay) => {
                let first = relay.first_hop(offer);
                // Packets on their second hop come first.
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

    /// The next outcome until `now`.
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

    /// When to call [`Network::poll`] next.
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

    /// Delivers packets from the wired link to the access point until `now`.
    fn arrive_until(&mut self, now: Nanos) {
        while let Some((at, offer)) = self.on_wire.front().copied().filter(|(at, _)| *at <= now) {
            self.on_wire.pop_front();
            self.arrive(at, offer);
        }
    }

    /// Carries packets over both hops until `until`.
    fn relay_until(&mut self, until: Nanos) {
        // One step at a time: a packet's second hop begins at the end of its first.
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
            // Earlier transmissions come first.
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
