//! Real sockets on the loopback device.

use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Duration;

use openuvr_proto::control::transport_probe::TransportKind;
use openuvr_proto::ecn::Ecn;

use super::{EMPTY, JOINED_SLOT, MAX_NO_GSO_PEERS, Options, Udp, ipv4_instead};
use crate::address::{address_of, path_of, segmented};
use crate::sys::namespace::in_new_network;
use crate::sys::socket;
use crate::transport_selection::TransportSelector;
use crate::{Link, LinkError, MAX_DATAGRAM, RecvBatch, Transport as _};

const HOSTS: [&str; 2] = ["127.0.0.1:0", "[::1]:0"];
const LONG: Option<Duration> = Some(Duration::from_secs(10));

fn open(address: &str, options: &Options) -> TransportSelector {
    TransportSelector::of(bind(address, options), None).unwrap()
}

fn bind(address: &str, options: &Options) -> Udp {
    Udp::bind(address.parse().unwrap(), options).unwrap()
}

fn address(link: &TransportSelector) -> std::net::SocketAddr {
    link.local_addr().unwrap()
}

/// `count` datagrams of `segment` bytes, the last one with `last` bytes. Each begins with its number.
fn numbered(count: usize, segment: usize, last: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for i in 0..count {
        let len = if i + 1 == count { last } else { segment };
        let mut datagram = vec![u8::try_from(i % 251).unwrap(); len];
        datagram[..4].copy_from_slice(&u32::try_from(i).unwrap().to_le_bytes());
        bytes.extend_from_slice(&datagram);
    }
    bytes
}

/// Receives `count` datagrams.
fn collect(link: &dyn Link, count: usize) -> Vec<Vec<u8>> {
    let mut batch = RecvBatch::default();
    let mut all = Vec::new();
    while all.len() < count {
        link.recv(&mut batch, LONG).unwrap();
        assert!(!batch.is_empty(), "only {} of {count} arrived", all.len());
        all.extend(batch.iter().map(|(_, bytes)| bytes.to_vec()));
    }
    all
}

#[test]
fn without_ipv6_all_addresses_are_ipv4_addresses() {
    let lacks_ipv6 = std::io::Error::from_raw_os_error(libc::EAFNOSUPPORT);
    let in_use = std::io::Error::from_raw_os_error(libc::EADDRINUSE);
    let instead = |address: &str, error: &std::io::Error| {
        let v4 = ipv4_instead(address.parse().unwrap(), error);
        v4.map(|v4| v4.to_string())
    };
    let expected = Some("0.0.0.0:4710".to_owned());
    assert_eq!(instead("[::]:4710", &lacks_ipv6), expected);
    assert_eq!(instead("[::]:4710", &in_use), None);
    assert_eq!(instead("[::1]:4710", &lacks_ipv6), None);
    assert_eq!(instead("0.0.0.0:4710", &lacks_ipv6), None);
}

fn check_batches(from: &TransportSelector, to: &TransportSelector) {
    let path = path_of(address(to));
    for (count, segment, last) in [
        (1, 1400, 1400),
        (1, 1400, 5),
        (2, 1400, 4),
        (46, 1400, 1400),
        (47, 1400, 9),
        (63, 100, 100),
        (64, 100, 99),
        (65, 100, 100),
        (200, 600, 300),
        (129, 8, 8),
    ] {
        let bytes = numbered(count, segment, last);
        from.send(path, &bytes, segment).unwrap();
        let got = collect(to, count);
        let want: Vec<_> = bytes.chunks(segment).map(<[u8]>::to_vec).collect();
        assert!(got == want, "{count} datagrams of {segment} bytes");
    }
}

#[test]
fn batches_arrive_intact_and_in_order() {
    let modes = [Options::default(), Options::PLAIN];
    for host in HOSTS {
        for out in &modes {
            for inward in &modes {
                let (a, b) = (open(host, out), open(host, inward));
                let want = if out.gso {
                    TransportKind::UdpGso
                } else {
                    TransportKind::Udp
                };
                let path = path_of(address(&b));
                assert_eq!(a.transport(path), want);
                assert_eq!(a.transport(segmented(path, false)), TransportKind::Udp);
                check_batches(&a, &b);
            }
        }
    }
}

