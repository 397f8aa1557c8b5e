//! A model of one direction of a link: delay, jitter, loss, reordering, duplication, and a
//! bottleneck with a bounded queue.
//!
//! The model has no clock: the caller passes `now` and datagrams. A datagram arrives later, or is lost. The same seed
//! and the same calls give the same result on every machine. Each impairment has its own random sequence, from which
//! each datagram takes the same number of values, so that enabling one impairment does not affect another. With one
//! seed, for example, 1 % loss drops the same datagrams with and without jitter.
//!
//! The bottleneck's queue is a tail-drop queue, or has another discipline of [`aqm`](crate::aqm), which may also mark
//! datagrams.
//!
//! The model opens no socket. It counts the bytes of the datagrams passed to it, without the headers of lower layers.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use openuvr_proto::time::Instant;
use openuvr_proto::units::Bitrate;

use crate::aqm::{Discipline, Ecn, Packet};
use crate::bottleneck::Bottleneck;
pub use crate::impairment::{BurstLoss, Impairment, Queue};
use crate::random::Random;
use crate::schedule::ImpairmentSchedule;

/// Counters of datagrams until now. `sent + duplicated` is `delivered + lost + overflowed` plus the number of datagrams
/// in flight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams passed to the model.
    pub sent: u64,
    /// Bytes of the datagrams passed to the model.
    pub sent_bytes: u64,
    /// Delivered.
    pub delivered: u64,
    /// Lost, independently or in a burst.
    pub lost: u64,
    /// Dropped by the queue's discipline, or because the bottleneck's queue or the model's buffer was full.
    pub overflowed: u64,
    /// Marked with Congestion Experienced by the queue's discipline.
    pub marked: u64,
    /// Additional copies.
    pub duplicated: u64,
    /// Delayed for reordering.
    pub reordered: u64,
}

impl std::ops::AddAssign for Counters {
    fn add_assign(&mut self, other: Counters) {
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.delivered += other.delivered;
        self.lost += other.lost;
        self.overflowed += other.overflowed;
        self.marked += other.marked;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
    }
}

impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} sent, {} delivered, {} lost, {} overflowed, {} duplicated, {} reordered",
            self.sent, self.delivered, self.lost, self.overflowed, self.duplicated, self.reordered
        )?;
        match self.marked {
            0 => Ok(()),
            marked => write!(f, ", {marked} marked"),
        }
    }
}

/// One direction of a link, with an impairment that may change over time.
#[derive(Debug)]
pub struct LinkModel {
    schedule: ImpairmentSchedule,
    /// Start of the schedule.
    begin: Instant,
    draws: Draws,
    in_burst: bool,
    /// When the bottleneck becomes idle.
    busy_until: Instant,
    /// Arrival time of the last datagram that was not reordered. Later datagrams that are not reordered arrive at this
    /// time or later.
    last_arrival: Instant,
    /// The datagrams in flight, ordered by arrival, then by sending.
    in_flight: BTreeMap<(Instant, u64), Packet<Vec<u8>>>,
    bytes_in_flight: usize,
    next_order: u64,
    counters: Counters,
    /// The bottleneck of a link whose queue has a discipline other than tail drop.
    bottleneck: Option<Bottleneck<Passenger>>,
}

/// A datagram in the bottleneck, with the decisions that were made when it was sent.
#[derive(Debug)]
struct Passenger {
    bytes: Vec<u8>,
    fate: Fate,
}

/// Limit of the bytes in flight. It bounds the memory of a link with a long delay and an unlimited rate: 16 MiB are 1.3
/// s at 100 Mb/s.
pub const MAX_IN_FLIGHT: usize = 16 << 20;

impl LinkModel {
    /// An empty link with a constant impairment.
    #[must_use]
    pub fn new(impairment: Impairment, seed: u64) -> LinkModel {
        LinkModel::on_course(impairment.into(), Instant(0), seed)
    }

    /// An empty link with a schedule that starts at `begin`.
    #[must_use]
    pub fn on_course(schedule: ImpairmentSchedule, begin: Instant, seed: u64) -> LinkModel {
        LinkModel {
            schedule,
            begin,
            draws: Draws::new(seed),
            in_burst: false,
            busy_until: Instant(i64::MIN),
            last_arrival: Instant(i64::MIN),
            in_flight: BTreeMap::new(),
            bytes_in_flight: 0,
            next_order: 0,
            counters: Counters::default(),
            bottleneck: None,
        }
    }

