//! The sender of a timed stream: audio, haptics, poses.
//!
//! A payload leaves at once, in a datagram of its own, with the newest payloads before it: as many as
//! the link's loss asks for and the datagram has room for. Nothing is sent again on request, and nothing
//! is paced: a stream of sound is a few kilobytes in a frame's time.

use std::collections::VecDeque;

use super::loss::Loss;
use super::packetize::SendBuf;
use crate::id::PayloadSeq;
use crate::time::{Instant, PeerInstant};
use crate::wire::media::StreamId;
use crate::wire::seal::Sealer;
use crate::wire::timed::{MAX_BLOCKS, MAX_PAYLOAD, Payload, TimedWriter};

/// How rarely a payload should be missing although it is repeated: at 200 a second one in 50 s, where
/// one can be concealed (guess).
const MISSING: f64 = 1e-4;

/// A payload is longer than a datagram carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a payload of {bytes} bytes; at most {MAX_PAYLOAD} fit into a datagram: send shorter ones")]
pub struct TooLong {
    /// How long it is.
    pub bytes: usize,
}

/// A payload that was sent.
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
    /// How many of those before it go with a payload.
    repeats: usize,
    /// The newest first. The storage is reused.
    sent: VecDeque<Sent>,
}

impl TimedSender {
    /// The sender of `stream`. Each payload is repeated once, until more is known of the link.
    pub(super) fn new(stream: StreamId, sealer: Sealer) -> TimedSender {
        TimedSender {
            stream,
            sealer,
            next: PayloadSeq::default(),
            repeats: 1,
            sent: VecDeque::with_capacity(MAX_BLOCKS),
        }
    }

    /// Its stream.
    #[must_use]
    pub fn stream(&self) -> StreamId {
        self.stream
    }

    /// How often each payload is repeated at most.
    #[must_use]
    pub fn repeats(&self) -> usize {
        self.repeats
    }

    /// Follows what the link loses: each payload is repeated so often that no more than one in 10 000
    /// is lost with all its repetitions, at least once and at most seven times.
    ///
    /// Losses come as in Gilbert's model: behind a lost datagram the next one is lost with the
    /// probability 1 − 1 / (length of a run).
    pub fn follow(&mut self, loss: Loss) {
        let again = (1.0 - 1.0 / loss.run.max(1.0)).max(loss.rate);
        let mut missing = loss.rate * again;
        self.repeats = 1;
        while missing > MISSING && self.repeats < MAX_BLOCKS - 1 {
            missing *= again;
            self.repeats += 1;
        }
    }

    /// Replaces what is in `out` by the datagram of the next payload, whose first of `samples` samples
    /// was captured at `captured`. Its number.
    ///
    /// # Errors
    /// [`TooLong`]; then it has no number, and nothing is sent.
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
            // They follow each other: behind the first that finds no room none has a place.
            payloads.all(|payload| writer.repeat(&payload));
        });
        Ok(PayloadSeq(self.next.0 - 1))
    }
}
