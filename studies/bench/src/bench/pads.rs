//! `openuvr bench pads`: latency from a game pad to a game.
//!
//! The scene runs under `openuvr run` and reads the device of a game pad itself. This program provides the client's
//! pad. Host and client use the same clock. The measured latency includes neither the pad's own path into the kernel
//! (USB, Bluetooth) nor the game's polling, which may happen only once per frame.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use openuvr_clock as clock;
use openuvr_media::input_sink::pads::server::PadServer;
use openuvr_media::pad::codes::*;
use openuvr_media::pad::description::{Axis, Description};
use openuvr_proto::time::Instant;
use openuvr_testbed::pair::TemporaryDir;
use openuvr_testbed::stats::{Range, Summary};
use serde::Serialize;

use super::case::Stream;
use super::heading::{Heading, print_range, write_json};
use super::rig::{Rig, Source, StreamSetup};
use super::turns::{ComparisonOptions, Turns};
use super::verdict::line;

/// Measure the latency from a game pad to a game.
///
/// The figure is the time from a report of the pad until the scene reads it. `openuvr run` starts and streams the
/// scene. Reports occur at irregular times, about 80 per second. This bench provides the client's pad.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    options: ComparisonOptions,
    /// Write pads.json into this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// Target for the median latency in ms, from a pad's report to the game's read, on a local link.
const TARGET: f64 = 1.0;

/// The first reported position of the stick. It is well outside the dead zone.
const FIRST: i32 = 1000;

/// Grace period for the last report of the measurement.
const GRACE_PERIOD: Duration = Duration::from_millis(500);

/// The JSON output.
#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    head: Heading,
    target_ms: f64,
    /// Latency of the reports that the game read, over all repetitions.
    late_ms: Option<Summary>,
    /// The medians of the repetitions.
    p50_ms: Option<Range>,
    /// Number of reports that the game did not read, usually because a later report replaced them in transit.
    overtaken: usize,
    /// Latency of the video, from drawn to visible.
    picture_p50_ms: Option<Range>,
}

/// Measures, prints the results, and writes them to a file if requested.
pub(crate) fn run(args: &Args) -> Result<()> {
    let turns = Turns::new(&args.options, 2.5)?;
    let stop = openuvr_terminal::signals::stop_on_signals()?;
    let mut streams = Vec::new();
    let mut all = Vec::new();
    for repetition in 1..=turns.repetitions {
        eprintln!("bench pads: {repetition}/{}", turns.repetitions);
        let (stream, late) = once(args, turns, &stop)?;
        streams.push(stream);
        all.push(late);
    }
    let middle = |late: &Late| Some(Summary::of(&late.ms)?.p50);
    let together: Vec<f64> = all.iter().flat_map(|late| late.ms.clone()).collect();
    let over = |values: Vec<f64>| Range::of(&values);
    let report = Report {
        head: Heading::new(&args.options, turns, streams.iter()),
        target_ms: TARGET,
        late_ms: Summary::of(&together),
        p50_ms: over(all.iter().filter_map(middle).collect()),
        overtaken: all.iter().map(|late| late.overtaken).sum(),
        picture_p50_ms: over(
            (streams.iter())
                .filter_map(|stream| Some(stream.case.latency_ms?.p50))
                .collect(),
        ),
    };
    report.print();
    if let Some(folder) = &args.out {
        write_json(folder, "pads", &report)?;
    }
    Ok(())
}

fn once(args: &Args, turns: Turns, stop: &AtomicBool) -> Result<(Stream, Late)> {
    let dir = TemporaryDir::new()?;
    let (pads, times) = (dir.path().join("pads"), dir.path().join("times"));
    let served = PadServer::open(&pads).context("the client's pad can't be served")?;
    served.plug(0, pad())?;
    let mut rig = Rig::start(turns.setup(args.options.size, args.options.scene_fps), stop)?;
    rig.keep_pad_times(&times);
    let over = AtomicBool::new(false);
    let (stream, done) = std::thread::scope(|scope| {
        let hand = scope.spawn(|| play(&served, &over));
        let stream = rig.stream(&StreamSetup {
            source: Source::Hook,
            cable: None,
            impaired: None,
            fps: args.options.scene_fps.floor().max(1.0),
            bitrate: &args.options.bitrate,
            seconds: turns.seconds,
            presses: 0,
            compare: false,
            dir: dir.path(),
            csv: &dir.path().join("frames.csv"),
            sound: None,
            pads: Some(&pads),
            more_host: &[],
            more_client: &[],
        });
        over.store(true, Ordering::Relaxed);
        let done = hand.join().unwrap_or_default();
        stream.map(|stream| (stream, done))
    })?;
    let late = Late::of(&done, &read(&times)?, stream.case.window);
    Ok((stream, late))
}

