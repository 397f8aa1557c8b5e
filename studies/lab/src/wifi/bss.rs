//! One access point and its stations on one channel (a BSS): medium access.
//!
//! Every node has a queue for each access category, and the access point has one for each station
//! in each. A non-empty queue counts its backoff down while the channel is idle; the first to
//! finish transmits, and two within a slot collide. A transmission's contents and results are
//! determined at its start, so its events are known from then on, with their times.
//!
//! [`Bss::advance`] and [`Bss::offer`] advance the time, which must not decrease between calls.

mod exchange;
mod sharing;

use std::collections::VecDeque;

use openuvr_sim::random::Random;

use super::air::AirState;
use super::rate::RateControl;
use super::reorder::Reorder;
use super::setup::{Access, Category, Direction, Setup, Station};
use super::{Impossible, Nanos, Timing};

/// A running network.
#[derive(Debug, Clone)]
pub struct Bss {
    setup: Setup,
    timing: Timing,
    seed: u64,
    /// In the order of their first packets.
    senders: Vec<Sender>,
    /// By station.
    peers: Vec<Peer>,
    /// Packets queued at the access point and at each station.
    waiting: Vec<usize>,
    /// Start of the channel's idle time.
    idle_from: Nanos,
    /// Cached start of the next transmission in this idle time.
    next: Option<Nanos>,
    events: VecDeque<Event>,
}

/// An event on the channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A packet was delivered.
    Delivered {
        /// Time.
        at: Nanos,
        /// The packet.
        packet: Packet,
    },
    /// A packet exceeded the retry limit.
    GivenUp {
        /// Time.
        at: Nanos,
        /// The packet.
        packet: Packet,
    },
    /// A transmission has ended, with its acknowledgement.
    Sent(Sent),
    /// Two or more transmissions started within a slot.
    Collided {
        /// End of the collision.
        at: Nanos,
        /// Duration of the collision.
        lasted: Nanos,
    },
}

/// A packet in transit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// Identifier chosen by the sender.
    pub id: u64,
    /// Arrival at the queue.
    pub queued: Nanos,
    /// Its station.
    pub station: usize,
    /// Its direction.
    pub direction: Direction,
}

/// A transmission: from RTS to acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// End of its acknowledgement.
    pub at: Nanos,
    /// Airtime.
    pub lasted: Nanos,
    /// AIFS before it.
    pub aifs: Nanos,
    /// Its direction.
    pub direction: Direction,
    /// Number of receiving stations.
    pub stations: u16,
    /// MPDUs in it.
    pub attempted: u32,
    /// MPDUs delivered.
    pub delivered: u32,
    /// MCS; with several stations, that of the first.
    pub mcs: u8,
}

/// The queues of one node in one category, and its backoff.
#[derive(Debug, Clone)]
struct Sender {
    /// 0: the access point; n: station n - 1.
    node: usize,
    category: Category,
    access: Access,
    aifs: Nanos,
    random: Random,
    /// For the access point, by station; for a station, one.
    queues: Vec<Queue>,
    /// Packets in all of them.
    backlog: usize,
    /// Arrival of the first packet at the empty queues.
    ready: Nanos,
    /// Remaining backoff slots, counted from the end of AIFS after `idle_from`.
    backoff: u32,
    /// Start of the idle time for which the backoff was drawn.
    drawn_for: Nanos,
    contention_window: u32,
    /// Failed transmissions since the last success.
    failures: u8,
    /// The next station in turn.
    turn: usize,
}

/// The access point's queue for a station, or a station's own queue, and its receiver's reorder buffer.
#[derive(Debug, Clone, Default)]
struct Queue {
    mpdus: VecDeque<Mpdu>,
    next_number: u64,
    reorder: Reorder,
}

#[derive(Debug, Clone, Copy)]
struct Mpdu {
    id: u64,
    number: u64,
    queued: Nanos,
    bytes: u32,
    retries: u8,
}

/// Channel and rate control between the access point and a station, by direction.
#[derive(Debug, Clone)]
struct Peer {
    /// Durations of its PPDUs.
    timing: Timing,
    air: AirState,
    down: RateControl,
    up: RateControl,
}

impl Bss {
    /// A new network, idle since time 0.
    ///
    /// # Errors
    /// Returns an error if the setup is impossible.
    pub fn new(setup: Setup, seed: u64) -> Result<Bss, Impossible> {
        let timing = setup.timing()?;
        let highest = setup.radio.mcs;
        let peer = |(number, station): (u64, &Station)| {
            let control =
                |direction| RateControl::new(station.rate, highest, seed, number << 1 | direction);
            Ok(Peer {
                timing: setup.timing_with(station)?,
                air: AirState::new(station.air.clone(), seed, number),
                down: control(0),
                up: control(1),
            })
        };
        let peers = (0..).zip(&setup.stations).map(peer);
        Ok(Bss {
            peers: peers.collect::<Result<_, Impossible>>()?,
            senders: Vec::new(),
            waiting: vec![0; setup.stations.len() + 1],
            idle_from: 0,
            next: None,
            events: VecDeque::new(),
            timing,
            seed,
            setup,
        })
    }

    /// Durations in the network.
    #[must_use]
    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// Packets queued at the access point, without those in transmission.
    #[must_use]
    pub fn waiting_at_access_point(&self) -> usize {
        self.waiting[0]
    }

