//! An access point that relays between a server and viewers, all of which are its stations. Each packet crosses the
//! channel twice.
//!
//! The access point forwards a packet immediately. The time that a real access point takes for that is not modelled.

use std::collections::HashMap;

use super::super::Nanos;
use super::super::bss::{Event, Packet};
use super::super::setup::Direction;
use super::Offer;

/// The packets in transit between server and viewers.
#[derive(Debug, Clone)]
pub(super) struct Relay {
    /// The server's station. The stations before it are viewers. The stations after it exchange traffic only with the
    /// access point.
    server: usize,
    /// The packets as they were offered, by identifier.
    crossing: HashMap<u64, Offer>,
}

/// The next step after an event on the channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// A packet has arrived at the access point, which forwards it.
    SecondHop(Nanos, Offer),
    /// The event belongs to the whole path.
    Outcome(Event),
}

impl Relay {
    pub(super) fn new(server: usize) -> Relay {
        Relay {
            server,
            crossing: HashMap::new(),
        }
    }

    /// The packet's first hop, to the access point.
    pub(super) fn first_hop(&mut self, offer: Offer) -> Offer {
        if offer.station > self.server {
            return offer;
        }
        self.crossing.insert(offer.id, offer);
        let station = match offer.direction {
            Direction::Down => self.server,
            Direction::Up => offer.station,
        };
        Offer {
            direction: Direction::Up,
            station,
            ..offer
        }
    }

    /// Removes a packet that was dropped or has arrived.
    pub(super) fn forget(&mut self, id: u64) {
        self.crossing.remove(&id);
    }

    pub(super) fn follow(&mut self, event: Event) -> Step {
        let (at, packet, is_delivered) = match event {
            Event::Delivered { at, packet } => (at, packet, true),
            Event::GivenUp { at, packet } => (at, packet, false),
            Event::Sent(_) | Event::Collided { .. } => return Step::Outcome(event),
        };
        let Some(offer) = self.crossing.get(&packet.id).copied() else {
            return Step::Outcome(event);
        };
        if is_delivered && packet.direction == Direction::Up {
            let station = match offer.direction {
                Direction::Down => offer.station,
                Direction::Up => self.server,
            };
            let second = Offer {
                direction: Direction::Down,
                station,
                ..offer
            };
            return Step::SecondHop(at, second);
        }
        self.forget(packet.id);
        let packet = Packet {
            direction: offer.direction,
            station: offer.station,
            ..packet
        };
        Step::Outcome(match is_delivered {
            true => Event::Delivered { at, packet },
            false => Event::GivenUp { at, packet },
        })
    }
}
