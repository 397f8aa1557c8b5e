//! Mapped rings: what happens where they end, and when one is full.

use std::ops::Range;
use std::process::Command;

use super::{LONG, PAIRS, RecvBatch, THERE, any, collect, in_a_cable, over_cable};
use crate::ladder::Ladder;
use crate::sys::namespace::UNTIL_UP;
use crate::sys::ring::{RECEIVING, SENDING};
use crate::{Link, LinkError, PathId, Rung};

/// Bytes of a datagram in these tests: the longest.
const SEGMENT: usize = crate::MAX_DATAGRAM;

/// Datagrams that begin with their number and go on with it.
fn numbered(numbers: Range<u32>) -> Vec<u8> {
    let one = |number: u32| number.to_le_bytes().repeat(SEGMENT / 4);
    numbers.flat_map(one).collect()
}

/// The numbers of datagrams, each of which is whole.
fn numbers(datagrams: &[Vec<u8>]) -> Vec<u32> {
    let number = |bytes: &Vec<u8>| {
        let number = u32::from_le_bytes(bytes[..4].try_into().unwrap());
        assert!(*bytes == numbered(number..number + 1), "{number} is broken");
        number
    };
    datagrams.iter().map(number).collect()
}

/// What is there, up to the datagram with this number.
fn collect_until(link: &Ladder, last: u32) -> Vec<u32> {
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

/// A host, a client, and the way from the second to the first.
fn pair((port, at_host, at_client): (u16, Rung, Rung)) -> (Ladder, Ladder, PathId) {
    let host = Ladder::host(any(port), Some(at_host)).unwrap();
    let client = Ladder::client(Some(at_client)).unwrap();
    (host, client, over_cable(THERE, port))
}

#[test]
fn rings_go_round_and_keep_everything_whole_and_in_order() {
    in_a_cable("mapped rings", "", || {
        for kinds in PAIRS {
            let (host, client, to) = pair(kinds);
            // Both rings of each end several times, and at another slot each time: 97 is prime.
            let (most, step) = (2 * RECEIVING + SENDING, 97);
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
fn a_full_ring_loses_what_is_sent_and_recovers() {
    in_a_cable("mapped rings", "", || {
        let (host, client, to) = pair((4710, Rung::Ring, Rung::Raw));
        for round in 0..3 {
            let first = round * 10_000;
            let count = u32::try_from(2 * RECEIVING).unwrap();
            for at in (first..first + count).step_by(64) {
                client.send(to, &numbered(at..at + 64), SEGMENT).unwrap();
            }
            // What has arrived is whatever fits, and the next is not in it.
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
            // Some may have come in while others were taken.
            assert!(!got.is_empty() && got.len() < 2 * RECEIVING, "all came in");
            assert!(got.is_sorted_by(|a, b| a < b), "{got:?}");
            let last = first + 9_999;
            client.send(to, &numbered(last..last + 1), SEGMENT).unwrap();
            collect_until(&host, last);
        }
    });
}

#[test]
fn what_does_not_leave_is_lost_at_once_and_never_leaves_later() {
    in_a_cable("mapped rings", "", || {
        let (host, client, to) = pair((4710, Rung::Raw, Rung::Ring));
        let mut next = 0..0;
        let mut some = |count: u32| {
            next = next.end..next.end + count;
            next.clone()
        };
        // A queue that holds all that the ring has, and one that refuses most of it.
        for limit in ["10mb", "20kb"] {
            sh(&format!(
                "tc qdisc add dev here root tbf rate 8kbit burst 2kb limit {limit}"
            ));
            let stuck = some(2 * u32::try_from(SENDING).unwrap());
            let full = client.send(to, &numbered(stuck.clone()), SEGMENT);
            assert!(matches!(full, Err(LinkError::Full)), "{limit}: {full:?}");
            let full = client.send(to, &numbered(some(1)), SEGMENT);
            assert!(matches!(full, Err(LinkError::Full)), "{limit}: {full:?}");
            // What waits in the queue goes with it.
            sh("tc qdisc del dev here root");
            for _ in 0..3 * SENDING / 64 {
                let batch = some(64);
                client.send(to, &numbered(batch.clone()), SEGMENT).unwrap();
                let mut got = collect_until(&host, batch.end - 1);
                // A first one may have passed before the queue was full.
                got.retain(|number| !stuck.contains(number) || *number > stuck.start + 1);
                assert!(got == batch.collect::<Vec<_>>(), "{limit}: {got:?}");
            }
        }
    });
}

#[test]
fn a_refused_datagram_does_not_block_those_behind_it() {
    in_a_cable("mapped rings", "", || {
        let (host, client, to) = pair((4710, Rung::Raw, Rung::Ring));
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
        // One that is gone is the system's error, and leaves nothing behind either.
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
fn an_interface_that_goes_down_and_comes_back_is_heard_again() {
    let address = "ip address add 192.0.2.2/24 dev there";
    in_a_cable("mapped rings", address, || {
        let bound = "192.0.2.2:4710".parse().unwrap();
        let host = Ladder::host(bound, Some(Rung::Ring)).unwrap();
        let client = Ladder::client(Some(Rung::Raw)).unwrap();
        let to = over_cable(THERE, 4710);
        let waiting = || {
            let ring = host.ethernet.get().unwrap().readable();
            let mut fds = [rustix::event::PollFd::new(
                &ring,
                rustix::event::PollFlags::IN,
            )];
            let now = rustix::event::Timespec::default();
            rustix::event::poll(&mut fds, Some(&now)).unwrap() == 0
        };
        for _ in 0..2 {
            assert!(waiting());
            sh("ip link set there down");
            assert!(!waiting(), "the system tells of it");
            let mut batch = RecvBatch::default();
            host.recv(&mut batch, Some(std::time::Duration::ZERO))
                .unwrap();
            assert!(waiting(), "and once is enough");
            sh(&format!("ip link set there up\n{UNTIL_UP}"));
            client.send(to, b"again", 5).unwrap();
            assert_eq!(collect(&host, 1).1, [b"again".to_vec()]);
        }
    });
}
