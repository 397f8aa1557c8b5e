//! Real sockets on the loopback device. The tests check counts, content and order; for time, they check only that no
//! datagram is early.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use openuvr_sim::aqm::{Discipline, Ecn};
use openuvr_sim::link::{Impairment, LinkModel, Queue};
use openuvr_sim::schedule::ImpairmentSchedule;

use rustix::event::{PollFd, PollFlags, Timespec};

use super::ecn_socket::EcnSocket;
use super::{Config, Hop, MAX_FLOWS, Report, seeds};

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    socket
}

/// Runs `test` with a relay to `target`, and returns the relay's report.
fn relay(
    target: SocketAddr,
    (up, down): (Impairment, Impairment),
    test: impl FnOnce(SocketAddr),
) -> Report {
    let hop = Hop::open(config(target, up, down)).unwrap();
    let (address, stopper) = (hop.local_addr().unwrap(), hop.stopper());
    std::thread::scope(|scope| {
        let running = scope.spawn(|| hop.run().unwrap());
        {
            let _stop = stopper.stop_at_end();
            test(address);
        }
        running.join().unwrap()
    })
}

fn config(target: SocketAddr, up: Impairment, down: Impairment) -> Config {
    Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        to: target,
        up: up.into(),
        down: down.into(),
        seed: 42,
    }
}

fn receive(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut buffer = [0; 2048];
    let (len, from) = socket.recv_from(&mut buffer).unwrap();
    (buffer[..len].to_vec(), from)
}

#[test]
fn the_seed_decides_which_datagrams_are_lost() {
    let lossy = Impairment {
        loss: 0.1,
        ..Impairment::default()
    };
    let mut model = LinkModel::new(lossy.clone(), seeds(42, 0).0);
    let (client, target) = (socket(), socket());
    let mut survivors = 0;
    let report = relay(
        target.local_addr().unwrap(),
        (lossy, Impairment::default()),
        |hop| {
            for i in 0..1000u32 {
                let now = openuvr_proto::time::Instant(0);
                model.send(now, i.to_le_bytes().to_vec());
                client.send_to(&i.to_le_bytes(), hop).unwrap();
                if let Some(bytes) = model.poll(now) {
                    survivors += 1;
                    assert_eq!(receive(&target).0, bytes);
                }
            }
        },
    );
    assert_eq!(report.up.delivered, survivors);
    assert_eq!(report.up.lost + survivors, report.up.sent);
    assert!((850..950).contains(&survivors));
    assert_eq!(report.lateness.count(), survivors);
}

#[test]
fn jitter_and_a_bottleneck_keep_the_order() {
    let rough = Impairment {
        delay: Duration::from_millis(3),
        jitter: Duration::from_millis(2),
        rate: Some(openuvr_proto::units::Bitrate::from_mbps(20)),
        ..Impairment::default()
    };
    let (client, target) = (socket(), socket());
    let begin = Instant::now();
    let report = relay(
        target.local_addr().unwrap(),
        (rough.clone(), rough),
        |hop| {
            for i in 0..100u32 {
                client.send_to(&i.to_le_bytes(), hop).unwrap();
            }
            for i in 0..100u32 {
                let (bytes, from) = receive(&target);
                assert_eq!(bytes, i.to_le_bytes());
                target.send_to(&bytes, from).unwrap();
            }
            for i in 0..100u32 {
                let (bytes, from) = receive(&client);
                assert_eq!((bytes, from), (i.to_le_bytes().to_vec(), hop));
            }
        },
    );
    assert!(begin.elapsed() >= Duration::from_millis(6), "not early");
    assert_eq!((report.up.delivered, report.down.delivered), (100, 100));
    assert_eq!(
        (report.up.reordered, report.unsent, report.flows),
        (0, 0, 1)
    );
}

#[test]
fn each_client_gets_its_own_answers() {
    let target = socket();
    let clients: Vec<_> = (0..5).map(|_| socket()).collect();
    relay(target.local_addr().unwrap(), Default::default(), |hop| {
        for (i, client) in (0u8..).zip(&clients) {
            client.send_to(&[i], hop).unwrap();
        }
        let mut seen = Vec::new();
        for _ in &clients {
            let (bytes, from) = receive(&target);
            target.send_to(&[bytes[0] + 100], from).unwrap();
            seen.push(from);
        }
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 5, "the target sees one address for each client");
        for (i, client) in (100u8..).zip(&clients) {
            assert_eq!(receive(client).0, [i]);
        }
    });
}

