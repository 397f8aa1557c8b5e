//! Runs the model in real time between real programs: datagrams enter on arrival, and leave at their simulated delivery
//! time.
//!
//! This is the same model as in [`scenario`](super::scenario), driven by a clock. The same packets at the same times
//! have the same fates. This module opens no socket: a relay or a bridge of the testbed does.

use std::collections::HashMap;
use std::time::Duration;

use openuvr_proto::time::Instant;
use openuvr_sim::lateness::Lateness;
use openuvr_sim::link::{Counters, MAX_IN_FLIGHT};
use openuvr_sim::medium::{Arrival, Medium};

use super::bss::Event;
use super::network::{Network, Offer, Outcome};
use super::scenario::Scenario;
use super::setup::{Category, Direction};
use super::traffic::Streams;
use super::{Impossible, MILLISECOND, Nanos};

/// A network that carries datagrams.
#[derive(Debug)]
pub struct Live {
    network: Network,
    /// Background traffic.
    background: Streams,
    category: Category,
    begin: Instant,
    in_flight: HashMap<u64, Datagram>,
    bytes_in_flight: usize,
    next_id: u64,
    viewers: usize,
    up: Counters,
    down: Counters,
    crossing: Lateness,
}

#[derive(Debug)]
struct Datagram {
    sent: Nanos,
    direction: Direction,
    station: usize,
    bytes: Vec<u8>,
}

/// The network of a scenario as the medium of a relay or bridge. The clock of the relay or bridge starts at 0.
/// Real datagrams take the place of video and controllers.
///
/// # Errors
/// Returns an error, with the reason, if the scenario is impossible.
pub fn medium(scenario: &Scenario, seed: u64) -> Result<Box<dyn Medium>, Impossible> {
    match Live::new(scenario, Instant(0), seed) {
        Ok(live) => Ok(Box::new(live)),
        Err(Impossible(why)) => {
            let message = format!("no such Wi-Fi network is possible: {why}");
            Err(Impossible(message))
        }
    }
}

/// The first identifier for background packets.
const BACKGROUND_IDS: u64 = 1 << 63;

/// While no datagram is in flight, the background traffic lags behind the clock by at most this time.
const CATCH_UP: Nanos = 50 * MILLISECOND;

impl Live {
    /// Creates the network of a scenario, which starts at `begin`. It generates only the scenario's background traffic.
    /// The real datagrams take the place of video and controllers.
    ///
    /// # Errors
    /// Returns an error if the scenario is impossible.
    pub fn new(scenario: &Scenario, begin: Instant, seed: u64) -> Result<Live, Impossible> {
        scenario.check()?;
        let viewers = scenario.viewers();
        let mut background = Streams::default();
        for (station, stream) in scenario.background_stations() {
            background.background(stream, station, seed);
        }
        Ok(Live {
            network: scenario.network(seed)?,
            background,
            category: scenario.video.category,
            begin,
            in_flight: HashMap::new(),
            bytes_in_flight: 0,
            next_id: 0,
            viewers,
            up: Counters::default(),
            down: Counters::default(),
            crossing: Lateness::default(),
        })
    }
}

impl Medium for Live {
    fn stations(&self) -> usize {
        self.viewers
    }

    fn send(&mut self, now: Instant, to: (Direction, usize), bytes: Vec<u8>, on_air: usize) {
        let at = self.since_begin(now);
        self.carry_background(at.saturating_sub(1));
        let (direction, station) = to;
        let counters = self.counters_of(direction);
        counters.sent += 1;
        counters.sent_bytes += bytes.len() as u64;
        if self.bytes_in_flight + bytes.len() > MAX_IN_FLIGHT {
            self.counters_of(direction).overflowed += 1;
            return;
        }
        let id = self.next_id;
        self.next_id += 1;
        self.bytes_in_flight += bytes.len();
        let datagram = Datagram {
            sent: at,
            direction,
            station,
            bytes,
        };
        self.in_flight.insert(id, datagram);
        let offer = Offer {
            direction,
            station,
            category: self.category,
            id,
            bytes: u32::try_from(on_air).unwrap_or(u32::MAX),
        };
        self.network.send(at, offer);
    }

    fn poll(&mut self, now: Instant) -> Option<Arrival> {
        let until = self.since_begin(now);
        self.carry_background(until);
        while let Some(outcome) = self.network.poll(until) {
            match outcome {
                Outcome::Air(Event::Delivered { at, packet }) => {
                    let Some(datagram) = self.take(packet.id) else {
                        continue;
                    };
                    self.counters_of(datagram.direction).delivered += 1;
                    if datagram.direction == Direction::Down {
                        let took = at.saturating_sub(datagram.sent);
                        self.crossing.record(Duration::from_nanos(took));
                    }
                    return Some(Arrival {
                        due: self.begin + Duration::from_nanos(at),
                        direction: datagram.direction,
                        station: datagram.station,
                        bytes: datagram.bytes,
                    });
                }
                Outcome::Air(Event::GivenUp { packet, .. }) => {
                    if let Some(datagram) = self.take(packet.id) {
                        self.counters_of(datagram.direction).lost += 1;
                    }
                }
                Outcome::Refused { id, .. } => {
                    if let Some(datagram) = self.take(id) {
                        self.counters_of(datagram.direction).overflowed += 1;
                    }
                }
                Outcome::Air(Event::Sent(_) | Event::Collided { .. }) => {}
            }
        }
        None
    }

    fn next_timeout(&mut self) -> Option<Instant> {
        let background = self.background.next_at();
        let next = if self.in_flight.is_empty() {
            // Wake up periodically, so that the background traffic need not catch up all at once.
            background? + CATCH_UP
        } else {
            // Also wake up for the next background packet, because it may occupy the channel before a datagram.
            let own = self.network.next_timeout();
            own.into_iter().chain(background).min()?
        };
        Some(self.begin + Duration::from_nanos(next))
    }

    fn counters(&self) -> (Counters, Counters) {
        (self.up, self.down)
    }

    fn crossing(&self) -> &Lateness {
        &self.crossing
    }
}

impl Live {
    fn counters_of(&mut self, direction: Direction) -> &mut Counters {
        match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        }
    }

    fn take(&mut self, id: u64) -> Option<Datagram> {
        let datagram = self.in_flight.remove(&id)?;
        self.bytes_in_flight -= datagram.bytes.len();
        Some(datagram)
    }

    /// Sends the background traffic that is due until `until`.
    fn carry_background(&mut self, until: Nanos) {
        while self.background.next_at().is_some_and(|at| at <= until)
            && let Some(mut departure) = self.background.next()
        {
            departure.offer.id |= BACKGROUND_IDS;
            self.network.send(departure.at, departure.offer);
        }
    }

    fn since_begin(&self, now: Instant) -> Nanos {
        u64::try_from(now.since(self.begin).as_nanos()).unwrap_or(u64::MAX)
    }
}
