//! Real sockets of all kinds on the loopback device. Packet sockets run in a private network namespace.

use std::time::Duration;

use openuvr_proto::control::transport_probe::TransportKind;
use openuvr_proto::id::PathId;

use super::TransportSelector;
use crate::address::{path_of, path_of_station, station_of};
use crate::ether::{Mac, Station};
use crate::sys::interfaces::{InterfaceMatch, interface_of};
use crate::sys::namespace::{UNTIL_UP, in_new_network};
use crate::{LINKS, Link, LinkError, MAX_DATAGRAM, RecvBatch};

const LONG: Option<Duration> = Some(Duration::from_secs(10));

fn loopback(port: u16) -> PathId {
    path_of_station(Station {
        mac: Mac::default(),
        interface: 1,
        port,
    })
}

/// Receives `count` datagrams. Returns the path of the last datagram, and the bytes of all.
fn collect(link: &TransportSelector, count: usize) -> (PathId, Vec<Vec<u8>>) {
    let mut batch = RecvBatch::default();
    let (mut from, mut all) = (PathId::default(), Vec::new());
    while all.len() < count {
        link.recv(&mut batch, LONG).unwrap();
        assert!(!batch.is_empty(), "only {} of {count} arrived", all.len());
        for (path, bytes) in batch.iter() {
            from = path;
            all.push(bytes.to_vec());
        }
    }
    (from, all)
}

fn bytes(count: usize, segment: usize, last: usize) -> Vec<u8> {
    let len = (count - 1) * segment + last;
    (0..251).cycle().take(len).collect()
}

/// Runs `test` in a new network namespace with a veth pair, after the commands `more`.
fn in_veth_namespace(what: &str, more: &str, test: impl FnOnce() + Send) {
    let setup = format!(
        "ip link add here type veth peer name there address {THERE}
        ip link set here up
        ip link set there up
        {UNTIL_UP}
        {more}"
    );
    in_new_network(what, &setup, test);
}

/// The host's end of the veth pair.
const THERE: Mac = Mac([2, 0, 0, 0, 0, 2]);

/// A station behind the near end of the veth pair.
fn veth_path(mac: Mac, port: u16) -> PathId {
    path_of_station(Station {
        mac,
        interface: crate::neighbour::interface("here").unwrap(),
        port,
    })
}

fn any(port: u16) -> std::net::SocketAddr {
    (std::net::Ipv6Addr::UNSPECIFIED, port).into()
}

/// Pairs of packet socket kinds. Each pair has its own port, because a closed socket may stay open briefly in a child
/// that another test is starting.
const PAIRS: [(u16, TransportKind, TransportKind); 4] = [
    (4710, TransportKind::Raw, TransportKind::Raw),
    (4712, TransportKind::Raw, TransportKind::Ring),
    (4714, TransportKind::Ring, TransportKind::Raw),
    (4716, TransportKind::Ring, TransportKind::Ring),
];

#[test]
fn a_link_local_address_has_the_interface_of_its_scope() {
    let same = "ip -6 address add fe80::7/64 dev here nodad
        ip -6 address add fe80::7/64 dev there nodad";
    in_veth_namespace("link-local addresses", same, || {
        for name in ["here", "there"] {
            let index = crate::neighbour::interface(name).unwrap();
            let text = format!("[fe80::7%{index}]:4710");
            let address: std::net::SocketAddr = text.parse().unwrap();
            let found = interface_of(address).unwrap();
            assert_eq!(found, InterfaceMatch::One(index), "{name}");
        }
    });
}

#[test]
fn raw_ethernet_carries_batches_intact_and_in_order() {
    in_new_network("raw Ethernet", "ip link set lo up", || {
        for (port, at_host, at_client) in PAIRS {
            let host = TransportSelector::host(any(port), Some(at_host)).unwrap();
            let other = TransportSelector::host(any(port + 1), Some(at_host)).unwrap();
            let client = TransportSelector::client(Some(at_client)).unwrap();
            let to = loopback(port);
            assert_eq!(
                (host.transport(to), client.transport(to)),
                (at_host, at_client)
            );
            for (count, segment, last) in [
                (1, 1, 1),
                (1, 1400, 1400),
                (8, 1400, 3),
                (65, 1400, 1400),
                (200, 37, 1),
            ] {
                let batch = bytes(count, segment, last);
                let want: Vec<_> = batch.chunks(segment).map(<[u8]>::to_vec).collect();
                client.send(to, &batch, segment).unwrap();
                let (from, got) = collect(&host, count);
                assert!(got == want, "{count} of {segment} to the host");
                host.send(from, &batch, segment).unwrap();
                let (back, got) = collect(&client, count);
                assert!(got == want, "{count} of {segment} to the client");
                assert_eq!(station_of(back).unwrap().port, port);
            }
            // The links receive neither frames for other ports nor outgoing frames.
            for link in [&host, &other, &client] {
                let mut batch = RecvBatch::default();
                link.recv(&mut batch, Some(Duration::from_millis(1)))
                    .unwrap();
                assert!(batch.is_empty());
            }
        }
    });
}

