//! One run: a network, its traffic, and the results.

use super::bss::{Event, Sent};
use super::network::{Account, Network, Outcome, Server};
use super::setup::{Category, Direction, Setup};
use super::traffic::{Background, Departure, Periodic, Streams, Video};
use super::{Impossible, Nanos, SECOND};

/// Parameters of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// The network.
    pub setup: Setup,
    /// The location of the server.
    pub server: Server,
    /// Video to each viewer.
    pub video: Video,
    /// Uplink traffic of each viewer.
    pub uplink: Option<Periodic>,
    /// Traffic of the background stations, which are the last stations. Each of these stations exchanges only
    /// background traffic with the access point.
    pub background: Vec<Background>,
    /// Duration.
    pub lasting: Nanos,
}

impl Scenario {
    /// The study's scenario: 60 frames per second to one station, for 10 s.
    #[must_use]
    pub fn paper() -> Scenario {
        Scenario {
            setup: Setup::paper(),
            server: Server::Wired(1_000_000_000),
            video: Video::default(),
            uplink: Some(Periodic::default()),
            background: Vec::new(),
            lasting: 10 * SECOND,
        }
    }

    /// Checks whether the scenario is possible.
    ///
    /// # Errors
    /// Returns the impossible parameters.
    pub fn check(&self) -> Result<(), Impossible> {
        self.setup.timing()?;
        self.video.check()?;
        self.background.iter().try_for_each(Background::check)?;
        if self.others() >= self.setup.stations.len() {
            let what = "no station receives video: stations must be at least 1";
            return Err(Impossible(what.into()));
        }
        if self.uplink.is_some_and(|uplink| uplink.period == 0) {
            return Err(Impossible(
                "uplink: the period must be longer than 0".into(),
            ));
        }
        if self.lasting == 0 {
            return Err(Impossible("a run must last longer than 0".into()));
        }
        Ok(())
    }

    /// Number of viewers. They are the first stations.
    #[must_use]
    pub fn viewers(&self) -> usize {
        self.setup.stations.len() - self.others()
    }

    /// Number of stations that are not viewers: the server's station, if it has one, and the stations with background
    /// traffic.
    #[must_use]
    pub fn others(&self) -> usize {
        usize::from(self.server == Server::Station) + self.background.len()
    }

    /// The background streams with their stations.
    pub fn background_stations(&self) -> impl Iterator<Item = (usize, Background)> {
        let first = self.setup.stations.len() - self.background.len();
        (first..).zip(self.background.iter().copied())
    }

    /// The network, without traffic.
    ///
    /// # Errors
    /// Returns an error if the setup is impossible.
    pub fn network(&self, seed: u64) -> Result<Network, Impossible> {
        Network::new(self.setup.clone(), self.server, self.viewers(), seed)
    }

    /// All packets of the scenario, with their times.
    #[must_use]
    pub fn streams(&self, seed: u64) -> Streams {
        let mut streams = Streams::default();
        let viewers = self.viewers();
        for station in 0..viewers {
            streams.video(self.video.clone(), station, seed);
            if let Some(uplink) = self.uplink {
                streams.periodic(uplink, station, seed);
            }
        }
        for (station, stream) in self.background_stations() {
            streams.background(stream, station, seed);
        }
        streams
    }

    /// Runs the scenario. The same seed gives the same result.
    ///
    /// # Errors
    /// Returns an error if the scenario is impossible.
    pub fn run(&self, seed: u64) -> Result<Run, Impossible> {
        self.check()?;
        let lasting = self.lasting;
        let departures = self.streams(seed).take_while(|d| d.at < lasting);
        let network = self.network(seed)?;
        Ok(carry(network, departures, self.viewers(), lasting))
    }
}

/// Results of a run. Unless stated otherwise, delays are those of packets down to all viewers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Run {
    /// Duration.
    pub lasted: Nanos,
    /// The numbers that identify the packets delivered to viewers, in the order of delivery.
    pub packets: Vec<u64>,
    /// Delay of each of these packets from the server.
    pub delays: Vec<Nanos>,
    /// Delay of each of these packets from its arrival in the access point's queue.
    pub delays_from_queue: Vec<Nanos>,
    /// The complete frames (station and frame number), in the order of completion.
    pub whole: Vec<(usize, u32)>,
    /// Delay of each complete frame, from the sending of its first packet to the arrival of its last.
    pub frames: Vec<Nanos>,
    /// Assembly delay of each complete frame, from the arrival of its first packet to the arrival of its last.
    pub assembly: Vec<Nanos>,
    /// Frames with a lost packet.
    pub broken_frames: u64,
    /// Delays of the controllers' packets.
    pub uplink: Vec<Nanos>,
    /// MPDUs in each PPDU of the access point.
    pub attempted: Vec<u32>,
    /// MPDUs delivered in each of these PPDUs.
    pub delivered: Vec<u32>,
    /// Airtime of the access point, from AIFS on.
    pub down: Nanos,
    /// Airtime of the stations, from AIFS on.
    pub up: Nanos,
    /// Airtime of collisions, without AIFS.
    pub collided: Nanos,
    /// Number of collisions.
    pub collisions: u64,
    /// Number of transmissions to several stations (OFDMA).
    pub shared: u64,
    /// Bytes of delivered video.
    pub bytes: u64,
    /// Counters of all packets.
    pub account: Account,
}

