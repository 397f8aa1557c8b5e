//! The address of a host: `desk`, `192.168.1.5:4711`, `[fe80::1%eth0]`, `2001:db8::1`,
//! `eth0/52:54:00:12:34:56`.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::str::FromStr;

use openuvr_net::ether::Mac;

use crate::PORT;

/// A host's address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    /// A name, an IPv4 address, an IPv6 address without brackets, or an Ethernet address (an interface of this machine,
    /// `/` and a MAC address).
    pub host: String,
    /// The port. All transports use the same port.
    pub port: u16,
}

impl Target {
    /// The interface and the MAC address; `None` if the target is not an Ethernet address.
    #[must_use]
    pub fn ethernet(&self) -> Option<(&str, Mac)> {
        let (interface, mac) = self.host.split_once('/')?;
        Some((interface, mac.parse().ok()?))
    }

    /// Whether the host is a name, and neither an IP address nor an Ethernet address.
    pub(super) fn is_name(&self) -> bool {
        let address = self
            .host
            .split_once('%')
            .map_or(self.host.as_str(), |(ip, _)| ip);
        self.ethernet().is_none() && address.parse::<IpAddr>().is_err()
    }

    /// Resolves the name to addresses, in the system's order of preference. May block for seconds.
    ///
    /// # Errors
    /// Returns the system's error if the name cannot be resolved.
    pub fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        Ok((self.host.as_str(), self.port).to_socket_addrs()?.collect())
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') && self.ethernet().is_none() {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// The error for a text that is not a host address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "expected the name or address of one machine, with a port if it isn't {PORT}, such as desk, 192.168.1.5:4710, \
     [::1]:4710, eth0/52:54:00:12:34:56, or [fe80::1%eth0] with its network interface"
)]
pub struct BadTarget;

impl FromStr for Target {
    type Err = BadTarget;

    fn from_str(text: &str) -> Result<Target, BadTarget> {
        parse(text).ok_or(BadTarget)
    }
}

fn parse(text: &str) -> Option<Target> {
    let is_v6 = |host: &str| {
        let (address, zone) = host.split_once('%').unzip();
        let address = address.unwrap_or(host).parse::<Ipv6Addr>();
        // A link-local address is ambiguous without an interface (RFC 4007, section 6).
        let ambiguous = |address: Ipv6Addr| address.is_unicast_link_local() && zone.is_none();
        zone != Some("") && address.is_ok_and(|a| !a.is_multicast() && !ambiguous(a))
    };
    // Multicast and broadcast addresses do not identify a single machine.
    let is_many = |host: &str| {
        let address = host.parse::<Ipv4Addr>();
        address.is_ok_and(|a| a.is_multicast() || a.is_broadcast())
    };
    let port_behind = |rest: &str| match rest.strip_prefix(':') {
        Some(port) => number(port).filter(|port| *port != 0),
        None => rest.is_empty().then_some(PORT),
    };
    if let Some((interface, rest)) = text.split_once('/') {
        // Interface names have at most 15 bytes (IFNAMSIZ minus the NUL), and MAC addresses in text form have 17 bytes.
        let (mac, rest) = rest.split_at_checked(17)?;
        let mac: Mac = mac.parse().ok()?;
        let named = |c: char| c.is_ascii_graphic() && !"/:".contains(c);
        let valid = (1..=15).contains(&interface.len()) && interface.chars().all(named);
        return valid.then_some(Target {
            host: format!("{interface}/{mac}"),
            port: port_behind(rest)?,
        });
    }
    let (host, port) = if let Some(bracketed) = text.strip_prefix('[') {
        let (host, rest) = bracketed.split_once(']')?;
        (is_v6(host).then_some(host)?, port_behind(rest)?)
    } else if is_v6(text) {
        (text, PORT)
    } else {
        let (host, rest) = text.split_at(text.find(':').unwrap_or(text.len()));
        let named = |c: char| c.is_alphanumeric() || "-._".contains(c);
        let valid = !host.is_empty() && !host.starts_with('-') && !is_many(host);
        let valid = valid && host.chars().all(named);
        (valid.then_some(host)?, port_behind(rest)?)
    };
    Some(Target {
        host: host.to_owned(),
        port,
    })
}

/// Parses a number that consists only of digits, because `parse` would accept a sign.
fn number(text: &str) -> Option<u16> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok())?
}
