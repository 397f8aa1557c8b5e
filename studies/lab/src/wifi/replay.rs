//! Replays recorded packets over the model.
//!
//! The input is an IP capture (pcap or pcapng) or a table (CSV). In a capture, the server is the address that sent the
//! most bytes. Every other address that exchanged packets with the server is a station. In RTP, source and timestamp
//! identify a video frame. OpenUVR datagrams have no cleartext frame numbers.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufReader, Read as _};
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::path::Path;

use super::network::Offer;
use super::scenario::{Run, Scenario, carry};
use super::setup::{Category, Direction};
use super::traffic::{Departure, Frame};
use super::{Impossible, Nanos};
use crate::capture;
use crate::capture::datagram::{Datagram, Machine, NoDatagram};

/// Packets at their send times.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    /// The packets in the order of their times, which start at 0.
    pub departures: Vec<Departure>,
    /// Number of stations.
    pub stations: usize,
    /// The server's address, followed by those of the stations. Empty for a table.
    pub addresses: Vec<IpAddr>,
    /// Number of identified video frames.
    pub frames: usize,
    /// Number of skipped packets, which are not UDP over IP between server and stations.
    pub skipped: u64,
    /// Number of packets larger than an Ethernet packet. Such packets were captured before segmentation (GSO) or were
    /// merged (GRO). They are split into packets that fit.
    pub merged: u64,
}

/// The reason why a replay failed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The file is unreadable or invalid at some position.
    #[error("{0}")]
    Unreadable(String),
    /// The file has no packets to send.
    #[error("{0}")]
    Empty(String),
    /// The network is impossible.
    #[error(transparent)]
    Impossible(#[from] Impossible),
}

/// Length of the largest Ethernet packet, in bytes.
const LARGEST: u32 = 1500;

/// Length of the Ethernet header in bytes.
const ETHERNET: usize = 14;

#[derive(Debug, Clone, Copy)]
struct CapturedPacket {
    at: Nanos,
    from: IpAddr,
    to: IpAddr,
    /// Length in bytes, including the IP header.
    bytes: u32,
    /// Source and timestamp.
    rtp: Option<(u32, u32)>,
}

impl Recording {
    /// Reads a capture or a table.
    ///
    /// # Errors
    /// Returns an error with the reason, and with the position if it is known.
    pub fn read(path: &Path) -> Result<Recording, ReplayError> {
        let name = path.display();
        let unreadable = |why: String| ReplayError::Unreadable(format!("{name}: {why}"));
        let mut file = File::open(path).map_err(|error| unreadable(error.to_string()))?;
        let mut magic = Vec::new();
        let mut first = (&mut file).take(4);
        (first.read_to_end(&mut magic)).map_err(|error| unreadable(error.to_string()))?;
        let whole = std::io::Cursor::new(magic.clone()).chain(BufReader::new(file));
        let recording = match capture::is_capture(&magic) {
            true => from_capture(whole).map_err(unreadable)?,
            false => from_table(whole).map_err(unreadable)?,
        };
        if recording.departures.is_empty() {
            return Err(ReplayError::Empty(format!(
                "{name}: no UDP packet between a server and a station ({} other packets)",
                recording.skipped
            )));
        }
        Ok(recording)
    }

    /// Sends the recording over the network of a scenario, extended to the required number of stations. The run ends
    /// when the time `after` has passed since the last packet. Also returns all sent packets, in the order of their
    /// numbers in the run.
    ///
    /// # Errors
    /// Returns an error if the network is impossible.
    pub fn send(
        &self,
        scenario: &Scenario,
        after: Nanos,
        seed: u64,
    ) -> Result<(Run, Vec<Departure>), ReplayError> {
        let mut scenario = scenario.clone();
        let station = scenario.setup.stations.first().cloned();
        let station = station.ok_or_else(|| Impossible("no station".into()))?;
        let viewers = self.stations.max(scenario.viewers());
        let missing = (viewers + scenario.others()).saturating_sub(scenario.setup.stations.len());
        let more = std::iter::repeat_n(station, missing);
        // Insert the additional viewers before the other stations, which must remain the last.
        let place = scenario.viewers();
        scenario.setup.stations.splice(place..place, more);
        let end = self.departures.last().map_or(0, |last| last.at) + after;
        scenario.lasting = end.max(1);
        scenario.check()?;
        let network = scenario.network(seed)?;
        let category = scenario.video.category;
        // The background traffic comes from the scenario.
        let mut streams = super::traffic::Streams::default();
        for (station, stream) in scenario.background_stations() {
            streams.background(stream, station, seed);
        }
        let background = streams.take_while(|d| d.at < end);
        let mut all: Vec<Departure> = self.departures.clone();
        for departure in &mut all {
            departure.offer.category = category;
        }
        all.extend(background);
        all.sort_by_key(|departure| departure.at);
        for (id, departure) in (0..).zip(&mut all) {
            departure.offer.id = id;
        }
        let run = carry(network, all.iter().copied(), viewers, end);
        Ok((run, all))
    }
}

