//! `openuvr bench doors`: what each way into OpenUVR costs the viewer and the application.
//!
//! The scene by itself; with each picture read back and thrown away, the least that taking pictures
//! out of an application can cost; and streamed through each door. Once at the display's rate, where
//! the figures are drawn-to-visible and the application's own time for a frame, and once as fast as
//! the scene can draw, where the figure is how many frames of its own it loses.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result};
use serde::Serialize;

use super::case::Stream;
use super::head::{Head, Report, keep};
use super::rig::{Rig, Setup, Source, Streamed};
use super::stats::{Range, Summary};
use super::turns::{Asked, Turns};
use crate::pair::TemporaryDir;

/// Measure what each way into OpenUVR costs: screen capture, hook, C API.
///
/// The figures, for the same scene: drawn to visible; whole frames of those drawn; cores of
/// application, host and client together; how long a frame takes the application, from its
/// beginning until the swap has returned; and its own frames a second when nothing holds it to the
/// display's rate. "alone" streams nothing; "read-back" reads each picture back and throws it away.
/// Medians and ranges over repetitions that take turns.
#[derive(clap::Args, Clone, Debug)]
#[command(mut_arg("scene_fps", |arg| arg.default_value("60.25")))]
#[command(mut_arg("repetitions", |arg| arg.default_value("3")))]
#[command(mut_arg("seconds", |arg| arg.default_value("8s")))]
pub(crate) struct Args {
    #[command(flatten)]
    asked: Asked,
    /// What to measure, of alone, read-back, screen, hook, c-api, c-api-sync (default: all)
    #[arg(long, value_name = "WAY", value_delimiter = ',', value_parser = way)]
    ways: Vec<&'static Way>,
    /// Write doors.json into this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// As fast as it can: more than any scene draws.
const UNHELD: f64 = 1000.0;

/// What the host may send.
const FPS: f64 = 60.0;

/// Whether and how the scene is streamed.
#[derive(Clone, Copy, Debug)]
enum How {
    /// Not at all; `true`: but read back.
    Alone(bool),
    Streamed(Source),
}

/// A way that is measured.
#[derive(Clone, Debug)]
struct Way {
    name: &'static str,
    what: &'static str,
    how: How,
}

static WAYS: [Way; 6] = [
    Way {
        name: "alone",
        what: "nothing is streamed",
        how: How::Alone(false),
    },
    Way {
        name: "read-back",
        what: "each picture is read back by the scene and thrown away",
        how: How::Alone(true),
    },
    Way {
        name: "screen",
        what: "openuvr host captures the display, by damage",
        how: How::Streamed(Source::Screen),
    },
    Way {
        name: "hook",
        what: "openuvr run: the host is in the scene's process, at its swap",
        how: How::Streamed(Source::Hook),
    },
    Way {
        name: "c-api",
        what: "the scene gives its pixel buffer and draws on (openuvr_frame_ready)",
        how: How::Streamed(Source::Api { synchronous: false }),
    },
    Way {
        name: "c-api-sync",
        what: "the scene waits until it is sent (openuvr_send_frame)",
        how: How::Streamed(Source::Api { synchronous: true }),
    },
];

fn way(name: &str) -> Result<&'static Way, String> {
    let found = WAYS.iter().find(|way| way.name == name);
    let names = WAYS.iter().map(|way| way.name).collect::<Vec<_>>();
    found.ok_or_else(|| format!("choose of {}", names.join(", ")))
}

/// What one way came to at one rate.
#[derive(Default)]
struct Runs {
    streams: Vec<Stream>,
    /// Of each frame of each run, in milliseconds.
    frame_ms: Vec<Vec<f64>>,
    /// The application's own frames a second.
    fps: Vec<f64>,
    /// The most cores that others used while nothing was streamed.
    other_cores: f64,
}

/// One way, over its repetitions.
#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    what: &'static str,
    p50_ms: Option<Range>,
    p99_ms: Option<Range>,
    /// Of the frames drawn, displayed whole; the least of the repetitions.
    whole: Option<f64>,
    /// Cores of application, host and client together.
    cores: Option<Range>,
    frame_p50_ms: Option<Range>,
    frame_p99_ms: Option<Range>,
    unheld_fps: Option<Range>,
}

/// Measures, prints, writes.
pub(crate) fn run(args: &Args) -> Result<()> {
    let turns = Turns::new(&args.asked, 1.5)?;
    let Turns {
        repetitions,
        seconds,
        ..
    } = turns;
    let stop = openuvr_terminal::signals::stop_on_signals()?;
    let ways = match args.ways.as_slice() {
        [] => WAYS.iter().collect(),
        some => some.to_vec(),
    };
    let runs = || Vec::from_iter(ways.iter().map(|_| Runs::default()));
    let (mut held, mut unheld) = (runs(), runs());
    for (rate, all) in [(args.asked.scene_fps, &mut held), (UNHELD, &mut unheld)] {
        let setup = turns.setup(args.asked.size, rate);
        for repetition in 1..=repetitions {
            for (way, runs) in ways.iter().zip(&mut *all) {
                let name = way.name;
                eprintln!("bench doors: {rate} frames/s, {repetition}/{repetitions} {name}");
                once(args, way.how, setup, seconds, &stop, runs)
                    .with_context(|| format!("{name} at {rate} frames/s"))?;
            }
        }
    }
    let all = || held.iter().chain(&unheld);
    let mut head = Head::new(&args.asked, turns, all().flat_map(|runs| &runs.streams));
    let alone = all().map(|runs| runs.other_cores);
    head.other_cores = alone.fold(head.other_cores, f64::max);
    let report = Report {
        head,
        ways: (ways.iter())
            .zip(held.iter().zip(&unheld))
            .map(|(way, (held, unheld))| row(way, held, unheld))
            .collect(),
    };
    print(&report);
    if let Some(folder) = &args.out {
        keep(folder, "doors.json", &report)?;
    }
    Ok(())
}

