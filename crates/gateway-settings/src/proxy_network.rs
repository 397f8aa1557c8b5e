//! The addresses of reverse proxies.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// The addresses of proxies: one address, or a network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProxyNetwork {
    address: IpAddr,
    bits: u32,
}

/// The text is neither an address nor a network.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected IP[/BITS]")]
pub struct InvalidProxyNetwork;

impl FromStr for ProxyNetwork {
    type Err = InvalidProxyNetwork;

    /// Parses `127.0.0.1`, `10.0.0.0/8` or `2001:db8::/64`.
    fn from_str(text: &str) -> Result<ProxyNetwork, InvalidProxyNetwork> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| InvalidProxyNetwork)?;
        let width = width(address);
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let bits = match bits {
            None => width,
            Some(bits) if digits(bits) => bits.parse().map_err(|_| InvalidProxyNetwork)?,
            Some(_) => return Err(InvalidProxyNetwork),
        };
        match bits <= width {
            true => Ok(ProxyNetwork { address, bits }),
            false => Err(InvalidProxyNetwork),
        }
    }
}

impl fmt::Display for ProxyNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bits == width(self.address) {
            true => self.address.fmt(f),
            false => write!(f, "{}/{}", self.address, self.bits),
        }
    }
}

impl ProxyNetwork {
    /// Whether `other` is one of these addresses. `other` must be canonical: an IPv4 address, not an IPv4-mapped IPv6
    /// address.
    #[must_use]
    pub fn contains(self, other: IpAddr) -> bool {
        let width = width(self.address);
        let number = |address: IpAddr| match address {
            IpAddr::V4(v4) => u128::from(u32::from(v4)),
            IpAddr::V6(v6) => u128::from(v6),
        };
        let same_family = self.address.is_ipv4() == other.is_ipv4();
        let differ = number(self.address) ^ number(other);
        same_family && differ.checked_shr(width - self.bits).unwrap_or(0) == 0
    }
}

fn width(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_an_address_or_a_network() {
        let contains = |network: &str, address: &str| {
            network
                .parse::<ProxyNetwork>()
                .unwrap()
                .contains(address.parse().unwrap())
        };
        assert!(contains("10.0.0.0/8", "10.255.0.1"));
        assert!(!contains("10.0.0.0/8", "11.0.0.1"));
        assert!(contains("2001:db8::/64", "2001:db8::1"));
        assert!(!contains("2001:db8::/64", "2001:db8:0:1::1"));
        assert!(contains("0.0.0.0/0", "192.0.2.1") && !contains("0.0.0.0/0", "2001:db8::1"));
        assert!(contains("::/0", "2001:db8::1"));
        for good in ["127.0.0.1", "10.0.0.0/8", "2001:db8::/64"] {
            let network: ProxyNetwork = good.parse().unwrap();
            assert_eq!(network.to_string(), good);
        }
        for bad in [
            "",
            "proxy",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "1.2.3.4:80",
        ] {
            assert_eq!(
                bad.parse::<ProxyNetwork>(),
                Err(InvalidProxyNetwork),
                "{bad}"
            );
        }
    }
}
