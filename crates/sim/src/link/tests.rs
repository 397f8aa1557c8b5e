//! The tests use a virtual clock and fixed seeds, so every expected number is exact and reproducible.

use std::time::Duration;

use openuvr_proto::time::Instant;
use openuvr_proto::units::Bitrate;

use super::{BurstLoss, Counters, Impairment, LinkModel, MAX_IN_FLIGHT, Queue};
use crate::aqm::{Discipline, Ecn, Packet};
use crate::bottleneck::Bottleneck;
use crate::schedule::ImpairmentSchedule;

const MS: Duration = Duration::from_millis(1);

/// Sends `count` numbered datagrams of `len` bytes, `gap` apart, and returns the arrivals.
fn run(link: &mut LinkModel, count: u32, len: usize, gap: Duration) -> Vec<(Instant, u32)> {
    let mut now = Instant(0);
    let mut arrived = Vec::new();
    for i in 0..count {
        let mut bytes = vec![0; len.max(4)];
        bytes[..4].copy_from_slice(&i.to_le_bytes());
        drain(link, now, &mut arrived);
        link.send(now, bytes);
        now = now + gap;
    }
    drain(link, Instant(i64::MAX), &mut arrived);
    arrived
}

fn drain(link: &mut LinkModel, until: Instant, arrived: &mut Vec<(Instant, u32)>) {
    while let Some(at) = link.next_timeout().filter(|at| *at <= until) {
        let bytes = link.poll(at).expect("a timeout announces a datagram");
        arrived.push((at, u32::from_le_bytes(bytes[..4].try_into().unwrap())));
    }
}

fn ids(arrived: &[(Instant, u32)]) -> Vec<u32> {
    arrived.iter().map(|(_, id)| *id).collect()
}

fn balanced(counters: Counters) -> bool {
    counters.sent + counters.duplicated == counters.delivered + counters.lost + counters.overflowed
}

#[test]
fn a_perfect_link_delivers_at_once_and_in_order() {
    let mut link = LinkModel::new(Impairment::default(), 1);
    link.send(Instant(5), b"a".to_vec());
    link.send(Instant(5), b"b".to_vec());
    assert_eq!(link.next_timeout(), Some(Instant(5)));
    assert_eq!(link.poll(Instant(5)).as_deref(), Some(&b"a"[..]));
    assert_eq!(link.poll(Instant(5)).as_deref(), Some(&b"b"[..]));
    assert_eq!(link.poll(Instant(5)), None);
    assert_eq!(link.next_timeout(), None);
}

#[test]
fn delay_is_exact_and_nothing_is_early() {
    let mut link = LinkModel::new(
        Impairment {
            delay: 5 * MS,
            ..Impairment::default()
        },
        1,
    );
    link.send(Instant(0), vec![1]);
    assert_eq!(link.poll(Instant(4_999_999)), None);
    assert_eq!(link.poll(Instant(5_000_000)), Some(vec![1]));
}

#[test]
fn jitter_stays_in_its_range_and_keeps_the_order() {
    let jittery = Impairment {
        delay: 2 * MS,
        jitter: 4 * MS,
        ..Impairment::default()
    };
    let mut link = LinkModel::new(jittery, 7);
    // Datagrams far apart do not wait for each other, so each has its own delay.
    let arrived = run(&mut link, 10_000, 4, 10 * MS);
    let mut sum = 0;
    for (at, id) in &arrived {
        let delay = at.0 - i64::from(*id) * 10_000_000;
        assert!((2_000_000..6_000_000).contains(&delay), "{delay}");
        sum += delay;
    }
    let mean = sum / 10_000;
    assert!((3_950_000..4_050_000).contains(&mean), "{mean}");
    // Datagrams close together still arrive in order.
    let ids = ids(&run(&mut link, 10_000, 4, Duration::from_micros(10)));
    assert!(ids.is_sorted() && ids.len() == 10_000);
}

#[test]
fn independent_loss_has_its_rate_and_does_not_cluster() {
    let lossy = Impairment {
        loss: 0.1,
        ..Impairment::default()
    };
    let mut link = LinkModel::new(lossy, 3);
    let ids = ids(&run(&mut link, 100_000, 4, MS));
    let lost = 100_000 - ids.len();
    // The mean, plus or minus five standard deviations of sqrt(100 000 × 0.1 × 0.9) = 95.
    assert!((9_525..=10_475).contains(&lost), "{lost}");
    // After a loss, the next datagram is lost with the same probability.
    let twice = ids.windows(2).filter(|w| w[1] - w[0] > 2).count();
    assert!((700..=1_100).contains(&twice), "{twice}");
    assert!(balanced(link.counters()));
}

#[test]
fn bursty_loss_has_its_rate_and_its_length() {
    let bursty = Impairment {
        burst: Some(BurstLoss {
            enter: 0.01,
            leave: 0.25,
            loss: 1.0,
        }),
        ..Impairment::default()
    };
    let ids = ids(&run(&mut LinkModel::new(bursty, 3), 200_000, 4, MS));
    // The link is in the bad state for enter / (enter + leave) = 3.85 % of the datagrams.
    let lost = 200_000 - ids.len();
    assert!((7_000..=8_400).contains(&lost), "{lost}");
    // The mean length of a burst is 1 / leave = 4.
    let bursts = ids.windows(2).filter(|w| w[1] - w[0] > 1).count();
    let tenths = 10 * lost / bursts;
    assert!((37..=43).contains(&tenths), "{tenths}");
}