#[test]
fn offloads_move_a_large_batch_in_one_call() {
    for (options, at_once) in [(Options::default(), 200), (Options::PLAIN, 64)] {
        let link = open("127.0.0.1:0", &options);
        let bytes = numbered(200, 600, 600);
        link.send(path_of(address(&link)), &bytes, 600).unwrap();
        let mut batch = RecvBatch::default();
        link.recv(&mut batch, LONG).unwrap();
        assert_eq!(batch.iter().count(), at_once, "{options:?}");
    }
}

/// Covers three control messages of a socket together: GRO segment size, packet info, timestamp.
#[test]
fn a_late_reader_gets_arrival_times() {
    let with_packet_info = |options: Options| Options {
        reply_from_destination: true,
        ..options
    };
    for options in [
        Options::default(),
        Options::PLAIN,
        with_packet_info(Options::default()),
    ] {
        for bound in ["127.0.0.1:0", "[::1]:0", "0.0.0.0:0", "[::]:0"] {
            let link = open(bound, &options);
            let mut to = address(&link);
            if to.ip().is_unspecified() {
                to.set_ip(if bound == "[::]:0" {
                    std::net::Ipv6Addr::LOCALHOST.into()
                } else {
                    std::net::Ipv4Addr::LOCALHOST.into()
                });
            }
            let sender = open(
                &format!("{}:0", to.ip()).replace("::1:", "[::1]:"),
                &options,
            );
            let send = |bytes: &[u8]| sender.send(path_of(to), bytes, 600).unwrap();
            crate::arrival::check_stamps(&link, send);
        }
    }
}

#[test]
fn datagrams_are_marked_as_interactive_video() {
    for host in HOSTS {
        let socket = bind(host, &Options::default()).socket;
        let read = |level, option| socket::read(&socket, level, option).unwrap();
        assert_eq!(read(libc::IPPROTO_IP, libc::IP_TOS), 0xa0);
        if host.starts_with('[') {
            assert_eq!(read(libc::IPPROTO_IPV6, libc::IPV6_TCLASS), 0xa0);
        }
        assert_eq!(read(libc::SOL_SOCKET, libc::SO_PRIORITY), 6);
    }
}

const ECN_FIELDS: [Ecn; 4] = [Ecn::Ect1, Ecn::Ce, Ecn::NotEct, Ecn::Ect0];

/// Receives `count` datagrams. Returns the ECN field of each datagram.
fn ecn_fields(link: &dyn Link, count: usize) -> Vec<Option<Ecn>> {
    let mut batch = RecvBatch::default();
    let mut all = Vec::new();
    while all.len() < count {
        link.recv(&mut batch, LONG).unwrap();
        assert!(!batch.is_empty(), "only {} of {count} arrived", all.len());
        all.extend(batch.with_arrivals().map(|(arrival, _)| arrival.ecn));
    }
    all
}

/// The socket's address on the loopback device, in both families if it is dual-stack.
fn loopbacks(link: &TransportSelector) -> Vec<std::net::SocketAddr> {
    let bound = address(link);
    match (bound.ip().is_unspecified(), bound.is_ipv6()) {
        (false, _) => vec![bound],
        (true, false) => vec![([127, 0, 0, 1], bound.port()).into()],
        (true, true) => {
            let of = |ip: std::net::IpAddr| std::net::SocketAddr::new(ip, bound.port());
            let both = [
                std::net::Ipv4Addr::LOCALHOST.into(),
                std::net::Ipv6Addr::LOCALHOST.into(),
            ];
            both.map(of).to_vec()
        }
    }
}

