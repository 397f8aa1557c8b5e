//! Rate control on busy machines: threads with high wake-up latency on a link with headroom. A game sends frames that
//! take a fifth of the link's rate or less. Neither the bitrate nor the pictures may suffer.
#![allow(clippy::cast_possible_truncation, reason = "a test knows its numbers")]

use std::time::Duration;

use openuvr_proto::control::negotiate::Role;
use openuvr_proto::control_event::{ControlEvent, RateChange};
use openuvr_proto::host::SecondPlayer;
use openuvr_proto::send::congestion::Range;
use openuvr_proto::trace::{Outcome, Stage};
use openuvr_proto::units::Bitrate;
use openuvr_sim::link::Impairment;
use openuvr_sim::world::{Device, Stall, Wakeups, World};

const MS: fn(u64) -> Duration = Duration::from_millis;

/// A real-time loop on each core: other threads get no CPU time for 40 ms, ten times a second.
const FORTY: Stall = Stall {
    every: Duration::from_millis(100),
    lasts: Duration::from_millis(40),
};
/// Other threads get no CPU time for 100 ms, twice a second.
const HUNDRED: Stall = Stall {
    every: Duration::from_millis(500),
    lasts: Duration::from_millis(100),
};
/// A scheduler with fifteen threads for two cores. Threads often wait for a few milliseconds, and sometimes longer.
const BUILD: [Stall; 3] = [
    Stall {
        every: Duration::from_millis(11),
        lasts: Duration::from_millis(4),
    },
    Stall {
        every: Duration::from_millis(70),
        lasts: Duration::from_millis(24),
    },
    Stall {
        every: Duration::from_millis(900),
        lasts: Duration::from_millis(90),
    },
];

/// The busy machines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Busy {
    Host,
    Client,
    /// One machine is both host and client.
    Both,
}

/// Results of a run while machines were busy, and afterwards.
#[derive(Debug)]
struct Run {
    /// Mean quantiser. A step of one is about 1 dB.
    qp: f64,
    /// Mean quantiser during two seconds that begin a second after the end of the load.
    qp_later: f64,
    cuts: Vec<ControlEvent>,
}

/// A game's frames.
#[derive(Clone, Copy, Debug)]
struct Game {
    /// Bits of a frame at quantiser 0.
    complexity: f64,
    /// Bitrate limit.
    mbps: u64,
}

/// Runs 13 seconds on a link of 100 Mb/s. The machines are busy from 2 s to 10 s.
fn run(game: Game, busy: Busy, stalls: &[Stall], stamps: bool) -> Run {
    let link = Impairment {
        delay: MS(1),
        rate: Some(Bitrate::from_mbps(100)),
        ..Impairment::default()
    };
    let mut world = World::new(79, SecondPlayer::Refuse);
    let max = Bitrate::from_mbps(game.mbps);
    world.adapt(
        Range {
            min: Bitrate(500_000),
            start: max,
            max,
        },
        game.complexity,
    );
    let begin = world.now() + MS(2000);
    let end = begin + MS(8000);
    let wakeups = Wakeups::stalled_by(stalls).within(begin, end);
    let mut device = Device::new(1, Role::Player).behind(&link);
    device.stamps = stamps;
    if busy != Busy::Client {
        world.wakeups = wakeups.clone();
    }
    if busy != Busy::Host {
        device.wakeups = wakeups;
    }
    let player = world.connect(&device);
    world.play(MS(13_000));
    world.rest(MS(3000));
    world.check_conservation(player);
    let displayed = |record: &&openuvr_proto::trace::FrameRecord| {
        matches!(record.outcome, Outcome::Displayed(_)) && !record.cost.key_frame
    };
    let records: Vec<_> = world.records_of(player).iter().filter(displayed).collect();
    let mean = |from, until| {
        let captured = |r: &openuvr_proto::trace::FrameRecord| r.host.at(Stage::Captured);
        let counted = records
            .iter()
            .filter(|r| captured(r).is_some_and(|at| (from..until).contains(&at)));
        let qps: Vec<_> = counted.map(|r| f64::from(r.cost.qp)).collect();
        qps.iter().sum::<f64>() / qps.len() as f64
    };
    let cut = |(_, decision): &(_, ControlEvent)| {
        matches!(
            decision,
            ControlEvent::Rate(
                RateChange::Queue { .. } | RateChange::Loss { .. } | RateChange::Silence { .. }
            )
        )
        .then_some(*decision)
    };
    let run = Run {
        qp: mean(begin, end),
        qp_later: mean(end + MS(1000), end + MS(3000)),
        cuts: world.decisions.iter().filter_map(cut).collect(),
    };
    world.step(&format!("{game:?} {busy:?} {stalls:?} {stamps}: {run:?}"));
    run
}

/// Games with large frames, with frames of a few datagrams, and with frames of one datagram.
const GAMES: [Game; 3] = [
    Game {
        complexity: 1e7,
        mbps: 20,
    },
    Game {
        complexity: 4e5,
        mbps: 10,
    },
    Game {
        complexity: 6e4,
        mbps: 10,
    },
];

#[test]
fn a_busy_machine_is_not_mistaken_for_a_narrow_link() {
    for game in GAMES {
        let quiet = run(game, Busy::Both, &[], true).qp;
        for busy in [Busy::Host, Busy::Client, Busy::Both] {
            for stalls in [&[FORTY][..], &[HUNDRED], &[FORTY, HUNDRED], &BUILD] {
                let run = run(game, busy, stalls, true);
                assert_eq!(run.cuts, [], "{game:?} {busy:?} {stalls:?}");
                assert!(run.qp <= quiet + 1.0, "{run:?} {quiet}");
                assert!(run.qp_later <= quiet + 0.5, "{run:?} {quiet}");
            }
        }
    }
}

/// Without kernel receive timestamps, or with an older client, arrival times include the machine's scheduling latency.
/// The mean quantiser may rise by 1 (about 1 dB) during the load, and by 0.5 in the two seconds that begin a second
/// after it.
#[test]
fn a_client_without_stamps_costs_little() {
    for game in GAMES {
        let quiet = run(game, Busy::Both, &[], false).qp;
        for stalls in [&[FORTY][..], &[HUNDRED], &[FORTY, HUNDRED], &BUILD] {
            let run = run(game, Busy::Client, stalls, false);
            assert!(run.qp <= quiet + 1.0, "{run:?} {quiet}");
            assert!(run.qp_later <= quiet + 0.5, "{run:?} {quiet}");
        }
    }
}