/// Measures one way once.
fn once(
    args: &Args,
    how: How,
    setup: Setup,
    seconds: f64,
    stop: &AtomicBool,
    runs: &mut Runs,
) -> Result<()> {
    let dir = TemporaryDir::new()?;
    let times = dir.path().join("times");
    let mut rig = Rig::start(setup, stop)?;
    rig.keep_times(&times);
    match how {
        How::Alone(read_back) => {
            let others = rig.alone(seconds, read_back)?;
            runs.other_cores = runs.other_cores.max(others);
        }
        How::Streamed(source) => runs.streams.push(rig.stream(&Streamed {
            source,
            cable: None,
            impaired: None,
            fps: FPS,
            bitrate: &args.asked.bitrate,
            seconds,
            presses: 0,
            compare: false,
            dir: dir.path(),
            csv: &dir.path().join("frames.csv"),
            sound: None,
            pads: None,
            more_host: &[],
            more_client: &[],
        })?),
    }
    // The scene writes its times when it ends.
    drop(rig);
    let frames = read_times(&times)?;
    // The first of them warm the caches up.
    let settled = &frames[frames.len() / 4..];
    runs.fps
        .push(settled.len() as f64 * 1e3 / settled.iter().map(|f| f.pace).sum::<f64>());
    runs.frame_ms.push(settled.iter().map(|f| f.work).collect());
    Ok(())
}

/// A frame of the scene, in milliseconds.
struct Frame {
    /// From its beginning until the swap had returned.
    work: f64,
    /// Until the beginning of the next.
    pace: f64,
}

fn read_times(path: &Path) -> Result<Vec<Frame>> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("the scene left no times in {}", path.display()))?;
    let rows: Vec<[f64; 3]> = text
        .lines()
        .filter_map(|line| {
            let numbers: Vec<f64> = line.split(' ').filter_map(|n| n.parse().ok()).collect();
            numbers.try_into().ok()
        })
        .collect();
    let frames = rows.windows(2).map(|pair| {
        let [begun, draw, show] = pair[0];
        Frame {
            work: (draw + show) / 1e3,
            pace: (pair[1][0] - begun) / 1e3,
        }
    });
    Ok(frames.collect())
}

fn row(way: &Way, held: &Runs, unheld: &Runs) -> Row {
    let over = |of: &dyn Fn(&Stream) -> Option<f64>| {
        Range::of(&held.streams.iter().filter_map(of).collect::<Vec<_>>())
    };
    let frames = |of: &dyn Fn(&Summary) -> f64| {
        let runs = held.frame_ms.iter().filter_map(|run| Summary::of(run));
        Range::of(&runs.map(|summary| of(&summary)).collect::<Vec<_>>())
    };
    Row {
        name: way.name,
        what: way.what,
        p50_ms: over(&|s| Some(s.case.latency_ms?.p50)),
        p99_ms: over(&|s| Some(s.case.latency_ms?.p99)),
        whole: (held.streams.iter())
            .filter_map(Stream::whole_share)
            .reduce(f64::min),
        cores: over(&|s| Some(s.all_cores())),
        frame_p50_ms: frames(&|s| s.p50),
        frame_p99_ms: frames(&|s| s.p99),
        unheld_fps: Range::of(&unheld.fps),
    }
}

fn print(report: &Report<Row>) {
    report.head.print("doors", ", and unheld");
    println!(
        "\n{:<10} {:>18} {:>6} {:>6} {:>5} {:>20} {:>6} {:>14}",
        "", "drawn-visible ms", "p99", "whole", "cores", "frame ms (range)", "p99", "unheld/s"
    );
    let spread = |range: Option<Range>, digits: usize| {
        range.map_or(String::new(), |r| {
            let Range { median, min, max } = r;
            format!("{median:.digits$} ({min:.digits$}-{max:.digits$})")
        })
    };
    let number = |range: Option<Range>| range.map_or(String::new(), |r| format!("{:.2}", r.median));
    for row in &report.ways {
        let whole = (row.whole).map_or(String::new(), |w| format!("{:.0} %", w * 100.0));
        println!(
            "{:<10} {:>18} {:>6} {whole:>6} {:>5} {:>20} {:>6} {:>14}",
            row.name,
            spread(row.p50_ms, 2),
            number(row.p99_ms),
            number(row.cores),
            spread(row.frame_p50_ms, 2),
            number(row.frame_p99_ms),
            spread(row.unheld_fps, 0),
        );
    }
    println!();
    for row in &report.ways {
        println!("{:<10} {}", row.name, row.what);
    }
}
