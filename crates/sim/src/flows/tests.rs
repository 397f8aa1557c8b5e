//! Flows over a bottleneck of 20 Mb/s with a round trip of 20 ms, which is 50 kB in flight.

use std::collections::VecDeque;
use std::time::Duration;

use openuvr_proto::time::Instant;
use openuvr_proto::units::Bitrate;

use super::bulk::Bulk;
use super::*;
use crate::aqm::{Actions, Discipline};
use crate::bottleneck::Bottleneck;

const RATE: Bitrate = Bitrate::from_mbps(20);
const ROUND_TRIP: Duration = Duration::from_millis(20);

/// Runs flows for `seconds`. Returns each flow's share of the link in the second half of this time, and the counters of
/// the queue.
fn run(kinds: &[Kind], discipline: Discipline, seconds: u32) -> (Vec<f64>, Actions) {
    let start = Instant(1_000_000_000);
    let end = start + Duration::from_secs(u64::from(seconds));
    let half = start + Duration::from_secs(u64::from(seconds)) / 2;
    let mut flows: Vec<_> = (0_u64..)
        .zip(kinds)
        .map(|(flow, kind)| Bulk::new(flow, kind.open(RATE), start))
        .collect();
    let mut queue = Bottleneck::new(discipline, 100_000, 1);
    let takes = |from: Instant, len: usize| from + Duration::from_nanos(len as u64 * 400);
    let mut acks = VecDeque::new();
    let mut before = None;
    let mut now = start;
    while now < end {
        while let Some((at, packet)) = queue.poll(now, takes) {
            let marked = packet.ecn == Ecn::Ce;
            acks.push_back((at + ROUND_TRIP, packet.flow, packet.content, marked));
        }
        while let Some((_, flow, number, marked)) = acks.pop_front_if(|(at, ..)| *at <= now) {
            flows[usize::try_from(flow).unwrap()].on_ack(now, number, marked);
        }
        for flow in &mut flows {
            flow.handle_timeout(now);
            while let Some(packet) = flow.poll_transmit(now) {
                queue.send(now, packet, takes);
            }
        }
        if now >= half {
            before.get_or_insert_with(|| flows.iter().map(Bulk::delivered).collect::<Vec<_>>());
        }
        let next = flows.iter().filter_map(Bulk::next_timeout);
        let next = next
            .chain(queue.next_timeout())
            .chain(acks.front().map(|one| one.0));
        // Time always advances, so the loop ends.
        now = next.min().unwrap_or(end).max(now + Duration::from_nanos(1));
    }
    let all = f64::from(seconds) / 2.0 * RATE.0 as f64 / 8.0;
    let before = before.unwrap_or_default();
    let shares = flows.iter().zip(before);
    let shares = shares.map(|(flow, before)| (flow.delivered() - before) as f64 / all);
    (shares.collect(), queue.actions())
}

#[test]
fn every_flow_alone_fills_the_link() {
    for (name, kind) in Kind::ALL {
        let least = if kind == Kind::Greedy { 0.49 } else { 0.85 };
        for discipline in [Discipline::TailDrop, Discipline::DualPi2] {
            let (shares, actions) = run(&[kind], discipline, 20);
            assert!(
                shares[0] >= least,
                "{name} {discipline}: {shares:?} {actions:?}"
            );
            assert!(shares[0] <= 1.01, "{name} {discipline}: {shares:?}");
        }
    }
}

#[test]
fn two_flows_of_a_kind_share_the_link() {
    for kind in [Kind::Cubic, Kind::Prague] {
        let (shares, actions) = run(&[kind, kind], Discipline::DualPi2, 40);
        let [one, two] = [shares[0], shares[1]];
        assert!(one + two >= 0.85, "{kind:?}: {shares:?} {actions:?}");
        assert!(one.min(two) / one.max(two) >= 0.33, "{kind:?}: {shares:?}");
    }
}

/// The purpose of the coupling (RFC 9332): a scalable and a classic flow get similar rates.
#[test]
fn the_dual_queue_balances_prague_and_cubic() {
    let (shares, actions) = run(&[Kind::Prague, Kind::Cubic], Discipline::DualPi2, 60);
    let ratio = shares[0] / shares[1];
    assert!((0.25..4.0).contains(&ratio), "{shares:?} {actions:?}");
    assert!(actions.marked > 0 && actions.dropped > 0, "{actions:?}");
}

#[test]
fn fair_queueing_contains_a_greedy_flow() {
    let kinds = [Kind::Greedy, Kind::Cubic, Kind::Cubic];
    let (shares, _) = run(&kinds, Discipline::FqCodel, 20);
    for share in shares {
        assert!((0.22..0.45).contains(&share), "{share}");
    }
}

#[test]
fn names_are_read_as_they_are_written() {
    for (name, kind) in Kind::ALL {
        assert_eq!(name.parse::<Kind>(), Ok(kind));
        assert_eq!(kind.name(), name);
    }
    let why = "reno".parse::<Kind>().unwrap_err().to_string();
    let names = "use cubic, prague, bbr or greedy";
    assert_eq!(why, format!("'reno' is not a kind of flow; {names}"));
}
