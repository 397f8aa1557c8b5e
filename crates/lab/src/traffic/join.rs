//! The captures of both ends put together: how long each packet took, what was lost between them, and how
//! far their clocks are apart and drift.
//!
//! Packets are told by the first bytes of what they carry, so that address translation between the ends
//! does not matter. Clocks are compared by the packets that were fastest: the drift is the one that leaves
//! the least round trip as long as it can be (with one direction alone it is the line below all delays that
//! is highest in its middle: Moon, Skelly, Towsley, Estimation and removal of clock skew from network
//! delay measurements, INFOCOM 1999). The offset is then what makes the fastest packets of both
//! directions equally fast; how far that is wrong can't be known, but not by more than that delay.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{DefaultHasher, Hash, Hasher as _};

use serde::Serialize;

use super::Analysis;
use super::distribution::Distribution;
use super::kind::{Content, Kind};
use super::reader::{Open, Seen, Window, walk};
use crate::capture::datagram::Endpoint;
use crate::wifi::Way;

/// What two captures say together.
#[derive(Debug, Serialize)]
pub struct Joined {
    /// Whether the captures were named in the other order: seen by packets that arrive before they leave.
    pub swapped: bool,
    /// The client's clock minus the server's in the middle, ns; `None` if there are packets of one direction
    /// alone.
    pub offset_ns: Option<f64>,
    /// By how much the client's clock is faster, millionths.
    pub drift_ppm: f64,
    /// Of how many packets one was looked at: 1 for captures of up to half a million.
    pub one_of: u64,
    /// From server to client.
    pub down: Crossing,
    /// And back.
    pub up: Crossing,
    /// Of video, from when a frame's first packet left until its last arrived, ns.
    pub frame_ns: Distribution,
    /// From a down packet's leaving to its arrival and back: the medians of both directions together, ns.
    /// No offset is in it.
    pub round_trip_ns: Option<f64>,
}

/// What became of the packets of a direction.
#[derive(Debug, Default, Serialize)]
pub struct Crossing {
    /// Packets that left while the other end captured.
    pub sent: u64,
    /// Those that arrived.
    pub arrived: u64,
    /// How long each took, ns; without a known offset, how much longer than the fastest.
    pub delay_ns: Distribution,
    /// The same of video alone.
    pub video_delay_ns: Distribution,
}

/// Why captures can't be joined.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the two captures have no packet in common ({server} and {client} packets that can be told apart)"
)]
pub struct Unrelated {
    /// Of the first.
    pub server: usize,
    /// Of the second.
    pub client: usize,
}

/// Bytes that tell packets apart: those of an RTP header and as many again, all of OpenUVR's header, and what a
/// capture of 66 bytes of each packet still has.
const TELLS: usize = 24;

/// Packets that are looked at; where there are more, every second, fourth, … of them: the same at both ends.
const MOST: usize = 1 << 19;

/// The largest drift that is looked for, millionths: crystals have 100 at most, twice that between two, and
/// virtual machines a little more.
const LARGEST_DRIFT: f64 = 500e-6;

/// A table that keeps every 2ⁿth of its keys when it is full.
#[derive(Debug)]
struct Thinned<V> {
    values: HashMap<u64, V>,
    bits: u32,
}

impl<V> Default for Thinned<V> {
    fn default() -> Thinned<V> {
        Thinned {
            values: HashMap::new(),
            bits: 0,
        }
    }
}

impl<V> Thinned<V> {
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
    way: Way,
    is_video: bool,
    /// Another had the same first bytes.
    is_double: bool,
}

/// What is remembered of one capture.
#[derive(Debug, Default)]
struct End {
    packets: Thinned<Sighting>,
    /// When the first and the last packet of each frame came.
    frames: Thinned<(u64, u64)>,
    span: Option<(u64, u64)>,
    origin: u64,
}

impl End {
    fn read(open: &mut Open<'_>, window: Window, server: Endpoint) -> End {
        let mut end = End::default();
        // What is broken was named by the analysis.
        let (account, _) = walk(open, window, &mut |seen| end.see(seen, server));
        end.origin = account.origin_ns;
        end
    }

    fn see(&mut self, seen: &Seen<'_>, server: Endpoint) {
        let (first, last) = self.span.unwrap_or((seen.at, seen.at));
        self.span = Some((first.min(seen.at), last.max(seen.at)));
        let tells = seen.payload.get(..TELLS.min(seen.length));
        let (Some(way), Some(tells)) = (seen.key.way(server), tells) else {
            return;
        };
        let sighting = Sighting {
            at: seen.at,
            way,
            is_video: matches!(seen.key.kind, Kind::Rtp | Kind::OpenUvrMedia),
            is_double: false,
        };
        let place = self.packets.entry(key(&(tells, seen.length)));
        if let Some(place) = place {
            let double = |before: &mut Sighting| before.is_double = true;
            place.and_modify(double).or_insert(sighting);
        }
        if let (Content::Rtp(rtp), Way::Down) = (seen.content, way) {
            let place = self.frames.entry(key(&(rtp.ssrc, rtp.timestamp)));
            if let Some(place) = place {
                let frame = place.or_insert((seen.at, seen.at));
                *frame = (frame.0.min(seen.at), frame.1.max(seen.at));
            }
        }
    }
}

