use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use openuvr_proto::time::Instant;

use super::*;

fn packet(flow: u64, ecn: Ecn, number: u64) -> Packet<u64> {
    Packet {
        flow,
        len: 1500,
        ecn,
        content: number,
    }
}

/// For `seconds`, offers a load to a link that sends one packet each millisecond. The load consists of flows, their ECN
/// fields, and their packets per millisecond. Returns the sent packets.
fn overload(
    queue: &mut dyn Aqm<u64>,
    load: &[(u64, Ecn, u32)],
    seconds: u32,
) -> Vec<(Instant, Packet<u64>)> {
    let mut sent = Vec::new();
    let mut number = 0;
    for tick in 0..seconds * 1000 {
        let now = Instant(0) + Duration::from_millis(u64::from(tick));
        for (flow, ecn, per_tick) in load {
            for _ in 0..*per_tick {
                queue.enqueue(now, packet(*flow, *ecn, number));
                number += 1;
            }
        }
        sent.extend(queue.dequeue(now).map(|packet| (now, packet)));
    }
    sent
}

fn per_flow(sent: &[(Instant, Packet<u64>)]) -> BTreeMap<u64, u32> {
    let mut counts = BTreeMap::new();
    for (_, packet) in sent {
        *counts.entry(packet.flow).or_default() += 1;
    }
    counts
}

#[test]
fn names_are_read_as_they_are_written() {
    for (name, discipline) in Discipline::ALL {
        assert_eq!(name.parse::<Discipline>(), Ok(discipline));
        assert_eq!(discipline.to_string(), name);
    }
    let why = "red".parse::<Discipline>().unwrap_err().to_string();
    let names = "use droptail, pie, fq_codel or dualpi2";
    assert_eq!(why, format!("'red' is not a queue discipline; {names}"));
}

/// Without overload, every discipline passes on every packet, unmarked and in order.
#[test]
fn an_idle_link_sees_no_discipline() {
    for (name, discipline) in Discipline::ALL {
        let mut queue = discipline.open(100_000, 1);
        let sent = overload(&mut *queue, &[(1, Ecn::Ect1, 1)], 5);
        let numbers: Vec<_> = sent.iter().map(|(_, packet)| packet.content).collect();
        assert_eq!(numbers, (0..5000).collect::<Vec<_>>(), "{name}");
        assert!(sent.iter().all(|(_, one)| one.ecn == Ecn::Ect1), "{name}");
        assert_eq!(queue.actions(), Actions::default(), "{name}");
    }
}

/// No packet appears twice, and every packet has been sent, has been dropped, or still waits.
#[test]
fn packets_are_conserved_and_memory_is_bounded() {
    for (name, discipline) in Discipline::ALL {
        for seed in 1..4 {
            let mut queue = discipline.open(100_000, seed);
            let load = [(1, Ecn::NotEct, 1), (2, Ecn::Ect0, 1), (3, Ecn::Ect1, 1)];
            let sent = overload(&mut *queue, &load, 5);
            assert_eq!(sent.len(), 5000, "{name}");
            let numbers: BTreeSet<_> = sent.iter().map(|(_, one)| one.content).collect();
            assert_eq!(numbers.len(), 5000, "{name}");
            let actions = queue.actions();
            let waiting = queue.bytes() as u64 / 1500;
            let all = 5000 + waiting + actions.dropped + actions.overflowed;
            assert_eq!(all, 15_000, "{name} {actions:?}");
            assert!(queue.bytes() <= 100_000, "{name}");
            let marks = sent.iter().filter(|(_, one)| one.ecn == Ecn::Ce).count();
            assert!(marks as u64 <= actions.marked, "{name}");
            let wrong = |one: &Packet<u64>| one.flow == 1 && one.ecn != Ecn::NotEct;
            assert!(!sent.iter().any(|(_, one)| wrong(one)), "{name}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_packets() {
    for (name, discipline) in Discipline::ALL {
        let run = |seed| {
            let mut queue = discipline.open(200_000, seed);
            overload(&mut *queue, &[(1, Ecn::NotEct, 2), (2, Ecn::Ect0, 1)], 3)
        };
        assert_eq!(run(7), run(7), "{name}");
    }
}

/// Tail drop lets the queue fill up. The other disciplines signal congestion earlier.
#[test]
fn all_but_tail_drop_signal_before_the_queue_is_full() {
    for (name, discipline) in Discipline::ALL {
        let mut queue = discipline.open(10_000_000, 1);
        overload(&mut *queue, &[(1, Ecn::NotEct, 2)], 4);
        let actions = queue.actions();
        assert_eq!(actions.dropped == 0, name == "droptail", "{name}");
        assert_eq!(actions.overflowed, 0, "{name}");
    }
}

/// RFC 8290: flows with different loads get equal shares, and a sparse flow does not wait.
#[test]
fn fair_queueing_shares_equally_and_spares_the_sparse() {
    for seed in 1..6 {
        let mut queue = Discipline::FqCodel.open(1_000_000, seed);
        let load = [(1, Ecn::NotEct, 1), (2, Ecn::NotEct, 4)];
        let counts = per_flow(&overload(&mut *queue, &load, 10));
        let [one, two] = [counts[&1], counts[&2]];
        assert!(one.abs_diff(two) <= 100, "seed {seed}: {one} and {two}");

        let mut queue = Discipline::FqCodel.open(1_000_000, seed);
        for number in 0..100 {
            queue.enqueue(Instant(0), packet(1, Ecn::NotEct, number));
        }
        let later = Instant(1_000_000);
        assert!(queue.dequeue(later).is_some());
        queue.enqueue(later, packet(2, Ecn::NotEct, 1000));
        let next: Vec<_> = (0..3).filter_map(|_| queue.dequeue(later)).collect();
        assert!(next.iter().any(|one| one.flow == 2), "seed {seed}");
    }
}

/// RFC 9332: the L4S queue has priority, and the classic queue keeps at least its weight.
#[test]
fn the_dual_queue_prefers_l4s_and_keeps_classic_alive() {
    let mut queue = Discipline::DualPi2.open(1_000_000, 1);
    for number in 0..20 {
        queue.enqueue(Instant(0), packet(1, Ecn::NotEct, number));
    }
    queue.enqueue(Instant(0), packet(2, Ecn::Ect1, 100));
    let first = queue.dequeue(Instant(0)).unwrap();
    assert_eq!(first.content, 100);

    let mut queue = Discipline::DualPi2.open(10_000_000, 1);
    let mut classic = 0;
    for tick in 0..160 {
        let now = Instant(tick);
        queue.enqueue(now, packet(1, Ecn::NotEct, 0));
        queue.enqueue(now, packet(2, Ecn::Ect1, 0));
        classic += u32::from(queue.dequeue(now).unwrap().flow == 1);
    }
    assert!((8..=11).contains(&classic), "{classic} of 160");
}

/// RFC 8033: unresponsive traffic loses its excess, and its delay stays bounded.
#[test]
fn pie_drops_the_excess_of_unresponsive_traffic() {
    let mut queue = Pie::new(100_000_000, 3);
    overload(&mut queue, &[(1, Ecn::NotEct, 2)], 30);
    let dropped = queue.actions().dropped;
    assert!((29_000..30_000).contains(&dropped), "{dropped} of 60000");
}
