//! Test tones: an audio stream with reproducible samples.

use std::time::Duration;

use openuvr_proto::control::streams::{AudioFormat, StreamOffer};
use openuvr_proto::id::SessionId;
use openuvr_proto::recv::timed::{TimedOutput, TimedReceiver};
use openuvr_proto::send::loss::Loss;
use openuvr_proto::send::packetize::SendBuf;
use openuvr_proto::send::timed::TimedSender;
use openuvr_proto::time::{Instant, PeerInstant};
use openuvr_proto::wire::media::{StreamId, StreamKind};

pub(super) const AUDIO: StreamId = StreamId::first(StreamKind::Audio);

/// The audio offer of the world's host and clients.
pub(super) const OFFER: StreamOffer = StreamOffer {
    stream: AUDIO,
    to_client: true,
    to_host: false,
    formats: 1 << AudioFormat::Pcm as u8,
    views: 0,
};

/// Sample rate, samples per payload, and duration of a payload: 2.5 ms, the shortest frame of Opus.
const RATE: u32 = 48_000;
const SAMPLES: u16 = 120;
const PAYLOAD_EVERY: Duration = Duration::from_micros(2500);

/// The frequency of concert A. The samples repeat after a second.
const PITCH: f64 = 440.0;

/// The sample with this number.
fn sample(number: u64) -> i16 {
    let within = u32::try_from(number % u64::from(RATE)).unwrap_or(0);
    let seconds = f64::from(within) / f64::from(RATE);
    let phase = seconds * PITCH * std::f64::consts::TAU;
    #[expect(clippy::cast_possible_truncation, reason = "20 000 at most")]
    let sample = (phase.sin() * 20_000.0) as i16;
    sample
}

/// Sends a tone to a session.
pub(super) struct Tone {
    pub(super) session: SessionId,
    sender: TimedSender,
    /// Time of the first sample of the next payload, and of its completion.
    begins: Instant,
    pub(super) next: Instant,
    played: u64,
    out: SendBuf,
}

impl Tone {
    pub(super) fn new(now: Instant, session: SessionId, sender: TimedSender) -> Tone {
        Tone {
            session,
            sender,
            begins: now,
            next: now + PAYLOAD_EVERY,
            played: 0,
            out: SendBuf::default(),
        }
    }

    pub(super) fn follow(&mut self, loss: Loss) {
        self.sender.follow(loss);
    }

    /// Number of payloads sent.
    pub(super) fn payloads(&self) -> u64 {
        self.played / u64::from(SAMPLES)
    }

    /// The next payload, if it is due.
    pub(super) fn play(&mut self, now: Instant) -> Option<&SendBuf> {
        if self.next > now {
            return None;
        }
        let samples = self.played..self.played + u64::from(SAMPLES);
        let bytes: Vec<u8> = samples.flat_map(|n| sample(n).to_le_bytes()).collect();
        self.played += u64::from(SAMPLES);
        let captured = std::mem::replace(&mut self.begins, self.next);
        self.next = self.next + PAYLOAD_EVERY;
        let sent = (self.sender).send(now, (captured, SAMPLES), &bytes, &mut self.out);
        sent.expect("240 bytes fit into a datagram");
        Some(&self.out)
    }
}

/// A client's reception of a tone.
#[derive(Clone, Debug, Default)]
pub struct ReceivedTone {
    /// The number of the first sample received. Earlier ones were sent before the client knew the stream.
    pub first: Option<u64>,
    /// Number of received samples, each compared with the sent one.
    pub samples: u64,
    /// Number of samples reported as missing.
    pub missing: u64,
    /// Delay of each payload from capture to playout, on the world's clock.
    pub delays: Vec<Duration>,
    /// The longest run of missing payloads.
    pub longest_gap: u64,
}

impl ReceivedTone {
    /// Takes the available payloads at the world's time `now`, which is `mine` on the client's clock.
    pub(super) fn listen(&mut self, now: Instant, mine: Instant, stream: &mut TimedReceiver) {
        while let Some(step) = stream.poll(mine) {
            let known = self.samples + self.missing;
            match step {
                TimedOutput::Payload(payload, arrived) => {
                    let number = payload.seq.0 * u64::from(SAMPLES);
                    let next = *self.first.get_or_insert(number) + known;
                    assert_eq!(payload.seq.0 * u64::from(SAMPLES), next, "in order, once");
                    assert_eq!(payload.samples, SAMPLES);
                    let samples = payload.bytes.chunks_exact(2);
                    for (number, bytes) in (next..).zip(samples) {
                        let bytes = [bytes[0], bytes[1]];
                        assert_eq!(i16::from_le_bytes(bytes), sample(number), "{number}");
                    }
                    assert_eq!(payload.bytes.len(), usize::from(SAMPLES) * 2);
                    assert!(arrived <= mine);
                    let PeerInstant(captured) = payload.captured;
                    self.delays.push(now.since(Instant(captured)));
                    self.samples += u64::from(SAMPLES);
                }
                TimedOutput::Missing { first, count } => {
                    let next = self.first.expect("a gap follows a payload") + known;
                    assert_eq!(first.0 * u64::from(SAMPLES), next, "in order, once");
                    self.missing += count * u64::from(SAMPLES);
                    self.longest_gap = self.longest_gap.max(count);
                }
            }
        }
        stream.check_invariants();
    }
}