/// The same at both ends and in each run.
fn key(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// A packet at both ends.
#[derive(Debug, Clone, Copy)]
struct Pair {
    /// On the server's clock, in ns, from the middle of all on.
    at: f64,
    /// Client's time minus server's, ns.
    apart: f64,
    way: Way,
    is_video: bool,
}

/// Joins the captures of server and client, each with its analysis.
///
/// # Errors
/// If they have nothing in common.
pub fn join(
    server: (&mut Open<'_>, &Analysis),
    client: (&mut Open<'_>, &Analysis),
    window: Window,
) -> Result<Joined, Unrelated> {
    let mut server = End::read(server.0, window, server.1.server);
    let mut client = End::read(client.0, Window::default(), client.1.server);
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
) -> Joined {
    let origins = client.origin as f64 - server.origin as f64;
    let is_known = clock.down.is_some() && clock.up.is_some();
    let mut result = Joined {
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
        let (crossing, delay) = match pair.way {
            Way::Down => (&mut result.down, apart),
            Way::Up => (&mut result.up, -apart),
        };
        crossing.delay_ns.record(whole(delay));
        if pair.is_video {
            crossing.video_delay_ns.record(whole(delay));
        }
    }
    // What left while the other end captured, and not in its last moments.
    let to_client = |at: u64| at as f64 + clock.at(at as f64 - all.0);
    let to_server = |at: u64| at as f64 - clock.at(at as f64 - all.0 - clock.offset);
    let (down, up) = (&mut result.down, &mut result.up);
    count(server, client, Way::Down, &to_client, down);
    count(client, server, Way::Up, &to_server, up);
    for (key, (first, last)) in &server.frames.values {
        // A frame that lost packets took forever.
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

/// How long a packet may be under way that counts as lost if it does not arrive: what left in the last
/// moments of the other capture is not counted (a guess with room; links of this study hold packets for
/// tens of milliseconds).
const UNDER_WAY: f64 = 200e6;

fn count(from: &End, to: &End, way: Way, there: &dyn Fn(u64) -> f64, crossing: &mut Crossing) {
    let Some((first, last)) = to.span else {
        return;
    };
    for (key, sighting) in &from.packets.values {
        let at = there(sighting.at);
        let is_within = at >= first as f64 && at + UNDER_WAY <= last as f64;
        if sighting.way != way || sighting.is_double || !is_within {
            continue;
        }
        crossing.sent += 1;
        crossing.arrived += u64::from(to.packets.values.contains_key(key));
    }
}

/// Packets that both ends saw, and the middle of their times.
fn pairs(server: &End, client: &End) -> (f64, Vec<Pair>) {
    let mut all = Vec::new();
    for (key, at_server) in &server.packets.values {
        let Some(at_client) = client.packets.values.get(key) else {
            continue;
        };
        // The two ends may differ in who sent more, if one capture is short.
        if at_server.is_double || at_client.is_double || at_server.way != at_client.way {
            continue;
        }
        all.push(Pair {
            at: at_server.at as f64,
            apart: at_client.at as f64 - at_server.at as f64,
            way: at_server.way,
            is_video: at_server.is_video,
        });
    }
    let middle = all.iter().map(|pair| pair.at).sum::<f64>() / all.len().max(1) as f64;
    for pair in &mut all {
        pair.at -= middle;
    }
    // Of a map, in no order: sums of fractions would differ from run to run.
    all.sort_by(|a, b| a.at.total_cmp(&b.at).then(a.apart.total_cmp(&b.apart)));
    (middle, all)
}

/// The client's clock against the server's, by the times that captures count from their own first packets.
#[derive(Debug)]
struct Clock {
    offset: f64,
    drift: f64,
    /// The least of client minus server of what came down, with the drift taken out; and the most of
    /// what went up.
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
        // Concave in the drift, so that thirds find its top.
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

    /// Client's minus server's time, at a server's time from the middle on.
    fn at(&self, at: f64) -> f64 {
        self.offset + self.drift * at
    }
}

/// What the drift is to make as high as it can.
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
        match pair.way {
            Way::Down => down = Some(down.map_or(apart, |least| least.min(apart))),
            Way::Up => up = Some(up.map_or(apart, |most| most.max(apart))),
        }
    }
    (down, up)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Not negative, and less than ages.
fn whole(nanos: f64) -> u64 {
    nanos.max(0.0).round() as u64
}
