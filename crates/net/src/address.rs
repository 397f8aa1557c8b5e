//! The layout of addresses in a [`PathId`].
//!
//! | bytes | UDP | Ethernet |
//! |---|---|---|
//! | 0–15 | the peer's IPv6 address (IPv4 mapped into `::ffff:0:0/96`, RFC 4291 section 2.5.5.2) | `ff 00`, the peer's Ethernet address (6), our interface's index (4), zeros |
//! | 16–17 | its port | its port |
//! | 18–33 | our address; zeros: the system chooses | zeros |
//! | 34 | 1: send batches without GSO | the same, ignored |
//!
//! Numbers are in network byte order. IPv4 and dual-stack sockets give a peer the same path: the
//! mapped and the plain form of an IPv4 address are equal. An IPv6 address that begins with `ff` is
//! multicast and never a peer's address, so an Ethernet path cannot collide with a UDP path.
//!
//! A link-local IPv6 address requires an interface. Its bytes 2 and 3 are zero by definition (RFC 4291 section 2.5.6),
//! so the interface index is stored there, as in the BSD kernels. The index is never sent.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use openuvr_proto::id::PathId;

use crate::ether::{Mac, Station};
use crate::sys::interfaces;

/// Byte 0 of an Ethernet path.
const ETHERNET: u8 = 0xff;

/// The index of the flags byte.
const FLAGS: usize = PathId::LEN - 1;

/// Flag: send batches without GSO.
const NO_GSO: u8 = 1;

/// Parses an address and a port: `192.168.1.5:4710`, `[::]:4710`, or `[fe80::1%eth0]:4710` with the interface of a
/// link-local address by name or number (RFC 4007, section 11). Names are not resolved.
///
/// # Errors
/// Returns a message with valid examples, or a message that the interface does not exist.
pub fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let (address, interface) = match text.split_once('%').zip(text.rsplit_once("]:")) {
        Some(((ip, _), (within, port))) => {
            let interface = within
                .split_once('%')
                .map_or("", |(_, interface)| interface);
            (format!("{ip}]:{port}"), Some(interface))
        }
        None => (text.to_owned(), None),
    };
    let parsed = address.parse::<SocketAddr>();
    match (parsed, interface) {
        (Ok(address), None) => Ok(address),
        (Ok(SocketAddr::V6(mut v6)), Some(interface)) if !interface.is_empty() => {
            let numbered = interface.parse().ok().filter(|index| *index != 0);
            let index = numbered.unwrap_or_else(|| interfaces::index_of(interface));
            if index == 0 {
                return Err(format!(
                    "{text}: no network interface {interface:?}; `ip link` lists them"
                ));
            }
            v6.set_scope_id(index);
            Ok(v6.into())
        }
        _ => Err(format!(
            "{text:?} is not an address with a port, such as 192.168.1.5:4710, [::]:4710 or \
             [fe80::1%eth0]:4710"
        )),
    }
}

/// The path to a socket address. The system chooses the source address. Flow labels are not kept, and neither are
/// interface indices above 65535.
#[must_use]
pub fn path_of(address: SocketAddr) -> PathId {
    let mut path = PathId::default();
    path.0[..16].copy_from_slice(&mapped(address.ip()).octets());
    if let SocketAddr::V6(v6) = address
        && v6.ip().is_unicast_link_local()
    {
        let interface = u16::try_from(v6.scope_id()).unwrap_or(0);
        path.0[2..4].copy_from_slice(&interface.to_be_bytes());
    }
    path.0[16..18].copy_from_slice(&address.port().to_be_bytes());
    path
}

/// The path between a peer and one of this machine's addresses.
pub(crate) fn path_between(peer: SocketAddr, own: Option<IpAddr>) -> PathId {
    let mut path = path_of(peer);
    if let Some(own) = own {
        path.0[18..34].copy_from_slice(&mapped(own).octets());
    }
    path
}

/// The socket address of a path from [`path_of`]. Mapped addresses become IPv4.
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

/// The local address of a path, if known.
pub(crate) fn own_of(path: PathId) -> Option<Ipv6Addr> {
    let mut octets = [0; 16];
    octets.copy_from_slice(&path.0[18..34]);
    let ip = Ipv6Addr::from(octets);
    (!ip.is_unspecified()).then_some(ip)
}

/// The path to a station on an Ethernet segment.
#[must_use]
pub fn path_of_station(station: Station) -> PathId {
    let mut path = PathId::default();
    path.0[0] = ETHERNET;
    path.0[2..8].copy_from_slice(&station.mac.0);
    path.0[8..12].copy_from_slice(&station.interface.to_be_bytes());
    path.0[16..18].copy_from_slice(&station.port.to_be_bytes());
    path
}

/// The station of a path from [`path_of_station`].
#[must_use]
pub fn station_of(path: PathId) -> Option<Station> {
    let PathId(bytes) = path;
    let [a, b, c, d, e, f] = [2, 3, 4, 5, 6, 7].map(|i| bytes[i]);
    (bytes[0] == ETHERNET).then(|| Station {
        mac: Mac([a, b, c, d, e, f]),
        interface: u32::from_be_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]),
        port: u16::from_be_bytes([bytes[16], bytes[17]]),
    })
}

