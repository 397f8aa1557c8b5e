//! `openuvr bench sync`: compares an application that continues to draw while the host encodes with an application that
//! waits for the host (the paper's section V-E).
//!
//! There are three configurations of the same scene. In the first, another process captures the scene's display. In the
//! second, the host's own process draws and submits the scene, and drawing continues while the host encodes. In the
//! third, drawing waits until each submitted picture has been encoded and sent. The first two are "continuous", and the
//! third is "synchronous". The second and the third differ only in the waiting. The first and the second differ in the
//! process boundary and the cost of capture. Not covered are a GPU encoder, a multi-threaded engine, and energy.

use std::path::PathBuf;

use anyhow::Result;
use openuvr_testbed::pair::TemporaryDir;
use openuvr_testbed::stats::{Range, Summary};
use serde::Serialize;

use super::case::Stream;
use super::heading::{Heading, Report, write_json};
use super::rig::{Rig, Source, StreamSetup};
use super::turns::{ComparisonOptions, Turns};

/// Compare an application that waits for the host with one that does not
///
/// The figures are the latency from drawn to visible, the application's frame rate, the share of frames displayed
/// completely, the cores that scene, host and client use together, and luma PSNR. They are measured for the same scene
/// in three configurations: captured from its display; submitted within the host's process; and submitted within the
/// host's process by a scene that waits until each frame is sent. Times, rates and cores are medians and ranges over
/// interleaved repetitions; the share of complete frames is the minimum.
#[derive(clap::Args, Clone, Debug)]
#[command(mut_arg("seconds", |arg| arg.default_value("6s")))]
pub(crate) struct Args {
    #[command(flatten)]
    options: ComparisonOptions,
    /// Write sync.json into this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// The configurations.
const WAYS: [(&str, &str, Source); 3] = [
    (
        "captured",
        "the host captures the scene's display when it changes; the scene keeps drawing",
        Source::Screen,
    ),
    (
        "submitted",
        "the scene submits frames in the host's process and keeps drawing",
        Source::Submit("free"),
    ),
    (
        "lock-step",
        "the scene submits frames in the host's process and waits until each frame is sent",
        Source::Submit("lock-step"),
    ),
];

/// One configuration, over its repetitions.
#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    what: &'static str,
    p50_ms: Option<Range>,
    p99_ms: Option<Range>,
    /// Frames per second drawn by the scene.
    drawn_fps: Option<Range>,
    /// Share of the drawn frames that were displayed completely; the minimum of the repetitions.
    complete: Option<f64>,
    /// Cores of scene, host and client together.
    cores: Option<Range>,
    psnr_db: Option<Summary>,
    /// The median luma PSNR of each repetition. The reporter computes confidence intervals from these values.
    psnr_runs_db: Option<Range>,
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
    let mut rig = Rig::start(
        turns.setup(args.options.size, args.options.scene_fps),
        &stop,
    )?;
    let dir = TemporaryDir::new()?;
    let csv = dir.path().join("frames.csv");
    let mut streams: [Vec<Stream>; 3] = Default::default();
    for repetition in 1..=repetitions {
        for ((name, _, source), streams) in WAYS.iter().zip(&mut streams) {
            eprintln!("bench sync: {repetition}/{repetitions} {name}");
            streams.push(rig.stream(&StreamSetup {
                source: *source,
                cable: None,
                impaired: None,
                // The host admits 5 % more frames per second than this limit. The rate control divides the bitrate by
                // this limit.
                fps: args.options.scene_fps.floor().max(1.0),
                bitrate: &args.options.bitrate,
                seconds,
                presses: 0,
                compare: true,
                dir: dir.path(),
                csv: &csv,
                sound: None,
                pads: None,
                more_host: &[],
                more_client: &[],
            })?);
        }
    }
    let report = Report {
        head: Heading::new(&args.options, turns, streams.iter().flatten()),
        ways: WAYS
            .iter()
            .zip(&streams)
            .map(|((name, what, _), streams)| row(name, what, streams))
            .collect(),
    };
    print(&report);
    if let Some(folder) = &args.out {
        write_json(folder, "sync", &report)?;
    }
    Ok(())
}

fn row(name: &'static str, what: &'static str, streams: &[Stream]) -> Row {
    let range = |of: &dyn Fn(&Stream) -> Option<f64>| {
        Range::of(&streams.iter().filter_map(of).collect::<Vec<_>>())
    };
    let psnr: Vec<f64> = streams.iter().flat_map(|s| s.psnr_db.clone()).collect();
    Row {
        name,
        what,
        p50_ms: range(&|s| Some(s.case.latency_ms?.p50)),
        p99_ms: range(&|s| Some(s.case.latency_ms?.p99)),
        drawn_fps: range(&|s| Some(s.case.drawn_fps())),
        complete: (streams.iter())
            .filter_map(Stream::complete_share)
            .reduce(f64::min),
        cores: range(&|s| Some(s.all_cores())),
        psnr_db: Summary::of(&psnr),
        psnr_runs_db: range(&|s| Some(Summary::of(&s.psnr_db)?.p50)),
    }
}

fn print(report: &Report<Row>) {
    report.head.print("continuous against synchronous", "");
    println!(
        "\n{:<12} {:>20} {:>7} {:>9} {:>8} {:>7} {:>8}",
        "", "p50 ms (range)", "p99", "drawn/s", "complete", "cores", "PSNR dB"
    );
    let number = |range: &Option<Range>| range.as_ref().map_or(f64::NAN, |range| range.median);
    for row in &report.ways {
        let p50 = row.p50_ms.as_ref().map_or("no data".to_owned(), |p50| {
            format!("{:.2} ({:.2}-{:.2})", p50.median, p50.min, p50.max)
        });
        println!(
            "{:<12} {p50:>20} {:>7.2} {:>9.1} {:>6.0} % {:>7.2} {:>8.1}",
            row.name,
            number(&row.p99_ms),
            number(&row.drawn_fps),
            row.complete.unwrap_or(f64::NAN) * 100.0,
            number(&row.cores),
            row.psnr_db.map_or(f64::NAN, |psnr| psnr.p50)
        );
    }
    println!();
    for row in &report.ways {
        println!("{:<12} {}", row.name, row.what);
    }
}
