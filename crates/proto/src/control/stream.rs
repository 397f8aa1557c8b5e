//! The reliable stream of the control plane: ordered, reliable messages.
//!
//! It carries the messages of module `negotiate`, which include cursor shapes and clipboard text. A byte stream with
//! cumulative acknowledgement and a retransmission timer is enough for occasional kilobytes; urgent messages do not use
//! it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::bytes::Reject;
use crate::time::Instant;

/// Maximum bytes of a segment. A segment of this length leaves about 150 bytes of its datagram for other messages.
pub const SEGMENT: usize = 1200;

/// Maximum unacknowledged bytes: enough for two cursor shapes of the largest size (256 × 256 × 4).
pub const MAX_UNSEEN: usize = 640 * 1024;

/// Maximum bytes in flight: about 30 ms on a 4 Mb/s link.
const WINDOW: u64 = 16 * 1024;

/// Maximum message length.
pub const MAX_MESSAGE: usize = 300 * 1024;

/// Maximum buffered out-of-order segments: more than fit in [`WINDOW`].
const MAX_EARLY: usize = 64;

/// Minimum of the first retransmission timeout, which is otherwise two round trips. The peer may delay an
/// acknowledgement until its event loop next runs (guess).
const RESEND_FLOOR: Duration = Duration::from_millis(20);

/// The sending half.
#[derive(Debug, Default)]
pub struct Outgoing {
    unseen: VecDeque<u8>,
    /// Stream offset of the first byte of `unseen`.
    start: u64,
    /// Stream offset of the next byte to send.
    next: u64,
    resend_at: Option<Instant>,
    backoff: u32,
}

impl Outgoing {
    /// Appends a message if there is room for it. Returns whether it was appended.
    #[must_use]
    pub fn push(&mut self, message: &[u8]) -> bool {
        let Ok(length) = u32::try_from(message.len()) else {
            return false;
        };
        if message.len() > MAX_MESSAGE || self.unseen.len() + message.len() + 4 > MAX_UNSEEN {
            return false;
        }
        self.unseen.extend(length.to_le_bytes());
        self.unseen.extend(message);
        true
    }

    /// The next segment to send, if one is due: its offset and bytes.
    pub fn poll(&mut self, now: Instant, round_trip: Duration) -> Option<(u64, Vec<u8>)> {
        if self.resend_at.is_some_and(|at| at <= now) {
            self.next = self.start;
            self.backoff = (self.backoff + 1).min(5);
            self.resend_at = None;
        }
        if self.next >= self.limit() {
            return None;
        }
        let from = usize::try_from(self.next - self.start).ok()?;
        let bytes: Vec<u8> = self
            .unseen
            .iter()
            .skip(from)
            .take(SEGMENT.min(usize::try_from(self.limit() - self.next).ok()?))
            .copied()
            .collect();
        let offset = self.next;
        self.next += bytes.len() as u64;
        let resend_at = now + self.retransmission_timeout(round_trip);
        self.resend_at.get_or_insert(resend_at);
        Some((offset, bytes))
    }

    /// Handles the peer's acknowledgement of all bytes before `through`.
    pub fn acknowledge(&mut self, now: Instant, through: u64, round_trip: Duration) {
        let end = self.start + self.unseen.len() as u64;
        if through <= self.start || through > end {
            return;
        }
        let gone = usize::try_from(through - self.start).unwrap_or(0);
        self.unseen.drain(..gone);
        self.start = through;
        self.next = self.next.max(through);
        self.backoff = 0;
        self.resend_at =
            (self.next > self.start).then(|| now + self.retransmission_timeout(round_trip));
    }

    fn retransmission_timeout(&self, round_trip: Duration) -> Duration {
        (round_trip * 2).max(RESEND_FLOOR) * 2_u32.pow(self.backoff)
    }

    /// Whether everything has been acknowledged.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.unseen.is_empty()
    }

    /// Stream offset after the last byte in the window.
    fn limit(&self) -> u64 {
        let end = self.start + self.unseen.len() as u64;
        end.min(self.start + WINDOW)
    }

    /// When to call [`Outgoing::poll`]; in the past if a segment is due.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        if self.next < self.limit() {
            return Some(Instant(i64::MIN));
        }
        self.resend_at
    }
}

/// The receiving half.
#[derive(Debug, Default)]
pub struct Incoming {
    ready: Vec<u8>,
    /// Stream offset after the last byte of `ready`.
    through: u64,
    early: BTreeMap<u64, Vec<u8>>,
}