fn from_capture(file: impl std::io::Read) -> Result<Recording, String> {
    let mut seen = Datagrams::default();
    let mut unknown = None;
    let read = capture::read(file, &mut |packet| {
        match Datagram::of(&packet) {
            Ok(datagram) => seen.add(&datagram),
            Err(NoDatagram::Link) => {
                unknown = Some(packet.link);
                return ControlFlow::Break(());
            }
            Err(_) => seen.skipped += 1,
        }
        ControlFlow::Continue(())
    });
    read.map_err(|error| error.to_string())?;
    match unknown {
        Some(link) => Err(format!("link type {link:?} is not supported")),
        None => Ok(seen.finish()),
    }
}

/// The datagrams of a capture that is being read.
#[derive(Debug, Default)]
struct Datagrams {
    seen: Vec<CapturedPacket>,
    skipped: u64,
}

impl Datagrams {
    fn add(&mut self, datagram: &Datagram<'_>) {
        let (Machine::Ip(from), Machine::Ip(to)) = (datagram.from.machine(), datagram.to.machine())
        else {
            self.skipped += 1;
            return;
        };
        let bytes = datagram.headers - ETHERNET + datagram.length;
        self.seen.push(CapturedPacket {
            at: datagram.at,
            from,
            to,
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
            rtp: rtp(datagram.payload),
        });
    }

    fn finish(mut self) -> Recording {
        self.seen.sort_by_key(|seen| seen.at);
        let mut sent: HashMap<IpAddr, u64> = HashMap::new();
        for seen in &self.seen {
            *sent.entry(seen.from).or_default() += u64::from(seen.bytes);
        }
        // If two addresses sent the same amount, take the lower one, independently of the map's order.
        let server = sent
            .iter()
            .max_by_key(|(address, bytes)| (**bytes, std::cmp::Reverse(**address)));
        let server = server.map(|(address, _)| *address);
        let mut recording = Recording {
            departures: Vec::new(),
            stations: 0,
            addresses: server.into_iter().collect(),
            frames: 0,
            skipped: self.skipped,
            merged: 0,
        };
        let origin = self.seen.first().map_or(0, |seen| seen.at);
        let mut numbering = Numbering::default();
        for seen in self.seen {
            let (direction, peer) = match server {
                Some(server) if seen.from == server => (Direction::Down, seen.to),
                Some(server) if seen.to == server => (Direction::Up, seen.from),
                _ => {
                    recording.skipped += 1;
                    continue;
                }
            };
            let known = recording.addresses.iter().skip(1).position(|a| *a == peer);
            let station = known.unwrap_or_else(|| {
                recording.addresses.push(peer);
                recording.addresses.len() - 2
            });
            recording.merged += u64::from(seen.bytes > LARGEST);
            let frame = seen.rtp.filter(|_| direction == Direction::Down);
            let frame = frame.map(|rtp| numbering.number(station, rtp));
            let at = seen.at - origin;
            let mut left = seen.bytes;
            while left > 0 {
                let bytes = left.min(LARGEST);
                left -= bytes;
                recording
                    .departures
                    .push(departure(at, (direction, station), bytes, frame));
            }
        }
        recording.stations = recording.addresses.len().saturating_sub(1);
        recording.count_frames();
        recording
    }
}

fn departure(at: Nanos, to: (Direction, usize), bytes: u32, frame: Option<u32>) -> Departure {
    Departure {
        at,
        offer: Offer {
            direction: to.0,
            station: to.1,
            category: Category::BestEffort,
            id: 0,
            bytes,
        },
        frame: frame.map(|number| Frame { number, packets: 0 }),
    }
}

