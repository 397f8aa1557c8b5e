//! Hosts and networks that links may connect to.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A host or a network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Allowed {
    /// A name, in lower case.
    Name(String),
    /// A network: its address, and the length of its prefix in bits.
    Network(IpAddr, u8),
}

impl Allowed {
    /// Whether `host`, a name or an address as in a link, is included. Names are not resolved, because DNS answers are
    /// not trustworthy.
    pub(super) fn includes(&self, host: &str) -> bool {
        match (self, host.parse::<IpAddr>()) {
            (Allowed::Name(name), Err(_)) => host.eq_ignore_ascii_case(name),
            (Allowed::Network(IpAddr::V4(network), bits), Ok(IpAddr::V4(host))) => {
                same(network.to_bits().into(), host.to_bits().into(), 32 - bits)
            }
            (Allowed::Network(IpAddr::V6(network), bits), Ok(IpAddr::V6(host))) => {
                same(network.to_bits(), host.to_bits(), 128 - bits)
            }
            _ => false,
        }
    }
}

/// Whether both numbers are equal except for the lowest `free` bits.
fn same(one: u128, other: u128, free: u8) -> bool {
    (one ^ other).checked_shr(free.into()).unwrap_or(0) == 0
}

impl FromStr for Allowed {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Allowed, &'static str> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        if let Ok(address) = address.parse::<IpAddr>() {
            let all = if address.is_ipv4() { 32 } else { 128 };
            let bits = bits.map_or(Ok(all), str::parse);
            return match bits {
                Ok(bits) if bits <= all => Ok(Allowed::Network(address, bits)),
                _ => Err("expected ADDRESS/BITS, such as 10.0.0.0/8"),
            };
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || ".-".contains(c);
        let named = !text.is_empty() && text.len() <= 253 && text.chars().all(plain);
        match named && !text.starts_with('-') {
            true => Ok(Allowed::Name(text.to_ascii_lowercase())),
            false => Err("expected a name, an address, or a network such as 10.0.0.0/8"),
        }
    }
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Allowed::Name(name) => f.write_str(name),
            Allowed::Network(address, bits) => write!(f, "{address}/{bits}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_hosts_round_trip_and_others_are_refused() {
        for text in ["desk", "10.0.0.0/8", "0.0.0.0/0", "2001:db8::1/128"] {
            assert_eq!(text.parse::<Allowed>().unwrap().to_string(), text);
        }
        for bad in ["", "-a", "a b", "10.0.0.0/33", "a/8", "*", "%u", "a\"b"] {
            assert!(bad.parse::<Allowed>().is_err(), "{bad}");
        }
        let all: Allowed = "0.0.0.0/0".parse().unwrap();
        assert!(all.includes("8.8.8.8") && !all.includes("::1") && !all.includes("desk"));
    }
}
