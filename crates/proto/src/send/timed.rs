//! The sender of a timed stream: audio, haptics, poses.
//!
//! Each payload is sent at once in its own datagram. The datagram also repeats earlier payloads. The number of
//! repetitions follows the loss of the link, and is limited by the datagram size. There are no retransmissions and no
//! pacing, because an audio stream is a few kilobytes per frame interval.

use std::collections::VecDeque;

use super::loss::Loss;
use super::packetize::SendBuf;
use crate::id::PayloadSeq;
use crate::time::{Instant, PeerInstant};
use crate::wire::media::StreamId;
use crate::wire::seal::Sealer;
use crate::wire::timed::{MAX_BLOCKS, MAX_PAYLOAD, Payload, TimedWriter};

/// Target share of payloads that are still missing after repetition: at 200 payloads a second, one payload in 50 s,
/// which can be concealed (guess).
const MISSING: f64 = 1e-4;

/// A payload exceeds the capacity of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "a payload of {bytes} bytes is too long (at most {MAX_PAYLOAD} fit into a datagram): send shorter payloads"
)]
pub struct TooLong {
    /// The length of the payload in bytes.
    pub bytes: usize,
}

/// A sent payload.
#[derive(Debug, Default)]
struct Sent {
    seq: PayloadSeq,
    captured: PeerInstant,
    samples: u16,
    bytes: Vec<u8>,
}

impl Sent {
    fn payload(&self) -> Payload<'_> {
        Payload {
            seq: self.seq,
            captured: self.captured,
            samples: self.samples,
            bytes: &self.bytes,
        }
    }
}

/// Numbers, repeats and seals the payloads of one stream.
pub struct TimedSender {
    stream: StreamId,
    sealer: Sealer,
    next: PayloadSeq,
    /// Number of earlier payloads that are sent with each payload.
    repeats: usize,
    /// The sent payloads, newest first. The storage is reused.
    sent: VecDeque<Sent>,
}

impl TimedSender {
    /// The sender of `stream`. Each payload is repeated once until the loss is known.
    pub(super) fn new(stream: StreamId, sealer: Sealer) -> TimedSender {
        TimedSender {
            stream,
            sealer,
            next: PayloadSeq::default(),
            repeats: 1,
            sent: VecDeque::with_capacity(MAX_BLOCKS),
        }
    }

    /// The stream of this sender.
    #[must_use]
    pub fn stream(&self) -> StreamId {
        self.stream
    }

    /// Maximum number of repetitions of each payload.
    #[must_use]
    pub fn repeats(&self) -> usize {
        self.repeats
    }

    /// Adapts to the loss. Each payload is repeated as often as necessary for at most one payload in 10 000 to be lost
    /// with all its repetitions, but at least once and at most seven times.
    ///
    /// The loss model is Gilbert's: after a lost datagram, the next datagram is lost with probability 1 − 1 / (run
    /// length), or with the loss rate if that is higher.
    pub fn follow(&mut self, loss: Loss) {
        let again = (1.0 - 1.0 / loss.run.max(1.0)).max(loss.rate);
        let mut missing = loss.rate * again;
        self.repeats = 1;
        while missing > MISSING && self.repeats < MAX_BLOCKS - 1 {
            missing *= again;
            self.repeats += 1;
        }
    }

    /// Replaces the contents of `out` with the datagram of the next payload. The payload has `samples` samples and was
    /// captured from `captured` on. Returns the payload's number.
    ///
    /// # Errors
    /// [`TooLong`] if the payload does not fit into a datagram. The payload then gets no number, and nothing is sent.
    pub fn send(
        &mut self,
        now: Instant,
        (captured, samples): (Instant, u16),
        bytes: &[u8],
        out: &mut SendBuf,
    ) -> Result<PayloadSeq, TooLong> {
        out.clear();
        if bytes.len() > MAX_PAYLOAD {
            return Err(TooLong { bytes: bytes.len() });
        }
        let mut sent = match self.sent.len() {
            MAX_BLOCKS => self.sent.pop_back().unwrap_or_default(),
            _ => Sent::default(),
        };
        (sent.seq, sent.samples) = (self.next, samples);
        sent.captured = PeerInstant(captured.0);
        sent.bytes.clear();
        sent.bytes.extend_from_slice(bytes);
        self.sent.push_front(sent);
        self.next.0 += 1;
        let (stream, sent, repeats) = (self.stream, &self.sent, self.repeats);
        out.push(now, &mut self.sealer, |body| {
            let mut payloads = sent.iter().map(Sent::payload).take(repeats + 1);
            let Some(newest) = payloads.next() else {
                return;
            };
            let mut writer = TimedWriter::new(body, stream, &newest);
            // The repeated payloads must be consecutive, so the first payload that does not fit ends the datagram.
            payloads.all(|payload| writer.repeat(&payload));
        });
        Ok(PayloadSeq(self.next.0 - 1))
    }
}