/// Single datagrams, batches with GSO, and batches without it; with and without packet info.
#[test]
fn each_datagram_arrives_with_its_ecn_field() {
    let modes = [
        Options::default(),
        Options::PLAIN,
        Options {
            reply_from_destination: true,
            ..Options::default()
        },
    ];
    for options in &modes {
        for bound in ["127.0.0.1:0", "[::1]:0", "0.0.0.0:0", "[::]:0"] {
            let link = open(bound, options);
            let mut unread = None;
            for to in loopbacks(&link) {
                let sender = open(if to.is_ipv6() { HOSTS[1] } else { HOSTS[0] }, options);
                // A dual-stack sender sends to both families.
                let both = open("[::]:0", options);
                for sender in [&sender, &both] {
                    sender.send_marked(path_of(to), b"x", 1, Ecn::Ect1).unwrap();
                }
                assert_eq!(ecn_fields(&link, 2), [unread; 2], "{bound} {to}");
                assert!(link.read_ecn());
                unread = Some(Ecn::Ect1);
                for sender in [&sender, &both] {
                    for (ecn, count) in ECN_FIELDS.into_iter().zip([1, 5, 70, 2]) {
                        let bytes = numbered(count, 300, 40);
                        sender.send_marked(path_of(to), &bytes, 300, ecn).unwrap();
                        let got = ecn_fields(&link, count);
                        assert_eq!(got, vec![Some(ecn); count], "{bound} {to} {options:?}");
                    }
                    // A send without an ECN field keeps the class of the socket.
                    sender.send(path_of(to), b"x", 1).unwrap();
                    assert_eq!(ecn_fields(&link, 1), [Some(Ecn::NotEct)]);
                }
            }
        }
    }
}

/// The kernel joins datagrams only if their ECN fields are equal, so one field covers a message.
#[test]
fn a_coalesced_message_has_one_ecn_field() {
    for host in HOSTS {
        let from = open(host, &Options::default());
        let to = bind(host, &Options::default());
        assert!(to.read_ecn());
        let path = path_of(to.local_addr());
        for ecn in ECN_FIELDS {
            from.send_marked(path, &numbered(3, 600, 600), 600, ecn)
                .unwrap();
        }
        let mut bytes = vec![0; JOINED_SLOT * 8];
        let mut messages = [EMPTY; 8];
        let count =
            socket::receive_many(&to.socket, &mut bytes, JOINED_SLOT, &mut messages).unwrap();
        let got: Vec<_> = messages[..count]
            .iter()
            .map(|m| (m.len, m.segment, m.traffic_class.map(Ecn::of_traffic_class)))
            .collect();
        let want = ECN_FIELDS.map(|ecn| (1800, Some(600), Some(ecn)));
        assert_eq!(got, want, "{host}");
    }
}

/// A datagram with an ECN field keeps the class selector of the socket.
#[test]
fn a_marked_datagram_keeps_its_class() {
    for host in HOSTS {
        let from = open(host, &Options::default());
        let to = bind(host, &Options::default());
        assert!(to.read_ecn());
        from.send_marked(path_of(to.local_addr()), b"x", 1, Ecn::Ect1)
            .unwrap();
        let mut bytes = vec![0; JOINED_SLOT];
        let mut messages = [EMPTY];
        let count =
            socket::receive_many(&to.socket, &mut bytes, JOINED_SLOT, &mut messages).unwrap();
        assert_eq!((count, messages[0].traffic_class), (1, Some(0xa1)));
    }
}

#[test]
fn a_dual_stack_socket_receives_both_families() {
    let both = open("[::]:0", &Options::default());
    let port = address(&both).port();
    for host in ["127.0.0.1", "[::1]"] {
        let peer = open(&format!("{host}:0"), &Options::default());
        let to = format!("{host}:{port}").parse().unwrap();
        peer.send(path_of(to), b"hello", 5).unwrap();
        let mut batch = RecvBatch::default();
        both.recv(&mut batch, LONG).unwrap();
        let (from, bytes) = batch.iter().next().unwrap();
        assert_eq!((from, bytes), (path_of(address(&peer)), &b"hello"[..]));
        // A batch to the received path arrives at the peer.
        both.send(from, &numbered(3, 50, 50), 50).unwrap();
        assert_eq!(collect(&peer, 3).len(), 3);
    }
}

#[test]
fn datagrams_of_several_senders_keep_their_senders() {
    let to = open("127.0.0.1:0", &Options::default());
    let senders: Vec<_> = (0..4)
        .map(|_| open("127.0.0.1:0", &Options::default()))
        .collect();
    for sender in &senders {
        sender
            .send(path_of(address(&to)), &numbered(3, 10, 10), 10)
            .unwrap();
    }
    let mut batch = RecvBatch::default();
    let mut from = Vec::new();
    while from.len() < 12 {
        to.recv(&mut batch, LONG).unwrap();
        from.extend(batch.iter().map(|(path, _)| path));
    }
    let want: Vec<_> = senders
        .iter()
        .flat_map(|s| [path_of(address(s)); 3])
        .collect();
    assert_eq!(from, want);
}