#[test]
fn the_number_of_clients_is_limited() {
    let target = socket();
    let clients: Vec<_> = (0..=MAX_FLOWS).map(|_| socket()).collect();
    let report = relay(target.local_addr().unwrap(), Default::default(), |hop| {
        for client in &clients {
            client.send_to(b"hello", hop).unwrap();
        }
        clients[0].send_to(b"end", hop).unwrap();
        let mut got = 0;
        while receive(&target).0 != b"end" {
            got += 1;
        }
        assert!(got <= MAX_FLOWS);
    });
    assert_eq!((report.flows, report.refused), (MAX_FLOWS as u64, 1));
}

#[test]
fn a_target_that_starts_late_is_reached() {
    // An address that only this process uses, and a port outside the ephemeral range.
    let [_, a, b, c] = std::process::id().to_be_bytes();
    let late = SocketAddr::from(([127, a.max(1), b, c], 4719));
    let client = socket();
    let report = relay(late, Default::default(), |hop| {
        for _ in 0..10 {
            client.send_to(b"hello?", hop).unwrap();
        }
        let target = UdpSocket::bind(late).unwrap();
        let wait = Some(Duration::from_secs(10));
        target.set_read_timeout(wait).unwrap();
        client.send_to(b"back?", hop).unwrap();
        let mut got = receive(&target);
        while got.0 != b"back?" {
            assert_eq!(got.0, b"hello?");
            got = receive(&target);
        }
        target.send_to(b"yes", got.1).unwrap();
        assert_eq!(receive(&client).0, b"yes");
    });
    assert_eq!((report.up.delivered, report.down.delivered), (11, 1));
}

#[test]
fn a_taken_port_is_named() {
    let taken = socket();
    let address = taken.local_addr().unwrap();
    let error = Hop::open(Config {
        listen: address,
        to: address,
        up: ImpairmentSchedule::default(),
        down: ImpairmentSchedule::default(),
        seed: 0,
    })
    .unwrap_err();
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}

/// The ECN field of the next datagram.
fn receive_field(socket: &EcnSocket) -> Ecn {
    let wait = Timespec {
        tv_sec: 10,
        tv_nsec: 0,
    };
    let mut fds = [PollFd::new(socket, PollFlags::IN)];
    rustix::event::poll(&mut fds, Some(&wait)).unwrap();
    let (len, _, ecn) = socket
        .receive(&mut [0; 2048])
        .expect("a datagram within ten seconds");
    assert_eq!(len, 1000);
    ecn
}

#[test]
fn a_discipline_marks_datagrams_and_counts_them() {
    let slow = Impairment {
        rate: Some(openuvr_proto::units::Bitrate::from_mbps(2)),
        queue: Queue::Bytes(100_000),
        ..Impairment::default()
    };
    for (discipline, field, marks) in [
        (Discipline::TailDrop, Ecn::Ect1, 0..1),
        (Discipline::DualPi2, Ecn::Ect1, 10..20),
        (Discipline::DualPi2, Ecn::NotEct, 0..1),
    ] {
        let any = "127.0.0.1:0".parse().unwrap();
        let open = || EcnSocket::open(any, 1 << 20).unwrap();
        let (client, target) = (open(), open());
        let to = target.local_addr().unwrap();
        let mut hop = Hop::open(config(to, slow.clone(), Impairment::default())).unwrap();
        hop.set_discipline(discipline);
        let (address, stopper) = (hop.local_addr().unwrap(), hop.stopper());
        let (seen, report) = std::thread::scope(|scope| {
            let running = scope.spawn(|| hop.run().unwrap());
            let seen: Vec<Ecn> = {
                let _stop = stopper.stop_at_end();
                // The datagrams take 80 ms. The L4S queue marks all datagrams that wait for 1.2 ms or more, and drops
                // none.
                for _ in 0..20 {
                    client.send(&[0; 1000], Some(address), field).unwrap();
                }
                (0..20).map(|_| receive_field(&target)).collect()
            };
            (seen, running.join().unwrap())
        });
        let marked = seen.iter().filter(|one| **one == Ecn::Ce).count();
        assert!(marks.contains(&marked), "{discipline}: {marked} marks");
        assert_eq!(report.up.marked, marked as u64, "{report}");
        let others = seen.iter().filter(|one| **one == field).count();
        assert_eq!(others + marked, 20, "{seen:?}");
    }
}
