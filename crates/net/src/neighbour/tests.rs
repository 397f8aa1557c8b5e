//! The real tables of a private network namespace, and malformed replies.

use super::{Attributes, Mac, NeighbourError, parse_neighbour, parse_route, station};
use crate::sys::namespace::{UNTIL_UP, in_new_network};

#[test]
fn stations_of_the_segment_are_found_and_others_are_not() {
    let setup = format!(
        "ip link set lo up
        ip link add here type veth peer name there
        ip address add 192.0.2.1/24 dev here
        ip -6 address add 2001:db8::1/64 dev here nodad
        ip link set here up
        ip link set there up
        {UNTIL_UP}
        ip neighbour add 192.0.2.9 lladdr 02:00:00:00:00:09 dev here
        ip neighbour add 2001:db8::9 lladdr 02:00:00:00:00:0a dev here
        ip neighbour add fe80::9 lladdr 02:00:00:00:00:0b dev here
        ip route add 198.51.100.0/24 via 192.0.2.9
        ip route add 203.0.113.0/24 via inet6 fe80::9 dev here"
    );
    in_new_network("neighbours", &setup, || {
        let here = super::interface("here").unwrap();
        let v6 = format!("[fe80::9%{here}]:7");
        for (address, mac) in [
            ("192.0.2.9:5", 9),
            ("[::ffff:192.0.2.9]:5", 9),
            ("[2001:db8::9]:6", 10),
            (v6.as_str(), 11),
        ] {
            let address: std::net::SocketAddr = address.parse().unwrap();
            let found = station(address).unwrap();
            assert_eq!(found.mac, Mac([2, 0, 0, 0, 0, mac]), "{address}");
            assert_eq!((found.interface, found.port), (here, address.port()));
        }
        for own in ["127.0.0.1:1", "192.0.2.1:1", "[::1]:1", "[2001:db8::1]:1"] {
            let found = station(own.parse().unwrap()).unwrap();
            assert_eq!((found.mac, found.interface), (Mac::default(), 1), "{own}");
        }
        let no = |address: &str| station(address.parse().unwrap()).unwrap_err();
        assert!(matches!(no("192.0.2.8:5"), NeighbourError::Unknown(_)));
        assert!(matches!(no("198.51.100.7:5"), NeighbourError::Routed(_)));
        assert!(matches!(no("203.0.113.7:5"), NeighbourError::Routed(_)));
        assert!(matches!(no("8.8.8.8:5"), NeighbourError::Io(..)));
        assert!(matches!(
            super::interface("none"),
            Err(NeighbourError::NoInterface(_))
        ));
    });
}

#[test]
fn malformed_replies_are_rejected() {
    for len in 0..40 {
        for byte in [0, 1, 4, 0xff] {
            let body = vec![byte; len];
            let _ = (parse_route(&body), parse_neighbour(&body));
            assert!(Attributes(&body).count() <= len / 4);
        }
    }
}
