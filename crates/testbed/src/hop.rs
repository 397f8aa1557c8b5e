//! A link emulator as a UDP relay: clients connect to it as if it were the host. It needs no
//! privileges and no kernel module.
//!
//! Each client has its own link, or is a station of one shared [`Medium`], such as a Wi-Fi network. A link consists of
//! two [`LinkModel`]s, whose seeds are derived from [`Config::seed`] and from the number of clients that connected
//! before. One thread handles all clients and records its own lateness: if the relay was late, the run measured the
//! relay instead of the link, and must be discarded. On a busy machine, give this thread real-time scheduling.
//!
//! It is not a router, and models no shared medium itself: the caller supplies one ([`Hop::share`]). It relays
//! datagrams; [`bridge`](crate::bridge) forwards Ethernet frames.

mod ecn_socket;
mod sys;

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use openuvr_proto::time::Instant;
use openuvr_sim::aqm::{Discipline, Ecn, Packet};
use openuvr_sim::lateness::Lateness;
use openuvr_sim::link::{Counters, LinkModel};
use openuvr_sim::medium::{Direction, Medium};
use openuvr_sim::schedule::ImpairmentSchedule;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};

use ecn_socket::EcnSocket;

/// Configuration of a relay.
#[derive(Debug, Clone)]
pub struct Config {
    /// The address for clients. With port 0, the system chooses a port.
    pub listen: SocketAddr,
    /// The target: a host.
    pub to: SocketAddr,
    /// Impairments of the datagrams from clients to the target.
    pub up: ImpairmentSchedule,
    /// Impairments of the datagrams from the target to clients.
    pub down: ImpairmentSchedule,
    /// Seed of all random decisions, see [`seeds`].
    pub seed: u64,
}

/// A relay that is ready to run.
#[derive(Debug)]
pub struct Hop {
    config: Config,
    discipline: Discipline,
    socket: EcnSocket,
    stop: Stopper,
    gate: Gate,
    origin: std::time::Instant,
    flows: Vec<Flow>,
    medium: Option<Box<dyn Medium>>,
    meter: Meter,
    observer: Option<Box<dyn Observer>>,
    report: Report,
    buffer: Vec<u8>,
}

/// Traffic counters of a running [`Hop`], readable from other threads.
#[derive(Debug, Clone, Default)]
pub struct Meter(Arc<[Tally; 2]>);

/// Datagrams, and their payload bytes.
#[derive(Debug, Default)]
struct Tally(AtomicU64, AtomicU64);

impl Meter {
    /// Numbers of datagrams and bytes until now: first those from clients, then those to clients.
    #[must_use]
    pub fn read(&self) -> [(u64, u64); 2] {
        let read = |Tally(datagrams, bytes): &Tally| {
            (
                datagrams.load(Ordering::Relaxed),
                bytes.load(Ordering::Relaxed),
            )
        };
        [read(&self.0[0]), read(&self.0[1])]
    }
}

impl Tally {
    fn add(&self, len: usize) {
        self.0.fetch_add(1, Ordering::Relaxed);
        self.1.fetch_add(len as u64, Ordering::Relaxed);
    }
}

/// Ends [`Hop::run`] or [`Bridge::run`](crate::bridge::Bridge::run) from another thread.
#[derive(Debug, Clone)]
pub struct Stopper(Arc<OwnedFd>);

/// Stalls a relay. No datagram passes while the result of [`Gate::hold`] lives. Datagrams sent meanwhile wait in the
/// system's buffers.
#[derive(Debug, Clone, Default)]
pub struct Gate(Arc<Mutex<()>>);

