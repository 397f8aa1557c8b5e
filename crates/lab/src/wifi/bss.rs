//! One access point and its stations on one channel: who sends what when.
//!
//! Every node has a queue for each access category, and the access point has one for each station
//! in each. A queue with packets counts its backoff down while the channel is idle; whoever is first
//! sends, two within a slot collide. What a sender sends is fixed when its turn begins, and so is
//! what comes of it: the events of a transmission are known from then on, with their times.
//!
//! Time goes on by [`Bss::advance`] and [`Bss::offer`], and must not go back between them.

mod exchange;
mod sharing;

use std::collections::VecDeque;

use super::air::AirState;
use super::rate::RateControl;
use super::reorder::Reorder;
use super::setup::{Access, Category, Setup, Way};
use super::{Impossible, Nanos, Timing};
use crate::random::Random;

/// A network at work.
#[derive(Debug, Clone)]
pub struct Bss {
    setup: Setup,
    timing: Timing,
    seed: u64,
    /// In the order in which they first had something to send.
    senders: Vec<Sender>,
    /// By station.
    peers: Vec<Peer>,
    /// Packets that wait at the access point and at each station.
    waiting: Vec<usize>,
    /// The channel is idle from then on.
    idle_from: Nanos,
    /// When the next transmission begins if nothing comes before: of this idle time.
    next: Option<Nanos>,
    events: VecDeque<Event>,
}

/// What happened on the channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A packet is through.
    Delivered {
        /// When.
        at: Nanos,
        /// Which.
        packet: Packet,
    },
    /// A packet was sent too often, and given up.
    GivenUp {
        /// When.
        at: Nanos,
        /// Which.
        packet: Packet,
    },
    /// A transmission has ended, with its acknowledgement.
    Sent(Sent),
    /// Two or more began within a slot.
    Collided {
        /// When the channel is idle again.
        at: Nanos,
        /// How long it was busy.
        lasted: Nanos,
    },
}

/// A packet on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// What its sender calls it.
    pub id: u64,
    /// When it came to the queue.
    pub queued: Nanos,
    /// From or to which station.
    pub station: usize,
    /// Which way.
    pub way: Way,
}

/// A transmission: from RTS to acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// When its acknowledgement ended.
    pub at: Nanos,
    /// How long the channel was busy for it.
    pub lasted: Nanos,
    /// The pause before it.
    pub aifs: Nanos,
    /// Which way.
    pub way: Way,
    /// Stations that it went to.
    pub stations: u16,
    /// MPDUs in it.
    pub attempted: u32,
    /// Those that came through.
    pub delivered: u32,
    /// The rate, of the first of several stations.
    pub mcs: u8,
}

/// The queues of one node in one category, and its backoff.
#[derive(Debug, Clone)]
struct Sender {
    /// 0: the access point; else the station before this number.
    node: usize,
    category: Category,
    access: Access,
    aifs: Nanos,
    random: Random,
    /// Of the access point: by station; of a station: one.
    queues: Vec<Queue>,
    /// Packets in all of them.
    backlog: usize,
    /// When the first packet came to the empty queues.
    ready: Nanos,
    /// Slots to wait, from the end of the pause after `idle_from` on.
    backoff: u32,
    /// The idle time for which it was drawn: it begins then.
    drawn_for: Nanos,
    contention_window: u32,
    /// Transmissions that failed as a whole since one succeeded.
    failures: u8,
    /// The station that comes next.
    turn: usize,
}

/// What waits for one station, or at one, and what its receiver holds.
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

/// The air and the rate between the access point and a station, by direction.
#[derive(Debug, Clone)]
struct Peer {
    air: AirState,
    down: RateControl,
    up: RateControl,
}