/// A minimal pad that the client accepts, with two sticks and six buttons.
fn pad() -> Description {
    let stick = Axis {
        minimum: -32_768,
        maximum: 32_767,
        ..Axis::default()
    };
    let keys = [
        BTN_SOUTH, BTN_EAST, BTN_NORTH, BTN_WEST, BTN_START, BTN_SELECT,
    ];
    let pad = Description::new("Bench pad", [BUS_USB, 0x045e, 0x028e, 0x0110]);
    let pad = keys.into_iter().fold(pad, Description::with_key);
    let sticks = [ABS_X, ABS_Y, ABS_RX, ABS_RY].into_iter();
    sticks.fold(pad, |pad, code| pad.with_axis(code, stick))
}

/// Moves the stick at irregular times until `over` is set. Returns each position with the time of its report.
fn play(served: &PadServer, over: &AtomicBool) -> Vec<(i32, Instant)> {
    let mut done = Vec::new();
    for place in FIRST..=i32::from(i16::MAX) {
        // The pause is 4 to 21 ms, so that all phases of a frame and of periodic threads occur.
        let pause = Duration::from_micros(4_000 + u64::from(place.unsigned_abs()) * 6_180 % 17_000);
        clock::sleep_until(clock::now() + pause);
        if over.load(Ordering::Relaxed) {
            break;
        }
        let now = clock::now();
        if served
            .write(0, &[(EV_ABS, ABS_X, place), (EV_SYN, 0, 0)])
            .is_err()
        {
            break;
        }
        done.push((place, now));
    }
    done
}

/// The stick positions that the scene read, and when it read them.
fn read(times: &Path) -> Result<BTreeMap<i32, Instant>> {
    let text = std::fs::read_to_string(times)
        .with_context(|| format!("the scene wrote no times to {}", times.display()))?;
    let rows = text.lines().filter_map(|line| {
        let (place, at) = line.split_once(' ')?;
        Some((place.parse().ok()?, Instant(at.parse().ok()?)))
    });
    Ok(rows.collect())
}

/// The latency of each report that the scene read, and the number of reports that it did not read.
#[derive(Debug, Default, PartialEq)]
struct Late {
    ms: Vec<f64>,
    overtaken: usize,
}

impl Late {
    /// Evaluates the reports that were made from `from` until [`GRACE_PERIOD`] before `to`.
    fn of(
        done: &[(i32, Instant)],
        read: &BTreeMap<i32, Instant>,
        [from, to]: [Instant; 2],
    ) -> Late {
        let mut late = Late::default();
        let measured = |at: Instant| at >= from && at < to && to.since(at) >= GRACE_PERIOD;
        for (place, at) in done.iter().filter(|(_, at)| measured(*at)) {
            match read.get(place) {
                Some(there) => late.ms.push(there.since(*at).as_secs_f64() * 1e3),
                None => late.overtaken += 1,
            }
        }
        late
    }
}

impl Report {
    fn print(&self) {
        self.head.print("pads", "");
        println!();
        match self.late_ms {
            Some(s) => println!(
                "{:<36} p50 {:.2} ms, p90 {:.2}, p99 {:.2}, {:.2} to {:.2}, of {}",
                "pad's report to the game's read", s.p50, s.p90, s.p99, s.min, s.max, s.count
            ),
            None => println!("the game read none of the pad's reports"),
        }
        print_range("p50 of the repetitions, ms", self.p50_ms.as_ref());
        println!(
            "{:<36} {}",
            "reports replaced by a later one", self.overtaken
        );
        print_range(
            "video latency meanwhile, p50 ms",
            self.picture_p50_ms.as_ref(),
        );
        println!("\n{}", self.verdict());
    }

    fn verdict(&self) -> String {
        let what = "pad's report to the game's read, p50";
        let measured = self.late_ms.map(|s| s.p50);
        line(what, measured, self.target_ms, "ms", self.head.withheld())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_in_the_window_count_and_unread_ones_are_reported() {
        let at = |ms: i64| Instant(ms * 1_000_000);
        let done = [
            (1000, at(900)),
            (1001, at(1000)),
            (1002, at(1010)),
            (1003, at(1020)),
            (1004, at(1600)),
        ];
        let read = BTreeMap::from([(1000, at(901)), (1001, at(1001)), (1003, at(1024))]);
        let late = Late::of(&done, &read, [at(1000), at(2000)]);
        let expected = Late {
            ms: vec![1.0, 4.0],
            overtaken: 1,
        };
        assert_eq!(late, expected);
    }
}
