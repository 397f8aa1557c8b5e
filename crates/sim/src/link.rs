//! A model of one direction of a link: delay, jitter, loss, reordering, duplication, and a
//! bottleneck with a bounded queue.
//!
//! The model is a value: the caller passes `now` and datagrams. A datagram comes out later, or is lost. The same seed
//! and the same calls give the same result on every machine. Each impairment has its own random sequence with the same
//! number of draws per datagram, so that enabling one impairment does not affect another. With one seed, for example, 1
//! % loss drops the same datagrams with and without jitter.
//!
//! The model opens no socket. It counts the bytes of the datagrams passed to it, without the headers of lower layers.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use openuvr_proto::time::Instant;
use openuvr_proto::units::Bitrate;

pub use crate::impairment::{BurstLoss, Impairment, Queue};
use crate::random::Random;
use crate::schedule::ImpairmentSchedule;

/// Counters of datagrams until now. `sent + duplicated` is `delivered + lost + overflowed` plus the number of datagrams
/// in flight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams passed to the model.
    pub sent: u64,
    /// Bytes of these datagrams.
    pub sent_bytes: u64,
    /// Delivered.
    pub delivered: u64,
    /// Lost, independently or in a burst.
    pub lost: u64,
    /// Dropped because the bottleneck's queue, or the model's buffer, was full.
    pub overflowed: u64,
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
        )
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
    in_flight: BTreeMap<(Instant, u64), Vec<u8>>,
    bytes_in_flight: usize,
    next_order: u64,
    counters: Counters,
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
        }
    }

    /// Puts a datagram onto the link at `now`, which must not decrease between calls.
    pub fn send(&mut self, now: Instant, bytes: Vec<u8>) {
        self.counters.sent += 1;
        self.counters.sent_bytes += bytes.len() as u64;
        let schedule = self.schedule.segment_at(now.since(self.begin)).impairment;
        let (delay, reorder_by) = (schedule.delay, schedule.reorder_by);
        let fate = self.draw_fate(now);
        let Some(sent_out) = self.pass_bottleneck(now, bytes.len()) else {
            self.counters.overflowed += 1;
            return;
        };
        if fate.lost {
            self.counters.lost += 1;
            return;
        }
        let mut arrival = sent_out + delay + fate.jitter;
        arrival = arrival.max(self.last_arrival);
        if fate.held {
            self.counters.reordered += 1;
            arrival = arrival + reorder_by;
        } else {
            self.last_arrival = arrival;
        }
        if fate.twice {
            self.counters.duplicated += 1;
            self.enter(arrival, bytes.clone());
        }
        self.enter(arrival, bytes);
    }

    /// The next datagram that has arrived by `now`.
    pub fn poll(&mut self, now: Instant) -> Option<Vec<u8>> {
        self.poll_arrival(now).map(|(_, bytes)| bytes)
    }

    /// The next datagram that has arrived by `now`, with its arrival time.
    pub fn poll_arrival(&mut self, now: Instant) -> Option<(Instant, Vec<u8>)> {
        let first = self.in_flight.first_entry()?;
        let arrived = first.key().0;
        if arrived > now {
            return None;
        }
        let bytes = first.remove();
        self.bytes_in_flight -= bytes.len();
        self.counters.delivered += 1;
        Some((arrived, bytes))
    }

    /// Arrival time of the next datagram, at which to call [`LinkModel::poll`].
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        self.in_flight.first_key_value().map(|(key, _)| key.0)
    }

    /// The counters until now.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
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
            jitter: want.jitter.mul_f64(draws.jitter.unit()),
            held: draws.reorder.chance(want.reorder),
            twice: draws.duplicate.chance(want.duplicate),
        }
    }

    /// When the last bit of a datagram leaves the bottleneck; `None` if its queue is full.
    fn pass_bottleneck(&mut self, now: Instant, len: usize) -> Option<Instant> {
        let bits = |bytes: usize| u128::try_from(bytes).unwrap_or(u128::MAX).saturating_mul(8);
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
        self.busy_until = self.sent_out(now.max(self.busy_until), bits(len));
        Some(self.busy_until)
    }

    /// When `bits` have been sent, at the rates of the schedule. Their sending starts at `from`.
    fn sent_out(&self, from: Instant, bits: u128) -> Instant {
        let (mut at, mut left) = (from, bits);
        loop {
            let here = self.schedule.segment_at(at.since(self.begin));
            let Some(Bitrate(rate @ 1..)) = here.impairment.rate else {
                return at;
            };
            let nanos = left.saturating_mul(SECOND_NS) / u128::from(rate);
            let takes = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
            match here.until.map(|until| self.begin + until) {
                Some(change) if at + takes > change => {
                    left = left.saturating_sub(sent(change.since(at), rate));
                    at = change;
                }
                _ => return at + takes,
            }
        }
    }

    /// Bits in the bottleneck's queue at `now`.
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

    fn enter(&mut self, arrival: Instant, bytes: Vec<u8>) {
        if self.bytes_in_flight + bytes.len() > MAX_IN_FLIGHT {
            self.counters.overflowed += 1;
            return;
        }
        self.bytes_in_flight += bytes.len();
        self.in_flight.insert((arrival, self.next_order), bytes);
        self.next_order += 1;
    }
}

const SECOND_NS: u128 = 1_000_000_000;

/// The number of bits sent at `rate` during `time`.
fn sent(time: Duration, rate: u64) -> u128 {
    time.as_nanos() * u128::from(rate) / SECOND_NS
}

/// Random decisions for one datagram.
struct Fate {
    lost: bool,
    jitter: Duration,
    held: bool,
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
