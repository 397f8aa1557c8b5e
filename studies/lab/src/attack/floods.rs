//! Floods of datagrams: garbage from unknown addresses, and recorded datagrams, unchanged or altered.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use openuvr_sim::random::Random;

use super::Attack;
use super::tap::Forger;

/// Random bytes, some with a valid datagram prefix, from several addresses.
pub struct Garbage {
    sockets: Vec<UdpSocket>,
    random: Random,
    bytes: Vec<u8>,
}

/// Slightly longer than the longest datagram of the protocol.
const LONGEST: usize = 1500;

impl Garbage {
    /// Opens sockets that send to a host from these addresses of this machine.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn open(
        host: SocketAddr,
        from: impl IntoIterator<Item = IpAddr>,
        seed: u64,
    ) -> io::Result<Garbage> {
        let socket = |from| {
            let socket = UdpSocket::bind(SocketAddr::new(from, 0))?;
            socket.connect(host)?;
            Ok(socket)
        };
        let sockets = from.into_iter().map(socket).collect::<io::Result<_>>()?;
        let mut random = Random::new(seed, 0);
        let bytes = (0..LONGEST * 2).map(|_| random.byte()).collect();
        Ok(Garbage {
            sockets,
            random,
            bytes,
        })
    }
}

impl Attack for Garbage {
    fn strike(&mut self, n: u64) -> io::Result<()> {
        let (start, length) = (self.random.below(LONGEST), self.random.below(LONGEST));
        let datagram = &mut self.bytes[start..start + length];
        if let (true, [version, plane, zeros @ ..]) = (n.is_multiple_of(2), &mut *datagram) {
            (*version, *plane) = (1, self.random.byte() % 4);
            zeros.iter_mut().take(2).for_each(|byte| *byte = 0);
        }
        let socket = &self.sockets[self.random.below(self.sockets.len())];
        match socket.send(datagram) {
            // The host is restarting, so no socket listens at the moment.
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
            sent => sent.map(drop),
        }
    }
}

/// Sends recorded datagrams again, from their original source address.
pub struct Replayed {
    forger: Forger,
    random: Random,
    altered: bool,
}

impl Replayed {
    /// Replays the datagrams unchanged. With `altered`, flips one bit of each datagram, or replaces its whole payload
    /// with random bytes.
    #[must_use]
    pub fn new(forger: Forger, altered: bool, seed: u64) -> Replayed {
        Replayed {
            forger,
            random: Random::new(seed, 0),
            altered,
        }
    }
}

/// Length of a datagram's header in bytes.
const HEADER: usize = 24;

impl Attack for Replayed {
    fn strike(&mut self, n: u64) -> io::Result<()> {
        let seen = self.forger.seen(self.random.below(1 << 16));
        let mut datagram = seen.ok_or(io::ErrorKind::NotConnected)?;
        if self.altered && !datagram.is_empty() {
            if n.is_multiple_of(2) {
                let at = self.random.below(datagram.len());
                datagram[at] ^= 1 << self.random.below(8);
            } else {
                let behind = datagram.iter_mut().skip(HEADER);
                behind.for_each(|byte| *byte = self.random.byte());
            }
        }
        self.forger.send(&datagram)
    }
}
