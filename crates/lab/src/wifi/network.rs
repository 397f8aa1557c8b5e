//! The access point's network with the wire from the server to it: a queue that sends one packet
//! after the other.

use std::collections::VecDeque;

use super::bss::{Bss, Event};
use super::setup::{Category, Setup, Way};
use super::{Impossible, Nanos, SECOND};

/// A network behind a wire.
#[derive(Debug, Clone)]
pub struct Network {
    bss: Bss,
    /// Bits a second of the wire; `None`: packets are at the access point at once.
    wire: Option<u64>,
    /// When the wire has sent what it has.
    wire_free: Nanos,
    /// Packets that have not reached the access point yet, by the time when they do.
    on_wire: VecDeque<(Nanos, Offer)>,
    /// Those that found their queue full, with the time.
    refused: VecDeque<(Nanos, u64)>,
    account: Account,
}

/// A packet for the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// Which way.
    pub way: Way,
    /// To or from which station.
    pub station: usize,
    /// How urgent it is.
    pub category: Category,
    /// What events call it.
    pub id: u64,
    /// The packet from its IP header on.
    pub bytes: u32,
}

/// What comes out of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// From the channel.
    Air(Event),
    /// A packet found its queue full.
    Refused {
        /// When.
        at: Nanos,
        /// Which.
        id: u64,
    },
}

/// What became of packets: `offered = refused + delivered + given_up` + those under way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Account {
    /// Given to the network.
    pub offered: u64,
    /// Lost because their queue was full.
    pub refused: u64,
    /// Through, as far as it was asked for.
    pub delivered: u64,
    /// Sent too often.
    pub given_up: u64,
    /// Packets that came to the access point, and how many they found waiting in all.
    pub came: u64,
    /// See `came`.
    pub found: u64,
    /// Those that found any.
    pub found_some: u64,
}

impl Network {
    /// A network in which nothing has happened yet.
    ///
    /// # Errors
    /// If no such network can be.
    pub fn new(setup: Setup, wire: Option<u64>, seed: u64) -> Result<Network, Impossible> {
        if wire == Some(0) {
            return Err(Impossible("wire=0: it carries at least 1 bit/s".into()));
        }
        Ok(Network {
            bss: Bss::new(setup, seed)?,
            wire,
            wire_free: 0,
            on_wire: VecDeque::new(),
            refused: VecDeque::new(),
            account: Account::default(),
        })
    }

    /// A packet leaves the server or a station at `now`, which must not go back between calls.
    pub fn send(&mut self, now: Nanos, offer: Offer) {
        self.account.offered += 1;
        let wire = self.wire.filter(|_| offer.way == Way::Down);
        let Some(rate) = wire else {
            self.arrive_until(now);
            return self.arrive(now, offer);
        };
        let lasts = (u64::from(offer.bytes) * 8 * SECOND).div_ceil(rate);
        self.wire_free = self.wire_free.max(now) + lasts;
        self.on_wire.push_back((self.wire_free, offer));
    }

    /// The next outcome that is there by `now`.
    pub fn poll(&mut self, now: Nanos) -> Option<Outcome> {
        self.arrive_until(now);
        self.bss.advance(now);
        let first = self.refused.front().copied();
        if let Some((at, id)) = first.filter(|(at, _)| *at <= now) {
            self.refused.pop_front();
            return Some(Outcome::Refused { at, id });
        }
        let event = self.bss.poll(now)?;
        match event {
            Event::Delivered { .. } => self.account.delivered += 1,
            Event::GivenUp { .. } => self.account.given_up += 1,
            Event::Sent(_) | Event::Collided { .. } => {}
        }
        Some(Outcome::Air(event))
    }

    /// When [`Network::poll`] is worth calling again.
    pub fn next_timeout(&mut self) -> Option<Nanos> {
        let wire = self.on_wire.front().map(|(at, _)| *at);
        let refused = self.refused.front().map(|(at, _)| *at);
        let air = self.bss.next_timeout();
        [wire, refused, air].into_iter().flatten().min()
    }

    /// What became of packets until now.
    #[must_use]
    pub fn account(&self) -> Account {
        self.account
    }

    /// Packets that left the wire by `now` come to the access point.
    fn arrive_until(&mut self, now: Nanos) {
        while let Some((at, offer)) = self.on_wire.front().copied().filter(|(at, _)| *at <= now) {
            self.on_wire.pop_front();
            self.arrive(at, offer);
        }
    }

    fn arrive(&mut self, at: Nanos, offer: Offer) {
        let Offer {
            way,
            station,
            category,
            id,
            bytes,
        } = offer;
        if way == Way::Down {
            // What begins before comes first.
            if let Some(before) = at.checked_sub(1) {
                self.bss.advance(before);
            }
            let found = self.bss.waiting_at_access_point() as u64;
            self.account.came += 1;
            self.account.found += found;
            self.account.found_some += u64::from(found > 0);
        }
        if !self.bss.offer(at, (way, station), category, id, bytes) {
            self.account.refused += 1;
            self.refused.push_back((at, id));
        }
    }
}
