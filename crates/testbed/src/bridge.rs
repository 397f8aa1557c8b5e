//! A link emulator as a bridge between two network interfaces. It forwards every frame in both directions, whatever its
//! EtherType. The link model delays or drops frames.
//!
//! It needs its own network namespace, into which two cables lead. Their ends in this namespace must have no addresses.
//! One thread handles both directions and records its own lateness. Frames are forwarded as on a cable: this module
//! does the work that the sender left to the network card (see `offload`), and GRO is switched off while the bridge
//! runs.
//!
//! It is not a switch: it learns no addresses, and drops VLAN tags. A link counts the bytes of a frame starting at the
//! Ethernet header, without the checksum.

mod ecn_field;
mod offload;
mod sys;

use std::fmt;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;

use openuvr_proto::time::Instant;
use openuvr_sim::aqm::{Discipline, Ecn};
use openuvr_sim::lateness::Lateness;
use openuvr_sim::link::{Counters, LinkModel};
use openuvr_sim::medium::{Direction, Medium};
use openuvr_sim::schedule::ImpairmentSchedule;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{RecvFlags, SendFlags, sockopt};

use crate::hop::{HopError, Stopper, seeds};
use offload::{HEADER_LEN, NOTHING_TO_DO};

/// Configuration of a bridge.
#[derive(Debug, Clone)]
pub struct Config {
    /// The interface towards the client.
    pub client_side: String,
    /// The interface towards the host.
    pub host_side: String,
    /// Impairments of the frames from the client to the host.
    pub up: ImpairmentSchedule,
    /// Impairments of the frames from the host to the client.
    pub down: ImpairmentSchedule,
    /// Seed of all random decisions: the models use [`seeds`] for flow 0.
    pub seed: u64,
}

/// A bridge that is ready to run. Frames that arrive before it runs are buffered.
#[derive(Debug)]
pub struct Bridge {
    stop: Stopper,
    seed: u64,
    origin: std::time::Instant,
    up: BridgePath,
    down: BridgePath,
    medium: Option<Box<dyn Medium>>,
    report: Report,
    buffer: Vec<u8>,
}

/// Report of a run. Its `Display` has three lines.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Frames from the client to the host.
    pub up: Counters,
    /// Frames from the host to the client.
    pub down: Counters,
    /// Frames that were lost because their offload header was invalid or not supported.
    pub unreadable: u64,
    /// Frames that have left the link model or the medium, but could not be sent.
    pub unsent: u64,
    /// Lateness of the frames' release.
    pub lateness: Lateness,
}

#[derive(Debug)]
struct BridgePath {
    from: Port,
    on_air: Direction,
    link: LinkModel,
    to: OwnedFd,
}

#[derive(Debug)]
struct Port {
    name: String,
    socket: OwnedFd,
    /// Whether GRO must be enabled again when the port is dropped.
    joined: bool,
}

/// Maximum number of frames that are read from one side before the other side is served.
const READS_PER_TURN: usize = 64;

/// Requested receive buffer in bytes, enough for bursts of several key frames.
const RECEIVE_BUFFER: usize = 4 << 20;

/// Length of an Ethernet header, which a shared medium does not transmit.
const ETHERNET: usize = 14;

/// Size of one read: the largest frame that segmentation offload creates, with its headers.
const LARGEST: usize = HEADER_LEN + (1 << 16) + 256;