impl Bss {
    /// A network in which nothing has happened yet: idle since time 0.
    ///
    /// # Errors
    /// If no such network can be.
    pub fn new(setup: Setup, seed: u64) -> Result<Bss, Impossible> {
        let timing = setup.timing()?;
        let highest = setup.radio.mcs;
        let peers = (0_u64..).zip(&setup.stations).map(|(number, station)| {
            let control = |way| RateControl::new(station.rate, highest, seed, number << 1 | way);
            Peer {
                air: AirState::new(station.air.clone(), seed, number),
                down: control(0),
                up: control(1),
            }
        });
        Ok(Bss {
            peers: peers.collect(),
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

    /// How long things take in it.
    #[must_use]
    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// Packets that wait at the access point; those that are being sent do not count.
    #[must_use]
    pub fn waiting_at_access_point(&self) -> usize {
        self.waiting[0]
    }

    /// Gives a packet to its queue at `now`; whether there was room.
    pub fn offer(
        &mut self,
        now: Nanos,
        (way, station): (Way, usize),
        category: Category,
        id: u64,
        bytes: u32,
    ) -> bool {
        // What begins at `now` may take it along.
        while let Some(start) = self.next_start().filter(|start| *start < now) {
            self.transmit(start);
        }
        let (node, queue, room) = match way {
            Way::Down => (0, station, self.setup.access_point_buffer),
            Way::Up => (station + 1, 0, self.setup.station_buffer),
        };
        if self.waiting[node] >= room {
            return false;
        }
        self.waiting[node] += 1;
        let index = self.sender(node, category);
        let (idle_from, sender) = (self.idle_from, &mut self.senders[index]);
        if sender.backlog == 0 {
            sender.ready = now;
            // It has counted down already, and the channel is taken: it has to count anew.
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

    /// Lets everything happen that begins at `now` or before.
    pub fn advance(&mut self, now: Nanos) {
        while let Some(start) = self.next_start().filter(|start| *start <= now) {
            self.transmit(start);
        }
    }

    /// The next event that has happened by `now`. Does not let anything happen.
    pub fn poll(&mut self, now: Nanos) -> Option<Event> {
        let event = self.events.front().filter(|event| event.at() <= now)?;
        let event = *event;
        self.events.pop_front();
        Some(event)
    }

    /// When the next event happens or the next transmission begins.
    #[must_use]
    pub fn next_timeout(&mut self) -> Option<Nanos> {
        let event = self.events.front().map(Event::at);
        let start = self.next_start();
        event.into_iter().chain(start).min()
    }

    /// When the next transmission begins if nothing comes before.
    pub(super) fn next_start(&mut self) -> Option<Nanos> {
        if self.next.is_none() {
            let (idle_from, slot) = (self.idle_from, self.timing.slot);
            let starts = self.senders.iter();
            self.next = starts.filter_map(|s| s.start(idle_from, slot)).min();
        }
        self.next
    }

    /// The queues of a node in a category.
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
            // Idle for long.
            backoff: 0,
            drawn_for: 0,
            contention_window: access.cw_min,
            failures: 0,
            turn: 0,
        });
        self.senders.len() - 1
    }

    /// Keeps events in the order of their times. All that are there already are earlier.
    fn tell(&mut self, mut events: Vec<Event>) {
        events.sort_by_key(Event::at);
        self.events.extend(events);
    }
}

impl Event {
    /// When it happened.
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
    /// When it would begin to send.
    fn start(&self, idle_from: Nanos, slot: Nanos) -> Option<Nanos> {
        let counted = idle_from + self.aifs + Nanos::from(self.backoff) * slot;
        // At once, if it has counted down before anything came.
        (self.backlog > 0).then(|| counted.max(self.ready))
    }

    /// A new backoff, for the idle time that begins then.
    fn draw(&mut self, idle_from: Nanos) {
        let slots = self.random.below(self.contention_window as usize + 1);
        self.backoff = u32::try_from(slots).unwrap_or(u32::MAX);
        self.drawn_for = idle_from;
    }

    /// Counts the slots down that were idle until another began at `start`.
    fn count_down(&mut self, idle_from: Nanos, start: Nanos, slot: Nanos) {
        let passed = start.saturating_sub(idle_from + self.aifs) / slot;
        let passed = u32::try_from(passed).unwrap_or(u32::MAX);
        self.backoff = self.backoff.saturating_sub(passed);
    }

    fn grow_window(&mut self) {
        self.contention_window = (self.contention_window * 2 + 1).min(self.access.cw_max);
    }

    /// Backoff as after a success.
    fn succeed(&mut self) {
        self.contention_window = self.access.cw_min;
        self.failures = 0;
    }

    /// The station whose turn it is among those with packets.
    fn next_queue(&self) -> usize {
        let count = self.queues.len();
        (0..count)
            .map(|n| (self.turn + n) % count)
            .find(|index| !self.queues[*index].mpdus.is_empty())
            .unwrap_or(0)
    }
}
