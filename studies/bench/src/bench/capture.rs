//! `openuvr bench capture`: the cost of each capture method, for the viewer and for the application.
//!
//! The scene is measured in these cases:
//!
//! - by itself;
//! - with each picture read back and discarded, which is the lower bound for capturing an application;
//! - streamed by each capture method, from each kind of display;
//! - streamed by screen capture, and displayed in each kind of client window.
//!
//! Each case is measured at the display's rate (drawn-to-visible latency, and the application's frame time) and
//! unthrottled (the application's loss of frame rate).

mod methods;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result};
use openuvr_testbed::pair::TemporaryDir;
use openuvr_testbed::stats::{Range, Summary};
use serde::Serialize;

use super::case::Stream;
use super::heading::{Heading, Report, write_json};
use super::rig::{Rig, SETTLE, Setup, Source, StreamSetup};
use super::turns::{ComparisonOptions, Turns};
use methods::{CaptureMethod, StreamMode, named, possible};

/// Measure the cost of each capture method, display and client window: X11, Wayland, hook, C API.
///
/// The figures, all for the same scene, are: latency from drawn to visible; the share of drawn frames that are
/// complete; cores used by application, host and client together; the application's frame time, from the start of the
/// frame until the swap has returned; and the application's frame rate when the display does not limit it. "alone"
/// streams nothing; "read-back" reads each picture back and discards it. A second table has the cores used by the host,
/// and by the scene's display if it is a separate process; the cores used by the host while the picture does not
/// change; and the time from a key press to its effect. Times, rates and cores are medians and ranges over interleaved
/// repetitions; the share of complete frames is the minimum.
///
/// "session", "session-240", "client-x11" and "client-wayland" need sway and Xwayland. Without these programs, these
/// methods are left out unless `--ways` lists them. The scene's frames are counted on the scene's X display. With
/// "session", "session-240", "virtual-xvfb" and "virtual-wayland", they are counted on the client's display instead, so
/// frames after the last visible frame do not count.
#[derive(clap::Args, Clone, Debug)]
#[command(mut_arg("scene_fps", |arg| arg.default_value("60.25")))]
#[command(mut_arg("repetitions", |arg| arg.default_value("3")))]
#[command(mut_arg("seconds", |arg| arg.default_value("8s")))]
pub(crate) struct Args {
    #[command(flatten)]
    options: ComparisonOptions,
    /// The methods to measure: alone, read-back, screen, session, session-240, virtual-xvfb, virtual-wayland, hook,
    /// c-api, c-api-sync, client-x11, client-wayland (default: all)
    #[arg(long, value_name = "WAY", value_delimiter = ',', value_parser = named)]
    ways: Vec<&'static CaptureMethod>,
    /// Key presses to measure in each run (0: none)
    #[arg(long, default_value_t = 20)]
    presses: u32,
    /// Write capture.json into this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// The scene's target rate in runs without a frame limit. No scene reaches this rate.
const UNHELD: f64 = 1000.0;

/// Maximum number of key presses in a quick run.
const QUICK_PRESSES: u32 = 4;

/// The host's limit, in frames per second.
const FPS: f64 = 60.0;

/// Results of one method at one rate.
#[derive(Default)]
struct Runs {
    streams: Vec<Stream>,
    /// Frame times of each run, in milliseconds.
    frame_ms: Vec<Vec<f64>>,
    /// The application's own frames per second.
    fps: Vec<f64>,
    /// Number of cores that other processes used in a run without a stream: the maximum over these runs.
    other_cores: f64,
}

/// The results of one method over its repetitions.
#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    what: &'static str,
    p50_ms: Option<Range>,
    p99_ms: Option<Range>,
    /// Share of the drawn frames that were displayed completely, in the worst repetition.
    complete: Option<f64>,
    /// Number of cores that application, host and client used together.
    cores: Option<Range>,
    frame_p50_ms: Option<Range>,
    frame_p99_ms: Option<Range>,
    unheld_fps: Option<Range>,
    /// Number of cores that the host used; `None` if it was not measured, or if the host is in the application's
    /// process.
    host_cores: Option<Range>,
    /// Number of cores that the scene's display used; `None` if it is not a separate process.
    display_cores: Option<Range>,
    /// Number of cores that the host used while the picture did not change.
    still_cores: Option<Range>,
    /// Time from a key press on the client's display to its effect on that display: the median of each run.
    reaction_ms: Option<Range>,
}

/// Measures, prints the results, and writes them to a file if requested.
pub(crate) fn run(args: &Args) -> Result<()> {
    let turns = Turns::new(&args.options, 1.5)?;
    let Turns {
        repetitions,
        seconds,
        ..
    } = turns;
    let stop = openuvr_terminal::signals::stop_on_signals()?;
    let ways = match args.ways.as_slice() {
        [] => possible(),
        some => some.to_vec(),
    };
    let runs = || Vec::from_iter(ways.iter().map(|_| Runs::default()));
    let (mut held, mut unheld) = (runs(), runs());
    let presses = match turns.quick {
        true => args.presses.min(QUICK_PRESSES),
        false => args.presses,
    };
    for (rate, presses, all) in [
        (args.options.scene_fps, Some(presses), &mut held),
        (UNHELD, None, &mut unheld),
    ] {
        let setup = turns.setup(args.options.size, rate);
        for repetition in 1..=repetitions {
            for (way, runs) in ways.iter().zip(&mut *all) {
                let name = way.name;
                eprintln!("bench capture: {rate} frames/s, {repetition}/{repetitions} {name}");
                once(args, way.how, setup, seconds, presses, &stop, runs)
                    .with_context(|| format!("{name} at {rate} frames/s"))?;
            }
        }
    }
    let all = || held.iter().chain(&unheld);
    let mut head = Heading::new(&args.options, turns, all().flat_map(|runs| &runs.streams));
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
        write_json(folder, "capture", &report)?;
    }
    Ok(())
}