    /// Offers a packet to its queue at `now`; returns whether it was accepted.
    pub fn offer(
        &mut self,
        now: Nanos,
        (direction, station): (Direction, usize),
        category: Category,
        id: u64,
        bytes: u32,
    ) -> bool {
        // A transmission that starts at `now` may include it.
        while let Some(start) = self.next_start().filter(|start| *start < now) {
            self.transmit(start);
        }
        let (node, queue, room) = match direction {
            Direction::Down => (0, station, self.setup.access_point_buffer),
            Direction::Up => (station + 1, 0, self.setup.station_buffer),
        };
        if self.waiting[node] >= room {
            return false;
        }
        self.waiting[node] += 1;
        let index = self.sender(node, category);
        let (idle_from, sender) = (self.idle_from, &mut self.senders[index]);
        if sender.backlog == 0 {
            sender.ready = now;
            // Its backoff has expired, but the channel is busy: draw a new backoff.
            if now < idle_from && sender.backoff == 0 && sender.drawn_for != idle_from {
                sender.draw(idle_from);
            }
            self.next = None;
        }
        sender.backlog += 1;
        let queue = &mut sender.queues[queue];
        queue.mpdus.push_back(Mpdu {
            id,
            number: queue.next_number,
            queued: now,
            bytes,
            retries: 0,
        });
        queue.next_number += 1;
        true
    }

    /// Starts all transmissions due by `now`.
    pub fn advance(&mut self, now: Nanos) {
        while let Some(start) = self.next_start().filter(|start| *start <= now) {
            self.transmit(start);
        }
    }

    /// The next event until `now`, without advancing the time.
    pub fn poll(&mut self, now: Nanos) -> Option<Event> {
        let event = self.events.front().filter(|event| event.at() <= now)?;
        let event = *event;
        self.events.pop_front();
        Some(event)
    }

    /// Time of the next event or transmission.
    #[must_use]
    pub fn next_timeout(&mut self) -> Option<Nanos> {
        let event = self.events.front().map(Event::at);
        let start = self.next_start();
        event.into_iter().chain(start).min()
    }

    /// Start of the next transmission if no packet arrives before.
    pub(super) fn next_start(&mut self) -> Option<Nanos> {
        if self.next.is_none() {
            let (idle_from, slot) = (self.idle_from, self.timing.slot);
            let starts = self.senders.iter();
            self.next = starts.filter_map(|s| s.start(idle_from, slot)).min();
        }
        self.next
    }

    /// The sender of a node and category.
    fn sender(&mut self, node: usize, category: Category) -> usize {
        let is = |sender: &Sender| sender.node == node && sender.category == category;
        if let Some(index) = self.senders.iter().position(is) {
            return index;
        }
        let (accesses, queues) = match node {
            0 => (&self.setup.edca.access_point, self.setup.stations.len()),
            _ => (&self.setup.edca.station, 1),
        };
        let access = accesses[category as usize];
        let stream = 5 << 32 | (node as u64) << 2 | category as u64;
        self.senders.push(Sender {
            node,
            category,
            access,
            aifs: self.timing.aifs(access.aifsn),
            random: Random::new(self.seed, stream),
            queues: vec![Queue::default(); queues],
            backlog: 0,
            ready: 0,
            // Idle for a long time.
            backoff: 0,
            drawn_for: 0,
            contention_window: access.cw_min,
            failures: 0,
            turn: 0,
        });
        self.senders.len() - 1
    }

    /// Appends events sorted by time. All existing ones are earlier.
    fn push_events(&mut self, mut events: Vec<Event>) {
        events.sort_by_key(Event::at);
        self.events.extend(events);
    }
}

impl Event {
    /// Time of the event.
    #[must_use]
    pub fn at(&self) -> Nanos {
        match self {
            Event::Delivered { at, .. }
            | Event::GivenUp { at, .. }
            | Event::Sent(Sent { at, .. })
            | Event::Collided { at, .. } => *at,
        }
    }
}

impl Sender {
    /// When it would start to transmit.
    fn start(&self, idle_from: Nanos, slot: Nanos) -> Option<Nanos> {
        let counted = idle_from + self.aifs + Nanos::from(self.backoff) * slot;
        // At once, if its backoff had expired before the packet arrived.
        (self.backlog > 0).then(|| counted.max(self.ready))
    }

    /// Draws a new backoff for the idle time that starts at `idle_from`.
    fn draw(&mut self, idle_from: Nanos) {
        let slots = self.random.below(self.contention_window as usize + 1);
        self.backoff = u32::try_from(slots).unwrap_or(u32::MAX);
        self.drawn_for = idle_from;
    }

    /// Counts down the idle slots until another transmission started at `start`.
    fn count_down(&mut self, idle_from: Nanos, start: Nanos, slot: Nanos) {
        let passed = start.saturating_sub(idle_from + self.aifs) / slot;
        let passed = u32::try_from(passed).unwrap_or(u32::MAX);
        self.backoff = self.backoff.saturating_sub(passed);
    }

    fn grow_window(&mut self) {
        self.contention_window = (self.contention_window * 2 + 1).min(self.access.cw_max);
    }

    /// Resets the contention window after a success.
    fn succeed(&mut self) {
        self.contention_window = self.access.cw_min;
        self.failures = 0;
    }

    /// The next station with packets, in round-robin order.
    fn next_queue(&self) -> usize {
        let count = self.queues.len();
        (0..count)
            .map(|n| (self.turn + n) % count)
            .find(|index| !self.queues[*index].mpdus.is_empty())
            .unwrap_or(0)
    }
}