impl Gate {
    /// Closes the gate until the result is dropped.
    pub fn hold(&self) -> MutexGuard<'_, ()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a run when dropped.
#[derive(Debug)]
pub struct StopAtEnd(Stopper);

impl Drop for StopAtEnd {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Report of a run. Its `Display` has three lines, one more if captures are incomplete, and one more with a shared
/// medium.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Datagrams from clients to the target, of all clients together.
    pub up: Counters,
    /// Datagrams from the target to clients, of all clients together.
    pub down: Counters,
    /// Number of clients.
    pub flows: u64,
    /// Number of datagrams that were refused because they came from clients beyond the limit.
    pub refused: u64,
    /// Number of datagrams that have left a link model or the medium, but were not sent, because sending failed or
    /// their client had been replaced.
    pub unsent: u64,
    /// Lateness of the datagrams' release.
    pub lateness: Lateness,
    /// Number of datagrams that are missing from the observer's record.
    pub uncaptured: u64,
    /// Delays of datagrams to clients in the model of the shared medium; `None` without a shared medium.
    pub crossing: Option<Lateness>,
}

/// Gets all datagrams of a relay at both ends of its link, for example to capture them. The relay's thread calls it.
pub trait Observer: fmt::Debug + Send {
    /// The relay's clock starts now.
    fn start_clock(&mut self);

    /// A datagram from or to `client` enters or leaves the link at `end`. `at` is a time on the relay's clock.
    fn record(
        &mut self,
        at: Instant,
        end: End,
        direction: Direction,
        client: SocketAddr,
        bytes: &[u8],
    );

    /// Finishes the record. Returns the number of datagrams that are missing from it.
    ///
    /// # Errors
    /// Returns an error if the record could not be written completely.
    fn finish(self: Box<Self>) -> io::Result<u64>;
}

/// An end of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The target's end.
    Host,
    /// The client's end.
    Client,
}

/// Why a relay or a bridge failed.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
pub struct HopError {
    what: String,
    source: io::Error,
}

/// Maximum number of concurrent clients. At the limit, a new client replaces the client that has been silent longest,
/// provided that its silence has lasted at least [`IDLE`].
pub const MAX_FLOWS: usize = 64;

/// Silence after which a client may be replaced.
pub const IDLE: Duration = Duration::from_secs(30);

/// The seeds of the two link models, up and down, of the client with the number `flow`, counted from 0.
#[must_use]
pub fn seeds(seed: u64, flow: u64) -> (u64, u64) {
    let up = seed.wrapping_add(flow.wrapping_mul(2));
    (up, up.wrapping_add(1))
}

/// One client: its link, and the socket that represents it towards the target.
#[derive(Debug)]
struct Flow {
    client: SocketAddr,
    socket: EcnSocket,
    carrier: Carrier,
    last_activity: Instant,
}

/// The link of a client.
#[derive(Debug)]
enum Carrier {
    /// Its own link: up and down.
    Links(Box<[LinkModel; 2]>),
    /// Its station in the shared network.
    Station(usize),
}

/// Maximum number of datagrams that are read from one socket before the others are served.
const READS_PER_TURN: usize = 64;

/// Requested receive buffer in bytes, enough for bursts of several key frames.
const RECEIVE_BUFFER: usize = 4 << 20;

/// The headers of IPv4 and UDP, which are part of the airtime.
const HEADERS: usize = 20 + 8;

impl Hop {
    /// Opens the socket to which clients send.
    ///
    /// # Errors
    /// Returns an error if the address does not belong to this machine, or if its port is in use.
    pub fn open(config: Config) -> Result<Hop, HopError> {
        let what = || format!("cannot listen on UDP {}", config.listen);
        let socket = EcnSocket::open(config.listen, RECEIVE_BUFFER).map_err(|source| HopError {
            what: what(),
            source,
        })?;
        Ok(Hop {
            config,
            discipline: Discipline::default(),
            socket,
            stop: Stopper::new()?,
            gate: Gate::default(),
            origin: std::time::Instant::now(),
            flows: Vec::new(),
            medium: None,
            meter: Meter::default(),
            observer: None,
            report: Report::default(),
            buffer: vec![0; 1 << 16],
        })
    }

