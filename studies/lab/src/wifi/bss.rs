//! Medium access of one access point and its stations on one channel (a BSS).
//!
//! Each station has one queue for each access category. The access point has one queue for each station in each
//! category. A sender with packets counts its backoff down while the channel is idle. The first sender to finish
//! transmits. If two finish within a slot, they collide. The contents and the results of a transmission are determined
//! when it starts, so all its events are known from then on, with their times.
//!
//! [`Bss::advance`] and [`Bss::offer`] advance the time, which must not decrease between calls.

mod exchange;
mod sharing;

use std::collections::VecDeque;

use openuvr_proto::time::Instant;
use openuvr_sim::aqm::PieControl;
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
    /// The senders, in the order of their first packets.
    senders: Vec<Sender>,
    /// By station.
    peers: Vec<Peer>,
    /// Number of packets queued at the access point and at each station.
    waiting: Vec<usize>,
    /// Time from which the channel is idle.
    idle_from: Nanos,
    /// Cached start of the next transmission, if it is known.
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
    /// A transmission and its acknowledgement have ended.
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
    /// Time of arrival at the queue.
    pub queued: Nanos,
    /// The packet's station.
    pub station: usize,
    /// The packet's direction.
    pub direction: Direction,
}

/// A transmission, from the RTS to the acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// Time at which the acknowledgement ends.
    pub at: Nanos,
    /// Airtime.
    pub lasted: Nanos,
    /// AIFS before the transmission.
    pub aifs: Nanos,
    /// The transmission's direction.
    pub direction: Direction,
    /// Number of receiving stations.
    pub stations: u16,
    /// MPDUs in it.
    pub attempted: u32,
    /// MPDUs delivered.
    pub delivered: u32,
    /// The MCS. If there are several stations, the MCS for the first of them.
    pub mcs: u8,
}

/// The queues of one node in one category, and its backoff.
#[derive(Debug, Clone)]
struct Sender {
    /// 0 is the access point; n is station n - 1.
    node: usize,
    category: Category,
    access: Access,
    aifs: Nanos,
    random: Random,
    /// The access point has one queue for each station. A station has one queue.
    queues: Vec<Queue>,
    /// Number of packets in all these queues.
    backlog: usize,
    /// Last time at which a packet arrived while all these queues were empty.
    ready: Nanos,
    /// Number of remaining backoff slots. They begin one AIFS after `idle_from`.
    backoff: u32,
    /// The `idle_from` for which the backoff was drawn.
    drawn_for: Nanos,
    contention_window: u32,
    /// Number of failed transmissions since the last success.
    failures: u8,
    /// The queue that is next in round-robin order.
    turn: usize,
}

/// The access point's queue for a station, or a station's own queue. Includes the receiver's reorder buffer.
#[derive(Debug, Clone, Default)]
struct Queue {
    mpdus: VecDeque<Mpdu>,
    next_number: u64,
    reorder: Reorder,
    /// The queue management; `None` before the first packet, and if the setup has none.
    pie: Option<PieControl>,
}

#[derive(Debug, Clone, Copy)]
struct Mpdu {
    id: u64,
    number: u64,
    queued: Nanos,
    bytes: u32,
    retries: u8,
}

/// The channel between the access point and a station, and the rate control in each direction.
#[derive(Debug, Clone)]
struct Peer {
    /// Durations of the PPDUs to and from the station.
    timing: Timing,
    air: AirState,
    down: RateControl,
    up: RateControl,
}

impl Bss {
    /// Creates a network that is idle since time 0.
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

    /// Durations of the network's frames.
    #[must_use]
    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// Number of packets queued at the access point, without those in transmission.
    #[must_use]
    pub fn waiting_at_access_point(&self) -> usize {
        self.waiting[0]
    }

    /// Offers a packet to its queue at `now`. Returns whether the queue accepted it.
    pub fn offer(
        &mut self,
        now: Nanos,
        (direction, station): (Direction, usize),
        category: Category,
        id: u64,
        bytes: u32,
    ) -> bool {
        // Perform only transmissions that start before `now`, because one that starts at `now` may include the packet.
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
        let index = self.sender(node, category);
        if node == 0 && self.setup.access_point_pie && self.drops_early(now, index, queue) {
            return false;
        }
        self.waiting[node] += 1;
        let (idle_from, sender) = (self.idle_from, &mut self.senders[index]);
        if sender.backlog == 0 {
            sender.ready = now;
            // The sender's backoff has expired, but the channel is busy, so the sender draws a new backoff.
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

    /// Whether the queue management drops a packet that arrives at a queue of a sender. Packets are not ECN-capable.
    fn drops_early(&mut self, now: Nanos, index: usize, queue: usize) -> bool {
        let seed = self.seed ^ (index as u64) << 32 ^ queue as u64;
        let queue = &mut self.senders[index].queues[queue];
        let instant = |at: Nanos| Instant(i64::try_from(at).unwrap_or(i64::MAX));
        let oldest = queue.mpdus.front().map(|mpdu| instant(mpdu.queued));
        let bytes: usize = queue.mpdus.iter().map(|mpdu| mpdu.bytes as usize).sum();
        let pie = queue.pie.get_or_insert_with(|| PieControl::new(seed));
        pie.update(instant(now), oldest);
        pie.signals(bytes)
    }

    /// Performs all transmissions that start by `now`.
    pub fn advance(&mut self, now: Nanos) {
        while let Some(start) = self.next_start().filter(|start| *start <= now) {
            self.transmit(start);
        }
    }

    /// Returns the next event if it occurs by `now`. Does not advance the time.
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

    /// Start of the next transmission if no further packet arrives before.
    pub(super) fn next_start(&mut self) -> Option<Nanos> {
        if self.next.is_none() {
            let (idle_from, slot) = (self.idle_from, self.timing.slot);
            let starts = self.senders.iter();
            self.next = starts.filter_map(|s| s.start(idle_from, slot)).min();
        }
        self.next
    }

    /// The index of the sender of a node in a category.
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
            // The sender has been idle for a long time.
            backoff: 0,
            drawn_for: 0,
            contention_window: access.cw_min,
            failures: 0,
            turn: 0,
        });
        self.senders.len() - 1
    }

    /// Sorts the events by time and appends them. All existing events are earlier.
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
    /// The time at which this sender would start to transmit, or `None` if it has no packets.
    fn start(&self, idle_from: Nanos, slot: Nanos) -> Option<Nanos> {
        let counted = idle_from + self.aifs + Nanos::from(self.backoff) * slot;
        // A packet is sent on arrival if the backoff had already expired.
        (self.backlog > 0).then(|| counted.max(self.ready))
    }

    /// Draws a new backoff for the idle time that starts at `idle_from`.
    fn draw(&mut self, idle_from: Nanos) {
        let slots = self.random.below(self.contention_window as usize + 1);
        self.backoff = u32::try_from(slots).unwrap_or(u32::MAX);
        self.drawn_for = idle_from;
    }

    /// Counts down the slots that were idle before another transmission started at `start`.
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

    /// The next queue with packets, in round-robin order.
    fn next_queue(&self) -> usize {
        let count = self.queues.len();
        (0..count)
            .map(|n| (self.turn + n) % count)
            .find(|index| !self.queues[*index].mpdus.is_empty())
            .unwrap_or(0)
    }
}
