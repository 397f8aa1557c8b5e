//! The first pass determines the streams, with the columns of the study's Table 3: mean bytes, mean milliseconds
//! between packets, and megabits per second. It also determines the arrival pattern from one machine to another, across
//! streams.

use std::collections::{HashMap, VecDeque};

use serde::Serialize;

use super::distribution::Distribution;
use super::kind::{Content, Kind, Rtp};
use super::reader::{EndpointPair, StreamDatagram, StreamKey};
use super::sequence::{Sequence, SequenceAccount};
use crate::capture::datagram::Endpoint;

/// Maximum number of streams, and of pairs of machines. Datagrams of further streams are only counted.
pub const MOST_STREAMS: usize = 128;

/// Packets closer than this, in ns, count as simultaneous. 10 µs is the serialisation delay of 1250 bytes at 1 Gb/s.
/// The study says "simultaneous" without a number.
pub const AT_ONCE: u64 = 10_000;

/// The content of an RTP stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Several packets share a timestamp, or the clock rate is 90 kHz (RFC 3551, section 5).
    Video,
    /// Another clock rate.
    Audio,
    /// Retransmissions (RFC 4588) or FEC: the timestamps repeat those of another stream.
    Repair,
    /// The stream is too short to determine its content.
    Unknown,
}

/// One stream.
#[derive(Debug, Default)]
pub struct Stream {
    /// Bytes on Ethernet of each datagram.
    pub sizes: Distribution,
    /// Nanoseconds from each packet to the next.
    pub gaps: Distribution,
    /// Capture times of the first and the last packet.
    pub span: Option<(u64, u64)>,
    /// Statistics on the stream's sequence numbers, if it has any.
    pub sequence: Sequence,
    /// Further RTP statistics.
    pub rtp: Option<Source>,
}

/// An RTP source.
#[derive(Debug)]
pub struct Source {
    /// The first payload type, and whether there were others.
    pub payload_type: (u8, bool),
    /// Number of packets with the marker bit.
    pub markers: u64,
    /// Number of packets with a timestamp that occurred earlier in another stream.
    echoed: u64,
    last_timestamp: u32,
    ticks: i64,
    changes: u64,
}

/// Arrival pattern of packets, for example of all packets from one machine to another.
#[derive(Debug, Default)]
pub struct ArrivalPattern {
    /// Total bytes.
    pub bytes: u64,
    /// Nanoseconds from each packet to the next.
    pub gaps: Distribution,
    /// Number of packets less than [`AT_ONCE`] after the previous one.
    pub at_once: u64,
    /// Sizes of groups of simultaneous packets. They estimate a link's aggregates, such as A-MPDUs.
    pub aggregates: Distribution,
    last: Option<u64>,
    run: u64,
}

/// Survey of a whole capture.
#[derive(Debug, Default)]
pub struct Survey {
    /// The streams, in the order of their first packets.
    pub streams: Vec<(StreamKey, Stream)>,
    /// The pairs of machines.
    pub directions: Vec<(EndpointPair, ArrivalPattern)>,
    /// Number of datagrams in streams beyond [`MOST_STREAMS`].
    pub beyond: u64,
    places: HashMap<StreamKey, usize>,
    recent: HashMap<EndpointPair, Recent>,
}

/// For each recent timestamp, the stream in which it occurred first.
#[derive(Debug, Default)]
struct Recent {
    first: HashMap<u32, u32>,
    order: VecDeque<u32>,
}

/// Number of stored timestamps, enough for some seconds of video and audio.
const MOST_TIMESTAMPS: usize = 1024;

impl Survey {
    /// Records the next datagram.
    pub fn record(&mut self, seen: &StreamDatagram<'_>) {
        let ends = seen.key.ends();
        self.direction(ends, seen);
        let Some(place) = self.place(seen.key) else {
            self.beyond += 1;
            return;
        };
        let echoed = match seen.content {
            Content::Rtp(rtp) => self.is_echo(ends, &rtp),
            _ => false,
        };
        let stream = &mut self.streams[place].1;
        stream.record(seen, echoed);
    }

    /// Closes the last groups of simultaneous packets at the end of the capture.
    pub fn finish(&mut self) {
        for (_, direction) in &mut self.directions {
            direction.end_run();
        }
    }

    /// The server: the endpoint that sent the most bytes. Of two endpoints that sent the same amount, it is the one
    /// with the lower address.
    #[must_use]
    pub fn server(&self) -> Option<Endpoint> {
        let mut sent: HashMap<Endpoint, u64> = HashMap::new();
        for ((from, _), direction) in &self.directions {
            *sent.entry(*from).or_default() += direction.bytes;
        }
        let most = sent
            .into_iter()
            .max_by_key(|(end, bytes)| (*bytes, std::cmp::Reverse(*end)));
        most.map(|(end, _)| end)
    }

    fn place(&mut self, key: StreamKey) -> Option<usize> {
        if let Some(place) = self.places.get(&key) {
            return Some(*place);
        }
        if self.streams.len() >= MOST_STREAMS {
            return None;
        }
        self.streams.push((key, Stream::default()));
        self.places.insert(key, self.streams.len() - 1);
        Some(self.streams.len() - 1)
    }

    fn direction(&mut self, ends: EndpointPair, seen: &StreamDatagram<'_>) {
        let known = self.directions.iter().position(|(known, _)| *known == ends);
        let place = match known {
            Some(place) => place,
            None if self.directions.len() >= MOST_STREAMS => return,
            None => {
                self.directions.push((ends, ArrivalPattern::default()));
                self.directions.len() - 1
            }
        };
        self.directions[place].1.record(seen.at, seen.bytes);
    }

