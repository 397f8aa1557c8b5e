//! Mapped rings: wraparound, and full rings.

use std::ops::Range;
use std::process::Command;

use super::{LONG, PAIRS, RecvBatch, THERE, any, collect, in_veth_namespace, veth_path};
use crate::sys::namespace::UNTIL_UP;
use crate::sys::ring::{RX_SLOTS, TX_SLOTS};
use crate::transport_selection::TransportSelector;
use crate::{Link, LinkError, PathId, TransportKind};

/// Bytes of a datagram in these tests: the maximum.
const SEGMENT: usize = crate::MAX_DATAGRAM;

/// Datagrams that each consist of their own number, repeated.
fn numbered(numbers: Range<u32>) -> Vec<u8> {
    let one = |number: u32| number.to_le_bytes().repeat(SEGMENT / 4);
    numbers.flat_map(one).collect()
}

/// The numbers of these datagrams. Panics on a corrupt datagram.
fn numbers(datagrams: &[Vec<u8>]) -> Vec<u32> {
    let number = |bytes: &Vec<u8>| {
        let number = u32::from_le_bytes(bytes[..4].try_into().unwrap());
        assert!(*bytes == numbered(number..number + 1), "{number} is broken");
        number
    };
    datagrams.iter().map(number).collect()
}

/// Receives until the datagram with the number `last` arrives. Returns all numbers.
fn collect_until(link: &TransportSelector, last: u32) -> Vec<u32> {
    let (mut batch, mut all) = (RecvBatch::default(), Vec::new());
    while all.last() != Some(&last) {
        link.recv(&mut batch, LONG).unwrap();
        assert!(!batch.is_empty(), "{last} did not arrive: {all:?}");
        let datagrams: Vec<_> = batch.iter().map(|(_, bytes)| bytes.to_vec()).collect();
        all.extend(numbers(&datagrams));
    }
    all
}

fn sh(command: &str) {
    let status = Command::new("sh").args(["-ec", command]).status();
    assert!(status.expect("sh").success(), "{command}");
}

/// A host, a client, and the path from the client to the host.
fn pair(
    (port, at_host, at_client): (u16, TransportKind, TransportKind),
) -> (TransportSelector, TransportSelector, PathId) {
    let host = TransportSelector::host(any(port), Some(at_host)).unwrap();
    let client = TransportSelector::client(Some(at_client)).unwrap();
    (host, client, veth_path(THERE, port))
}

#[test]
fn rings_wrap_around_intact_and_in_order() {
    in_veth_namespace("mapped rings", "", || {
        for kinds in PAIRS {
            let (host, client, to) = pair(kinds);
            // Both rings wrap around several times. Because 97 is prime, they wrap around at another slot each time.
            let (most, step) = (2 * RX_SLOTS + TX_SLOTS, 97);
            for first in (0..u32::try_from(most).unwrap()).step_by(step) {
                let batch = first..first + u32::try_from(step).unwrap();
                let (bytes, want) = (numbered(batch.clone()), batch.collect::<Vec<_>>());
                client.send(to, &bytes, SEGMENT).unwrap();
                let (from, got) = collect(&host, step);
                assert!(numbers(&got) == want, "{first} to the host");
                host.send(from, &bytes, SEGMENT).unwrap();
                let got = collect(&client, step).1;
                assert!(numbers(&got) == want, "{first} to the client");
            }
        }
    });
}

#[test]
fn a_full_ring_drops_datagrams_and_recovers() {
    in_veth_namespace("mapped rings", "", || {
        let (host, client, to) = pair((4710, TransportKind::Ring, TransportKind::Raw));
        for round in 0..3 {
            let first = round * 10_000;
            let count = u32::try_from(2 * RX_SLOTS).unwrap();
            for at in (first..first + count).step_by(64) {
                client.send(to, &numbered(at..at + 64), SEGMENT).unwrap();
            }
            // The ring holds only the datagrams that fit.
            let mut batch = RecvBatch::default();
            let mut got = Vec::new();
            loop {
                host.ethernet.get().unwrap().take(&mut batch).unwrap();
                if batch.is_empty() {
                    break;
                }
                got.extend(batch.iter().map(|(_, bytes)| bytes.to_vec()));
            }
            let got = numbers(&got);
            // Some datagrams may have arrived during the reads.
            assert!(
                !got.is_empty() && got.len() < 2 * RX_SLOTS,
                "none was dropped"
            );
            assert!(got.is_sorted_by(|a, b| a < b), "{got:?}");
            let last = first + 9_999;
            client.send(to, &numbered(last..last + 1), SEGMENT).unwrap();
            collect_until(&host, last);
        }
    });
}

