//! FEC and retransmission on lossy links: twenty seconds of 10 Mb/s at 60 frames per second over each link, with and
//! without these repairs. The expected counts hold for the fixed seeds of the tests, and are the same on every machine.
#![allow(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "the harness keeps it"
)]
#![allow(clippy::cast_possible_truncation, reason = "a test knows its numbers")]

use std::time::Duration;

use openuvr_proto::control::negotiate::Role;
use openuvr_proto::host::SecondPlayer;
use openuvr_proto::input::event::{InputEvent, KeyCode};
use openuvr_proto::send::congestion::Range;
use openuvr_proto::trace::Fidelity;
use openuvr_proto::units::Bitrate;
use openuvr_sim::link::{BurstLoss, Impairment};
use openuvr_sim::world::{Device, World};

const SECONDS: u32 = 20;
const FRAMES: u32 = 60 * SECONDS;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Results of a run.
#[derive(Debug)]
struct Run {
    /// Complete frames.
    whole: u32,
    /// Longest gap between two complete frames. The first second after the first complete frame is excluded, because
    /// the host does not know the loss rate yet.
    longest_gap: Duration,
    /// The p99 latency of complete frames, from capture to display.
    p99: Duration,
    /// Fragments recovered by FEC, and fragments retransmitted.
    repaired: u32,
    resent: u32,
    /// FEC repair datagrams.
    parity: u32,
}

fn run(link: &Impairment, parity: bool, resend: bool) -> Run {
    let mut world = World::new(77, SecondPlayer::Refuse);
    world.parity = parity;
    world.resend = resend;
    let player = world.connect(&Device::new(1, Role::Player).behind(link));
    world.rest(ms(300));
    world.frames(FRAMES);
    world.rest(Duration::from_secs(3));
    world.check_conservation(player);
    let shown = world.machine(player).shown.iter();
    let shown = shown.filter(|s| !world.repeated.contains(&s.frame));
    let whole: Vec<_> = shown.filter(|s| s.fidelity == Fidelity::Complete).collect();
    let begun = whole.first().map(|first| first.at).unwrap_or_default();
    let known = begun + Duration::from_secs(1);
    let gaps = whole.windows(2).filter(|pair| pair[0].at >= known);
    let gaps = gaps.map(|pair| pair[1].at.since(pair[0].at));
    let mut delays: Vec<_> = whole.iter().map(|s| s.at.since(s.captured)).collect();
    delays.sort();
    let records = world.records_of(player);
    let run = Run {
        whole: whole.len() as u32,
        longest_gap: gaps.max().unwrap_or(Duration::MAX),
        p99: delays
            .get(delays.len() * 99 / 100)
            .copied()
            .unwrap_or_default(),
        repaired: records.iter().map(|r| u32::from(r.repaired)).sum(),
        resent: records.iter().map(|r| u32::from(r.resent)).sum(),
        parity: records.iter().map(|r| r.cost.parity).sum(),
    };
    eprintln!("parity {parity}, resend {resend}: {run:?}");
    run
}

fn lossy(delay: Duration, loss: f64) -> Impairment {
    Impairment {
        delay,
        loss,
        ..Impairment::default()
    }
}

/// A link without loss costs nothing.
#[test]
fn without_loss_there_is_no_fec_and_no_retransmission() {
    let run = run(&lossy(ms(1), 0.0), true, true);
    assert_eq!((run.whole, run.parity, run.resent), (FRAMES, 0, 0));
}

#[test]
fn one_percent_near_by() {
    let link = lossy(ms(1), 0.01);
    assert!(run(&link, false, false).whole < FRAMES * 7 / 10);
    for (parity, resend) in [(true, false), (false, true), (true, true)] {
        let run = run(&link, parity, resend);
        assert!(run.whole >= 59 * SECONDS, "{run:?}");
        assert!(run.longest_gap <= ms(34), "{run:?}");
        assert_eq!(run.repaired > 0, parity, "{run:?}");
    }
}

/// A retransmission would be too late, so FEC must suffice.
#[test]
fn one_percent_twenty_milliseconds_away() {
    let link = lossy(ms(10), 0.01);
    assert!(run(&link, false, false).whole < FRAMES * 6 / 10);
    let run = run(&link, true, true);
    assert!(run.whole >= 59 * SECONDS, "{run:?}");
    assert!(run.longest_gap <= ms(34), "{run:?}");
    assert_eq!(run.resent, 0);
}