    fn is_echo(&mut self, ends: EndpointPair, rtp: &Rtp) -> bool {
        if !self.recent.contains_key(&ends) && self.recent.len() >= MOST_STREAMS {
            return false;
        }
        let recent = self.recent.entry(ends).or_default();
        if let Some(first) = recent.first.get(&rtp.timestamp) {
            return *first != rtp.ssrc;
        }
        recent.first.insert(rtp.timestamp, rtp.ssrc);
        recent.order.push_back(rtp.timestamp);
        if recent.order.len() > MOST_TIMESTAMPS
            && let Some(oldest) = recent.order.pop_front()
        {
            recent.first.remove(&oldest);
        }
        false
    }
}

impl ArrivalPattern {
    /// Records the next packet.
    pub(super) fn record(&mut self, at: u64, bytes: u64) {
        self.bytes += bytes;
        if let Some(last) = self.last {
            let gap = at.saturating_sub(last);
            self.gaps.record(gap);
            match gap < AT_ONCE {
                true => self.at_once += 1,
                false => self.end_run(),
            }
        }
        self.run += 1;
        self.last = Some(at);
    }

    /// The share of packets less than [`AT_ONCE`] after the previous one, in percent.
    #[must_use]
    pub fn at_once_percent(&self) -> Option<f64> {
        let gaps = self.gaps.count();
        (gaps > 0).then(|| 100.0 * self.at_once as f64 / gaps as f64)
    }

    /// Closes the last group of simultaneous packets.
    pub(super) fn end_run(&mut self) {
        if self.run > 0 {
            self.aggregates.record(self.run);
        }
        self.run = 0;
    }
}

impl Stream {
    fn record(&mut self, seen: &StreamDatagram<'_>, echoed: bool) {
        self.sizes.record(seen.bytes);
        let (first, last) = self.span.unwrap_or((seen.at, seen.at));
        if self.span.is_some() {
            self.gaps.record(seen.at.saturating_sub(last));
        }
        self.span = Some((first, last.max(seen.at)));
        match seen.content {
            Content::Rtp(rtp) => {
                self.sequence.record16(rtp.sequence);
                self.rtp
                    .get_or_insert_with(|| Source::new(&rtp))
                    .record(&rtp, echoed);
            }
            Content::OpenUvr(_, sealed) => {
                self.sequence.record(sealed.number);
            }
            Content::Plain(_) => {}
        }
    }

    /// Seconds from the first packet to the last.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.span
            .map_or(0.0, |(first, last)| (last - first) as f64 / 1e9)
    }

    /// Statistics on the stream's sequence numbers, if it has any.
    #[must_use]
    pub fn account(&self, kind: Kind) -> Option<SequenceAccount> {
        let numbered = matches!(kind, Kind::Rtp | Kind::OpenUvrMedia | Kind::OpenUvrControl);
        numbered.then(|| self.sequence.account())
    }

    /// The stream's content and clock rate, if it is RTP.
    #[must_use]
    pub fn role(&self) -> Option<(Role, Option<u32>)> {
        let source = self.rtp.as_ref()?;
        let packets = self.sizes.count();
        // A stream is a repair stream only if nearly all its timestamps are repeated, because some timestamps are equal
        // by chance.
        if source.echoed * 10 >= packets * 9 {
            return Some((Role::Repair, None));
        }
        // Video frames take several packets; each audio packet has its own timestamp. A late sender
        // distorts the measured clock rate, so this test comes first.
        if packets * 2 >= (source.changes + 1) * 3 {
            return Some((Role::Video, Some(VIDEO_RATE)));
        }
        let rate = source.rate(self.seconds());
        let role = match rate {
            Some(VIDEO_RATE) => Role::Video,
            Some(_) => Role::Audio,
            None => Role::Unknown,
        };
        Some((role, rate))
    }
}

/// Clock rate of video (RFC 3551, section 5).
pub const VIDEO_RATE: u32 = 90_000;

/// Common clock rates of audio and video (RFC 3551, section 6; Opus: RFC 7587).
const RATES: [u32; 9] = [
    8000, 11_025, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, VIDEO_RATE,
];

/// Tolerance of a measured clock rate. It is less than half of the distance between two rates.
const RATE_TOLERANCE: f64 = 0.04;

/// Minimum number of timestamp changes for the measurement of a clock rate.
const FEWEST_CHANGES: u64 = 4;

impl Source {
    fn new(rtp: &Rtp) -> Source {
        Source {
            payload_type: (rtp.payload_type, false),
            markers: 0,
            echoed: 0,
            last_timestamp: rtp.timestamp,
            ticks: 0,
            changes: 0,
        }
    }

    fn record(&mut self, rtp: &Rtp, echoed: bool) {
        self.payload_type.1 |= rtp.payload_type != self.payload_type.0;
        self.markers += u64::from(rtp.marker);
        self.echoed += u64::from(echoed);
        // The step is signed, because it is negative for reordered packets.
        let step = rtp
            .timestamp
            .wrapping_sub(self.last_timestamp)
            .cast_signed();
        self.changes += u64::from(step != 0);
        self.ticks += i64::from(step);
        self.last_timestamp = rtp.timestamp;
    }

    fn rate(&self, seconds: f64) -> Option<u32> {
        let frames = self.changes as f64;
        if self.changes < FEWEST_CHANGES || self.ticks <= 0 {
            return None;
        }
        // The last frame counts only partly. The tolerance below allows for that.
        let rate = self.ticks as f64 / seconds;
        let tolerance = RATE_TOLERANCE + 0.5 / frames;
        let off = |known: u32| (rate / f64::from(known) - 1.0).abs();
        let nearest = RATES
            .into_iter()
            .min_by(|a, b| off(*a).total_cmp(&off(*b)))?;
        (off(nearest) < tolerance).then_some(nearest)
    }
}