#[test]
fn an_oversize_datagram_is_dropped() {
    for options in [Options::default(), Options::PLAIN] {
        let to = open("127.0.0.1:0", &options);
        let from = UdpSocket::bind("127.0.0.1:0").unwrap();
        for len in [MAX_DATAGRAM + 1, 1, 9000, MAX_DATAGRAM, 60_000, 0] {
            from.send_to(&vec![7; len], address(&to)).unwrap();
        }
        let lens: Vec<_> = collect(&to, 3).iter().map(Vec::len).collect();
        assert_eq!(lens, [1, MAX_DATAGRAM, 0]);
    }
}

#[test]
fn an_invalid_segment_size_is_refused() {
    let link = open("127.0.0.1:0", &Options::default());
    let to = path_of(address(&link));
    for segment in [0, MAX_DATAGRAM + 1] {
        let refused = link.send(to, &[0; 3000], segment);
        assert!(matches!(refused, Err(LinkError::Io { .. })), "{segment}");
    }
    link.send(to, &[], 100).unwrap();
    let mut batch = RecvBatch::default();
    link.recv(&mut batch, Some(Duration::ZERO)).unwrap();
    assert!(batch.is_empty());
}

#[test]
fn recv_ends_with_a_timeout_or_a_wake() {
    let link = Arc::new(open("127.0.0.1:0", &Options::default()));
    let mut batch = RecvBatch::default();
    for timeout in [
        Duration::ZERO,
        Duration::from_nanos(1),
        Duration::from_millis(2),
    ] {
        link.recv(&mut batch, Some(timeout)).unwrap();
        assert!(batch.is_empty());
    }
    // Without a timeout, only a wake ends the call. The wake may come before or during the wait.
    link.wake();
    link.wake();
    link.recv(&mut batch, None).unwrap();
    assert!(batch.is_empty());
    let waker = Arc::clone(&link);
    let thread = std::thread::spawn(move || waker.wake());
    link.recv(&mut batch, None).unwrap();
    assert!(batch.is_empty());
    thread.join().unwrap();
    // No wake is left, so this call times out.
    link.recv(&mut batch, Some(Duration::from_millis(1)))
        .unwrap();
    assert!(batch.is_empty());
}

#[test]
fn a_peer_that_is_gone_is_not_an_error() {
    let link = open("127.0.0.1:0", &Options::default());
    let gone = address(&open("127.0.0.1:0", &Options::default()));
    let mut batch = RecvBatch::default();
    for _ in 0..5 {
        link.send(path_of(gone), &numbered(3, 100, 100), 100)
            .unwrap();
        link.recv(&mut batch, Some(Duration::from_millis(1)))
            .unwrap();
        assert!(batch.is_empty());
    }
}

#[test]
fn bind_errors_include_a_remedy() {
    let first = open("127.0.0.1:0", &Options::default());
    let address = address(&first);
    let text = Udp::bind(address, &Options::default())
        .unwrap_err()
        .to_string();
    assert!(text.contains(&address.to_string()), "{text}");
    let other = address.port().checked_add(10).unwrap_or(1024);
    let remedy = format!("choose another port, such as --bind '127.0.0.1:{other}'");
    assert!(text.contains(&remedy), "{text}");
    assert!(!text.contains('\n'), "{text}");

    let foreign = "192.0.2.1:0".parse().unwrap();
    let text = Udp::bind(foreign, &Options::default())
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("192.0.2.1") && text.contains("ip address"),
        "{text}"
    );
}

#[test]
fn an_address_of_the_other_family_is_an_error_that_names_it() {
    let v4 = open("127.0.0.1:0", &Options::default());
    let to = path_of("[::1]:9".parse().unwrap());
    let text = v4.send(to, b"x", 1).unwrap_err().to_string();
    assert!(text.contains("[::1]:9"), "{text}");
}

