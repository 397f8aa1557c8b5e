//! Networks. The rate limits for unknown clients apply per network.
//!
//! A machine can choose any number of addresses in its IPv6 /64 (RFC 4291, section 2.5.4; RFC 8981). Therefore, a whole /64
//! counts as one network, like one IPv4 address.

use std::net::{IpAddr, Ipv4Addr};

/// An IPv4 address, or the first half of an IPv6 address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Network {
    V4(Ipv4Addr),
    V6([u16; 4]),
}

impl From<IpAddr> for Network {
    fn from(address: IpAddr) -> Network {
        // A dual-stack socket reports IPv4 addresses as mapped IPv6 addresses (RFC 4291, section 2.5.5.2).
        match address.to_canonical() {
            IpAddr::V4(address) => Network::V4(address),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                Network::V6([a, b, c, d])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_64_are_one_network() {
        let of = |text: &str| Network::from(text.parse::<IpAddr>().unwrap());
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
    }
}
