//! The receiver of a timed stream: ordered payloads, each once, and gaps.
//!
//! A payload is delivered after all earlier payloads. The receiver waits at a gap, because the payload may be late or
//! repeated, but no longer than the consumer allows ([`TimedReceiver::set_wait`]). Then [`TimedOutput::Missing`]
//! reports the number of lost payloads for concealment. For any input, at most 64 payloads are stored.

use std::time::Duration;

use crate::bytes::Reject;
use crate::id::PayloadSeq;
use crate::time::{Instant, PeerInstant};
use crate::wire::media::StreamId;
use crate::wire::timed::{Payload, Timed};

/// Maximum payloads that wait for an earlier one: a third of a second with payloads of 5 ms. A payload further ahead ends
/// the wait.
pub const MAX_WAITING: u64 = 64;

/// Default wait for a missing payload: four payloads of 5 ms, so that its last repetition may arrive (guess).
const WAIT: Duration = Duration::from_millis(20);

/// The next output of a timed stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimedOutput<'a> {
    /// The next payload and its arrival time.
    Payload(Payload<'a>, Instant),
    /// Lost payloads. They will not be delivered later.
    Missing {
        /// The first of them.
        first: PayloadSeq,
        /// Number of lost payloads.
        count: u64,
    },
}

/// Counters since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TimedCounters {
    /// Delivered payloads.
    pub delivered: u64,
    /// Payloads delivered from a repetition.
    pub repaired: u64,
    /// Lost payloads.
    pub missing: u64,
}

/// A slot for a payload; the storage is reused.
#[derive(Clone, Debug, Default)]
struct Slot {
    /// The slot holds a payload.
    full: bool,
    repaired: bool,
    captured: PeerInstant,
    samples: u16,
    arrived: Instant,
    bytes: Vec<u8>,
}

/// Reorders the payloads of one stream.
#[derive(Debug)]
pub struct TimedReceiver {
    stream: StreamId,
    wait: Duration,
    /// The next payload; `None` before the first datagram.
    next: Option<u64>,
    /// Payload n is in slot n modulo the number of slots. All waiting payloads are at `next` or less than [`MAX_WAITING`]
    /// after it.
    slots: Vec<Slot>,
    /// The number of full slots.
    waiting: usize,
    /// Lost payloads before `next` that have not been reported yet.
    skipped: u64,
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
            skipped: 0,
            counters: TimedCounters::default(),
        }
    }

    /// Its stream.
    #[must_use]
    pub fn stream(&self) -> StreamId {
        self.stream
    }

    /// Sets the maximum wait for a missing payload after a later payload has arrived. Use the duration of the
    /// consumer's buffer, or a little less.
    pub fn set_wait(&mut self, wait: Duration) {
        self.wait = wait;
    }

    fn slot(number: u64) -> usize {
        usize::try_from(number % MAX_WAITING).unwrap_or(0)
    }

    /// Handles a decrypted body. Call [`TimedReceiver::poll`] afterwards.
    ///
    /// # Errors
    /// [`Reject`] if it is invalid. In that case, nothing changes.
    pub fn handle_body(&mut self, now: Instant, body: &[u8]) -> Result<(), Reject> {
        let timed = Timed::parse(body)?;
        if timed.stream != self.stream {
            return Err(Reject::Range("stream"));
        }
        let newest = timed.newest.0;
        if self.next.is_none() {
            self.next = timed.payloads().last().map(|oldest| oldest.seq.0);
        }
        self.advance_window(newest);
        for payload in timed.payloads() {
            let repaired = payload.seq.0 != newest;
            self.take(now, &payload, repaired);
        }
        Ok(())
    }

    /// Gives up the oldest payloads if there is no slot for payload `newest`.
    fn advance_window(&mut self, newest: u64) {
        let Some(next) = self.next else { return };
        let first = newest.saturating_sub(MAX_WAITING - 1);
        if first <= next {
            return;
        }
        for number in next..first.min(next.saturating_add(MAX_WAITING)) {
            let slot = &mut self.slots[Self::slot(number)];
            self.waiting -= usize::from(std::mem::take(&mut slot.full));
        }
        self.skip_until(first);
    }

    fn skip_until(&mut self, first: u64) {
        let Some(next) = self.next.replace(first) else {
            return;
        };
        self.skipped += first - next;
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

    /// The first payload that waits for an earlier payload, and the earliest arrival of all waiting payloads.
    fn gap(&self) -> Option<(u64, Instant)> {
        let next = self.next.filter(|_| self.waiting > 0)?;
        let ahead = next..next.saturating_add(MAX_WAITING);
        let waits = ahead.filter(|number| self.slots[Self::slot(*number)].full);
        let mut waits = waits.peekable();
        let first = *waits.peek()?;
        let since = waits.map(|number| self.slots[Self::slot(number)].arrived);
        Some((first, since.min()?))
    }

    /// The next output. Call it until it returns `None`.
    pub fn poll(&mut self, now: Instant) -> Option<TimedOutput<'_>> {
        let next = self.next?;
        if self.skipped == 0 && !self.slots[Self::slot(next)].full {
            let (first, since) = self.gap()?;
            if now < since + self.wait {
                return None;
            }
            self.skip_until(first);
        }
        if self.skipped > 0 {
            let count = std::mem::take(&mut self.skipped);
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

    /// When to call [`TimedReceiver::poll`] without a datagram, because the wait for a missing payload ends.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        let (_, since) = self.gap()?;
        Some(since + self.wait)
    }

    /// The counters.
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