#[test]
fn packet_sockets_and_rings_timestamp_frames() {
    in_veth_namespace("raw Ethernet", "", || {
        for (port, at_host, at_client) in PAIRS {
            let host = TransportSelector::host(any(port), Some(at_host)).unwrap();
            let client = TransportSelector::client(Some(at_client)).unwrap();
            let to = veth_path(THERE, port);
            crate::arrival::check_stamps(&host, |bytes| client.send(to, bytes, 600).unwrap());
        }
    });
}

#[test]
fn a_flood_on_one_transport_does_not_starve_another() {
    in_new_network("raw Ethernet", "ip link set lo up", || {
        let host = TransportSelector::host("0.0.0.0:0".parse().unwrap(), None).unwrap();
        let port = host.local_addr().unwrap().port();
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
        let client = TransportSelector::client(None).unwrap();
        client.open_ethernet().unwrap();
        let (udp, raw) = (path_of(address), loopback(address.port()));
        for (first, second) in [(udp, raw), (raw, udp)] {
            client.send(first, &bytes(500, 100, 100), 100).unwrap();
            client.send(second, b"x", 1).unwrap();
            let mut batch = RecvBatch::default();
            let mut reads = 0;
            loop {
                host.recv(&mut batch, LONG).unwrap();
                reads += 1;
                if batch.iter().any(|(_, bytes)| bytes == b"x") {
                    break;
                }
            }
            assert!(reads <= 2, "{reads} reads");
            while !batch.is_empty() {
                host.recv(&mut batch, Some(Duration::ZERO)).unwrap();
            }
        }
    });
}

#[test]
fn an_absent_link_is_an_error_and_is_not_replaced() {
    let host =
        TransportSelector::host("127.0.0.1:0".parse().unwrap(), Some(TransportKind::Udp)).unwrap();
    let to = host.local_addr().unwrap();
    assert_eq!(host.transport(path_of(to)), TransportKind::Udp);
    assert!(matches!(
        host.send(loopback(1), b"x", 1),
        Err(LinkError::Unreachable)
    ));
    for segment in [0, MAX_DATAGRAM + 1] {
        let refused = host.send(path_of(to), &[0; 3000], segment);
        assert!(matches!(refused, Err(LinkError::Io { .. })), "{segment}");
    }
    in_new_network("raw Ethernet", "ip link set lo up", || {
        let raw =
            TransportSelector::host("[::]:0".parse().unwrap(), Some(TransportKind::Raw)).unwrap();
        assert_eq!(raw.local_addr(), None);
        let udp = path_of("127.0.0.1:9".parse().unwrap());
        assert!(matches!(
            raw.send(udp, b"x", 1),
            Err(LinkError::Unreachable)
        ));
    });
}

#[test]
fn frames_for_other_stations_are_not_received() {
    in_veth_namespace("raw Ethernet", "", || {
        for (port, at_host, at_client) in PAIRS {
            let host = TransportSelector::host(any(port), Some(at_host)).unwrap();
            let client = TransportSelector::client(Some(at_client)).unwrap();
            let send = |mac, text: &[u8]| {
                let to = veth_path(Mac(mac), port);
                client.send(to, text, text.len()).unwrap();
            };
            send([0xff; 6], b"to all");
            send([2, 0, 0, 0, 0, 9], b"to another");
            send(THERE.0, b"to the host");
            let (from, got) = collect(&host, 1);
            assert_eq!(got, [b"to the host".to_vec()]);
            // The reply leaves by the interface of the request.
            host.send(from, b"back", 4).unwrap();
            assert_eq!(collect(&client, 1).1, [b"back".to_vec()]);
        }
    });
}

