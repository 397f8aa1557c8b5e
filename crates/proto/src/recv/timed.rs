//! The receiver of a timed stream: payloads in order, each once, and what is missing by name.
//!
//! A payload comes out when it is here and all before it came out. One that later ones have overtaken is
//! waited for, since it may be late or come with a repetition, but no longer than the consumer allows
//! ([`TimedReceiver::set_wait`]); then [`TimedOutput::Missing`] says how many lack, and whoever plays
//! conceals as much. The memory is that of 64 payloads, whatever the peer sends.

use std::time::Duration;

use crate::bytes::Reject;
use crate::id::PayloadSeq;
use crate::time::{Instant, PeerInstant};
use crate::wire::media::StreamId;
use crate::wire::timed::{Payload, Timed};

/// Payloads that wait for one before them at most: a third of a second of 5 ms each. What is further
/// ahead ends the waiting.
pub const MAX_WAITING: u64 = 64;

/// How long a payload is waited for that was overtaken, if nobody says otherwise: four payloads of 5 ms,
/// so that its last repetition may come (guess).
const WAIT: Duration = Duration::from_millis(20);

/// What comes out of a timed stream next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimedOutput<'a> {
    /// The next payload, and when it arrived.
    Payload(Payload<'a>, Instant),
    /// So many payloads from this one on did not arrive in time, nor will they come out any more.
    Missing {
        /// The first of them.
        first: PayloadSeq,
        /// How many.
        count: u64,
    },
}

/// What was counted since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TimedCounters {
    /// Payloads that came out.
    pub delivered: u64,
    /// Those among them of which only a repetition came in time.
    pub repaired: u64,
    /// Payloads that were given up.
    pub missing: u64,
}

/// A place for a payload; the storage is reused.
#[derive(Clone, Debug, Default)]
struct Slot {
    /// A payload waits here.
    full: bool,
    repaired: bool,
    captured: PeerInstant,
    samples: u16,
    arrived: Instant,
    bytes: Vec<u8>,
}

/// Puts the payloads of one stream into order.
#[derive(Debug)]
pub struct TimedReceiver {
    stream: StreamId,
    wait: Duration,
    /// The payload that comes out next; `None` before the first datagram.
    next: Option<u64>,
    /// Payload n has place n modulo their number. All that wait are at `next` or less than
    /// [`MAX_WAITING`] behind it.
    slots: Vec<Slot>,
    /// How many of them are full.
    waiting: usize,
    /// Payloads before `next` that were given up and not told of yet.
    given_up: u64,
    counters: TimedCounters,
}

impl TimedReceiver {
    /// The receiver of `stream`.
    #[must_use]
    pub fn new(stream: StreamId) -> TimedReceiver {
        TimedReceiver {
            stream,
            wait: WAIT,
            next: None,
            slots: vec![Slot::default(); usize::try_from(MAX_WAITING).unwrap_or(0)],
            waiting: 0,
            given_up: 0,
            counters: TimedCounters::default(),
        }
    }

    /// Its stream.
    #[must_use]
    pub fn stream(&self) -> StreamId {
        self.stream
    }

    /// How long a payload is waited for from now on once a later one is here: what lies in the consumer's
    /// buffer, or a little less.
    pub fn set_wait(&mut self, wait: Duration) {
        self.wait = wait;
    }

    fn slot(number: u64) -> usize {
        usize::try_from(number % MAX_WAITING).unwrap_or(0)
    }

    /// Takes an opened body in. Call [`TimedReceiver::poll`] afterwards.
    ///
    /// # Errors
    /// [`Reject`] if it is absurd; nothing changes then.
    pub fn handle_body(&mut self, now: Instant, body: &[u8]) -> Result<(), Reject> {
        let timed = Timed::parse(body)?;
        if timed.stream != self.stream {
            return Err(Reject::Range("stream"));
        }
        let newest = timed.newest.0;
        if self.next.is_none() {
            self.next = timed.payloads().last().map(|oldest| oldest.seq.0);
        }
        self.make_room_for(newest);
        for payload in timed.payloads() {
            let repaired = payload.seq.0 != newest;
            self.take(now, &payload, repaired);
        }
        Ok(())
    }

    /// If there is no place for payload `newest`, the oldest are given up.
    fn make_room_for(&mut self, newest: u64) {
        let Some(next) = self.next else { return };
        let first = newest.saturating_sub(MAX_WAITING - 1);
        if first <= next {
            return;
        }
        for number in next..first.min(next.saturating_add(MAX_WAITING)) {
            let slot = &mut self.slots[Self::slot(number)];
            self.waiting -= usize::from(std::mem::take(&mut slot.full));
        }
        self.give_up_before(first);
    }

    fn give_up_before(&mut self, first: u64) {
        let Some(next) = self.next.replace(first) else {
            return;
        };
        self.given_up += first - next;
        self.counters.missing += first - next;
    }

    fn take(&mut self, now: Instant, payload: &Payload<'_>, repaired: bool) {
        let number = payload.seq.0;
        if self.next.is_none_or(|next| number < next) {
            return;
        }
        let slot = &mut self.slots[Self::slot(number)];
        if slot.full {
            return;
        }
        (slot.full, slot.repaired, slot.arrived) = (true, repaired, now);
        (slot.captured, slot.samples) = (payload.captured, payload.samples);
        slot.bytes.clear();
        slot.bytes.extend_from_slice(payload.bytes);
        self.waiting += 1;
    }

    /// The first payload that waits for one before it, and when the first of those did so arrived.
    fn hole(&self) -> Option<(u64, Instant)> {
        let next = self.next.filter(|_| self.waiting > 0)?;
        let ahead = next..next.saturating_add(MAX_WAITING);
        let waits = ahead.filter(|number| self.slots[Self::slot(*number)].full);
        let mut waits = waits.peekable();
        let first = *waits.peek()?;
        let since = waits.map(|number| self.slots[Self::slot(number)].arrived);
        Some((first, since.min()?))
    }

    /// What comes out next; call until `None`.
    pub fn poll(&mut self, now: Instant) -> Option<TimedOutput<'_>> {
        let next = self.next?;
        if self.given_up == 0 && !self.slots[Self::slot(next)].full {
            let (first, since) = self.hole()?;
            if now < since + self.wait {
                return None;
            }
            self.give_up_before(first);
        }
        if self.given_up > 0 {
            let count = std::mem::take(&mut self.given_up);
            let first = PayloadSeq(self.next? - count);
            return Some(TimedOutput::Missing { first, count });
        }
        self.next = Some(next + 1);
        self.waiting -= 1;
        let slot = &mut self.slots[Self::slot(next)];
        slot.full = false;
        self.counters.delivered += 1;
        self.counters.repaired += u64::from(slot.repaired);
        let payload = Payload {
            seq: PayloadSeq(next),
            captured: slot.captured,
            samples: slot.samples,
            bytes: &slot.bytes,
        };
        Some(TimedOutput::Payload(payload, slot.arrived))
    }

    /// When [`TimedReceiver::poll`] must be called again although nothing arrives: when what is missing
    /// is given up.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        let (_, since) = self.hole()?;
        Some(since + self.wait)
    }

    /// What was counted.
    #[must_use]
    pub fn counters(&self) -> TimedCounters {
        self.counters
    }

    /// Panics if an invariant does not hold: for tests and fuzzing.
    pub fn check_invariants(&self) {
        let full = self.slots.iter().filter(|slot| slot.full).count();
        assert_eq!(full, self.waiting);
        assert_eq!(self.slots.len() as u64, MAX_WAITING);
        assert!(self.next.is_some() || self.waiting == 0);
    }
}
