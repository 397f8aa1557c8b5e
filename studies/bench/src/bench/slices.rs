//! `openuvr bench slices`: compares pictures displayed slice by slice (`openuvr client --present-slices`) with pictures
//! displayed as a whole.
//!
//! The scene draws its bar code at the top and at the bottom of the picture. The reader reads both codes in the
//! client's window with one request. If they differ, the window shows rows of two frames.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use openuvr_media::barcode::{self, Stamp};
use openuvr_testbed::pair::TemporaryDir;
use openuvr_testbed::reader::BothEnds;
use openuvr_testbed::stats::{Range, Summary};
use serde::Serialize;

use super::case::Stream;
use super::heading::{Heading, Report, write_json};
use super::rig::{Rig, Source, StreamSetup};
use super::turns::{ComparisonOptions, Turns};

/// Measure when the first and last rows of a picture become visible, for display in slices and as a whole.
///
/// The figures, all for the same scene, are: the time from drawing to display of the picture's first rows and of its
/// last rows, for frames that were displayed completely; the share of the time in which the window shows rows of two
/// frames, which is also the share of a display's refreshes that show this mixture; the share of frames displayed
/// completely; and the cores used by the client and by its display. All are medians and ranges over interleaved
/// repetitions, except the share of complete frames, which is the minimum.
#[derive(clap::Args, Clone, Debug)]
#[command(mut_arg("size", |arg| arg.default_value("1920x1080")))]
#[command(mut_arg("bitrate", |arg| arg.default_value("20M")))]
#[command(mut_arg("scene_fps", |arg| arg.default_value("30.25")))]
#[command(mut_arg("seconds", |arg| arg.default_value("8s")))]
pub(crate) struct Args {
    #[command(flatten)]
    options: ComparisonOptions,
    /// Encoder of the host, such as x264 or jpeg
    #[arg(long, default_value = "x264")]
    encoder: String,
    /// Write slices.json into this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// The host's frame rate limit.
const FPS: f64 = 60.0;

/// The target: with slices, the first rows should be visible at least this much earlier, in milliseconds.
const TARGET_MS: f64 = 2.0;

/// The configurations: name, description, and options of the client.
const WAYS: [(&str, &str, &[&str]); 2] = [
    ("whole", "a picture is displayed when it is complete", &[]),
    (
        "slices",
        "the rows of a picture are displayed as they are decoded",
        &["--present-slices"],
    ),
];

struct Run {
    stream: Stream,
    ends: EndTimes,
}

/// The delays until the first and the last rows of the frames became visible.
#[derive(Clone, PartialEq, Debug, Default)]
struct EndTimes {
    /// From drawing to visible first rows, in milliseconds.
    top_ms: Vec<f64>,
    /// From drawing to visible last rows, in milliseconds.
    bottom_ms: Vec<f64>,
    /// Share of the time in which the window shows rows of two frames. `None` if no picture was read.
    mixed: Option<f64>,
}

/// One configuration, over its repetitions.
#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    what: &'static str,
    top_p50_ms: Option<Range>,
    top_p99_ms: Option<Range>,
    bottom_p50_ms: Option<Range>,
    bottom_p99_ms: Option<Range>,
    /// Share of the time in which the window shows rows of two frames.
    mixed: Option<Range>,
    /// Share of drawn frames displayed completely; the minimum of the repetitions.
    complete: Option<f64>,
    client_cores: Option<Range>,
    display_cores: Option<Range>,
}

/// Measures, prints the results, and writes them to a file if requested.
pub(crate) fn run(args: &Args) -> Result<()> {
    let turns = Turns::new(&args.options, 1.5)?;
    let stop = openuvr_terminal::signals::stop_on_signals()?;
    let setup = turns.setup(args.options.size, args.options.scene_fps);
    let mut rig = Rig::start(setup, &stop)?;
    rig.read_both_ends();
    let dir = TemporaryDir::new()?;
    let csv = dir.path().join("frames.csv");
    let mut runs: [Vec<Run>; 2] = Default::default();
    for repetition in 1..=turns.repetitions {
        for ((name, _, options), runs) in WAYS.iter().zip(&mut runs) {
            eprintln!("bench slices: {repetition}/{} {name}", turns.repetitions);
            let stream = rig
                .stream(&StreamSetup {
                    source: Source::Screen,
                    cable: None,
                    impaired: None,
                    fps: FPS,
                    bitrate: &args.options.bitrate,
                    seconds: turns.seconds,
                    presses: 0,
                    compare: false,
                    dir: dir.path(),
                    csv: &csv,
                    sound: None,
                    pads: None,
                    more_host: &["--encoder".to_owned(), args.encoder.clone()],
                    more_client: &options.iter().map(ToString::to_string).collect::<Vec<_>>(),
                })
                .with_context(|| format!("{name}, run {repetition}"))?;
            let ends = ends(&rig.take_both_ends(), &stream);
            runs.push(Run { stream, ends });
        }
    }
    let streams = runs.iter().flatten().map(|run| &run.stream);
    let report = Report {
        head: Heading::new(&args.options, turns, streams),
        ways: WAYS
            .iter()
            .zip(&runs)
            .map(|((name, what, _), runs)| row(name, what, runs))
            .collect(),
    };
    print(&report);
    if let Some(folder) = &args.out {
        write_json(folder, "slices", &report)?;
    }
    Ok(())
}

fn ends(pictures: &[BothEnds], stream: &Stream) -> EndTimes {
    let complete = stream.case.samples.iter();
    let complete = complete.filter(|sample| sample.outcome.as_deref() == Some("complete"));
    let complete = complete.map(|sample| sample.sighting.frame).collect();
    judge(pictures, stream.case.window.map(barcode::micros), &complete)
}