/// `10.9.9.9` can be bound, but no interface has it.
const ADDRESSES: &str = "ip address add 10.9.0.1/24 dev there
    ip address add 10.9.8.1/32 dev lo
    ip route add local 10.9.9.9 dev lo";

#[test]
fn raw_ethernet_listens_only_on_the_bound_interface() {
    in_veth_namespace("raw Ethernet", ADDRESSES, || {
        let names = |bind: &str| -> Vec<String> {
            let link = TransportSelector::host(bind.parse().unwrap(), None).unwrap();
            let stations = link.stations().unwrap();
            assert_eq!(link.ethernet.get().is_some(), !stations.is_empty());
            stations.into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(names("10.9.0.1:0"), ["there"]);
        let mut all = names("0.0.0.0:0");
        all.sort();
        assert_eq!(all, ["here", "there"]);
        for (n, own) in ["127.0.0.1", "127.0.0.2", "[::1]", "10.9.8.1", "10.9.9.9"]
            .iter()
            .enumerate()
        {
            let port = 4720 + u16::try_from(n).unwrap();
            let bind = format!("{own}:{port}");
            assert!(names(&bind).is_empty(), "{own}");
            let only = TransportSelector::host(bind.parse().unwrap(), Some(TransportKind::Raw));
            let Err(LinkError::Unavailable(why)) = only else {
                panic!("{own} has raw Ethernet");
            };
            assert!(why.contains("raw Ethernet is unavailable on"), "{why}");
            // A frame of a neighbour is not received.
            let host = TransportSelector::host(bind.parse().unwrap(), None).unwrap();
            let client = TransportSelector::client(Some(TransportKind::Raw)).unwrap();
            client.send(veth_path(THERE, port), b"hello", 5).unwrap();
            let witness = TransportSelector::client(None).unwrap();
            let to = path_of(host.local_addr().unwrap());
            witness.send(to, b"last", 4).unwrap();
            assert_eq!(collect(&host, 1).1, [b"last".to_vec()]);
        }
    });
}

#[test]
fn the_table_lists_each_transport_once() {
    for kind in LINKS {
        assert_eq!(
            LINKS
                .iter()
                .filter(|other| other.transport == kind.transport)
                .count(),
            1
        );
    }
}

mod rings;

#[cfg(feature = "xdp")]
#[test]
fn af_xdp_redirects_only_matching_frames() {
    use crate::Transport as _;

    in_veth_namespace("AF_XDP", "", || {
        let there = crate::neighbour::interface("there").unwrap();
        let other = TransportSelector::host(any(4711), Some(TransportKind::Raw)).unwrap();
        let client = TransportSelector::client(Some(TransportKind::Raw)).unwrap();
        let to = |port| veth_path(THERE, port);
        // In the second round, another socket has just released the queue.
        for port in [4710, 4712] {
            let host = TransportSelector::host(any(port), Some(TransportKind::Raw)).unwrap();
            host.open_xdp(there).unwrap();
            let mut back = PathId::default();
            for (count, segment, last) in [(1, 1, 1), (8, 1400, 3), (300, 1400, 1400)] {
                let batch = bytes(count, segment, last);
                let want: Vec<_> = batch.chunks(segment).map(<[u8]>::to_vec).collect();
                client.send(to(port), &batch, segment).unwrap();
                let (from, got) = collect(&host, count);
                assert!(got == want, "{count} of {segment} to the host");
                assert_eq!(station_of(from).unwrap().interface, there);
                assert_eq!(host.transport(from), TransportKind::Xdp);
                host.send(from, &batch, segment).unwrap();
                let got = collect(&client, count).1;
                assert!(got == want, "{count} of {segment} to the client");
                back = from;
            }
            // The packet socket gets none of these frames, and the AF_XDP socket gets no frames to the other port.
            client.send(to(port), b"host", 4).unwrap();
            client.send(to(4711), b"other", 5).unwrap();
            assert_eq!(collect(&other, 1).1, [b"other".to_vec()]);
            let mut batch = RecvBatch::default();
            host.ethernet.get().unwrap().take(&mut batch).unwrap();
            assert!(batch.is_empty());
            host.xdp.get().unwrap().take(&mut batch).unwrap();
            let taken: Vec<_> = batch.iter().collect();
            assert_eq!(taken, [(back, &b"host"[..])]);
        }
    });
}
