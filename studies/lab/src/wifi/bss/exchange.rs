//! One frame exchange on the channel: access, transmission, and result.

use super::super::reorder::{Held, Reorder};
use super::super::setup::{Delivery, DeliveryTime, Direction};
use super::super::{Nanos, Timing};
use super::{Bss, Event, Mpdu, Packet, Queue, Sender, Sent};

/// A PPDU's contents for one station: the first packets of a queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct PpduLoad {
    pub(super) queue: usize,
    pub(super) count: usize,
    /// Including MPDU overhead.
    pub(super) bits: u64,
    /// Without overhead.
    pub(super) bytes: u64,
    pub(super) mcs: u8,
}

/// Timing of a PPDU.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    /// Start of the PPDU's first bit.
    pub(super) begin: Nanos,
    /// End of the PPDU's acknowledgement.
    pub(super) end: Nanos,
}

impl Bss {
    /// Performs the exchange that starts at `start`.
    pub(super) fn transmit(&mut self, start: Nanos) {
        let (idle_from, slot) = (self.idle_from, self.timing.slot);
        let mut first = Vec::new();
        for (index, sender) in self.senders.iter_mut().enumerate() {
            let begins = sender.start(idle_from, slot);
            match begins.filter(|begins| *begins < start + slot) {
                Some(begins) => {
                    sender.backoff = 0;
                    first.push((index, begins));
                }
                None => sender.count_down(idle_from, start, slot),
            }
        }
        self.next = None;
        // Within a node, the sender of the most urgent category wins. The others behave as after a collision (internal
        // collision).
        let senders = &self.senders;
        let is_beaten = |index: usize| {
            let one = &senders[index];
            let beats = |other: &Sender| other.node == one.node && other.category < one.category;
            first.iter().any(|(other, _)| beats(&senders[*other]))
        };
        let (beaten, first): (Vec<_>, Vec<_>) =
            first.iter().partition(|(index, _)| is_beaten(*index));
        match first[..] {
            [(alone, _)] => self.send(alone, start),
            _ => self.collide(&first, start),
        }
        for (index, _) in beaten {
            self.fail(index, true);
        }
    }

    /// Performs the transmission of a single sender.
    fn send(&mut self, index: usize, start: Nanos) {
        if self.setup.ofdma && self.senders[index].node == 0 {
            let shared = self.share(index, start);
            if shared.len() > 1 {
                return self.send_shared(index, start, &shared);
            }
        }
        let load = self.load(index, start);
        let timing = &self.timing;
        let is_announced = self.is_announced(load.bytes);
        let begin = start
            + if is_announced {
                timing.reservation()
            } else {
                0
            };
        let data = self.timing_of(index, load.queue).ppdu(load.bits, load.mcs);
        let end = begin + data + timing.sifs + timing.acknowledgement(load.count);
        let mut events = Vec::with_capacity(load.count + 1);
        let span = Span { begin, end };
        let delivered = self.deliver(index, load, span, 0, &mut events);
        let sender = &mut self.senders[index];
        sender.turn = (load.queue + 1) % sender.queues.len();
        events.push(Event::Sent(Sent {
            at: end,
            lasted: end - start,
            aifs: sender.aifs,
            direction: sender.direction(),
            stations: 1,
            attempted: u32::try_from(load.count).unwrap_or(u32::MAX),
            delivered,
            mcs: load.mcs,
        }));
        self.end_turn(index, delivered, end, events);
    }

    /// Ends an exchange with one station or with several.
    pub(super) fn end_turn(
        &mut self,
        index: usize,
        delivered: u32,
        end: Nanos,
        events: Vec<Event>,
    ) {
        self.push_events(events);
        self.idle_from = end;
        let backs_off = self.setup.backs_off_when_all_lost;
        let sender = &mut self.senders[index];
        if delivered == 0 && backs_off {
            sender.grow_window();
        } else {
            sender.succeed();
        }
        sender.draw(end);
    }

    /// Whether RTS/CTS precedes a PPDU with this many bytes.
    fn is_announced(&self, bytes: u64) -> bool {
        let above = self.setup.rts_above;
        above.is_some_and(|above| bytes > u64::from(above))
    }

    /// The contents of a sender's next PPDU.
    fn load(&mut self, index: usize, start: Nanos) -> PpduLoad {
        let sender = &self.senders[index];
        let (queue, direction) = (sender.next_queue(), sender.direction());
        let station = sender.station(queue);
        let peer = &mut self.peers[station];
        let signal = peer.air.signal(start);
        let rates = match direction {
            Direction::Down => &mut peer.down,
            Direction::Up => &mut peer.up,
        };
        let mcs = rates.choose(start, signal, &peer.timing);
        let rate = peer.timing.bits_per_symbol[usize::from(mcs)];
        let room = self.room(index);
        self.fill(index, queue, mcs, rate, room)
    }