impl Incoming {
    /// Takes a segment. Acknowledge it with [`Incoming::through`].
    ///
    /// # Errors
    /// [`Reject::Range`] if the segment is out of range.
    pub fn segment(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Reject> {
        let end = offset
            .checked_add(bytes.len() as u64)
            .ok_or(Reject::Range("stream offset"))?;
        if end <= self.through {
            return Ok(());
        }
        if end > self.through + MAX_UNSEEN as u64 {
            return Err(Reject::Range("stream offset"));
        }
        // Complete messages are taken after each datagram, so `ready` holds at most one incomplete message, unless an
        // overlong message has ended the stream.
        if self.ready.len() > MAX_MESSAGE + 4 {
            return Err(Reject::TooLong);
        }
        if offset > self.through {
            let known = self.early.get(&offset).map_or(0, Vec::len);
            if bytes.len() > known && (known > 0 || self.early.len() < MAX_EARLY) {
                self.early.insert(offset, bytes.to_vec());
            }
            return Ok(());
        }
        self.append(offset, bytes);
        while let Some((&offset, _)) = self.early.first_key_value() {
            if offset > self.through {
                break;
            }
            if let Some((offset, bytes)) = self.early.pop_first() {
                self.append(offset, &bytes);
            }
        }
        Ok(())
    }

    fn append(&mut self, offset: u64, bytes: &[u8]) {
        let known = usize::try_from(self.through - offset).unwrap_or(usize::MAX);
        if let Some(fresh) = bytes.get(known..) {
            self.ready.extend_from_slice(fresh);
            self.through += fresh.len() as u64;
        }
    }

    /// Stream offset before which all bytes have arrived.
    #[must_use]
    pub fn through(&self) -> u64 {
        self.through
    }

    /// Panics if an invariant does not hold: for tests and fuzzing.
    pub fn check_invariants(&self) {
        assert!(self.early.len() <= MAX_EARLY);
        assert!(self.ready.len() <= 2 * MAX_MESSAGE);
    }

    /// The next complete message.
    ///
    /// # Errors
    /// [`Reject::TooLong`] if the peer announces a message longer than [`MAX_MESSAGE`]. The stream cannot continue after
    /// that.
    pub fn message(&mut self) -> Result<Option<Vec<u8>>, Reject> {
        let Some((length, rest)) = self.ready.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| Reject::TooLong)?;
        if length > MAX_MESSAGE {
            return Err(Reject::TooLong);
        }
        if rest.len() < length {
            return Ok(None);
        }
        let message = rest[..length].to_vec();
        self.ready.drain(..4 + length);
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Under any loss, reordering and duplication, all messages arrive exactly once and in order.
        #[test]
        fn messages_arrive_in_order(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..4000), 1..8),
            deliveries in prop::collection::vec(0_u8..4, 0..60),
        ) {
            let mut out = Outgoing::default();
            let mut inc = Incoming::default();
            for m in &messages {
                prop_assert!(out.push(m));
            }
            let mut deliveries = deliveries.into_iter();
            let mut held: Vec<(u64, Vec<u8>)> = Vec::new();
            let mut got = Vec::new();
            let mut now = Instant(0);
            for _ in 0..10_000 {
                while let Some(segment) = out.poll(now, Duration::from_millis(1)) {
                    match deliveries.next().unwrap_or(0) {
                        1 => {}                       // lost
                        2 => held.push(segment),      // reordered
                        3 => {                        // duplicated
                            inc.segment(segment.0, &segment.1).unwrap();
                            inc.segment(segment.0, &segment.1).unwrap();
                        }
                        _ => inc.segment(segment.0, &segment.1).unwrap(),
                    }
                }
                for (offset, bytes) in held.drain(..) {
                    inc.segment(offset, &bytes).unwrap();
                }
                if deliveries.next().unwrap_or(0) != 1 {
                    out.acknowledge(now, inc.through(), Duration::from_millis(1));
                }
                while let Some(m) = inc.message().unwrap() {
                    got.push(m);
                }
                if got.len() == messages.len() {
                    break;
                }
                now = now + Duration::from_millis(10);
            }
            prop_assert_eq!(got, messages);
        }
    }

    #[test]
    fn absurd_segments_are_refused() {
        let mut inc = Incoming::default();
        assert!(inc.segment(u64::MAX, b"x").is_err());
        assert!(inc.segment(1 << 40, b"x").is_err());
        inc.segment(0, &u32::MAX.to_le_bytes()).unwrap();
        assert_eq!(inc.message(), Err(Reject::TooLong));
    }

    #[test]
    fn an_endless_message_has_bounded_memory() {
        let mut inc = Incoming::default();
        let (mut offset, mut refused) = (0, 0);
        for _ in 0..10_000 {
            match inc.segment(offset, &[0xff; SEGMENT]) {
                Ok(()) => offset = inc.through(),
                Err(_) => refused += 1,
            }
            assert_eq!(inc.message(), Err(Reject::TooLong));
        }
        assert!(refused > 9_000);
        assert!(inc.ready.len() <= MAX_MESSAGE + 4 + SEGMENT);
        let mut inc = Incoming::default();
        for offset in 1..10_000 {
            inc.segment(offset, b"").unwrap();
            inc.segment(offset, b"x").unwrap();
        }
        assert!(inc.early.len() <= MAX_EARLY);
    }

    #[test]
    fn sendable_segments_are_due_at_once() {
        let mut out = Outgoing::default();
        assert_eq!(out.next_timeout(), None);
        assert!(out.push(b"news"));
        assert_eq!(out.next_timeout(), Some(Instant(i64::MIN)));
        out.poll(Instant(0), Duration::from_millis(1)).unwrap();
        assert!(out.next_timeout().is_some_and(|at| at > Instant(0)));
    }
}