#[test]
fn a_flagged_path_is_sent_to_without_gso() {
    let link = open("127.0.0.1:0", &Options::default());
    let flagged = segmented(path_of(address(&link)), false);
    let bytes = numbered(60, 600, 600);
    link.send(flagged, &bytes, 600).unwrap();
    let mut batch = RecvBatch::default();
    link.recv(&mut batch, LONG).unwrap();
    // One call receives sixteen messages, none coalesced.
    assert_eq!(batch.iter().count(), 16);
}

#[test]
fn gso_is_disabled_per_peer() {
    let link = bind("127.0.0.1:0", &Options::default());
    let path = |n: usize| path_of(([127, 0, 1, u8::try_from(n).unwrap()], 9).into());
    link.disable_gso("127.0.1.0".parse().unwrap());
    assert_eq!(
        [0, 1].map(|n| link.kind(path(n))),
        [TransportKind::Udp, TransportKind::UdpGso]
    );
    // The list of peers without GSO is bounded, so the oldest peer is evicted.
    for n in 1..=MAX_NO_GSO_PEERS {
        link.disable_gso(address_of(path(n)).ip());
    }
    assert_eq!(
        [0, 1].map(|n| link.kind(path(n))),
        [TransportKind::UdpGso, TransportKind::Udp]
    );
}

#[test]
fn a_link_replies_from_the_destination_address() {
    let options = Options {
        reply_from_destination: true,
        ..Options::default()
    };
    for (any, addresses) in [
        ("0.0.0.0:0", &["127.0.0.1", "127.3.2.1"][..]),
        ("[::]:0", &["127.0.0.1", "127.3.2.1", "::1"]),
    ] {
        let host = open(any, &options);
        for ip in addresses {
            let ip: std::net::IpAddr = ip.parse().unwrap();
            let to = (ip, address(&host).port()).into();
            // A connected socket receives nothing from other addresses.
            let peer = UdpSocket::bind((ip, 0)).unwrap();
            peer.set_read_timeout(LONG).unwrap();
            peer.connect::<std::net::SocketAddr>(to).unwrap();
            peer.send(b"hello").unwrap();
            let mut batch = RecvBatch::default();
            host.recv(&mut batch, LONG).unwrap();
            let (from, _) = batch.iter().next().unwrap();
            // One datagram, a batch with GSO, and a batch without GSO.
            for (path, count) in [(from, 1), (from, 3), (segmented(from, false), 3)] {
                host.send(path, &numbered(count, 50, 50), 50).unwrap();
                for i in 0..count {
                    let mut bytes = [0; 100];
                    assert_eq!(peer.recv(&mut bytes).unwrap(), 50, "{any} {ip} {i}");
                    assert_eq!(usize::from(bytes[0]), i);
                }
            }
        }
    }
}

#[test]
fn a_full_send_buffer_is_an_error_and_does_not_block() {
    // Datagrams queued by the loopback device occupy the sender's buffer.
    let slow = "ip link set lo up && tc qdisc add dev lo root tbf rate 8kbit burst 2kb limit 10mb";
    in_new_network("a full send buffer", slow, || {
        for plain in [Options::default(), Options::PLAIN] {
            let options = Options {
                send_buffer: 16 << 10,
                ..plain
            };
            let (from, to) = (open("127.0.0.1:0", &options), open("127.0.0.1:0", &options));
            let path = path_of(address(&to));
            let bytes = numbered(10, 1400, 1400);
            let full = (0..100).find_map(|_| from.send(path, &bytes, 1400).err());
            assert!(matches!(full, Some(LinkError::Full)), "{full:?}");
        }
    });
}

#[test]
fn segments_above_the_mtu_are_still_delivered() {
    let narrow = "ip link set lo mtu 1280 up";
    in_new_network("a small MTU", narrow, || {
        let options = Options::default();
        let (from, to) = (open("127.0.0.1:0", &options), open("127.0.0.1:0", &options));
        let bytes = numbered(100, 1400, 10);
        from.send(path_of(address(&to)), &bytes, 1400).unwrap();
        let want: Vec<_> = bytes.chunks(1400).map(<[u8]>::to_vec).collect();
        assert!(collect(&to, 100) == want);
    });
}
