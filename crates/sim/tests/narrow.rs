//! Adaptive bitrate on narrow links: twenty seconds of a game that would take 3 Mb/s at 60 frames/s. Only the last fifteen
//! seconds count.
#![allow(clippy::cast_possible_truncation, reason = "a test knows its numbers")]

use std::time::Duration;

use openuvr_proto::control::negotiate::Role;
use openuvr_proto::host::SecondPlayer;
use openuvr_proto::send::congestion::Range;
use openuvr_proto::trace::Fidelity;
use openuvr_proto::units::Bitrate;
use openuvr_sim::aqm::Discipline;
use openuvr_sim::link::{Impairment, Queue};
use openuvr_sim::world::{Device, World};

const SETTLED: u32 = 5;
const SECONDS: u32 = 20;
const COUNTED: u32 = SECONDS - SETTLED;

/// Results of a run, from the time at which the bitrate has settled.
#[derive(Debug)]
struct Run {
    /// Complete frames per second.
    whole: u32,
    /// Link utilisation, in percent.
    used: u64,
    /// p90 latency of complete frames, beyond the link's own delay.
    p90: Duration,
}

fn run(delay: u64, kbps: u64, queue: Queue) -> Run {
    run_with(Discipline::TailDrop, delay, kbps, queue)
}

fn run_with(discipline: Discipline, delay: u64, kbps: u64, queue: Queue) -> Run {
    let link = Impairment {
        delay: Duration::from_millis(delay),
        rate: Some(Bitrate(kbps * 1000)),
        queue,
        ..Impairment::default()
    };
    let mut world = World::new(77, SecondPlayer::Refuse);
    let max = Bitrate::from_mbps(3);
    // The frames need about quantiser 40 at 3 Mb/s.
    world.adapt(
        Range {
            min: Bitrate(500_000),
            start: max,
            max,
        },
        2.5e6,
    );
    let device = Device::new(1, Role::Player);
    let player = world.connect(&device.behind(&link).queued_by(discipline));
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
        used: bytes * 8 * 100 / (u64::from(COUNTED) * kbps * 1000),
        p90: delays[delays.len() * 9 / 10].saturating_sub(link.delay),
    };
    world.step(&format!("{kbps} kb/s, {delay} ms, {queue:?}: {run:?}"));
    run
}

#[test]
fn a_narrow_link_is_used_and_its_queue_stays_short() {
    for queue in [Queue::Bytes(75_000), Queue::Time(Duration::from_millis(40))] {
        for delay in [1, 50] {
            for kbps in [1500, 2000, 2500, 3000] {
                let run = run(delay, kbps, queue);
                assert!(run.whole >= 50, "{run:?}");
                assert!(run.used >= 60, "{run:?}");
                assert!(run.p90 <= Duration::from_millis(20), "{run:?}");
            }
        }
    }
}

/// The early drops of a queue discipline must not lower the rate far below the link's rate.
#[test]
fn a_queue_discipline_leaves_the_link_usable() {
    for (name, discipline) in Discipline::ALL {
        let run = run_with(discipline, 20, 2500, Queue::Bytes(75_000));
        assert!(run.whole >= 40, "{name}: {run:?}");
        assert!(run.used >= 45, "{name}: {run:?}");
        assert!(run.p90 <= Duration::from_millis(60), "{name}: {run:?}");
    }
}

/// If even the coarsest quantiser exceeds the link's rate, frames are skipped.
#[test]
fn one_megabit_shows_fewer_frames_but_shows_them() {
    for queue in [Queue::Bytes(75_000), Queue::Time(Duration::from_millis(40))] {
        for delay in [1, 50] {
            let run = run(delay, 1000, queue);
            assert!(run.whole >= 20, "{run:?}");
            assert!(run.p90 <= Duration::from_millis(45), "{run:?}");
        }
    }
}

/// Data in flight on a long round trip is not a queue, and must not cause frames to be skipped
/// permanently.
#[test]
fn a_round_trip_of_600_ms_is_no_full_queue() {
    for kbps in [1500, 2000, 3000] {
        let run = run(300, kbps, Queue::Bytes(75_000));
        assert!(run.whole >= 45, "{run:?}");
        assert!(run.used >= 50, "{run:?}");
    }
}