/// The progress of a frame's delivery.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    missing: u32,
    first_sent: Nanos,
    first_there: Nanos,
    last_there: Nanos,
    is_broken: bool,
}

/// Carries packets over a network, and records their outcomes until the time `lasting`. The packets are numbered from 0
/// on. The first `viewers` stations are the viewers.
#[must_use]
pub fn carry(
    mut network: Network,
    departures: impl Iterator<Item = Departure>,
    viewers: usize,
    lasting: Nanos,
) -> Run {
    let mut run = Run {
        lasted: lasting,
        ..Run::default()
    };
    let mut record = Record {
        viewers,
        packets: Vec::new(),
        frames: Vec::new(),
    };
    for departure in departures {
        while let Some(outcome) = network.poll(departure.at.saturating_sub(1)) {
            record.note(outcome, &mut run);
        }
        network.send(departure.at, departure.offer);
        record.sent(departure);
    }
    while let Some(outcome) = network.poll(lasting) {
        record.note(outcome, &mut run);
    }
    run.broken_frames = record
        .frames
        .iter()
        .flatten()
        .filter(|f| f.is_broken)
        .count() as u64;
    run.account = network.account();
    run
}

/// All packets sent so far, and the progress of their frames.
#[derive(Debug)]
struct Record {
    viewers: usize,
    /// By number.
    packets: Vec<Departure>,
    /// The frames, by station and frame number.
    frames: Vec<Vec<Progress>>,
}

impl Record {
    fn sent(&mut self, departure: Departure) {
        if let Some(frame) = departure.frame {
            let (station, number) = (departure.offer.station, frame.number as usize);
            if self.frames.len() <= station {
                self.frames.resize_with(station + 1, Vec::new);
            }
            let frames = &mut self.frames[station];
            if frames.len() <= number {
                frames.resize(number + 1, Progress::default());
                frames[number] = Progress {
                    missing: frame.packets,
                    first_sent: departure.at,
                    ..Progress::default()
                };
            }
        }
        self.packets.push(departure);
    }

    fn progress(&mut self, departure: Departure) -> Option<&mut Progress> {
        let number = departure.frame?.number as usize;
        self.frames
            .get_mut(departure.offer.station)?
            .get_mut(number)
    }

    fn departure(&self, id: u64) -> Option<Departure> {
        self.packets.get(usize::try_from(id).ok()?).copied()
    }

    fn lost(&mut self, id: u64) {
        let departure = self.departure(id);
        if let Some(progress) = departure.and_then(|departure| self.progress(departure)) {
            progress.is_broken = true;
        }
    }

    fn note(&mut self, outcome: Outcome, run: &mut Run) {
        match outcome {
            Outcome::Refused { id, .. } => self.lost(id),
            Outcome::Air(Event::GivenUp { packet, .. }) => self.lost(packet.id),
            Outcome::Air(Event::Delivered { at, packet }) => {
                let Some(departure) = self.departure(packet.id) else {
                    return;
                };
                if packet.station >= self.viewers {
                    return;
                }
                let delay = at - departure.at;
                if packet.direction == Direction::Up {
                    run.uplink.push(delay);
                    return;
                }
                run.packets.push(packet.id);
                run.delays.push(delay);
                run.delays_from_queue.push(at - packet.queued);
                run.bytes += u64::from(departure.offer.bytes);
                let Some((progress, frame)) = self.progress(departure).zip(departure.frame) else {
                    return;
                };
                if progress.last_there == 0 {
                    progress.first_there = at;
                }
                progress.last_there = at;
                progress.missing -= 1;
                if progress.missing == 0 {
                    run.whole.push((packet.station, frame.number));
                    run.frames.push(at - progress.first_sent);
                    run.assembly.push(at - progress.first_there);
                }
            }
            Outcome::Air(Event::Sent(sent)) => note_sent(&sent, run),
            Outcome::Air(Event::Collided { lasted, .. }) => {
                run.collided += lasted;
                run.collisions += 1;
            }
        }
    }
}

fn note_sent(sent: &Sent, run: &mut Run) {
    let taken = sent.lasted + sent.aifs;
    run.shared += u64::from(sent.stations > 1);
    match sent.direction {
        Direction::Up => run.up += taken,
        Direction::Down => {
            run.down += taken;
            run.attempted.push(sent.attempted);
            run.delivered.push(sent.delivered);
        }
    }
}

impl Scenario {
    /// Puts video and controllers' packets into this access category.
    #[must_use]
    pub fn all_in(mut self, category: Category) -> Scenario {
        self.video.category = category;
        if let Some(uplink) = &mut self.uplink {
            uplink.category = category;
        }
        self
    }
}
