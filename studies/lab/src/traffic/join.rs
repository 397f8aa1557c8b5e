//! Joins the captures of both ends. The result is the delay of each packet, the losses in between, and the offset and
//! drift of the clocks.
//!
//! Packets are identified by the first bytes of their payload, so that address translation between the ends does not
//! matter. The fastest packets are used to compare the clocks. If there are packets in both directions, the chosen
//! drift maximises the minimum round trip. If there are packets in only one direction, the drift is the slope of a
//! line: of all lines below all delays, the one that is highest in the middle of the capture (Moon, Skelly, Towsley,
//! Estimation and removal of clock skew from network delay measurements, INFOCOM 1999). With packets in both
//! directions, the offset is chosen such that the fastest packets of both directions have equal delays. The error of
//! the offset is unknown, but it is at most this delay.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher as _};

use serde::Serialize;

use super::Analysis;
use super::distribution::Distribution;
use super::kind::Content;
use super::reader::{Open, StreamDatagram, StreamKey, Window, walk};
use crate::capture::datagram::Endpoint;
use crate::wifi::Direction;

/// The result of joining two captures.
#[derive(Debug, Serialize)]
pub struct JoinedCaptures {
    /// Whether the captures were passed in the wrong order. In that order, packets would arrive before they are sent.
    pub swapped: bool,
    /// The client's clock minus the server's in the middle of the capture, ns. `None` if there are packets in only one
    /// direction.
    pub offset_ns: Option<f64>,
    /// Drift of the client's clock, ppm.
    pub drift_ppm: f64,
    /// Sampling interval: the number of packets of which one is examined. It is 1 for captures of up to half a million
    /// packets.
    pub one_of: u64,
    /// Packets from the server to the client.
    pub down: Crossing,
    /// Packets from the client to the server.
    pub up: Crossing,
    /// Delay of video frames in ns, from the departure of a frame's first packet to the arrival of its last.
    pub frame_ns: Distribution,
    /// Round trip in ns: the sum of the median delays of both directions. It is independent of the offset.
    pub round_trip_ns: Option<f64>,
}

/// The fates of one direction's packets.
#[derive(Debug, Default, Serialize)]
pub struct Crossing {
    /// Number of sampled packets sent while the receiving end captured, without the last 200 ms of its capture.
    pub sent: u64,
    /// Number of these packets that arrived.
    pub arrived: u64,
    /// Delays, ns. If the offset is unknown, they are relative to the fastest packet.
    pub delay_ns: Distribution,
    /// The delays of video packets only.
    pub video_delay_ns: Distribution,
}

/// The captures can't be joined, because no packet occurs in both.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the two captures have no packet in common ({server} and {client} identifiable packets)")]
pub struct Unrelated {
    /// Number of identifiable packets in the first capture.
    pub server: usize,
    /// Number of identifiable packets in the second capture.
    pub client: usize,
}

/// Number of bytes that identify a packet: an RTP header plus 12 bytes, or OpenUVR's whole header. They fit into a
/// snapshot length of 66 bytes.
const ID_BYTES: usize = 24;

/// Maximum number of sampled packets. If there are more, only every second, fourth, … packet is sampled, and the same
/// packets at both ends.
const MOST: usize = 1 << 19;

/// The largest drift in the search, as a fraction. A crystal deviates by at most 100 ppm, so two crystals drift by at
/// most 200 ppm. Virtual machines drift slightly more.
const LARGEST_DRIFT: f64 = 500e-6;

/// A table that keeps only the keys that are multiples of 2ⁿ. When it is full, n grows.
#[derive(Debug)]
struct SampledMap<V> {
    values: HashMap<u64, V>,
    bits: u32,
}

impl<V> Default for SampledMap<V> {
    fn default() -> SampledMap<V> {
        SampledMap {
            values: HashMap::new(),
            bits: 0,
        }
    }
}

impl<V> SampledMap<V> {
    fn entry(&mut self, key: u64) -> Option<Entry<'_, u64, V>> {
        if self.values.len() >= MOST {
            self.thin(self.bits + 1);
        }
        match key.trailing_zeros() >= self.bits {
            true => Some(self.values.entry(key)),
            false => None,
        }
    }

    fn thin(&mut self, bits: u32) {
        self.bits = self.bits.max(bits);
        let bits = self.bits;
        self.values.retain(|key, _| key.trailing_zeros() >= bits);
    }
}

#[derive(Debug, Clone, Copy)]
struct Sighting {
    at: u64,
    direction: Direction,
    is_video: bool,
    /// Whether another packet had the same first bytes.
    is_double: bool,
}

/// The sampled packets of one capture.
#[derive(Debug, Default)]
struct End {
    packets: SampledMap<Sighting>,
    /// For each frame, the times of its first and its last packet.
    frames: SampledMap<(u64, u64)>,
    span: Option<(u64, u64)>,
    origin: u64,
}