    /// Durations of a sender's PPDUs from this queue.
    fn timing_of(&self, index: usize, queue: usize) -> &Timing {
        &self.peers[self.senders[index].station(queue)].timing
    }

    /// Maximum duration of a sender's PPDU.
    pub(super) fn room(&self, index: usize) -> Nanos {
        let timing = &self.timing;
        let around = timing.reservation() + timing.sifs + timing.block_ack;
        let txop = self.senders[index].access.txop;
        let left = txop.map_or(Nanos::MAX, |txop| txop.saturating_sub(around));
        left.min(timing.longest_ppdu)
    }

    /// Takes as many packets of a queue as fit into `room` at `rate` bits per symbol, but at least one.
    pub(super) fn fill(
        &self,
        index: usize,
        queue: usize,
        mcs: u8,
        rate: u64,
        room: Nanos,
    ) -> PpduLoad {
        let Timing {
            preamble,
            symbol,
            around_bits,
            ..
        } = *self.timing_of(index, queue);
        let most = room.saturating_sub(preamble) / symbol * rate;
        let mut load = PpduLoad {
            queue,
            count: 0,
            bits: 0,
            bytes: 0,
            mcs,
        };
        let mpdus = &self.senders[index].queues[queue].mpdus;
        let window = mpdus.front().map_or(0, |mpdu| mpdu.number) + u64::from(self.setup.max_ampdu);
        for mpdu in mpdus.iter().take(self.setup.max_ampdu as usize) {
            let bits = load.bits + self.timing.mpdu(mpdu.bytes);
            let is_too_much = around_bits + bits > most || mpdu.number >= window;
            if load.count > 0 && is_too_much {
                break;
            }
            load.bits = bits;
            load.bytes += u64::from(mpdu.bytes);
            load.count += 1;
        }
        load
    }

    /// Determines the fates of a load's packets, and returns the number of delivered packets. For a part of the channel
    /// (resource unit), `rate` is its bits per symbol. For the whole channel, it is 0.
    pub(super) fn deliver(
        &mut self,
        index: usize,
        load: PpduLoad,
        span: Span,
        rate: u64,
        events: &mut Vec<Event>,
    ) -> u32 {
        let setup = &self.setup;
        let sender = &mut self.senders[index];
        let (direction, station) = (sender.direction(), sender.station(load.queue));
        let peer = &mut self.peers[station];
        let timing = &peer.timing;
        let signal = peer.air.signal(span.begin);
        let rate = match rate {
            0 => timing.bits_per_symbol[usize::from(load.mcs)],
            part => part,
        };
        let Queue { mpdus, reorder, .. } = &mut sender.queues[load.queue];
        let mut receiver = Receiver {
            station,
            direction,
            delivery: setup.delivery,
            reorder,
            events,
        };
        let (mut bits, mut delivered, mut kept) = (timing.around_bits, 0, Vec::new());
        for mut mpdu in mpdus.drain(..load.count) {
            bits += timing.mpdu(mpdu.bytes);
            let own_end = span.begin + timing.preamble + (bits * timing.symbol).div_ceil(rate);
            if peer.air.loses(own_end, signal, load.mcs, mpdu.bytes) {
                mpdu.retries += 1;
                if mpdu.retries <= setup.retry_limit {
                    kept.push(mpdu);
                    continue;
                }
                receiver.gives_up(mpdu, span.end);
                continue;
            }
            delivered += 1;
            let at = match setup.moment {
                DeliveryTime::Acknowledged => span.end,
                DeliveryTime::OwnEnd => own_end,
            };
            receiver.takes(mpdu, at);
        }
        let gone = load.count - kept.len();
        for mpdu in kept.into_iter().rev() {
            mpdus.push_front(mpdu);
        }
        sender.backlog -= gone;
        self.waiting[sender.node] -= gone;
        let rates = match direction {
            Direction::Down => &mut peer.down,
            Direction::Up => &mut peer.up,
        };
        let attempted = u32::try_from(load.count).unwrap_or(u32::MAX);
        rates.learn(load.mcs, attempted, delivered);
        delivered
    }

    /// Performs a collision. `colliding` are the senders that start within one slot, with their start times.
    fn collide(&mut self, colliding: &[(usize, Nanos)], start: Nanos) {
        let mut end = start;
        let mut unannounced = Vec::new();
        for &(index, begin) in colliding {
            let load = self.load(index, start);
            let timing = &self.timing;
            let lasts = if self.is_announced(load.bytes) {
                timing.rts + timing.sifs + timing.cts
            } else {
                unannounced.push((index, load));
                let data = self.timing_of(index, load.queue);
                data.ppdu(load.bits, load.mcs) + timing.sifs + timing.block_ack
            };
            end = end.max(begin + lasts);
        }
        self.push_events(vec![Event::Collided {
            at: end,
            lasted: end - start,
        }]);
        self.idle_from = end;
        for &(index, load) in &unannounced {
            self.lose_all(index, load, end);
        }
        for &(index, _) in colliding {
            let has_counted = unannounced.iter().any(|(other, _)| *other == index);
            self.fail(index, !has_counted);
        }
    }

