//! A network namespace with two cables. The bridge is on one end of each cable, and packet sockets are on the other
//! ends. The tests check counts, content and order; for time, they check only that no frame is early.

use std::time::{Duration, Instant};

use openuvr_sim::link::Impairment;

use super::*;
use crate::raw_cables;

/// The EtherType that OpenUVR uses, one of the experimental EtherTypes (IEEE 802).
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];

/// Runs `test` in a thread with its own two cables: from `client` to `a`, and from `host` to `b`. The bridge's ends are
/// `a` and `b`.
fn with_cables<T: Send>(test: impl FnOnce() -> T + Send) -> Option<T> {
    raw_cables::with_cables(&[("client", "a"), ("host", "b")], test)
}

/// Runs `test` with a bridge between `a` and `b`, and returns the bridge's report.
fn bridged(up: Impairment, down: Impairment, test: impl FnOnce()) -> Report {
    let bridge = Bridge::open(Config {
        client_side: "a".into(),
        host_side: "b".into(),
        up: up.into(),
        down: down.into(),
        seed: 42,
    })
    .expect("the bridge");
    let stopper = bridge.stopper();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| bridge.run().expect("a run"));
        {
            let _stop = stopper.stop_at_end();
            test();
        }
        running.join().expect("the bridge")
    })
}

fn frame(kind: [u8; 2], payload: &[u8]) -> Vec<u8> {
    [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1], &kind, payload].concat()
}

fn send(port: &Port, frame: &[u8]) {
    let bytes = [&NOTHING_TO_DO[..], frame].concat();
    rustix::net::send(&port.socket, &bytes, SendFlags::empty()).expect("a frame is sent");
}

/// The next frame with [`ETHERTYPE`]. Frames that the kernel has sent are skipped.
fn receive(port: &Port) -> Vec<u8> {
    let until = Instant::now() + Duration::from_secs(10);
    let mut buffer = vec![0; LARGEST];
    loop {
        let mut fds = [PollFd::new(&port.socket, PollFlags::IN)];
        let wait = Timespec::try_from(until.duration_since(Instant::now())).expect("a span");
        rustix::event::poll(&mut fds, Some(&wait)).expect("poll");
        let (_, len) = rustix::net::recv(&port.socket, &mut *buffer, RecvFlags::TRUNC)
            .expect("a frame arrives within ten seconds");
        let frame = &buffer[HEADER_LEN..len];
        if frame[12..14] == ETHERTYPE {
            return frame.to_vec();
        }
    }
}

#[test]
fn frames_pass_both_ways_and_the_seed_decides_losses() {
    with_cables(|| {
        let lossy = Impairment {
            loss: 0.1,
            ..Impairment::default()
        };
        let mut model = LinkModel::new(lossy.clone(), seeds(42, 0).0);
        let (client, host) = (Port::open("client").unwrap(), Port::open("host").unwrap());
        let mut survivors = 0;
        let report = bridged(lossy, Impairment::default(), || {
            for i in 0..500u32 {
                // Frames from the smallest to the largest size.
                let mut payload = vec![7; 46 + (i as usize * 13) % 1455];
                payload[..4].copy_from_slice(&i.to_le_bytes());
                let sent = frame(ETHERTYPE, &payload);
                model.send(openuvr_proto::time::Instant(0), sent.clone());
                send(&client, &sent);
                if let Some(bytes) = model.poll(openuvr_proto::time::Instant(0)) {
                    survivors += 1;
                    assert_eq!(receive(&host), bytes);
                }
            }
            for i in 0..20u8 {
                send(&host, &frame(ETHERTYPE, &[i; 60]));
                assert_eq!(receive(&client), frame(ETHERTYPE, &[i; 60]));
            }
        });
        assert_eq!((report.up.sent, report.up.delivered), (500, survivors));
        assert_eq!(report.up.lost + survivors, 500);
        assert!((400..500).contains(&survivors));
        assert_eq!((report.down.sent, report.down.delivered), (20, 20));
        assert_eq!((report.unreadable, report.unsent), (0, 0));
        assert_eq!(report.lateness.count(), survivors + 20);
    });
}

#[test]
fn a_bottleneck_takes_its_time_and_its_queue_overflows() {
    with_cables(|| {
        let narrow = Impairment {
            rate: Some(openuvr_proto::units::Bitrate::from_mbps(8)),
            queue: openuvr_sim::link::Queue::Bytes(10_000),
            ..Impairment::default()
        };
        let (client, host) = (Port::open("client").unwrap(), Port::open("host").unwrap());
        let begin = Instant::now();
        let report = bridged(narrow, Impairment::default(), || {
            for i in 0..40u8 {
                send(&client, &frame(ETHERTYPE, &[i; 986]));
            }
            // At least the first ten frames arrive, because the queue has room for them.
            for i in 0..10u8 {
                assert_eq!(receive(&host), frame(ETHERTYPE, &[i; 986]));
            }
            // The bridge reads all of the 40 frames before a frame from the other side.
            send(&host, &frame(ETHERTYPE, &[0; 60]));
            assert_eq!(receive(&client), frame(ETHERTYPE, &[0; 60]));
        });
        // Each of the ten frames has 1000 bytes, and the link transmits 1 byte per microsecond.
        assert!(begin.elapsed() >= Duration::from_millis(10), "not early");
        assert_eq!(report.up.sent, 40);
        assert!(report.up.delivered >= 10);
    });
}

#[test]
fn offloaded_datagrams_arrive_separately() {
    with_cables(|| {
        raw_cables::run(
            "ip addr add 10.9.0.1/24 dev client
             ip neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev client",
        );
        let host = Port::open("host").unwrap();
        let socket = std::net::UdpSocket::bind("10.9.0.1:0").unwrap();
        let payload: Vec<u8> = (0..10_000u32).map(|i| (i / 100).to_le_bytes()[0]).collect();
        let report = bridged(Impairment::default(), Impairment::default(), || {
            raw_cables::send_segmented(&socket, "10.9.0.2:4000", &payload, 1400).unwrap();
            let mut buffer = vec![0; LARGEST];
            let mut got = Vec::new();
            let until = Instant::now() + Duration::from_secs(10);
            while got.len() < payload.len() {
                let wait = Timespec::try_from(until - Instant::now()).unwrap();
                let mut fds = [PollFd::new(&host.socket, PollFlags::IN)];
                rustix::event::poll(&mut fds, Some(&wait)).unwrap();
                let (_, len) =
                    rustix::net::recv(&host.socket, &mut *buffer, RecvFlags::TRUNC).unwrap();
                let frame = &buffer[HEADER_LEN..len];
                if frame[12..14] == [0x08, 0x00] && frame[23] == 17 {
                    assert!(frame.len() <= 14 + 28 + 1400, "{} bytes", frame.len());
                    got.extend_from_slice(&frame[42..]);
                }
            }
            assert_eq!(got, payload);
        });
        assert_eq!(report.up.delivered, report.up.sent);
        assert!(
            report.up.sent >= 8,
            "10 000 bytes in 1400s are eight frames"
        );
    });
}

#[test]
fn unusable_interfaces_are_named() {
    with_cables(|| {
        let open = |name: &str| Port::open(name).unwrap_err().to_string();
        assert!(
            open("nowhere").contains("nowhere: no such interface"),
            "{}",
            open("nowhere")
        );
        assert!(
            std::process::Command::new("ip")
                .args(["link", "set", "dev", "a", "down"])
                .status()
                .unwrap()
                .success()
        );
        assert!(open("a").contains("ip link set dev a up"), "{}", open("a"));
    });
}