    /// Gives the bottleneck's queue this discipline. With a discipline other than tail drop, the queue keeps the limit
    /// of the schedule's first step. A limit as a time becomes the bytes that the step's rate carries in this time.
    /// Call this method before the first datagram.
    pub fn set_discipline(&mut self, discipline: Discipline, seed: u64) {
        let first = self.schedule.segment_at(Duration::ZERO).impairment;
        self.bottleneck = (discipline != Discipline::TailDrop)
            .then(|| Bottleneck::new(discipline, first.queue_bytes(), seed));
    }

    /// Puts a datagram without ECN onto the link at `now`, which must not decrease between calls.
    pub fn send(&mut self, now: Instant, bytes: Vec<u8>) {
        let packet = Packet {
            flow: 0,
            len: bytes.len(),
            ecn: Ecn::NotEct,
            content: bytes,
        };
        self.send_packet(now, packet);
    }

    /// Puts a packet onto the link at `now`, which must not decrease between calls.
    pub fn send_packet(&mut self, now: Instant, packet: Packet<Vec<u8>>) {
        self.counters.sent += 1;
        self.counters.sent_bytes += packet.len as u64;
        let fate = self.draw_fate(now);
        if let Some(bottleneck) = &mut self.bottleneck {
            let packet = packet.map(|bytes| Passenger { bytes, fate });
            let (schedule, begin) = (&self.schedule, self.begin);
            bottleneck.send(now, packet, |from, len| {
                sent_out(schedule, begin, from, bits(len))
            });
            self.leave(now);
            return;
        }
        match self.pass_bottleneck(now, packet.len) {
            Some(sent_out) => self.propagate(sent_out, packet, fate),
            None => self.counters.overflowed += 1,
        }
    }

    /// Passes on the packets that have left the bottleneck by `now`.
    fn leave(&mut self, now: Instant) {
        while let Some(bottleneck) = &mut self.bottleneck {
            let (schedule, begin) = (&self.schedule, self.begin);
            let left = bottleneck.poll(now, |from, len| sent_out(schedule, begin, from, bits(len)));
            let Some((sent_out, packet)) = left else {
                return;
            };
            let (flow, len, ecn) = (packet.flow, packet.len, packet.ecn);
            let Passenger { bytes, fate } = packet.content;
            let packet = Packet {
                flow,
                len,
                ecn,
                content: bytes,
            };
            self.propagate(sent_out, packet, fate);
        }
    }

    /// Delays or loses a packet that has left the bottleneck.
    fn propagate(&mut self, sent_out: Instant, packet: Packet<Vec<u8>>, fate: Fate) {
        if fate.lost {
            self.counters.lost += 1;
            return;
        }
        let mut arrival = sent_out + fate.delay + fate.jitter;
        arrival = arrival.max(self.last_arrival);
        if fate.held {
            self.counters.reordered += 1;
            arrival = arrival + fate.reorder_by;
        } else {
            self.last_arrival = arrival;
        }
        if fate.twice {
            self.counters.duplicated += 1;
            self.enter(arrival, packet.clone());
        }
        self.enter(arrival, packet);
    }

    /// The next datagram that has arrived by `now`.
    pub fn poll(&mut self, now: Instant) -> Option<Vec<u8>> {
        self.poll_arrival(now).map(|(_, bytes)| bytes)
    }

    /// The next datagram that has arrived by `now`, with its arrival time.
    pub fn poll_arrival(&mut self, now: Instant) -> Option<(Instant, Vec<u8>)> {
        let (arrived, packet) = self.poll_packet(now)?;
        Some((arrived, packet.content))
    }

    /// The next packet that has arrived by `now`, with its arrival time.
    pub fn poll_packet(&mut self, now: Instant) -> Option<(Instant, Packet<Vec<u8>>)> {
        self.leave(now);
        let first = self.in_flight.first_entry()?;
        let arrived = first.key().0;
        if arrived > now {
            return None;
        }
        let packet = first.remove();
        self.bytes_in_flight -= packet.content.len();
        self.counters.delivered += 1;
        Some((arrived, packet))
    }