    /// Counts a retry for each packet of a load that was sent without RTS and collided. Drops the packets that exceed
    /// the retry limit.
    fn lose_all(&mut self, index: usize, load: PpduLoad, end: Nanos) {
        let limit = self.setup.retry_limit;
        let mut given_up = Vec::new();
        let queue = &mut self.senders[index].queues[load.queue];
        for mpdu in queue.mpdus.iter_mut().take(load.count) {
            mpdu.retries += 1;
        }
        while let Some(place) =
            (queue.mpdus.iter().take(load.count)).position(|mpdu| mpdu.retries > limit)
        {
            given_up.extend(queue.mpdus.remove(place).map(|mpdu| (load.queue, mpdu)));
        }
        for (queue, mpdu) in given_up {
            self.give_up(index, queue, mpdu, end);
        }
    }

    /// Handles a failed exchange of a sender: increases its contention window, or resets it at the retry limit. At the
    /// limit, it also drops the next packet if `drops` is set. `drops` is not set if the packets were sent without RTS,
    /// because each of these packets has its own count of retries.
    fn fail(&mut self, index: usize, drops: bool) {
        let (limit, end) = (self.setup.retry_limit, self.idle_from);
        let sender = &mut self.senders[index];
        sender.failures += 1;
        sender.grow_window();
        if sender.failures > limit {
            sender.succeed();
            let queue = sender.next_queue();
            if drops && let Some(mpdu) = sender.queues[queue].mpdus.pop_front() {
                self.give_up(index, queue, mpdu, end);
            }
        }
        self.senders[index].draw(end);
    }

    /// Drops a packet that has been removed from its queue.
    fn give_up(&mut self, index: usize, queue: usize, mpdu: Mpdu, at: Nanos) {
        let sender = &mut self.senders[index];
        sender.backlog -= 1;
        self.waiting[sender.node] -= 1;
        let (direction, station) = (sender.direction(), sender.station(queue));
        let mut events = Vec::new();
        let mut receiver = Receiver {
            station,
            direction,
            delivery: self.setup.delivery,
            reorder: &mut sender.queues[queue].reorder,
            events: &mut events,
        };
        receiver.gives_up(mpdu, at);
        self.push_events(events);
    }
}

/// The receiver of a queue's packets, and the resulting events.
struct Receiver<'a> {
    station: usize,
    direction: Direction,
    delivery: Delivery,
    reorder: &'a mut Reorder,
    events: &'a mut Vec<Event>,
}

impl Receiver<'_> {
    /// A packet arrived.
    fn takes(&mut self, mpdu: Mpdu, at: Nanos) {
        let held = Held {
            id: mpdu.id,
            queued: mpdu.queued,
        };
        match self.delivery {
            Delivery::PerMpdu => {
                let packet = packet(self.station, self.direction, held);
                self.events.push(Event::Delivered { at, packet });
            }
            Delivery::InOrder => self.settle(mpdu.number, Some(held), at),
        }
    }

    /// A packet was dropped.
    fn gives_up(&mut self, mpdu: Mpdu, at: Nanos) {
        let held = Held {
            id: mpdu.id,
            queued: mpdu.queued,
        };
        let packet = packet(self.station, self.direction, held);
        self.events.push(Event::GivenUp { at, packet });
        if self.delivery == Delivery::InOrder {
            self.settle(mpdu.number, None, at);
        }
    }

    fn settle(&mut self, number: u64, held: Option<Held>, at: Nanos) {
        let (station, direction, events) = (self.station, self.direction, &mut *self.events);
        self.reorder.settle(number, held, at, |held, at| {
            let packet = packet(station, direction, held);
            events.push(Event::Delivered { at, packet });
        });
    }
}

fn packet(station: usize, direction: Direction, held: Held) -> Packet {
    Packet {
        id: held.id,
        queued: held.queued,
        station,
        direction,
    }
}

impl Sender {
    pub(super) fn direction(&self) -> Direction {
        match self.node {
            0 => Direction::Down,
            _ => Direction::Up,
        }
    }

    /// The station to which a queue of this sender belongs.
    pub(super) fn station(&self, queue: usize) -> usize {
        match self.node {
            0 => queue,
            node => node - 1,
        }
    }
}
