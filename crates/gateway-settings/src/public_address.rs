//! Addresses at which browsers reach a host through an address translator (NAT).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

/// An address at which browsers reach this host, if it differs from the host's own address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PublicAddress {
    ip: IpAddr,
    /// The port; `None` if it is the gateway's own port.
    port: Option<u16>,
}

/// The text is not a host address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected IP[:PORT] of one machine")]
pub struct InvalidPublicAddress;

impl FromStr for PublicAddress {
    type Err = InvalidPublicAddress;

    /// Parses `203.0.113.7`, `203.0.113.7:4711`, `2001:db8::7` or `[2001:db8::7]:4711`.
    fn from_str(text: &str) -> Result<PublicAddress, InvalidPublicAddress> {
        let (ip, port) = match text.parse::<SocketAddr>() {
            Ok(at) => (at.ip(), Some(at.port())),
            Err(_) => (text.parse().map_err(|_| InvalidPublicAddress)?, None),
        };
        let ip = ip.to_canonical();
        let never = ip.is_unspecified() || ip.is_multicast() || ip == Ipv4Addr::BROADCAST;
        match !never && port != Some(0) {
            true => Ok(PublicAddress { ip, port }),
            false => Err(InvalidPublicAddress),
        }
    }
}

impl PublicAddress {
    /// The address and its port. An address without a port gets `port`.
    #[must_use]
    pub fn or_port(self, port: u16) -> SocketAddr {
        SocketAddr::new(self.ip, self.port.unwrap_or(port))
    }
}

impl fmt::Display for PublicAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => SocketAddr::new(self.ip, port).fmt(f),
            None => self.ip.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_one_of_a_machine_with_or_without_a_port() {
        let at = |text: &str| {
            let address: PublicAddress = text.parse().unwrap();
            (address.to_string(), address.or_port(4711).to_string())
        };
        let of = |shown: &str, whole: &str| (shown.to_owned(), whole.to_owned());
        assert_eq!(at("203.0.113.7"), of("203.0.113.7", "203.0.113.7:4711"));
        assert_eq!(at("203.0.113.7:80"), of("203.0.113.7:80", "203.0.113.7:80"));
        assert_eq!(at("2001:db8::7"), of("2001:db8::7", "[2001:db8::7]:4711"));
        assert_eq!(
            at("[2001:db8::7]:80"),
            of("[2001:db8::7]:80", "[2001:db8::7]:80")
        );
        for bad in [
            "",
            "desk",
            "203.0.113.7:",
            "203.0.113.7:0",
            "203.0.113.7:70000",
            "203.0.113",
            "0.0.0.0",
            "::",
            "224.0.0.1",
            "255.255.255.255",
            "[2001:db8::7]",
            "2001:db8::7]:80",
        ] {
            assert_eq!(
                bad.parse::<PublicAddress>(),
                Err(InvalidPublicAddress),
                "{bad}"
            );
        }
    }
}