/// The peer's address for display: address and port, or Ethernet address.
#[must_use]
pub fn peer_name(path: PathId) -> String {
    match station_of(path) {
        Some(station) => format!("{} (raw Ethernet)", station.mac),
        None => address_of(path).to_string(),
    }
}

/// The IP addresses of this machine: those of all interfaces that are up, except loopback addresses.
///
/// # Errors
/// Returns the errors of getifaddrs(3).
pub fn own_addresses() -> std::io::Result<Vec<IpAddr>> {
    interfaces::addresses()
}

/// The same path, with GSO permitted or not.
#[must_use]
pub fn segmented(mut path: PathId, may: bool) -> PathId {
    path.0[FLAGS] = if may { 0 } else { NO_GSO };
    path
}

/// Whether GSO is permitted; see [`segmented`].
pub(crate) fn is_segmented(path: PathId) -> bool {
    path.0[FLAGS] & NO_GSO == 0
}

pub(crate) fn mapped(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    }
}

#[cfg(test)]
mod tests {
    use super::{
        address_of, is_segmented, own_of, parse_address, path_between, path_of, path_of_station,
        segmented, station_of,
    };
    use crate::ether::{Mac, Station};
    use std::net::{SocketAddr, SocketAddrV6};

    #[test]
    fn addresses_round_trip_through_a_path() {
        for text in [
            "192.0.2.7:47000",
            "0.0.0.0:0",
            "[2001:db8::1]:65535",
            "[::1]:1",
        ] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(address_of(path_of(address)), address);
            assert_eq!(station_of(path_of(address)), None);
            assert_eq!(own_of(path_of(address)), None);
            for own in ["198.51.100.2", "2001:db8::2"] {
                let path = path_between(address, own.parse().ok());
                assert_eq!(address_of(path), address);
                assert_eq!(own_of(path).unwrap().to_canonical().to_string(), own);
            }
        }
    }

    #[test]
    fn a_mapped_address_is_the_same_path_as_the_plain_one() {
        let plain: SocketAddr = "192.0.2.7:5".parse().unwrap();
        let mapped: SocketAddr = "[::ffff:192.0.2.7]:5".parse().unwrap();
        assert_eq!(path_of(plain), path_of(mapped));
        let own = |text: &str| path_between(plain, text.parse().ok());
        assert_eq!(own("192.0.2.1"), own("::ffff:192.0.2.1"));
    }

    #[test]
    fn a_link_local_address_keeps_its_interface() {
        let address = SocketAddrV6::new("fe80::1:2".parse().unwrap(), 9, 0, 300).into();
        assert_eq!(address_of(path_of(address)), address);
    }

    #[test]
    fn an_interface_is_named_or_numbered() {
        let scope = |text| match parse_address(text) {
            Ok(SocketAddr::V6(v6)) => v6.scope_id(),
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(scope("[fe80::1%lo]:4710"), 1);
        assert_eq!(scope("[fe80::1%7]:4710"), 7);
        assert_eq!(scope("[::]:4710"), 0);
        let plain = "192.0.2.7:5".parse().unwrap();
        assert_eq!(parse_address("192.0.2.7:5"), Ok(plain));
        for bad in [
            "[fe80::1%]:1",
            "192.0.2.7%lo:5",
            "fe80::1%lo",
            "[fe80::1%lo]",
            "x",
            "",
        ] {
            let why = parse_address(bad).unwrap_err();
            assert!(why.contains("[fe80::1%eth0]:4710"), "{why}");
        }
        let why = parse_address("[fe80::1%gone0]:1").unwrap_err();
        assert!(why.contains("no network interface \"gone0\""), "{why}");
    }

    #[test]
    fn a_station_round_trips_through_a_path() {
        let station = Station {
            mac: Mac([2, 0, 0, 1, 0xfe, 0xff]),
            interface: 70_000,
            port: 4710,
        };
        assert_eq!(station_of(path_of_station(station)), Some(station));
    }

    #[test]
    fn the_gso_flag_changes_nothing_else() {
        let path = path_of("192.0.2.7:5".parse().unwrap());
        let flagged = segmented(path, false);
        assert!(is_segmented(path) && !is_segmented(flagged) && flagged != path);
        assert_eq!(address_of(flagged), address_of(path));
        assert_eq!(segmented(flagged, true), path);
    }

    #[test]
    fn the_bytes_are_the_documented_ones() {
        let path = path_between("192.0.2.7:258".parse().unwrap(), "2001:db8::9".parse().ok());
        let mut want = [0; 35];
        want[10..18].copy_from_slice(&[0xff, 0xff, 192, 0, 2, 7, 1, 2]);
        want[18..22].copy_from_slice(&[0x20, 1, 0xd, 0xb8]);
        want[33] = 9;
        assert_eq!(path.0, want);
    }
}