/// Twelve frames are followed by a time without motion, so only the protocol itself can repair the last of them. The
/// first frame is a key frame. Further key frames are sent only for losses.
#[test]
fn bursts_of_frames_are_repaired() {
    for (percent, whole) in [(1, 90), (5, 80), (20, 60)] {
        for seed in 1..=8 {
            let mut world = World::new(seed, SecondPlayer::Refuse);
            let link = lossy(ms(1), f64::from(percent) / 100.0);
            let player = world.connect(&Device::new(1, Role::Player).behind(&link));
            world.rest(ms(300));
            for _ in 0..4 {
                world.frames(12);
                world.rest(Duration::from_secs(1));
                assert!(!world.machine(player).is_broken(), "{percent} %, {seed}");
            }
            world.check_conservation(player);
            let records = world.records_of(player);
            let fine = records.iter().filter(|r| r.outcome.is_complete()).count();
            let what = format!("{percent} %, {seed}: {fine} of {}", records.len());
            assert!(fine * 100 >= records.len() * whole, "{what}");
            let broken = records.len() - fine;
            assert!(world.key_frames_sent.len() <= broken + 1, "{what}");
        }
    }
}

#[test]
fn reordering_and_duplication_cost_no_frame() {
    for seed in 1..=8 {
        let mut world = World::new(seed, SecondPlayer::Refuse);
        let link = Impairment {
            reorder: 0.1,
            reorder_by: ms(3),
            duplicate: 0.2,
            ..lossy(ms(1), 0.0)
        };
        let player = world.connect(&Device::new(1, Role::Player).behind(&link));
        world.rest(ms(300));
        world.frames(120);
        world.rest(Duration::from_secs(1));
        world.check_conservation(player);
        let records = world.records_of(player);
        let broken = records.iter().filter(|r| !r.outcome.is_complete()).count();
        assert!(broken * 50 <= records.len(), "seed {seed}: {broken}");
        assert!(world.key_frames_sent.len() <= broken + 1);
    }
}

/// 2 % loss in bursts of four datagrams, with a delay of 5–8 ms each way.
#[test]
fn two_percent_in_bursts() {
    let link = Impairment {
        jitter: ms(3),
        burst: Some(BurstLoss {
            enter: 0.02 / 0.98 / 4.0,
            leave: 0.25,
            loss: 1.0,
        }),
        ..lossy(ms(5), 0.0)
    };
    assert!(run(&link, false, false).whole < FRAMES * 8 / 10);
    let run = run(&link, true, true);
    assert!(run.whole >= 56 * SECONDS, "{run:?}");
    assert!(run.p99 <= ms(8 + 20), "{run:?}");
}

/// Ten percent of the datagrams are lost in both directions. The stream has an adaptive bitrate, and keys are pressed
/// meanwhile. The losses are repaired, and are not mistaken for congestion.
#[test]
fn ten_percent_both_ways_cost_no_rate_and_no_frame() {
    for seed in 1..=6 {
        for delay in [0, 1, 2] {
            let mut world = World::new(seed, SecondPlayer::Refuse);
            let max = Bitrate::from_mbps(10);
            let range = Range {
                min: Bitrate(500_000),
                start: max,
                max,
            };
            world.adapt(range, 5e6);
            let link = lossy(ms(delay), 0.1);
            let player = world.connect(&Device::new(1, Role::Player).behind(&link));
            world.rest(ms(300));
            for press in 0..230 {
                world.play(ms(87));
                let code = KeyCode(30);
                let pressed = press % 2 == 0;
                let text = None;
                let key = InputEvent::Key {
                    code,
                    text,
                    pressed,
                };
                world.input(player, key);
            }
            world.rest(Duration::from_secs(3));
            world.check_conservation(player);
            let shown = world.machine(player).shown.iter();
            let shown: Vec<_> = shown
                .filter(|s| !world.repeated.contains(&s.frame))
                .collect();
            let whole: Vec<_> = shown
                .iter()
                .filter(|s| s.fidelity == Fidelity::Complete)
                .collect();
            let gaps = whole.windows(2).map(|pair| pair[1].at.since(pair[0].at));
            let mut input: Vec<_> = shown.iter().filter_map(|s| s.motion).collect();
            input.sort_by_key(|(_, took)| *took);
            let (_, p95) = input[input.len() * 95 / 100];
            let captured = world.records_of(player).len();
            let what = format!(
                "seed {seed}, {delay} ms: {} of {captured} whole, input {p95:?}",
                whole.len()
            );
            // 59.5 of 60.
            assert!(whole.len() * 600 >= captured * 595, "{what}");
            let known = whole[0].at + Duration::from_secs(1);
            let late = whole
                .windows(2)
                .zip(gaps)
                .filter(|(pair, _)| pair[0].at >= known);
            let gap = late.map(|(_, gap)| gap).max().unwrap_or_default();
            assert!(gap <= ms(40), "{what}: {gap:?}");
            assert!(p95 <= ms(43), "{what}");
        }
    }
}

#[test]
fn ten_percent_is_usable() {
    for delay in [ms(1), ms(10)] {
        let link = lossy(delay, 0.1);
        assert!(run(&link, false, false).whole < FRAMES / 10);
        let run = run(&link, true, true);
        assert!(run.whole >= 56 * SECONDS, "{run:?}");
    }
}