impl Bridge {
    /// Opens both interfaces.
    ///
    /// # Errors
    /// Returns an error if CAP_NET_RAW is missing, or if an interface is missing or down.
    pub fn open(config: Config) -> Result<Bridge, HopError> {
        let client = Port::open(&config.client_side)?;
        let host = Port::open(&config.host_side)?;
        let to = |port: &Port| {
            let copy = port.socket.try_clone();
            copy.map_err(|error| HopError::new(format!("cannot send to {}", port.name), error))
        };
        let (to_client, to_host) = (to(&client)?, to(&host)?);
        let (up, down) = seeds(config.seed, 0);
        let begin = Instant(0);
        Ok(Bridge {
            stop: Stopper::new()?,
            seed: config.seed,
            origin: std::time::Instant::now(),
            up: BridgePath {
                from: client,
                on_air: Direction::Up,
                link: LinkModel::on_course(config.up, begin, up),
                to: to_host,
            },
            down: BridgePath {
                from: host,
                on_air: Direction::Down,
                link: LinkModel::on_course(config.down, begin, down),
                to: to_client,
            },
            medium: None,
            report: Report::default(),
            buffer: vec![0; LARGEST],
        })
    }

    /// Replaces the link with this medium. The client becomes the medium's first station. Call this method before
    /// [`Bridge::run`].
    pub fn share(&mut self, medium: Box<dyn Medium>) {
        self.medium = Some(medium);
    }

    /// Sets the queue discipline of the bottleneck in both directions. The discipline marks only ECN-capable frames,
    /// which have an IP header. With a shared medium, the discipline has no effect. Call this method before
    /// [`Bridge::run`].
    pub fn set_discipline(&mut self, discipline: Discipline) {
        let (up, down) = seeds(self.seed, 0);
        self.up.link.set_discipline(discipline, up);
        self.down.link.set_discipline(discipline, down);
    }

    /// A handle to stop [`Bridge::run`].
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.stop.clone()
    }

    /// Forwards frames until it is stopped, and then discards the frames in flight. The schedules start with this call.
    ///
    /// # Errors
    /// Returns an error if an interface disappears or goes down.
    pub fn run(mut self) -> Result<Report, HopError> {
        self.origin = std::time::Instant::now();
        let origin = self.origin;
        let now = || Instant(0) + origin.elapsed();
        loop {
            for direction in [&mut self.up, &mut self.down] {
                direction.release(&now, &mut self.report);
            }
            self.release_from_medium(&now);
            if self.wait(now())? {
                let links = (self.up.link.counters(), self.down.link.counters());
                let medium = self.medium.as_ref();
                let counters = medium.map_or(links, |medium| medium.counters());
                (self.report.up, self.report.down) = counters;
                return Ok(self.report);
            }
            for direction in [&mut self.up, &mut self.down] {
                direction.read(
                    &now,
                    &mut self.buffer,
                    self.medium.as_mut(),
                    &mut self.report,
                )?;
            }
        }
    }

    fn release_from_medium(&mut self, now: &impl Fn() -> Instant) {
        let started = now();
        while let Some(arrival) = self.medium.as_mut().and_then(|medium| medium.poll(started)) {
            self.report.lateness.record(now().since(arrival.due));
            let direction = match arrival.direction {
                Direction::Up => &self.up,
                Direction::Down => &self.down,
            };
            direction.put(&arrival.bytes, &mut Vec::new(), &mut self.report);
        }
    }

    /// Waits for the next release, a frame or a stop request. Returns whether the run must end.
    fn wait(&mut self, now: Instant) -> Result<bool, HopError> {
        let medium = self.medium.as_mut();
        let shared = medium.and_then(|medium| medium.next_timeout());
        let mut fds = [
            PollFd::new(self.stop.fd(), PollFlags::IN),
            PollFd::new(&self.up.from.socket, PollFlags::IN),
            PollFd::new(&self.down.from.socket, PollFlags::IN),
        ];
        let ways = [&self.up, &self.down];
        let due = ways
            .iter()
            .filter_map(|direction| direction.link.next_timeout());
        let due = due.chain(shared).min();
        let timeout = due.map(|due| {
            let left = due.since(now);
            Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            }
        });
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(!fds[0].revents().is_empty()),
            Err(error) => Err(HopError::new("cannot wait for frames".into(), error.into())),
        }
    }
}

