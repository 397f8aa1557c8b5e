//! Rate control on a changing link, for a game at 20 Mb/s. The tests check the bitrate after a few seconds of
//! adaptation.
#![allow(clippy::cast_possible_truncation, reason = "a test knows its numbers")]

use std::time::Duration;

use openuvr_proto::control::negotiate::Role;
use openuvr_proto::host::SecondPlayer;
use openuvr_proto::send::congestion::Range;
use openuvr_proto::trace::Fidelity;
use openuvr_proto::units::Bitrate;
use openuvr_sim::link::{Impairment, Queue};
use openuvr_sim::schedule::ImpairmentSchedule;
use openuvr_sim::world::{Device, World};

/// Results of a run, from three seconds after the change on.
#[derive(Debug)]
struct Run {
    /// The host's bitrate.
    mbps: u64,
    /// Complete frames per second.
    whole: u32,
    /// The p90 latency of complete frames.
    p90: Duration,
}

/// Runs three seconds of `before`, then `after`.
fn run(before: &Impairment, after: &Impairment) -> Run {
    let mut world = World::new(78, SecondPlayer::Refuse);
    let max = Bitrate::from_mbps(20);
    // The frames need about quantiser 30 at 20 Mb/s.
    world.adapt(
        Range {
            min: Bitrate(500_000),
            start: max,
            max,
        },
        1e7,
    );
    let change = Duration::from_secs(3);
    let schedule = ImpairmentSchedule::from(before).then(change, after.clone());
    let player = world.connect(&Device::new(1, Role::Player).over(schedule));
    world.play(change * 2);
    let (begin, sent) = (world.now(), world.downstream(player).sent_bytes);
    let counted = 3;
    world.play(Duration::from_secs(counted));
    let bytes = world.downstream(player).sent_bytes - sent;
    world.rest(Duration::from_secs(3));
    world.check_conservation(player);
    let shown = world.machine(player).shown.iter();
    let shown = shown.filter(|s| !world.repeated.contains(&s.frame));
    let whole = shown.filter(|s| s.fidelity == Fidelity::Complete && s.captured >= begin);
    let mut delays: Vec<_> = whole.map(|s| s.at.since(s.captured)).collect();
    delays.sort();
    let run = Run {
        mbps: bytes * 8 / (counted * 1_000_000),
        whole: delays.len() as u32 / counted as u32,
        p90: delays[delays.len() * 9 / 10],
    };
    world.step(&format!("{before:?} {after:?}: {run:?}"));
    run
}

fn link(delay: u64, mbps: u64) -> Impairment {
    Impairment {
        delay: Duration::from_millis(delay),
        rate: Some(Bitrate::from_mbps(mbps)),
        queue: Queue::Bytes(256 << 10),
        ..Impairment::default()
    }
}

/// A route change, a roaming radio or a paused virtual machine: the delay increases permanently, but no queue is full.
#[test]
fn a_longer_path_costs_no_rate() {
    for (mbps, longer) in [(100, 22), (100, 80), (30, 22), (30, 80), (30, 202)] {
        let run = run(&link(2, mbps), &link(longer, mbps));
        assert!(run.mbps >= 16, "{run:?}");
        assert!(run.whole >= 58, "{run:?}");
        assert!(run.p90 <= Duration::from_millis(longer + 40), "{run:?}");
    }
}

/// If the link's rate drops at the same time, the bitrate follows it as usual.
#[test]
fn a_longer_and_narrower_path_is_followed() {
    for longer in [2, 22, 80] {
        let run = run(&link(2, 100), &link(longer, 8));
        assert!((4..=8).contains(&run.mbps), "{run:?}");
        assert!(run.whole >= 55, "{run:?}");
        assert!(run.p90 <= Duration::from_millis(longer + 30), "{run:?}");
    }
}
