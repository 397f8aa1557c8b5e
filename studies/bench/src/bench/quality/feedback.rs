//! `openuvr bench quality --feedback`: a stream over a lossy link, without and with the client's feedback (OpenUVR,
//! figure 11, and section IV-B3).
//!
//! The paper states the latency that the feedback of its control protocol saves, and that feedback improves the picture
//! considerably. It does not state the loss. The runs of the three variants of feedback alternate, so that changes of
//! the machine affect all variants.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail, ensure};
use openuvr_testbed::display::VirtualDisplay;
use openuvr_testbed::stats::{Range, Summary};
use serde::Serialize;

use super::Args;
use super::clips::{self, Content, StoredClip};
use super::condition::Condition;
use super::point::{self, Point};
use super::setup::Setup;
use crate::machine::{Machine, QUIET};
use crate::result_file;

/// The link, with a round trip and a loss as in a busy Wi-Fi network (guess).
const LINK: Condition = Condition {
    delay_ms: 4,
    loss_percent: 1,
    mbps: None,
    gop: None,
    constant: true,
};

/// A name and host options.
type NamedOptions = (&'static str, Vec<String>);

/// The compared variants of feedback, at this frame rate. The bitrate is constant in all variants, so that an adaptive
/// rate does not hide the effect of the feedback. The GOP size without feedback is a guess: one second.
fn ways(fps: u32) -> [NamedOptions; 3] {
    let words = |line: &str| line.split(' ').map(String::from).collect::<Vec<String>>();
    [
        (
            "no feedback",
            words(&format!("--recovery none --key-frame-interval {fps}")),
        ),
        ("key frames on request", words("--recovery key-frame")),
        ("references by reports", Vec::new()),
    ]
}

/// The results of a variant for a clip. Each range has one value per run.
#[derive(Debug, Serialize)]
struct ComparedStream {
    name: &'static str,
    options: String,
    runs: usize,
    /// The median latency of complete frames from Captured to Submitted.
    latency_ms: Option<Range>,
    psnr_db: Option<Range>,
    ssim: Option<Range>,
    /// Share of the captured frames that were displayed completely.
    complete: Option<Range>,
    /// The reason for the last failure of a run, if a run failed.
    failed: Option<String>,
}

#[derive(Debug, Serialize)]
struct Clip {
    content: String,
    size: String,
    ways: Vec<ComparedStream>,
}

/// The result file. Its fields for the conditions have the same names as in the other modes of `bench quality`.
#[derive(Debug, Serialize)]
struct File {
    fps: u32,
    bitrate: String,
    seconds: f64,
    repetitions: u32,
    quick: bool,
    loss_percent: u32,
    round_trip_ms: u32,
    other_cores: f64,
    feedback: Vec<Clip>,
}

/// Measures all variants, prints the results, and writes them to the result file.
pub(super) fn run(args: &Args, contents: &[Content], stop: &AtomicBool) -> Result<()> {
    let repetitions = if args.quick { 1 } else { args.repetitions };
    println!("machine  {}", Machine::this());
    println!(
        "link     {} % loss, round trip {} ms; bitrate {}",
        LINK.loss_percent,
        LINK.delay_ms,
        args.bitrate()
    );
    let (mut measured, mut other_cores) = (Vec::new(), 0.0_f64);
    for clip in clips::find_all(contents, args.format(), stop)? {
        println!("{clip}");
        let far = VirtualDisplay::start(clip.size)?;
        let runs = repeated(args, &clip, &far, repetitions, stop)?;
        let points = runs.points.values().flatten();
        other_cores = points
            .map(|point| point.other_cores)
            .fold(other_cores, f64::max);
        let ways = ways(args.fps());
        let ways: Vec<ComparedStream> = ways.iter().map(|way| runs.way(way)).collect();
        for way in &ways {
            println!("{}", way.line());
        }
        measured.push(Clip {
            content: clip.name,
            size: clip.size.to_string(),
            ways,
        });
    }
    if other_cores > QUIET {
        println!(
            "NOT QUIET: other processes used {other_cores:.1} cores; the figures are unreliable"
        );
    }
    if let Some(path) = &args.json {
        let file = File {
            fps: args.fps(),
            bitrate: args.bitrate().to_owned(),
            seconds: if args.quick { 2.0 } else { args.seconds },
            repetitions,
            quick: args.quick,
            loss_percent: LINK.loss_percent,
            round_trip_ms: LINK.delay_ms,
            other_cores,
            feedback: measured,
        };
        result_file::write(path, "bench.quality", &file)?;
    }
    Ok(())
}

/// The runs of a clip, by the name of the variant.
#[derive(Default)]
struct Runs {
    points: BTreeMap<&'static str, Vec<Point>>,
    failed: BTreeMap<&'static str, String>,
}

fn repeated(
    args: &Args,
    clip: &StoredClip,
    far: &VirtualDisplay,
    repetitions: u32,
    stop: &AtomicBool,
) -> Result<Runs> {
    let mut runs = Runs::default();
    for repetition in 0..repetitions {
        for (name, options) in ways(args.fps()) {
            eprintln!(
                "bench quality: {}/{repetitions} {}, {name}",
                repetition + 1,
                clip.name
            );
            let setup = args.setup(clip, LINK)?;
            let more_host = setup.more_host.iter().cloned().chain(options).collect();
            let setup = Setup {
                // All variants of a repetition have the same losses. Other repetitions have other losses.
                seed: setup.seed.wrapping_add(repetition.into()),
                more_host,
                ..setup
            };
            match point::measure(&setup, far, stop) {
                Ok(point) => runs.points.entry(name).or_default().push(point),
                Err(_) if stop.load(Ordering::Relaxed) => bail!("interrupted"),
                Err(why) => {
                    eprintln!("bench quality: {name}: {why:#}");
                    runs.failed.insert(name, format!("{why:#}"));
                }
            }
        }
    }
    ensure!(
        !runs.points.is_empty(),
        "no variant could be measured: see the reasons above"
    );
    Ok(runs)
}

impl Runs {
    fn way(&self, &(name, ref options): &NamedOptions) -> ComparedStream {
        let points = self.points.get(name).map(Vec::as_slice);
        let points = points.unwrap_or_default();
        let range = |of: &dyn Fn(&Point) -> Option<f64>| {
            Range::of(&points.iter().filter_map(of).collect::<Vec<f64>>())
        };
        let mean = |values: &[f64]| Summary::of(values).map(|summary| summary.mean);
        ComparedStream {
            name,
            options: options.join(" "),
            runs: points.len(),
            latency_ms: range(&|point| point.latency_ms.map(|latency| latency.p50)),
            psnr_db: range(&|point| mean(&point.psnr)),
            ssim: range(&|point| mean(&point.ssim)),
            complete: range(&complete),
            failed: self.failed.get(name).cloned(),
        }
    }
}

/// Share of the captured frames that were displayed completely.
fn complete(point: &Point) -> Option<f64> {
    let all: u32 = point.outcomes.values().sum();
    let complete = point.outcomes.get("complete").copied().unwrap_or(0);
    (all > 0).then(|| f64::from(complete) / f64::from(all))
}

impl ComparedStream {
    fn line(&self) -> String {
        let median = |range: &Option<Range>| range.as_ref().map_or(f64::NAN, |range| range.median);
        format!(
            "{:<22} {:>2} runs, p50 {:>6.2} ms, PSNR {:>5.2} dB, SSIM {:.4}, complete {:>5.1} %",
            self.name,
            self.runs,
            median(&self.latency_ms),
            median(&self.psnr_db),
            median(&self.ssim),
            median(&self.complete) * 100.0
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_has_a_value_for_each_of_its_runs() {
        let point = |latency: f64, ssim: f64| Point {
            latency_ms: Summary::of(&[latency]),
            ssim: vec![ssim; 3],
            outcomes: [("complete".to_owned(), 3), ("concealed".to_owned(), 1)].into(),
            ..Point::default()
        };
        let mut runs = Runs::default();
        runs.points
            .insert(ways(60)[0].0, vec![point(9.0, 0.7), point(11.0, 0.8)]);
        runs.failed.insert(ways(60)[1].0, "no picture".into());
        let [without, failed, absent] = ways(60).map(|way| runs.way(&way));
        assert_eq!(without.latency_ms.unwrap().values, [9.0, 11.0]);
        assert_eq!(without.complete.unwrap().median, 0.75);
        assert_eq!((without.runs, without.psnr_db), (2, None), "no PSNR");
        assert_eq!(failed.failed.as_deref(), Some("no picture"));
        assert_eq!((absent.runs, absent.latency_ms), (0, None));
    }

    #[test]
    fn without_feedback_there_is_one_key_frame_per_second() {
        let options = ways(30).map(|(_, options)| options.join(" "));
        assert_eq!(options[0], "--recovery none --key-frame-interval 30");
        assert_eq!(options[1..], ["--recovery key-frame", ""]);
        const { assert!(LINK.constant, "all variants have the same rate") };
    }
}
