//! The shipped host and client over a bottleneck of 20 Mb/s with a queue discipline. The stream of 15 seconds could use
//! a higher rate. Only the last ten seconds are evaluated.
#![allow(clippy::cast_possible_truncation, reason = "a test knows its numbers")]

use std::time::Duration;

use openuvr_proto::control::negotiate::Role;
use openuvr_proto::host::SecondPlayer;
use openuvr_proto::send::congestion::Range;
use openuvr_proto::send::l4s::L4sMode;
use openuvr_proto::trace::Fidelity;
use openuvr_proto::units::Bitrate;
use openuvr_sim::aqm::Discipline;
use openuvr_sim::link::{Counters, Impairment, Queue};
use openuvr_sim::world::{Device, World};

const DELAY: Duration = Duration::from_millis(10);
const SETTLED: u32 = 5;
const COUNTED: u32 = 10;

/// Results of a run after the bitrate has settled. Only the counters include the time before.
#[derive(Debug)]
struct Run {
    whole: u32,
    /// Link utilisation, in percent.
    used: u64,
    /// p90 latency of complete frames, beyond the link's own delay.
    p90: Duration,
    counters: Counters,
}

fn run(l4s: L4sMode, discipline: Discipline) -> Run {
    let rate = Bitrate::from_mbps(20);
    let link = Impairment {
        delay: DELAY,
        rate: Some(rate),
        queue: Queue::Bytes(250_000),
        ..Impairment::default()
    };
    let mut world = World::new(77, SecondPlayer::Refuse);
    let range = Range {
        min: Bitrate(500_000),
        start: Bitrate::from_mbps(10),
        max: Bitrate::from_mbps(40),
    };
    world.adapt_with(l4s, range, 3e7);
    let device = Device::new(1, Role::Player).behind(&link);
    let player = world.connect(&device.queued_by(discipline));
    world.rest(Duration::from_millis(300));
    world.frames(60 * SETTLED);
    let (begin, before) = (world.now(), world.downstream(player).sent_bytes);
    world.frames(60 * COUNTED);
    let bytes = world.downstream(player).sent_bytes - before;
    world.rest(Duration::from_secs(3));
    world.check_conservation(player);
    let shown = world.machine(player).shown.iter();
    let shown = shown.filter(|s| !world.repeated.contains(&s.frame));
    let whole: Vec<_> = shown
        .filter(|s| s.fidelity == Fidelity::Complete && s.captured >= begin)
        .collect();
    let mut delays: Vec<_> = whole.iter().map(|s| s.at.since(s.captured)).collect();
    delays.sort();
    let run = Run {
        whole: whole.len() as u32 / COUNTED,
        used: bytes * 8 * 100 / (u64::from(COUNTED) * rate.0),
        p90: delays[delays.len() * 9 / 10].saturating_sub(DELAY),
        counters: world.downstream(player),
    };
    world.step(&format!("{l4s:?}, {discipline}: {run:?}"));
    run
}

#[test]
fn a_dual_queue_marks_a_stream_with_l4s_and_drops_little() {
    let run = run(L4sMode::Auto, Discipline::DualPi2);
    assert!(run.counters.marked > 0, "{run:?}");
    assert!(run.counters.overflowed * 100 < run.counters.sent, "{run:?}");
    assert!(run.whole >= 50, "{run:?}");
    assert!(run.used >= 40, "{run:?}");
    assert!(run.p90 <= Duration::from_millis(30), "{run:?}");
}

#[test]
fn without_l4s_no_queue_marks_a_stream() {
    for (_, discipline) in Discipline::ALL {
        let run = run(L4sMode::Off, discipline);
        assert_eq!(run.counters.marked, 0, "{run:?}");
        assert!(run.whole >= 40, "{run:?}");
    }
}

/// Tail drop marks nothing, so L4S changes nothing.
#[test]
fn a_queue_without_marks_is_no_different_with_l4s() {
    let [with, without] = [L4sMode::Auto, L4sMode::Off].map(|mode| run(mode, Discipline::TailDrop));
    assert_eq!(with.counters.marked, 0);
    assert!(
        with.whole.abs_diff(without.whole) <= 2,
        "{with:?} {without:?}"
    );
    assert!(
        with.used.abs_diff(without.used) <= 10,
        "{with:?} {without:?}"
    );
}