/// The delays of the complete frames, and the share of the time between `from` and `to` (both in µs) in which the window
/// shows rows of two frames.
fn judge(pictures: &[BothEnds], [from, to]: [u64; 2], complete: &BTreeSet<u32>) -> EndTimes {
    let first_ms = |code: fn(&BothEnds) -> Stamp| {
        let mut seen = BTreeMap::new();
        for picture in pictures {
            let stamp = code(picture);
            let ms = (picture.seen_us as f64 - stamp.drawn_us as f64) / 1e3;
            if complete.contains(&stamp.frame) {
                seen.entry(stamp.frame).or_insert(ms);
            }
        }
        seen.into_values().collect()
    };
    let ends = pictures.iter().skip(1).map(|next| next.seen_us).chain([to]);
    let (mut mixed, mut all) = (0, 0);
    for (picture, end) in pictures.iter().zip(ends) {
        let lasted = end.min(to).saturating_sub(picture.seen_us.max(from));
        all += lasted;
        if picture.top.frame != picture.bottom.frame {
            mixed += lasted;
        }
    }
    EndTimes {
        top_ms: first_ms(|picture| picture.top),
        bottom_ms: first_ms(|picture| picture.bottom),
        mixed: (all > 0).then(|| mixed as f64 / all as f64),
    }
}

fn row(name: &'static str, what: &'static str, runs: &[Run]) -> Row {
    let over = |of: &dyn Fn(&Run) -> Option<f64>| {
        Range::of(&runs.iter().filter_map(of).collect::<Vec<_>>())
    };
    let times = |times: fn(&EndTimes) -> &[f64], of: fn(Summary) -> f64| {
        over(&|run| Summary::of(times(&run.ends)).map(of))
    };
    Row {
        name,
        what,
        top_p50_ms: times(|ends| &ends.top_ms, |ms| ms.p50),
        top_p99_ms: times(|ends| &ends.top_ms, |ms| ms.p99),
        bottom_p50_ms: times(|ends| &ends.bottom_ms, |ms| ms.p50),
        bottom_p99_ms: times(|ends| &ends.bottom_ms, |ms| ms.p99),
        mixed: over(&|run| run.ends.mixed),
        complete: (runs.iter())
            .filter_map(|run| run.stream.complete_share())
            .reduce(f64::min),
        client_cores: over(&|run| run.stream.cores_of("client")),
        display_cores: over(&|run| run.stream.cores_of("display B")),
    }
}

fn print(report: &Report<Row>) {
    report.head.print("slices", "");
    println!(
        "\n{:<8} {:>20} {:>6} {:>20} {:>6} {:>7} {:>9} {:>6} {:>7}",
        "",
        "first rows, ms",
        "p99",
        "last rows, ms",
        "p99",
        "mixed",
        "complete",
        "client",
        "display"
    );
    let spread = |range: &Option<Range>| {
        range.as_ref().map_or(String::new(), |ms| {
            format!("{:.2} ({:.2}-{:.2})", ms.median, ms.min, ms.max)
        })
    };
    let median = |range: &Option<Range>| range.as_ref().map_or(f64::NAN, |range| range.median);
    for row in &report.ways {
        println!(
            "{:<8} {:>20} {:>6.2} {:>20} {:>6.2} {:>5.1} % {:>7.0} % {:>6.2} {:>7.2}",
            row.name,
            spread(&row.top_p50_ms),
            median(&row.top_p99_ms),
            spread(&row.bottom_p50_ms),
            median(&row.bottom_p99_ms),
            median(&row.mixed) * 100.0,
            row.complete.unwrap_or(f64::NAN) * 100.0,
            median(&row.client_cores),
            median(&row.display_cores),
        );
    }
    println!();
    for row in &report.ways {
        println!("{:<8} {}", row.name, row.what);
    }
    if let [whole, slices] = &report.ways[..] {
        let top = median(&whole.top_p50_ms) - median(&slices.top_p50_ms);
        let bottom = median(&whole.bottom_p50_ms) - median(&slices.bottom_p50_ms);
        println!(
            "\ndisplayed in slices, the first rows are visible {top:.2} ms earlier (target {TARGET_MS} ms);"
        );
        println!("the last rows {bottom:.2} ms earlier");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(seen_us: u64, top: u32, bottom: u32) -> BothEnds {
        let stamp = |frame: u32| Stamp {
            frame,
            drawn_us: u64::from(frame) * 10_000,
            inputs: 0,
        };
        BothEnds {
            seen_us,
            top: stamp(top),
            bottom: stamp(bottom),
        }
    }

    #[test]
    fn ends_are_timed_by_their_first_sight() {
        let pictures = [
            picture(10_000, 0, 0),
            picture(14_000, 1, 0),
            picture(18_000, 1, 1),
            picture(23_000, 2, 1),
            picture(28_000, 2, 2),
            // Not complete.
            picture(34_000, 3, 2),
        ];
        let ends = judge(&pictures, [12_000, 40_000], &[1, 2].into());
        assert_eq!(ends.top_ms, [4.0, 3.0]);
        assert_eq!(ends.bottom_ms, [8.0, 8.0]);
        assert_eq!(ends.mixed, Some(15.0 / 28.0));
    }

    #[test]
    fn without_pictures_there_are_no_figures() {
        assert_eq!(judge(&[], [0, 1_000], &[1].into()), EndTimes::default());
        let outside = judge(&[picture(9, 1, 1)], [0, 5], &[].into());
        assert_eq!(outside.mixed, None);
    }
}