impl BridgePath {
    fn release(&mut self, now: &impl Fn() -> Instant, report: &mut Report) {
        let started = now();
        let mut bytes = Vec::new();
        while let Some((due, packet)) = self.link.poll_packet(started) {
            report.lateness.record(now().since(due));
            let mut frame = packet.content;
            if packet.ecn == Ecn::Ce {
                ecn_field::mark(&mut frame);
            }
            self.put(&frame, &mut bytes, report);
        }
    }

    /// Sends a frame to the interface at the end of this direction.
    fn put(&self, frame: &[u8], bytes: &mut Vec<u8>, report: &mut Report) {
        bytes.clear();
        bytes.extend_from_slice(&NOTHING_TO_DO);
        bytes.extend_from_slice(frame);
        let sent = rustix::net::send(&self.to, bytes, SendFlags::empty());
        report.unsent += u64::from(sent.is_err());
    }

    fn read(
        &mut self,
        now: &impl Fn() -> Instant,
        buffer: &mut [u8],
        mut medium: Option<&mut Box<dyn Medium>>,
        report: &mut Report,
    ) -> Result<(), HopError> {
        for _ in 0..READS_PER_TURN {
            let received = rustix::net::recv(&self.from.socket, &mut *buffer, RecvFlags::TRUNC);
            let len = match received.map_err(io::Error::from) {
                Ok((_, len)) => len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // The kernel cannot describe this kind of offload in the header before the frame (EINVAL). The frame is
                // lost.
                Err(error) if error.kind() == ErrorKind::InvalidInput => {
                    report.unreadable += 1;
                    continue;
                }
                Err(error) => {
                    let what = format!("the interface {} is gone or down", self.from.name);
                    return Err(HopError::new(what, error));
                }
            };
            let (link, direction) = (&mut self.link, self.on_air);
            let mut carry = |frame: Vec<u8>| match &mut medium {
                None => link.send_packet(now(), ecn_field::packet(frame)),
                Some(medium) => {
                    let packet = frame.len().saturating_sub(ETHERNET);
                    medium.send(now(), (direction, 0), frame, packet);
                }
            };
            let frames = buffer.get(..len);
            let done = frames.and_then(|bytes| offload::finish(bytes, &mut carry));
            report.unreadable += u64::from(done.is_none());
        }
        Ok(())
    }
}

impl Port {
    fn open(name: &str) -> Result<Port, HopError> {
        let failed = |error| HopError::new(format!("cannot bridge the interface {name}"), error);
        let says = |what: &str| io::Error::other(what.to_owned());
        let any = rustix::net::socket(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::DGRAM,
            None,
        )
        .map_err(|error| failed(error.into()))?;
        let index = rustix::net::netdevice::name_to_index(&any, name)
            .map_err(|_| failed(says("no such interface in this network namespace")))?;
        let socket = sys::open(index).map_err(|error| {
            failed(match error.kind() {
                ErrorKind::PermissionDenied => {
                    says("packet sockets need CAP_NET_RAW: run the command as root")
                }
                _ => error,
            })
        })?;
        if sockopt::socket_error(&socket).is_ok_and(|state| state.is_err()) {
            return Err(failed(says(&format!(
                "it is down: ip link set dev {name} up"
            ))));
        }
        if sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER).is_err() {
            // With a smaller buffer, frames are lost only when many arrive at once.
            let _ = sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER);
        }
        // Without the privilege to switch GRO off, frames arrive merged and are segmented again here.
        let joined = sys::is_gro_enabled(&socket, name).unwrap_or(false)
            && sys::set_gro(&socket, name, false).is_ok();
        Ok(Port {
            name: name.to_owned(),
            socket,
            joined,
        })
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        if self.joined {
            // The interface may be gone.
            let _ = sys::set_gro(&self.socket, &self.name, true);
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "up:   {}", self.up)?;
        writeln!(f, "down: {}", self.down)?;
        write!(
            f,
            "{} frames unreadable, {} unsent; released late by {}",
            self.unreadable, self.unsent, self.lateness
        )
    }
}

#[cfg(test)]
mod tests;