    /// The address for clients.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// A handle to stop [`Hop::run`].
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.stop.clone()
    }

    /// A handle to stall [`Hop::run`].
    #[must_use]
    pub fn gate(&self) -> Gate {
        self.gate.clone()
    }

    /// Traffic counters, which can be read while the relay runs.
    #[must_use]
    pub fn meter(&self) -> Meter {
        self.meter.clone()
    }

    /// Replaces the clients' links with this medium. The clients become the medium's stations. Call this method before
    /// [`Hop::run`].
    pub fn share(&mut self, medium: Box<dyn Medium>) {
        self.medium = Some(medium);
    }

    /// Sets the queue discipline of the bottleneck in both directions of each client's link. The relay passes on the
    /// ECN field of each datagram, with the discipline's marks. With a shared medium, the discipline has no effect, and
    /// datagrams leave as Not-ECT. Call this method before [`Hop::run`].
    pub fn set_discipline(&mut self, discipline: Discipline) {
        self.discipline = discipline;
    }

    /// Passes the relayed datagrams to this observer. Call this method before [`Hop::run`].
    pub fn observe(&mut self, observer: Box<dyn Observer>) {
        self.observer = Some(observer);
    }

    /// Relays datagrams until it is stopped, and then discards the datagrams in flight. All schedules start with this
    /// call, even those of clients that connect later.
    ///
    /// # Errors
    /// Returns an error if the clients' socket fails. An unreachable target is not an error.
    pub fn run(mut self) -> Result<Report, HopError> {
        let failed = |listen: SocketAddr| {
            move |source| HopError {
                what: format!("cannot relay from UDP {listen}"),
                source,
            }
        };
        let listen = self.config.listen;
        self.origin = std::time::Instant::now();
        if let Some(observer) = &mut self.observer {
            observer.start_clock();
        }
        let gate = self.gate.clone();
        loop {
            {
                let _open = gate.hold();
                self.release_due();
            }
            let ready = self.wait().map_err(failed(listen))?;
            if ready.stop {
                return self.into_report();
            }
            let _open = gate.hold();
            for index in ready.flows {
                self.read_target(index);
            }
            if ready.clients {
                self.read_clients().map_err(failed(listen))?;
            }
        }
    }

    fn now(&self) -> Instant {
        Instant(0) + self.origin.elapsed()
    }

    fn release_due(&mut self) {
        let origin = self.origin;
        let now = || Instant(0) + origin.elapsed();
        let started = now();
        for flow in &mut self.flows {
            let Carrier::Links(links) = &mut flow.carrier else {
                continue;
            };
            let [up, down] = &mut **links;
            while let Some((due, packet)) = up.poll_packet(started) {
                let bytes = packet.content;
                self.report.lateness.record(now().since(due));
                if let Some(observer) = &mut self.observer {
                    observer.record(now(), End::Host, Direction::Up, flow.client, &bytes);
                }
                let sent = has_left(|| flow.socket.send(&bytes, None, packet.ecn));
                self.report.unsent += u64::from(!sent);
            }
            while let Some((due, packet)) = down.poll_packet(started) {
                let bytes = packet.content;
                self.report.lateness.record(now().since(due));
                if let Some(observer) = &mut self.observer {
                    observer.record(now(), End::Client, Direction::Down, flow.client, &bytes);
                }
                let sent = has_left(|| self.socket.send(&bytes, Some(flow.client), packet.ecn));
                self.report.unsent += u64::from(!sent);
            }
        }
        while let Some(arrival) = self.medium.as_mut().and_then(|medium| medium.poll(started)) {
            self.report.lateness.record(now().since(arrival.due));
            // Discard datagrams of a replaced client.
            let mut flows = self.flows.iter();
            let sent = flows.find(|flow| flow.station() == Some(arrival.station));
            let sent = sent.is_some_and(|flow| {
                if let Some(observer) = &mut self.observer {
                    let end = match arrival.direction {
                        Direction::Up => End::Host,
                        Direction::Down => End::Client,
                    };
                    observer.record(now(), end, arrival.direction, flow.client, &arrival.bytes);
                }
                has_left(|| match arrival.direction {
                    Direction::Up => flow.socket.send(&arrival.bytes, None, Ecn::NotEct),
                    Direction::Down => {
                        let to = Some(flow.client);
                        self.socket.send(&arrival.bytes, to, Ecn::NotEct)
                    }
                })
            });
            self.report.unsent += u64::from(!sent);
        }
    }

    /// Waits for the next release, a datagram or a stop request.
    fn wait(&mut self) -> io::Result<Ready> {
        let medium = self.medium.as_mut();
        let shared = medium.and_then(|medium| medium.next_timeout());
        let mut fds = vec![
            PollFd::new(self.stop.fd(), PollFlags::IN),
            PollFd::new(&self.socket, PollFlags::IN),
        ];
        fds.extend(
            self.flows
                .iter()
                .map(|flow| PollFd::new(&flow.socket, PollFlags::IN)),
        );
        let due = self
            .flows
            .iter()
            .flat_map(Flow::timeouts)
            .chain(shared)
            .min();
        let timeout = due.map(|due| {
            let left = due.since(self.now());
            Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            }
        });
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
        Ok(Ready {
            stop: ready.next() == Some(true),
            clients: ready.next() == Some(true),
            flows: ready
                .enumerate()
                .filter_map(|(i, is)| is.then_some(i))
                .collect(),
        })
    }

    fn read_clients(&mut self) -> io::Result<()> {
        for _ in 0..READS_PER_TURN {
            let (len, client, ecn) = match self.socket.receive(&mut self.buffer) {
                Ok(received) => received,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                // An earlier datagram to a client was rejected (ICMP).
                Err(error) if is_harmless(&error) => continue,
                Err(error) => return Err(error),
            };
            let now = self.now();
            let Some(index) = self.flow_of(client, now) else {
                self.report.refused += 1;
                continue;
            };
            let flow = &mut self.flows[index];
            flow.last_activity = now;
            self.meter.0[0].add(len);
            if let Some(observer) = &mut self.observer {
                observer.record(now, End::Client, Direction::Up, client, &self.buffer[..len]);
            }
            let bytes = self.buffer[..len].to_vec();
            flow.carry(now, Direction::Up, (bytes, ecn), self.medium.as_mut());
        }
        Ok(())
    }

    fn read_target(&mut self, index: usize) {
        for _ in 0..READS_PER_TURN {
            let now = self.now();
            let flow = &mut self.flows[index];
            match flow.socket.receive(&mut self.buffer) {
                Ok((len, _, ecn)) => {
                    self.meter.0[1].add(len);
                    if let Some(observer) = &mut self.observer {
                        observer.record(
                            now,
                            End::Host,
                            Direction::Down,
                            flow.client,
                            &self.buffer[..len],
                        );
                    }
                    let bytes = self.buffer[..len].to_vec();
                    flow.carry(now, Direction::Down, (bytes, ecn), self.medium.as_mut());
                }
                Err(error) if is_harmless(&error) => {}
                Err(_) => return,
            }
        }
    }

    /// The index of a client's flow. Creates one if the limit allows it.
    fn flow_of(&mut self, client: SocketAddr, now: Instant) -> Option<usize> {
        if let Some(index) = self.flows.iter().position(|flow| flow.client == client) {
            return Some(index);
        }
        let medium = self.medium.as_ref();
        let room = medium.map_or(MAX_FLOWS, |medium| medium.stations());
        if self.flows.len() >= room {
            let (index, silent) = self
                .flows
                .iter()
                .enumerate()
                .min_by_key(|(_, flow)| flow.last_activity)?;
            if now.since(silent.last_activity) < IDLE {
                return None;
            }
            let silent = self.flows.swap_remove(index);
            self.report.count(&silent);
        }
        let any: SocketAddr = match self.config.to {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = EcnSocket::open(any, RECEIVE_BUFFER).ok()?;
        socket.connect(self.config.to).ok()?;
        let carrier = match self.medium {
            Some(_) => {
                let is_taken = |number: &usize| {
                    let mut flows = self.flows.iter();
                    flows.any(|flow| flow.station() == Some(*number))
                };
                Carrier::Station((0..room).find(|number| !is_taken(number))?)
            }
            None => {
                let (up, down) = seeds(self.config.seed, self.report.flows);
                let link = |schedule: &ImpairmentSchedule, seed| {
                    let mut link = LinkModel::on_course(schedule.clone(), Instant(0), seed);
                    link.set_discipline(self.discipline, seed);
                    link
                };
                Carrier::Links(Box::new([
                    link(&self.config.up, up),
                    link(&self.config.down, down),
                ]))
            }
        };
        self.report.flows += 1;
        self.flows.push(Flow {
            client,
            socket,
            carrier,
            last_activity: now,
        });
        Some(self.flows.len() - 1)
    }

    fn into_report(mut self) -> Result<Report, HopError> {
        if let Some(observer) = self.observer.take() {
            self.report.uncaptured = observer.finish().map_err(|source| HopError {
                what: "the captures were not written completely".to_owned(),
                source,
            })?;
        }
        for flow in &self.flows {
            self.report.count(flow);
        }
        if let Some(medium) = &self.medium {
            let (up, down) = medium.counters();
            self.report.up += up;
            self.report.down += down;
            self.report.crossing = Some(medium.crossing().clone());
        }
        Ok(self.report)
    }
}