#[test]
fn reordering_delays_and_loses_nothing() {
    let swapping = Impairment {
        reorder: 0.05,
        reorder_by: 3 * MS,
        ..Impairment::default()
    };
    let mut link = LinkModel::new(swapping, 9);
    let mut ids = ids(&run(&mut link, 10_000, 4, 2 * MS));
    // A datagram that is delayed by three milliseconds is overtaken by exactly one of the following datagrams.
    let late = ids.windows(2).filter(|w| w[1] < w[0]).count() as u64;
    assert!((400..=600).contains(&link.counters().reordered));
    assert!(late > 350 && late <= link.counters().reordered, "{late}");
    ids.sort_unstable();
    assert!(ids.iter().copied().eq(0..10_000));
}

#[test]
fn duplicates_follow_immediately() {
    let doubling = Impairment {
        duplicate: 0.2,
        ..Impairment::default()
    };
    let mut link = LinkModel::new(doubling, 4);
    let ids = ids(&run(&mut link, 1000, 4, MS));
    let doubled = ids.windows(2).filter(|w| w[0] == w[1]).count();
    assert_eq!(ids.len(), 1000 + doubled);
    assert_eq!(link.counters().duplicated, doubled as u64);
    assert!((150..=250).contains(&doubled) && ids.is_sorted());
    assert!(balanced(link.counters()));
}

#[test]
fn the_bottleneck_spaces_datagrams_and_its_queue_is_bounded() {
    let narrow = Impairment {
        delay: MS,
        rate: Some(Bitrate::from_mbps(8)),
        queue: Queue::Bytes(10_000),
        ..Impairment::default()
    };
    let mut link = LinkModel::new(narrow, 1);
    // A burst of 20 × 1000 bytes at 1 byte/µs: ten datagrams fit into the queue (including the one that is being sent).
    let arrived = run(&mut link, 20, 1000, Duration::ZERO);
    let want: Vec<_> = (0..10u32)
        .map(|i| (Instant(1_000_000 * i64::from(i + 2)), i))
        .collect();
    assert_eq!(arrived, want);
    assert_eq!(link.counters().overflowed, 10);
    // A datagram larger than the queue passes an idle bottleneck. Otherwise, a small queue would block the link.
    link.send(Instant(1_000_000_000), vec![0; 20_000]);
    assert_eq!(link.next_timeout(), Some(Instant(1_021_000_000)));
}

#[test]
fn a_queue_in_time_bounds_the_wait() {
    let narrow = Impairment {
        rate: Some(Bitrate::from_mbps(8)),
        queue: Queue::Time(5 * MS),
        ..Impairment::default()
    };
    let mut link = LinkModel::new(narrow, 1);
    // Each datagram takes 1 ms, so the datagrams with a queueing delay of 0 to 5 ms are sent.
    let arrived = run(&mut link, 20, 1000, Duration::ZERO);
    assert_eq!(ids(&arrived), [0, 1, 2, 3, 4, 5]);
    assert_eq!(arrived[5].0, Instant(6_000_000));
}

#[test]
fn a_schedule_changes_the_link_at_its_times() {
    let rate = |mbps| Impairment {
        rate: Some(Bitrate::from_mbps(mbps)),
        queue: Queue::Bytes(20_000),
        ..Impairment::default()
    };
    let lossy = Impairment {
        loss: 1.0,
        ..Impairment::default()
    };
    let begin = Instant(7_000_000_000);
    let schedule = ImpairmentSchedule::from(rate(8))
        .then(5 * MS, rate(80))
        .then(100 * MS, lossy);
    let mut link = LinkModel::on_course(schedule, begin, 1);
    for i in 0..10u32 {
        let mut bytes = vec![0; 1000];
        bytes[..4].copy_from_slice(&i.to_le_bytes());
        link.send(begin + MS / 2, bytes);
    }
    let mut arrived = Vec::new();
    drain(&mut link, begin + 99 * MS, &mut arrived);
    // From 0.5 ms on, each datagram takes 1 ms. The fifth is half sent when the link becomes ten times faster.
    let microseconds: Vec<u128> = arrived
        .iter()
        .map(|(at, _)| at.since(begin).as_micros())
        .collect();
    assert_eq!(
        microseconds,
        [1500, 2500, 3500, 4500, 5050, 5150, 5250, 5350, 5450, 5550]
    );
    link.send(begin + 99 * MS, vec![0; 4]);
    link.send(begin + 100 * MS, vec![0; 4]);
    assert_eq!((link.counters().sent, link.counters().lost), (12, 1));
}