/// Measures one method once. Unless `presses` is `None`, also measures key presses and a still picture.
fn once(
    args: &Args,
    how: StreamMode,
    setup: Setup,
    seconds: f64,
    presses: Option<u32>,
    stop: &AtomicBool,
    runs: &mut Runs,
) -> Result<()> {
    let dir = TemporaryDir::new()?;
    let times = dir.path().join("times");
    let mut rig = Rig::start(setup, stop)?;
    rig.keep_times(&times);
    if presses.is_some() {
        rig.measure_still(seconds);
    }
    let source = match how {
        StreamMode::Alone(read_back) => {
            let others = rig.alone(seconds, read_back)?;
            runs.other_cores = runs.other_cores.max(others);
            None
        }
        StreamMode::Streamed(source) => Some(source),
        StreamMode::Shown(window) => {
            rig.show_in_compositor(window)?;
            Some(Source::Screen)
        }
    };
    if let Some(source) = source {
        runs.streams.push(rig.stream(&StreamSetup {
            source,
            cable: None,
            impaired: None,
            fps: FPS,
            bitrate: &args.options.bitrate,
            seconds,
            presses: presses.unwrap_or(0),
            compare: false,
            dir: dir.path(),
            csv: &dir.path().join("frames.csv"),
            sound: None,
            pads: None,
            more_host: &[],
            more_client: &[],
        })?);
    }
    // The scene writes its frame times when it ends.
    drop(rig);
    let mut frames = read_times(&times)?;
    // Remove the frame during which the scene was stopped for the still picture, if there is one.
    frames.retain(|frame| frame.work < SETTLE.as_secs_f64() * 1e3);
    // The first frames warm up the caches.
    let settled = &frames[frames.len() / 4..];
    runs.fps
        .push(settled.len() as f64 * 1e3 / settled.iter().map(|f| f.pace).sum::<f64>());
    runs.frame_ms.push(settled.iter().map(|f| f.work).collect());
    Ok(())
}

/// A frame of the scene, in milliseconds.
struct Frame {
    /// Time from the start of the frame until the swap returned.
    work: f64,
    /// Time from the start of the frame to the start of the next frame.
    pace: f64,
}

fn read_times(path: &Path) -> Result<Vec<Frame>> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("the scene wrote no times to {}", path.display()))?;
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

fn row(way: &CaptureMethod, held: &Runs, unheld: &Runs) -> Row {
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
        complete: (held.streams.iter())
            .filter_map(Stream::complete_share)
            .reduce(f64::min),
        cores: over(&|s| Some(s.all_cores())),
        frame_p50_ms: frames(&|s| s.p50),
        frame_p99_ms: frames(&|s| s.p99),
        unheld_fps: Range::of(&unheld.fps),
        host_cores: over(&|s| s.cores_of("host").filter(|_| s.cores_of("scene").is_some())),
        display_cores: over(&|s| {
            let display = s.cores_of("display A")?;
            (way.how.has_display_process()).then_some(display)
        }),
        still_cores: over(&|s| s.still_cores),
        reaction_ms: over(&|s| Some(Summary::of(&s.reaction_ms)?.p50)),
    }
}

fn print(report: &Report<Row>) {
    report.head.print("capture", ", and unheld");
    println!(
        "\n{:<15} {:>18} {:>6} {:>8} {:>5} {:>20} {:>6} {:>14}",
        "", "drawn-visible ms", "p99", "complete", "cores", "frame ms (range)", "p99", "unheld/s"
    );
    let spread = |range: &Option<Range>, digits: usize| {
        range.as_ref().map_or(String::new(), |r| {
            let Range {
                median, min, max, ..
            } = r;
            format!("{median:.digits$} ({min:.digits$}-{max:.digits$})")
        })
    };
    let number = |range: &Option<Range>| {
        let median = range.as_ref().map(|range| range.median);
        median.map_or(String::new(), |median| format!("{median:.2}"))
    };
    for row in &report.ways {
        let complete = (row.complete).map_or(String::new(), |w| format!("{:.0} %", w * 100.0));
        println!(
            "{:<15} {:>18} {:>6} {complete:>8} {:>5} {:>20} {:>6} {:>14}",
            row.name,
            spread(&row.p50_ms, 2),
            number(&row.p99_ms),
            number(&row.cores),
            spread(&row.frame_p50_ms, 2),
            number(&row.frame_p99_ms),
            spread(&row.unheld_fps, 0),
        );
    }
    println!(
        "\n{:<15} {:>10} {:>13} {:>24} {:>26}",
        "", "host cores", "display cores", "still picture, % of core", "press to effect ms (range)"
    );
    for row in report.ways.iter().filter(|row| row.cores.is_some()) {
        let still = row.still_cores.as_ref().and_then(|cores| {
            let percent = cores.values.iter().map(|cores| cores * 100.0);
            Range::of(&percent.collect::<Vec<_>>())
        });
        println!(
            "{:<15} {:>10} {:>13} {:>24} {:>26}",
            row.name,
            number(&row.host_cores),
            number(&row.display_cores),
            spread(&still, 2),
            spread(&row.reaction_ms, 1),
        );
    }
    println!();
    for row in &report.ways {
        println!("{:<15} {}", row.name, row.what);
    }
}
