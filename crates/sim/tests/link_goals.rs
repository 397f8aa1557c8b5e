//! The goals for two links: one is narrower than the stream, and is measured from the first frame on; the other one
//! loses datagrams in bursts. Each test prints the figures of every run. Frames that a client would skip, because the
//! next frame is complete at the same time, do not count as displayed.
#![allow(clippy::print_stderr, reason = "the harness keeps it")]

use std::time::Duration;

use openuvr_proto::control::negotiate::Role;
use openuvr_proto::host::SecondPlayer;
use openuvr_proto::send::congestion::Range;
use openuvr_proto::trace::Fidelity;
use openuvr_proto::units::Bitrate;
use openuvr_sim::link::{BurstLoss, Impairment, Queue};
use openuvr_sim::world::{Device, World};

/// Duration of the measured part of a run.
const SECONDS: u32 = 15;

/// Results of a run. Times are in milliseconds.
#[derive(Debug)]
struct Run {
    /// Complete frames per second.
    complete: f64,
    /// p99 of the time from capture to display of complete frames.
    p99: f64,
    /// The longest time without a complete frame.
    longest_gap: f64,
    /// p99 of the time between displayed frames.
    gap_p99: f64,
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Streams at up to 10 Mb/s over a link, and measures after `before`. A picture takes `complexity` bits at quantiser 0.
fn run(link: &Impairment, complexity: f64, before: Duration, seed: u64) -> Run {
    run_flashing(None, link, complexity, before, seed)
}

/// Like [`run`], with a flash in every `flash_every`-th picture.
fn run_flashing(
    flash_every: Option<u32>,
    link: &Impairment,
    complexity: f64,
    before: Duration,
    seed: u64,
) -> Run {
    let mut world = World::new(seed, SecondPlayer::Refuse);
    let max = Bitrate::from_mbps(10);
    let range = Range {
        min: Bitrate(500_000),
        start: max,
        max,
    };
    world.adapt(range, complexity);
    if let Some(frames) = flash_every {
        world.flash_every(frames);
    }
    let player = world.connect(&Device::new(1, Role::Player).behind(link));
    world.rest(ms(300));
    world.play(before);
    let from = world.now();
    world.play(Duration::from_secs(SECONDS.into()));
    world.rest(Duration::from_secs(3));
    world.check_conservation(player);
    let shown = world.machine(player).shown.iter();
    let shown: Vec<_> = shown
        .filter(|s| !world.repeated.contains(&s.frame) && s.captured >= from)
        .collect();
    let skipped = |i: usize| shown.get(i + 1).is_some_and(|next| next.at == shown[i].at);
    let shown: Vec<_> = (0..shown.len())
        .filter(|i| !skipped(*i))
        .map(|i| shown[i])
        .collect();
    let complete: Vec<_> = shown
        .iter()
        .filter(|s| s.fidelity == Fidelity::Complete)
        .collect();
    let millis = |span: Duration| span.as_secs_f64() * 1e3;
    let p99 = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() * 99 / 100]
    };
    let mut longest_gap = millis(complete[0].at.since(from));
    for pair in complete.windows(2) {
        longest_gap = longest_gap.max(millis(pair[1].at.since(pair[0].at)));
    }
    let delays = complete.iter().map(|s| millis(s.at.since(s.captured)));
    let gaps = shown.windows(2).map(|p| millis(p[1].at.since(p[0].at)));
    let run = Run {
        complete: complete.len() as f64 / f64::from(SECONDS),
        p99: p99(delays.collect()),
        longest_gap,
        gap_p99: p99(gaps.collect()),
    };
    eprintln!("seed {seed}, {complexity} bits: {run:?}");
    run
}

/// 8 Mb/s with a queue of 64 KiB.
fn narrow_link() -> Impairment {
    Impairment {
        rate: Some(Bitrate::from_mbps(8)),
        queue: Queue::Bytes(64 << 10),
        ..Impairment::default()
    }
}

/// The narrow link, from the first frame on. The pictures take up to 2.6 times the bits that the rate
/// control expects of a first frame.
#[test]
fn a_stream_starts_on_a_link_that_is_too_narrow_for_it() {
    let link = narrow_link();
    let runs = |complexity| (1..=6).map(move |seed| (complexity, seed));
    let mut usual = Vec::new();
    for (complexity, seed) in [2.5e6, 5e6, 1e7, 2e7].into_iter().flat_map(runs) {
        let run = run(&link, complexity, Duration::ZERO, seed);
        assert!(run.complete >= 59.8, "{run:?}");
        let is_usual = complexity < 1.5e7;
        let longest = if is_usual { 60.0 } else { 75.0 };
        assert!(run.longest_gap <= longest, "{run:?}");
        usual.extend(is_usual.then_some(run));
    }
    assert!(mean(&usual, |run| run.p99) <= 25.0);
}

/// On the narrow link, some pictures take nine times the bits of the other pictures at the same quantiser.
#[test]
fn flashes_do_not_fill_a_narrow_link() {
    let link = narrow_link();
    for seed in 1..=4 {
        let run = run_flashing(Some(97), &link, 5e6, Duration::ZERO, seed);
        assert!(run.longest_gap <= 90.0, "{run:?}");
    }
}

fn mean(runs: &[Run], of: fn(&Run) -> f64) -> f64 {
    runs.iter().map(of).sum::<f64>() / runs.len() as f64
}

/// 2 % loss in bursts of four datagrams, with a delay of 5 to 8 ms each way. The means over the seeds reach the goals.
#[test]
fn losses_in_bursts_cost_few_frames() {
    let link = Impairment {
        delay: ms(5),
        jitter: ms(3),
        burst: Some(BurstLoss {
            enter: 0.02 / 0.98 / 4.0,
            leave: 0.25,
            loss: 1.0,
        }),
        ..Impairment::default()
    };
    let runs: Vec<Run> = (1..=10)
        .map(|seed| run(&link, 5e6, Duration::from_secs(3), seed))
        .collect();
    assert!(mean(&runs, |run| run.complete) >= 59.5);
    assert!(mean(&runs, |run| run.gap_p99) <= 25.0);
}