#[test]
fn a_queue_is_counted_over_a_change_of_rate() {
    let rate = |mbps| Impairment {
        rate: Some(Bitrate::from_mbps(mbps)),
        queue: Queue::Bytes(10_000),
        ..Impairment::default()
    };
    let schedule = ImpairmentSchedule::from(rate(8)).then(2 * MS, rate(800));
    let mut link = LinkModel::on_course(schedule, Instant(0), 1);
    // Ten datagrams fit into the queue, independently of the later rate.
    assert_eq!(run(&mut link, 20, 1000, Duration::ZERO).len(), 10);
    assert_eq!(link.counters().overflowed, 10);
}

#[test]
fn data_in_flight_is_bounded() {
    let long = Impairment {
        delay: Duration::from_secs(3600),
        ..Impairment::default()
    };
    let mut link = LinkModel::new(long, 1);
    for _ in 0..20 {
        link.send(Instant(0), vec![0; 1 << 20]);
    }
    assert_eq!(
        link.counters().overflowed,
        20 - (MAX_IN_FLIGHT >> 20) as u64
    );
}

#[test]
fn a_seed_repeats_and_another_differs() {
    let rough = Impairment {
        jitter: MS,
        loss: 0.1,
        reorder: 0.1,
        duplicate: 0.1,
        ..Impairment::default()
    };
    let of = |seed| run(&mut LinkModel::new(rough.clone(), seed), 500, 4, MS);
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
}

#[test]
fn one_impairment_does_not_move_another() {
    let lossy = Impairment {
        loss: 0.1,
        ..Impairment::default()
    };
    let rough = Impairment {
        jitter: MS,
        rate: Some(Bitrate::from_mbps(1000)),
        ..lossy.clone()
    };
    let of = |impairment| ids(&run(&mut LinkModel::new(impairment, 5), 1000, 4, MS));
    assert_eq!(of(lossy), of(rough));
}

/// The tail drop that the link model computes drops and delays the same packets as the tail-drop discipline of a
/// `Bottleneck`.
#[test]
fn tail_drop_equals_its_discipline() {
    let rate = Bitrate::from_mbps(8);
    let mut link = LinkModel::new(
        Impairment {
            rate: Some(rate),
            queue: Queue::Bytes(7000),
            ..Impairment::default()
        },
        1,
    );
    // The link's limit includes the packet that is being sent, but the discipline's limit does not.
    let mut bottleneck = Bottleneck::new(Discipline::TailDrop, 6000, 1);
    let takes = |from: Instant, len: usize| from + Duration::from_micros(len as u64);
    let mut left = Vec::new();
    let (mut want, mut now) = (Vec::new(), Instant(0));
    for i in 0..100_u32 {
        drain(&mut link, now, &mut want);
        let packet = |content| Packet {
            flow: 0,
            len: 1000,
            ecn: Ecn::NotEct,
            content,
        };
        let mut bytes = vec![0; 1000];
        bytes[..4].copy_from_slice(&i.to_le_bytes());
        link.send_packet(now, packet(bytes));
        bottleneck.send(now, packet(i.to_le_bytes().to_vec()), takes);
        // Ten packets 250 µs apart, then a pause.
        now = now + if i % 10 == 9 { 20 * MS } else { MS / 4 };
    }
    drain(&mut link, Instant(i64::MAX), &mut want);
    while let Some((at, packet)) = bottleneck.poll(Instant(i64::MAX), takes) {
        left.push((
            at,
            u32::from_le_bytes(packet.content[..4].try_into().unwrap()),
        ));
    }
    assert!(want.len() < 100);
    assert_eq!(left, want);
}

/// With a discipline other than tail drop, the link marks packets. With each discipline, its counters add up, and a
/// late poll changes nothing.
#[test]
fn a_link_with_a_discipline_marks_and_keeps_its_balance() {
    for (name, discipline) in Discipline::ALL {
        let run = |polls: bool| {
            let impairment = Impairment {
                delay: 5 * MS,
                loss: 0.01,
                rate: Some(Bitrate::from_mbps(8)),
                queue: Queue::Time(200 * MS),
                ..Impairment::default()
            };
            let mut link = LinkModel::new(impairment, 1);
            link.set_discipline(discipline, 2);
            let (mut now, mut arrived) = (Instant(0), Vec::new());
            for number in 0..4000_u64 {
                while polls && let Some((at, packet)) = link.poll_packet(now) {
                    arrived.push((at, packet.ecn));
                }
                let packet = Packet {
                    flow: number % 2,
                    len: 1000,
                    ecn: [Ecn::Ect0, Ecn::Ect1][usize::try_from(number % 2).unwrap()],
                    content: vec![0; 1000],
                };
                link.send_packet(now, packet);
                now = now + MS * 9 / 10;
            }
            while let Some((at, packet)) = link.poll_packet(Instant(i64::MAX)) {
                arrived.push((at, packet.ecn));
            }
            assert!(balanced(link.counters()), "{name} {:?}", link.counters());
            let marks = arrived.iter().filter(|(_, ecn)| *ecn == Ecn::Ce).count();
            assert_eq!(marks > 0, discipline != Discipline::TailDrop, "{name}");
            assert!(marks as u64 <= link.counters().marked, "{name}");
            arrived
        };
        assert_eq!(run(true), run(false), "{name}");
    }
}