    /// The time at which to call [`LinkModel::poll`] next: the arrival of the next datagram. With a discipline other
    /// than tail drop, it may be the earlier time at which a datagram leaves the bottleneck.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        let leaves = self.bottleneck.as_ref().and_then(Bottleneck::next_timeout);
        let arrives = self.in_flight.first_key_value().map(|(key, _)| key.0);
        leaves.into_iter().chain(arrives).min()
    }

    /// The counters until now.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let actions = self.bottleneck.as_ref().map(Bottleneck::actions);
        let actions = actions.unwrap_or_default();
        Counters {
            overflowed: self.counters.overflowed + actions.dropped + actions.overflowed,
            marked: actions.marked,
            ..self.counters
        }
    }

    fn draw_fate(&mut self, now: Instant) -> Fate {
        let want = self.schedule.segment_at(now.since(self.begin)).impairment;
        let draws = &mut self.draws;
        let alone = draws.loss.chance(want.loss);
        let (turn, hit) = (draws.burst.unit(), draws.burst.unit());
        let in_burst = want.burst.is_some_and(|burst| {
            let change = if self.in_burst {
                burst.leave
            } else {
                burst.enter
            };
            self.in_burst ^= turn < change;
            self.in_burst && hit < burst.loss
        });
        Fate {
            lost: alone || in_burst,
            delay: want.delay,
            jitter: want.jitter.mul_f64(draws.jitter.unit()),
            reorder_by: want.reorder_by,
            held: draws.reorder.chance(want.reorder),
            twice: draws.duplicate.chance(want.duplicate),
        }
    }

    /// When the last bit of a datagram leaves the bottleneck; `None` if its queue is full.
    fn pass_bottleneck(&mut self, now: Instant, len: usize) -> Option<Instant> {
        let wait = self.busy_until.since(now);
        let is_full = match self
            .schedule
            .segment_at(now.since(self.begin))
            .impairment
            .queue
        {
            Queue::Bytes(most) => self.bits_until_idle(now) + bits(len) > bits(most),
            Queue::Time(longest) => wait > longest,
        };
        if !wait.is_zero() && is_full {
            return None;
        }
        let from = now.max(self.busy_until);
        self.busy_until = sent_out(&self.schedule, self.begin, from, bits(len));
        Some(self.busy_until)
    }

    /// Bits that the bottleneck has still to send at `now`.
    fn bits_until_idle(&self, now: Instant) -> u128 {
        let (mut at, mut bits) = (now, 0);
        while at < self.busy_until {
            let here = self.schedule.segment_at(at.since(self.begin));
            let change = here.until.map(|until| self.begin + until);
            let to = change.map_or(self.busy_until, |change| change.min(self.busy_until));
            bits += here
                .impairment
                .rate
                .map_or(0, |Bitrate(rate)| sent(to.since(at), rate));
            at = to;
        }
        bits
    }

    fn enter(&mut self, arrival: Instant, packet: Packet<Vec<u8>>) {
        let len = packet.content.len();
        if self.bytes_in_flight + len > MAX_IN_FLIGHT {
            self.counters.overflowed += 1;
            return;
        }
        self.bytes_in_flight += len;
        self.in_flight.insert((arrival, self.next_order), packet);
        self.next_order += 1;
    }
}

const SECOND_NS: u128 = 1_000_000_000;

fn bits(bytes: usize) -> u128 {
    u128::try_from(bytes).unwrap_or(u128::MAX).saturating_mul(8)
}

/// The time at which `bits` have been sent, if their sending starts at `from`. The schedule of the rates starts at
/// `begin`.
fn sent_out(schedule: &ImpairmentSchedule, begin: Instant, from: Instant, bits: u128) -> Instant {
    let (mut at, mut left) = (from, bits);
    loop {
        let here = schedule.segment_at(at.since(begin));
        let Some(Bitrate(rate @ 1..)) = here.impairment.rate else {
            return at;
        };
        let nanos = left.saturating_mul(SECOND_NS) / u128::from(rate);
        let takes = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        match here.until.map(|until| begin + until) {
            Some(change) if at + takes > change => {
                left = left.saturating_sub(sent(change.since(at), rate));
                at = change;
            }
            _ => return at + takes,
        }
    }
}

/// The number of bits sent at `rate` during `time`.
fn sent(time: Duration, rate: u64) -> u128 {
    time.as_nanos() * u128::from(rate) / SECOND_NS
}

/// Decisions about one datagram, made when it is sent.
#[derive(Debug, Clone, Copy)]
struct Fate {
    lost: bool,
    delay: Duration,
    jitter: Duration,
    held: bool,
    reorder_by: Duration,
    twice: bool,
}

/// One random sequence per impairment.
#[derive(Debug)]
struct Draws {
    loss: Random,
    burst: Random,
    jitter: Random,
    reorder: Random,
    duplicate: Random,
}

impl Draws {
    fn new(seed: u64) -> Draws {
        Draws {
            loss: Random::new(seed, 1),
            burst: Random::new(seed, 2),
            jitter: Random::new(seed, 3),
            reorder: Random::new(seed, 4),
            duplicate: Random::new(seed, 5),
        }
    }
}

#[cfg(test)]
mod tests;
