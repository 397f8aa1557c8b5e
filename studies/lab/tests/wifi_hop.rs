//! Tests a relay whose clients are stations of a modelled Wi-Fi network. Checks content, order and counts. Of the
//! times, checks only that no datagram is early.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use openuvr_lab::wifi::{live, words};
use openuvr_sim::schedule::ImpairmentSchedule;
use openuvr_testbed::hop::{Config, Hop, Report};

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let wait = Some(Duration::from_secs(10));
    socket.set_read_timeout(wait).expect("a timeout");
    socket
}

/// Runs `test` with a relay to `target` over the network that these words describe. Returns the relay's report.
fn relay_over(words: &str, target: SocketAddr, test: impl FnOnce(SocketAddr)) -> Report {
    let mut hop = Hop::open(Config {
        listen: "127.0.0.1:0".parse().expect("an address"),
        to: target,
        up: ImpairmentSchedule::default(),
        down: ImpairmentSchedule::default(),
        seed: 42,
    })
    .expect("a relay");
    let network = words::parse(words).expect("words");
    hop.share(live::medium(&network, 42).expect("a network"));
    let (address, stopper) = (hop.local_addr().expect("its address"), hop.stopper());
    std::thread::scope(|scope| {
        let running = scope.spawn(|| hop.run().expect("a run"));
        {
            let _stop = stopper.stop_at_end();
            test(address);
        }
        running.join().expect("its report")
    })
}

fn receive(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut buffer = [0; 2048];
    let (len, from) = socket.recv_from(&mut buffer).expect("a datagram");
    (buffer[..len].to_vec(), from)
}

#[test]
fn over_wifi_nothing_is_early_or_out_of_order() {
    let (client, target) = (socket(), socket());
    let begin = Instant::now();
    let words = "profile=he-su per=10%";
    let report = relay_over(words, target.local_addr().unwrap(), |hop| {
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
    });
    // There is at least one frame exchange in each direction.
    assert!(begin.elapsed() >= Duration::from_micros(200));
    assert_eq!((report.up.delivered, report.down.delivered), (100, 100));
    assert_eq!((report.up.lost, report.down.overflowed), (0, 0));
    assert_eq!(report.lateness.count(), 200);
    assert_eq!(report.crossing.unwrap().count(), 100);
}

#[test]
fn a_wifi_network_has_room_for_its_stations() {
    let target = socket();
    let clients: Vec<_> = (0..3).map(|_| socket()).collect();
    let words = "stations=2 per=0";
    let report = relay_over(words, target.local_addr().unwrap(), |hop| {
        for (i, client) in (0u8..).zip(&clients) {
            client.send_to(&[i], hop).unwrap();
        }
        let mut seen = [receive(&target), receive(&target)];
        seen.sort();
        for (bytes, from) in seen {
            target.send_to(&[bytes[0] + 100], from).unwrap();
        }
        for (i, client) in (100u8..102).zip(&clients) {
            assert_eq!(receive(client).0, [i]);
        }
    });
    assert_eq!((report.flows, report.refused), (2, 1));
}

#[test]
fn an_impossible_network_is_named() {
    let mut network = words::parse("").unwrap();
    network.setup.stations.clear();
    let error = live::medium(&network, 42).unwrap_err().to_string();
    assert!(error.contains("no such Wi-Fi network"), "{error}");
}