impl End {
    fn read(open: &mut Open<'_>, window: Window, analysis: &Analysis) -> End {
        let mut end = End::default();
        // RTP also carries audio and repairs. Only the analysis distinguishes these streams from video.
        let videos = (analysis.streams.iter()).filter(|found| found.video.is_some());
        let videos: HashSet<StreamKey> = videos.map(|found| found.key).collect();
        // The error is ignored, because the analysis has already reported it.
        let (account, _) = walk(open, window, &mut |seen| {
            end.record(seen, analysis.server, &videos);
        });
        end.origin = account.origin_ns;
        end
    }

    fn record(&mut self, seen: &StreamDatagram<'_>, server: Endpoint, videos: &HashSet<StreamKey>) {
        let (first, last) = self.span.unwrap_or((seen.at, seen.at));
        self.span = Some((first.min(seen.at), last.max(seen.at)));
        let tells = seen.payload.get(..ID_BYTES.min(seen.length));
        let (Some(direction), Some(tells)) = (seen.key.direction(server), tells) else {
            return;
        };
        let sighting = Sighting {
            at: seen.at,
            direction,
            is_video: videos.contains(&seen.key),
            is_double: false,
        };
        let place = self.packets.entry(key(&(tells, seen.length)));
        if let Some(place) = place {
            let double = |before: &mut Sighting| before.is_double = true;
            place.and_modify(double).or_insert(sighting);
        }
        if let (true, Content::Rtp(rtp), Direction::Down) =
            (sighting.is_video, seen.content, direction)
        {
            let place = self.frames.entry(key(&(rtp.ssrc, rtp.timestamp)));
            if let Some(place) = place {
                let frame = place.or_insert((seen.at, seen.at));
                *frame = (frame.0.min(seen.at), frame.1.max(seen.at));
            }
        }
    }
}