impl Flow {
    fn timeouts(&self) -> impl Iterator<Item = Instant> + use<> {
        let timeouts = match &self.carrier {
            Carrier::Links(links) => links.each_ref().map(LinkModel::next_timeout),
            Carrier::Station(_) => [None; 2],
        };
        timeouts.into_iter().flatten()
    }

    fn station(&self) -> Option<usize> {
        match self.carrier {
            Carrier::Links(_) => None,
            Carrier::Station(number) => Some(number),
        }
    }

    /// Puts a datagram on the link.
    fn carry(
        &mut self,
        now: Instant,
        direction: Direction,
        (bytes, ecn): (Vec<u8>, Ecn),
        medium: Option<&mut Box<dyn Medium>>,
    ) {
        match (&mut self.carrier, medium) {
            (Carrier::Station(number), Some(medium)) => {
                let on_air = bytes.len() + HEADERS;
                medium.send(now, (direction, *number), bytes, on_air);
            }
            (Carrier::Links(links), _) => {
                let [up, down] = &mut **links;
                // All datagrams of a link belong to one client.
                let packet = Packet {
                    flow: 0,
                    len: bytes.len(),
                    ecn,
                    content: bytes,
                };
                match direction {
                    Direction::Up => up.send_packet(now, packet),
                    Direction::Down => down.send_packet(now, packet),
                }
            }
            (Carrier::Station(_), None) => {}
        }
    }
}

