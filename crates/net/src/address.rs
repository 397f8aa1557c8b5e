//! How a socket address lies in a [`PathId`]: 16 bytes of IPv6 address (IPv4 mapped into
//! `::ffff:0:0/96`, RFC 4291 section 2.5.5.2) and the port, both in network order.
//!
//! One peer has one `PathId`, whether a datagram reached it through an IPv4 or a dual-stack
//! socket: the mapped and the plain form of an IPv4 address are the same path.
//!
//! A link-local IPv6 address means nothing without its interface. Its bytes 2 and 3 are zero by
//! definition (RFC 4291 section 2.5.6), so the interface index travels there, as in the BSD
//! kernels. It never reaches a wire.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use openuvr_proto::id::PathId;

/// The path of a socket address. Flow labels are not kept, nor interface indices above 65535.
#[must_use]
pub fn path_of(address: SocketAddr) -> PathId {
    let mut path = [0; 18];
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    path[..16].copy_from_slice(&ip.octets());
    if let SocketAddr::V6(v6) = address
        && ip.is_unicast_link_local()
    {
        let interface = u16::try_from(v6.scope_id()).unwrap_or(0);
        path[2..4].copy_from_slice(&interface.to_be_bytes());
    }
    path[16..].copy_from_slice(&address.port().to_be_bytes());
    PathId(path)
}

/// The socket address of a path that [`path_of`] made; mapped addresses come back as IPv4.
#[must_use]
pub fn address_of(path: PathId) -> SocketAddr {
    let PathId(bytes) = path;
    let mut octets = [0; 16];
    octets.copy_from_slice(&bytes[..16]);
    let port = u16::from_be_bytes([bytes[16], bytes[17]]);
    let mut scope = 0;
    if Ipv6Addr::from(octets).is_unicast_link_local() {
        scope = u32::from(u16::from_be_bytes([octets[2], octets[3]]));
        octets[2..4].fill(0);
    }
    let ip = Ipv6Addr::from(octets);
    match ip.to_ipv4_mapped() {
        Some(v4) => SocketAddr::from((v4, port)),
        None => SocketAddrV6::new(ip, port, 0, scope).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::{address_of, path_of};
    use std::net::{SocketAddr, SocketAddrV6};

    #[test]
    fn addresses_survive_the_way_through_a_path() {
        for text in [
            "192.0.2.7:47000",
            "0.0.0.0:0",
            "[2001:db8::1]:65535",
            "[::1]:1",
        ] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(address_of(path_of(address)), address);
        }
    }

    #[test]
    fn a_mapped_address_is_the_same_path_as_the_plain_one() {
        let plain: SocketAddr = "192.0.2.7:5".parse().unwrap();
        let mapped: SocketAddr = "[::ffff:192.0.2.7]:5".parse().unwrap();
        assert_eq!(path_of(plain), path_of(mapped));
    }

    #[test]
    fn a_link_local_address_keeps_its_interface() {
        let address = SocketAddrV6::new("fe80::1:2".parse().unwrap(), 9, 0, 300).into();
        assert_eq!(address_of(path_of(address)), address);
    }

    #[test]
    fn the_bytes_are_the_documented_ones() {
        let path = path_of("192.0.2.7:258".parse().unwrap());
        assert_eq!(
            path.0,
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 7, 1, 2]
        );
    }
}