/// Numbers the frames of each station from 0 on.
#[derive(Debug, Default)]
struct Numbering<Name>(HashMap<(usize, Name), u32>, HashMap<usize, u32>);

impl<Name: Eq + std::hash::Hash> Numbering<Name> {
    fn number(&mut self, station: usize, name: Name) -> u32 {
        let next = self.1.entry(station).or_default();
        *self.0.entry((station, name)).or_insert_with(|| {
            *next += 1;
            *next - 1
        })
    }
}

impl Recording {
    /// Sets the number of packets in each packet's frame.
    fn count_frames(&mut self) {
        let mut packets: HashMap<(usize, u32), u32> = HashMap::new();
        let frame = |d: &Departure| d.frame.map(|frame| (d.offer.station, frame.number));
        for name in self.departures.iter().filter_map(frame) {
            *packets.entry(name).or_default() += 1;
        }
        for departure in &mut self.departures {
            let name = frame(departure);
            if let Some(frame) = &mut departure.frame {
                frame.packets = name
                    .and_then(|name| packets.get(&name))
                    .copied()
                    .unwrap_or(1);
            }
        }
        self.frames = packets.len();
    }
}

/// Source and timestamp if the payload is RTP (RFC 3550). RFC 5761 distinguishes RTP from RTCP, and RFC 7983 from other
/// protocols.
fn rtp(payload: &[u8]) -> Option<(u32, u32)> {
    let header = payload.first_chunk::<12>()?;
    let is_rtp = (128..192).contains(&header[0]) && !(192..224).contains(&header[1]);
    let word = |at: usize| {
        u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    is_rtp.then(|| (word(8), word(4)))
}

/// A line of a table.
#[derive(serde::Deserialize)]
struct Line {
    time_ns: u64,
    bytes: u32,
    #[serde(default)]
    way: Option<String>,
    #[serde(default)]
    station: Option<usize>,
    #[serde(default)]
    frame: Option<u64>,
}

fn from_table(file: impl std::io::Read) -> Result<Recording, String> {
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .from_reader(file);
    let heads = reader.headers().map_err(|error| error.to_string())?;
    let has = |name: &str| heads.iter().any(|head| head == name);
    if !has("time_ns") || !has("bytes") {
        return Err(
            "neither a pcap or pcapng file, nor a table with the columns time_ns and bytes (optionally way, \
             station, frame)"
                .into(),
        );
    }
    let mut recording = Recording {
        departures: Vec::new(),
        stations: 0,
        addresses: Vec::new(),
        frames: 0,
        skipped: 0,
        merged: 0,
    };
    let mut numbering = Numbering::default();
    let mut stations = HashSet::new();
    // The reader skips empty lines, so records are counted.
    for (number, line) in (1..).zip(reader.deserialize::<Line>()) {
        let line = line.map_err(|error| format!("record {number}: {error}"))?;
        let direction = match line.way.as_deref() {
            None | Some("" | "down") => Direction::Down,
            Some("up") => Direction::Up,
            Some(other) => {
                return Err(format!("record {number}: `{other}` is neither down nor up"));
            }
        };
        if !(1..=65_535).contains(&line.bytes) {
            return Err(format!(
                "record {number}: invalid packet length of {} bytes",
                line.bytes
            ));
        }
        let station = line.station.unwrap_or(0);
        if station >= super::setup::MAX_STATIONS {
            return Err(format!(
                "record {number}: station {station} is not between 0 and 127"
            ));
        }
        stations.insert(station);
        let frame = line.frame.filter(|_| direction == Direction::Down);
        let frame = frame.map(|frame| numbering.number(station, frame));
        let departure = departure(line.time_ns, (direction, station), line.bytes, frame);
        recording.departures.push(departure);
    }
    recording.departures.sort_by_key(|departure| departure.at);
    let origin = recording.departures.first().map_or(0, |first| first.at);
    for departure in &mut recording.departures {
        departure.at -= origin;
    }
    recording.stations = stations.into_iter().max().map_or(0, |highest| highest + 1);
    recording.count_frames();
    Ok(recording)
}

#[cfg(test)]
mod tests;
