//! Attacks on one's own host or portal. Except for the admitted observer in [`device`], the attackers have no key that
//! the target trusts. They use only information that is public or that an on-path attacker can read.
//!
//! This module is not a scanner: callers use [`own`] to limit targets to this machine, and nothing here searches for
//! hosts. The module gives no verdicts: the caller measures the effect.

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
    /// Performs strike number `n`, counted from 0.
    ///
    /// # Errors
    /// Returns an error if the strike failed, for example because its datagram could not be sent. [`run`] does not
    /// count such a strike.
    fn strike(&mut self, n: u64) -> io::Result<()>;
}

/// Runs an attack `per_second` times a second until `stop` is set. `struck` counts the successful strikes.
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
        // If an attack can't keep up, skip all missed strikes except the newest [`BEHIND`].
        n = n.max(u64::try_from(due).unwrap_or(n).saturating_sub(BEHIND));
    }
}

/// Interval at which due strikes are checked.
const TURN: Duration = Duration::from_millis(1);

/// Maximum number of strikes to catch up at once.
const BEHIND: u64 = 2000;

/// Whether `host` is an address of this machine (in the network namespace of this process). A socket that is
/// bound to such an address can also connect to it.
#[must_use]
pub fn own(host: IpAddr) -> bool {
    if host.is_unspecified() || host.is_multicast() {
        return false;
    }
    let source = || -> io::Result<IpAddr> {
        let socket = UdpSocket::bind(SocketAddr::new(host, 0))?;
        // This sends no packet. Linux allows a socket to bind a broadcast address, but not to connect to one.
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