/// A hash that is equal at both ends and in each run.
fn key(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// A packet that was captured at both ends.
#[derive(Debug, Clone, Copy)]
struct Pair {
    /// Capture time at the server in ns, relative to the mean of all pairs.
    at: f64,
    /// Capture time at the client minus that at the server, ns.
    apart: f64,
    direction: Direction,
    is_video: bool,
}

/// Joins the captures of server and client, each with its analysis.
///
/// # Errors
/// Returns an error if no packet occurs in both captures.
pub fn join(
    server: (&mut Open<'_>, &Analysis),
    client: (&mut Open<'_>, &Analysis),
    window: Window,
) -> Result<JoinedCaptures, Unrelated> {
    let mut server = End::read(server.0, window, server.1);
    let mut client = End::read(client.0, Window::default(), client.1);
    let bits = server.packets.bits.max(client.packets.bits);
    server.packets.thin(bits);
    client.packets.thin(bits);
    let mut all = pairs(&server, &client);
    let mut swapped = false;
    let mut clock = Clock::fit(&all);
    if clock.as_ref().is_some_and(|clock| clock.round_trip < 0.0) {
        swapped = true;
        std::mem::swap(&mut server, &mut client);
        all = pairs(&server, &client);
        clock = Clock::fit(&all);
    }
    let clock = clock.ok_or(Unrelated {
        server: server.packets.values.len(),
        client: client.packets.values.len(),
    })?;
    Ok(joined(&server, &client, &all, &clock, swapped, bits))
}

fn joined(
    server: &End,
    client: &End,
    all: &(f64, Vec<Pair>),
    clock: &Clock,
    swapped: bool,
    bits: u32,
) -> JoinedCaptures {
    let origins = client.origin as f64 - server.origin as f64;
    let is_known = clock.down.is_some() && clock.up.is_some();
    let mut result = JoinedCaptures {
        swapped,
        offset_ns: is_known.then_some(clock.offset + origins),
        drift_ppm: clock.drift * 1e6,
        one_of: 1 << bits,
        down: Crossing::default(),
        up: Crossing::default(),
        frame_ns: Distribution::default(),
        round_trip_ns: None,
    };
    for pair in &all.1 {
        let apart = pair.apart - clock.at(pair.at);
        let (crossing, delay) = match pair.direction {
            Direction::Down => (&mut result.down, apart),
            Direction::Up => (&mut result.up, -apart),
        };
        crossing.delay_ns.record(whole(delay));
        if pair.is_video {
            crossing.video_delay_ns.record(whole(delay));
        }
    }
    // Count the packets sent while the receiving end captured, without the last moments of its capture.
    let to_client = |at: u64| at as f64 + clock.at(at as f64 - all.0);
    let to_server = |at: u64| at as f64 - clock.at(at as f64 - all.0 - clock.offset);
    let (down, up) = (&mut result.down, &mut result.up);
    count(server, client, Direction::Down, &to_client, down);
    count(client, server, Direction::Up, &to_server, up);
    for (key, (first, last)) in &server.frames.values {
        // A frame of which no packet arrived, or which has only one packet, has no delay.
        if let Some((_, arrived)) = client.frames.values.get(key)
            && last > first
        {
            result
                .frame_ns
                .record(whole(*arrived as f64 - to_client(*first)));
        }
    }
    let median = |crossing: &Crossing| crossing.delay_ns.quantile(0.5);
    if let (true, Some(down), Some(up)) = (is_known, median(&result.down), median(&result.up)) {
        result.round_trip_ns = Some((down + up) as f64);
    }
    result
}

/// Maximum delay of a packet, ns. Packets that would arrive in the last moments of the other capture are not counted,
/// because they might arrive after its end (a guess with margin; links of this study hold packets for tens of
/// milliseconds).
const MAX_DELAY: f64 = 200e6;

fn count(
    from: &End,
    to: &End,
    direction: Direction,
    there: &dyn Fn(u64) -> f64,
    crossing: &mut Crossing,
) {
    let Some((first, last)) = to.span else {
        return;
    };
    for (key, sighting) in &from.packets.values {
        let at = there(sighting.at);
        let is_within = at >= first as f64 && at + MAX_DELAY <= last as f64;
        if sighting.direction != direction || sighting.is_double || !is_within {
            continue;
        }
        crossing.sent += 1;
        crossing.arrived += u64::from(to.packets.values.contains_key(key));
    }
}

/// The packets that were captured at both ends, and the mean of their times.
fn pairs(server: &End, client: &End) -> (f64, Vec<Pair>) {
    let mut all = Vec::new();
    for (key, at_server) in &server.packets.values {
        let Some(at_client) = client.packets.values.get(key) else {
            continue;
        };
        // If one capture is short, the analyses of the two ends may take different endpoints for the server. The
        // directions then differ.
        if at_server.is_double || at_client.is_double || at_server.direction != at_client.direction
        {
            continue;
        }
        all.push(Pair {
            at: at_server.at as f64,
            apart: at_client.at as f64 - at_server.at as f64,
            direction: at_server.direction,
            is_video: at_server.is_video,
        });
    }
    let middle = all.iter().map(|pair| pair.at).sum::<f64>() / all.len().max(1) as f64;
    for pair in &mut all {
        pair.at -= middle;
    }
    // The map is unordered. Sorting makes floating-point sums reproducible.
    all.sort_by(|a, b| a.at.total_cmp(&b.at).then(a.apart.total_cmp(&b.apart)));
    (middle, all)
}

/// The client's clock relative to the server's. Each clock counts from the first packet of its capture.
#[derive(Debug)]
struct Clock {
    offset: f64,
    drift: f64,
    /// Client's time minus server's time without the drift: the minimum over packets down, and the maximum over packets
    /// up.
    down: Option<f64>,
    up: Option<f64>,
    round_trip: f64,
}

impl Clock {
    fn fit(all: &(f64, Vec<Pair>)) -> Option<Clock> {
        let pairs = &all.1;
        if pairs.is_empty() {
            return None;
        }
        // `height` is concave in the drift, so a ternary search finds its maximum.
        let (mut low, mut high) = (-LARGEST_DRIFT, LARGEST_DRIFT);
        for _ in 0..60 {
            let third = (high - low) / 3.0;
            let (left, right) = (low + third, high - third);
            match height(pairs, left) < height(pairs, right) {
                true => low = left,
                false => high = right,
            }
        }
        let drift = f64::midpoint(low, high);
        let (down, up) = extremes(pairs, drift);
        let offset = match (down, up) {
            (Some(down), Some(up)) => f64::midpoint(down, up),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => return None,
        };
        let round_trip = down.zip(up).map_or(0.0, |(down, up)| down - up);
        Some(Clock {
            offset,
            drift,
            down,
            up,
            round_trip,
        })
    }

    /// Client's time minus server's time. `at` is the server's time relative to the mean of all pairs.
    fn at(&self, at: f64) -> f64 {
        self.offset + self.drift * at
    }
}

/// The function that the best drift maximises.
fn height(pairs: &[Pair], drift: f64) -> f64 {
    match extremes(pairs, drift) {
        (Some(down), Some(up)) => down - up,
        (Some(down), None) => down,
        (None, Some(up)) => -up,
        (None, None) => 0.0,
    }
}

fn extremes(pairs: &[Pair], drift: f64) -> (Option<f64>, Option<f64>) {
    let (mut down, mut up) = (None::<f64>, None::<f64>);
    for pair in pairs {
        let apart = pair.apart - drift * pair.at;
        match pair.direction {
            Direction::Down => down = Some(down.map_or(apart, |least| least.min(apart))),
            Direction::Up => up = Some(up.map_or(apart, |most| most.max(apart))),
        }
    }
    (down, up)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Not negative, and small enough.
fn whole(nanos: f64) -> u64 {
    nanos.max(0.0).round() as u64
}