#[test]
fn unsent_datagrams_are_dropped_and_never_sent_later() {
    in_veth_namespace("mapped rings", "", || {
        let (host, client, to) = pair((4710, TransportKind::Raw, TransportKind::Ring));
        let mut next = 0..0;
        let mut some = |count: u32| {
            next = next.end..next.end + count;
            next.clone()
        };
        // The first queue takes all frames of the ring, and the second refuses most of them.
        for limit in ["10mb", "20kb"] {
            sh(&format!(
                "tc qdisc add dev here root tbf rate 8kbit burst 2kb limit {limit}"
            ));
            let stuck = some(2 * u32::try_from(TX_SLOTS).unwrap());
            let full = client.send(to, &numbered(stuck.clone()), SEGMENT);
            assert!(matches!(full, Err(LinkError::Full)), "{limit}: {full:?}");
            let full = client.send(to, &numbered(some(1)), SEGMENT);
            assert!(matches!(full, Err(LinkError::Full)), "{limit}: {full:?}");
            // Deleting the queue drops its frames.
            sh("tc qdisc del dev here root");
            for _ in 0..3 * TX_SLOTS / 64 {
                let batch = some(64);
                client.send(to, &numbered(batch.clone()), SEGMENT).unwrap();
                let mut got = collect_until(&host, batch.end - 1);
                // The first datagrams may have been sent before the queue was deleted, at one per 1.4 s.
                got.retain(|number| !stuck.contains(number) || *number > stuck.start + 9);
                assert!(got == batch.collect::<Vec<_>>(), "{limit}: {got:?}");
            }
        }
    });
}

#[test]
fn a_refused_datagram_does_not_block_later_ones() {
    in_veth_namespace("mapped rings", "", || {
        let (host, client, to) = pair((4710, TransportKind::Raw, TransportKind::Ring));
        for round in 0..3 {
            sh("ip link set here mtu 1000");
            let refused = client.send(to, &numbered(0..3), SEGMENT);
            assert!(matches!(refused, Err(LinkError::Io { .. })), "{refused:?}");
            client.send(to, &[round; 900], 300).unwrap();
            assert_eq!(collect(&host, 3).1, vec![vec![round; 300]; 3]);
            sh("ip link set here mtu 1500");
            client.send(to, &numbered(7..9), SEGMENT).unwrap();
            assert_eq!(collect_until(&host, 8), [7, 8]);
        }
        // A missing interface is a system error and leaves no slot occupied.
        let nowhere = crate::address::path_of_station(crate::ether::Station {
            interface: 999,
            ..crate::address::station_of(to).unwrap()
        });
        let refused = client.send(nowhere, b"lost", 4);
        assert!(matches!(refused, Err(LinkError::Io { .. })), "{refused:?}");
        client.send(to, b"kept", 4).unwrap();
        assert_eq!(collect(&host, 1).1, [b"kept".to_vec()]);
    });
}

#[test]
fn reception_resumes_after_an_interface_was_down() {
    let address = "ip address add 192.0.2.2/24 dev there";
    in_veth_namespace("mapped rings", address, || {
        let bound = "192.0.2.2:4710".parse().unwrap();
        let host = TransportSelector::host(bound, Some(TransportKind::Ring)).unwrap();
        let client = TransportSelector::client(Some(TransportKind::Raw)).unwrap();
        let to = veth_path(THERE, 4710);
        let idle = || {
            let ring = host.ethernet.get().unwrap().readable();
            let mut fds = [rustix::event::PollFd::new(
                &ring,
                rustix::event::PollFlags::IN,
            )];
            let now = rustix::event::Timespec::default();
            rustix::event::poll(&mut fds, Some(&now)).unwrap() == 0
        };
        for _ in 0..2 {
            assert!(idle());
            sh("ip link set there down");
            assert!(!idle(), "the socket has an error");
            let mut batch = RecvBatch::default();
            host.recv(&mut batch, Some(std::time::Duration::ZERO))
                .unwrap();
            assert!(idle(), "one read clears it");
            sh(&format!("ip link set there up\n{UNTIL_UP}"));
            client.send(to, b"again", 5).unwrap();
            assert_eq!(collect(&host, 1).1, [b"again".to_vec()]);
        }
    });
}
