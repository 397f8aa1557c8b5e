//! Attacks by devices: an admitted observer that requests probes endlessly, and a client that guesses PINs.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use openuvr_proto::client::ClientSession;
use openuvr_proto::control::handshake::{ClientHandshake, Established, HandshakeError, Trust};
use openuvr_proto::control::identity::{DeviceName, Identity};
use openuvr_proto::control::negotiate::{ClientConstraints, Offer, Role};
use openuvr_proto::control::pairing::Pin;
use openuvr_proto::control::transport_probe::{BURST, ProbeTarget};
use openuvr_proto::id::PathId;
use openuvr_proto::time;
use openuvr_proto::wire::MAX_DATAGRAM;
use openuvr_proto::wire::header::{Plane, plane_of};

use super::Attack;

/// Timeout of a reply.
const TIMEOUT: Duration = Duration::from_millis(50);

/// Tries to perform a handshake for at most `span`. An inner `Ok(None)` means that the handshake was not complete in
/// this time.
///
/// # Errors
/// Returns the system's error or, as the inner error, the host's refusal.
fn shake_hands(
    socket: &UdpSocket,
    identity: &Identity,
    trust: Trust,
    span: Duration,
) -> io::Result<Result<Option<Established>, HandshakeError>> {
    let begun = Instant::now();
    let now = || {
        let passed = begun.elapsed().as_nanos();
        time::Instant(i64::try_from(passed).unwrap_or(i64::MAX))
    };
    let name = DeviceName::new("attacker");
    let mut client = match ClientHandshake::new(now(), identity, name, trust) {
        Ok(client) => client,
        Err(why) => return Ok(Err(why)),
    };
    socket.set_read_timeout(Some(TIMEOUT))?;
    let mut reply = [0; 2048];
    while begun.elapsed() < span {
        if let Err(why) = client.handle_timeout(now()) {
            return Ok(Err(why));
        }
        while let Some(datagram) = client.poll_transmit(now()) {
            socket.send(&datagram)?;
        }
        let Ok(length) = socket.recv(&mut reply) else {
            continue;
        };
        match client.handle_datagram(now(), &reply[..length]) {
            Ok(None) => {}
            outcome => return Ok(outcome),
        }
    }
    Ok(Ok(None))
}

/// An observer that endlessly requests probes, which are bursts of datagrams.
pub struct Probing {
    socket: UdpSocket,
    session: ClientSession,
    begun: Instant,
    out: Vec<u8>,
    /// Number of datagrams received in answer to probes.
    answers: u64,
}

impl Probing {
    /// Joins `host` as an observer. The host must know `identity`.
    ///
    /// # Errors
    /// Returns a one-line error if the host has refused the observer or has not answered.
    pub fn join(host: SocketAddr, identity: &Identity, trust: Trust) -> io::Result<Probing> {
        let socket = UdpSocket::bind(SocketAddr::new(host.ip(), 0))?;
        socket.connect(host)?;
        let met = shake_hands(&socket, identity, trust, Duration::from_secs(5))?;
        let met = met.map_err(io::Error::other)?;
        let met = met.ok_or(io::ErrorKind::TimedOut)?;
        let offer = Offer {
            role: Role::Observer,
            take_over: false,
            codecs: u32::MAX,
            name: "attacker".to_owned(),
            software: String::new(),
            constraints: ClientConstraints::default(),
            streams: Vec::new(),
        };
        socket.set_nonblocking(true)?;
        Ok(Probing {
            socket,
            session: ClientSession::new(time::Instant(0), &met, offer),
            begun: Instant::now(),
            out: Vec::new(),
            answers: 0,
        })
    }

    /// Number of received bursts, rounded up. It is computed from the number of datagrams.
    #[must_use]
    pub fn bursts(&self) -> u64 {
        self.answers.div_ceil(u64::from(BURST))
    }
}

impl Attack for Probing {
    fn strike(&mut self, _: u64) -> io::Result<()> {
        let passed = i64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(i64::MAX);
        let now = time::Instant(passed);
        let path = PathId::default();
        let mut datagram = [0; 2048];
        while let Ok(length) = self.socket.recv(&mut datagram) {
            let datagram = &datagram[..length];
            // On the control plane, only answers to probes have the maximum datagram size.
            let full = length == MAX_DATAGRAM && plane_of(datagram) == Ok(Plane::Control);
            self.answers += u64::from(full);
            // The result is ignored, because the session refuses video and other datagrams.
            let _ = self.session.handle_datagram(now, path, datagram);
        }
        self.session.handle_timeout(now);
        while self.session.poll_event().is_some() {}
        while self.session.poll_transmit(now, &mut self.out) {
            self.socket.send(&self.out)?;
        }
        let segmented = true;
        self.session.probe(now, ProbeTarget { path, segmented });
        while (self.session.poll_on_path(now, &mut self.out)).is_some() {
            self.socket.send(&self.out)?;
        }
        Ok(())
    }
}

/// A client that tries random PINs one after another, each as a new device.
pub struct Guessing {
    host: SocketAddr,
    /// Number of correct guesses.
    paired: u64,
    refused: u64,
}

impl Guessing {
    /// Targets this host.
    #[must_use]
    pub fn new(host: SocketAddr) -> Guessing {
        Guessing {
            host,
            paired: 0,
            refused: 0,
        }
    }

    /// The number of correct guesses, and the number of other attempts, refused or unanswered.
    #[must_use]
    pub fn outcome(&self) -> (u64, u64) {
        (self.paired, self.refused)
    }
}

impl Attack for Guessing {
    fn strike(&mut self, _: u64) -> io::Result<()> {
        let socket = UdpSocket::bind(SocketAddr::new(self.host.ip(), 0))?;
        socket.connect(self.host)?;
        let identity = Identity::generate().map_err(io::Error::other)?;
        let pin = Pin::generate().map_err(io::Error::other)?;
        let span = Duration::from_secs(1);
        match shake_hands(&socket, &identity, Trust::Pin(pin), span)? {
            Ok(Some(_)) => self.paired += 1,
            Ok(None) | Err(_) => self.refused += 1,
        }
        Ok(())
    }
}