struct Ready {
    stop: bool,
    clients: bool,
    flows: Vec<usize>,
}

impl HopError {
    pub(crate) fn new(what: String, source: io::Error) -> HopError {
        HopError { what, source }
    }
}

impl Stopper {
    pub(crate) fn new() -> Result<Stopper, HopError> {
        rustix::event::eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
            .map(|fd| Stopper(Arc::new(fd)))
            .map_err(|error| HopError::new("cannot create an eventfd".into(), error.into()))
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.0
    }

    /// Ends the run when the result is dropped, even by a panic.
    #[must_use]
    pub fn stop_at_end(self) -> StopAtEnd {
        StopAtEnd(self)
    }

    /// Ends the run, now or as soon as it starts.
    pub fn stop(&self) {
        // The write fails only if the counter would overflow. In this case, a stop was already requested.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }
}

impl Report {
    fn count(&mut self, flow: &Flow) {
        if let Carrier::Links(links) = &flow.carrier {
            let [up, down] = links.each_ref().map(LinkModel::counters);
            self.up += up;
            self.down += down;
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "up:   {}", self.up)?;
        writeln!(f, "down: {}", self.down)?;
        write!(
            f,
            "{} clients, {} datagrams refused, {} unsent; released late by {}",
            self.flows, self.refused, self.unsent, self.lateness
        )?;
        if self.uncaptured > 0 {
            write!(f, "\n{} datagrams could not be captured", self.uncaptured)?;
        }
        match &self.crossing {
            Some(crossing) => write!(f, "\nover Wi-Fi to clients: {crossing}"),
            None => Ok(()),
        }
    }
}

/// Whether a datagram was sent. A call that reports the rejection of an earlier datagram has sent nothing, so it is
/// repeated.
fn has_left(mut send: impl FnMut() -> io::Result<usize>) -> bool {
    match send() {
        Err(error) if is_harmless(&error) => send().is_ok(),
        other => other.is_ok(),
    }
}

/// Whether the error reports the rejection of an earlier datagram (ICMP), or an interruption by a signal.
fn is_harmless(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset | ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests;
