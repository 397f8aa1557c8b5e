//! Attacks on one's own host, as an attacker on the network without keys can make them. All datagrams are built from public
//! information.
//!
//! It is not a scanner: [`own`] limits targets to hosts on this machine, and nothing here searches for others. It gives no
//! verdicts, either: the caller measures.

pub mod browsers;
pub mod device;
pub mod floods;
pub mod handshakes;
pub mod portal;
pub mod tap;

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A repeatable attack.
pub trait Attack: Send {
    /// Strikes for the `n`-th time, counted from 0. Unsent datagrams are not counted.
    ///
    /// # Errors
    /// Returns the system's error for a datagram that was not sent.
    fn strike(&mut self, n: u64) -> io::Result<()>;
}

/// Runs an attack `per_second` times a second until `stop` is set. `struck` counts the strikes.
pub fn run(attack: &mut dyn Attack, per_second: u32, stop: &AtomicBool, struck: &AtomicU64) {
    let (begun, mut n) = (Instant::now(), 0_u64);
    while !stop.load(Ordering::Relaxed) {
        let due = begun.elapsed().as_nanos() * u128::from(per_second) / 1_000_000_000;
        if u128::from(n) >= due {
            std::thread::sleep(TURN);
            continue;
        }
        if attack.strike(n).is_ok() {
            struck.fetch_add(1, Ordering::Relaxed);
        }
        n += 1;
        // An attack that can't keep up skips all but the newest missed strikes.
        n = n.max(u64::try_from(due).unwrap_or(n).saturating_sub(BEHIND));
    }
}

/// Period of checking for due strikes.
const TURN: Duration = Duration::from_millis(1);

/// Maximum number of strikes to catch up at once.
const BEHIND: u64 = 2000;

/// Whether `host` is this machine, or its current network namespace: loopback, or an address that
/// is also the source address of datagrams to it.
#[must_use]
pub fn own(host: IpAddr) -> bool {
    if host.is_unspecified() || host.is_multicast() {
        return false;
    }
    let source = || -> io::Result<IpAddr> {
        let socket = UdpSocket::bind(SocketAddr::new(host, 0))?;
        // Sends no packet. Linux allows binding a broadcast address, but not connecting to it.
        socket.connect(SocketAddr::new(host, 9))?;
        Ok(socket.local_addr()?.ip())
    };
    source().is_ok_and(|source| source == host)
}

#[cfg(test)]
mod tests {
    use super::own;

    #[test]
    fn only_addresses_of_this_machine_may_be_attacked() {
        for (host, may) in [
            ("127.0.0.1", true),
            ("127.8.9.10", true),
            ("192.0.2.7", false),
            ("203.0.113.1", false),
            ("2001:db8::1", false),
            ("0.0.0.0", false),
            ("::", false),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
        ] {
            assert_eq!(own(host.parse().unwrap()), may, "{host}");
        }
    }
}
