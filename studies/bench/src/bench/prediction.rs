//! `openuvr bench prediction`: the error of the predicted head pose as a function of the prediction horizon.
//!
//! This bench uses neither a clock nor a stream. The head's motion is known at all times, and a tracker samples it.
//! From a sample, the prediction of the OpenXR runtime (`openuvr_proto::motion`) is computed and compared with the true
//! pose.

mod motion;

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use openuvr_proto::motion::{PoseTrack, Velocity, extrapolated};
use openuvr_proto::rotation::Rotation;
use openuvr_proto::time::Instant;
use openuvr_terminal::usage::UsageError;
use openuvr_testbed::stats::percentile;
use serde::Serialize;

use self::motion::{EulerPose, Motion};
use super::heading::write_json;
use crate::durations;

/// Measure the error of head pose prediction for several prediction horizons.
///
/// Without --motion, the head's motion is generated from a fixed seed: the head rests, turns by 10 to 80 degrees
/// (minimum jerk, at most 100 to 300 degrees per second), sways by millimetres and leans by centimetres. A tracker
/// samples the motion, with a noise of 0.02 degrees and 0.2 mm.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// Recorded head motion: a CSV file with lines of the form seconds,x,y,z,yaw,pitch,roll, in metres and degrees
    #[arg(long, value_name = "FILE")]
    motion: Option<PathBuf>,
    /// Samples per second of the tracker
    #[arg(long, default_value_t = 500.0)]
    rate: f64,
    /// Duration of the generated motion
    #[arg(long = "duration", value_name = "TIME", default_value = "300s", value_parser = durations::seconds)]
    seconds: f64,
    /// Write prediction.json into this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// Prediction horizons, in milliseconds.
const HORIZONS: [u32; 8] = [10, 20, 30, 50, 75, 100, 125, 150];

/// The velocity sources that are compared.
const WAYS: [&str; 4] = ["none", "two samples", "20 ms", "tracker"];

/// Order statistics.
#[derive(Clone, Copy, Debug, Serialize)]
struct Errors {
    p50: f64,
    p95: f64,
    p99: f64,
    max: f64,
}

impl Errors {
    fn of(mut samples: Vec<f64>) -> Option<Errors> {
        samples.sort_by(f64::total_cmp);
        Some(Errors {
            p50: percentile(&samples, 50.0)?,
            p95: percentile(&samples, 95.0)?,
            p99: percentile(&samples, 99.0)?,
            max: *samples.last()?,
        })
    }
}

#[derive(Debug, Serialize)]
struct Row {
    horizon_ms: u32,
    velocity: &'static str,
    degrees: Errors,
    millimetres: Errors,
}

#[derive(Debug, Serialize)]
struct Report {
    motion: String,
    #[serde(rename = "rate_hz")]
    rate: f64,
    seconds: f64,
    samples: usize,
    rows: Vec<Row>,
}

/// Measures, prints the results, and writes them to a file if requested.
pub(crate) fn run(args: &Args) -> Result<()> {
    ensure!(
        (20.0..=2000.0).contains(&args.rate) && (1.0..=36_000.0).contains(&args.seconds),
        UsageError::new("--rate must be 20 to 2000, --duration 1s to 10h")
    );
    let (motion, what) = match &args.motion {
        Some(file) => {
            let text = std::fs::read_to_string(file);
            let text = text.with_context(|| format!("can't read {}", file.display()))?;
            let motion = Motion::read(&text).with_context(|| file.display().to_string())?;
            (motion, format!("recorded, {}", file.display()))
        }
        None => (Motion::generated(args.seconds), "generated".to_owned()),
    };
    let samples = motion.tracked(args.rate);
    let mut rows = Vec::new();
    for horizon in HORIZONS {
        for velocity in WAYS {
            let errors = errors(&motion, &samples, args.rate, horizon, velocity);
            let (degrees, millimetres): (Vec<_>, Vec<_>) = errors.into_iter().unzip();
            rows.push(Row {
                horizon_ms: horizon,
                velocity,
                degrees: Errors::of(degrees)
                    .context("the motion is shorter than the prediction horizon")?,
                millimetres: Errors::of(millimetres)
                    .context("the motion is shorter than the prediction horizon")?,
            });
        }
    }
    let report = Report {
        motion: what,
        rate: args.rate,
        seconds: motion.seconds(),
        samples: samples.len(),
        rows,
    };
    print(&report);
    if let Some(folder) = &args.out {
        write_json(folder, "prediction", &report)?;
    }
    Ok(())
}

/// The error of each prediction, in degrees and millimetres.
fn errors(
    motion: &Motion,
    samples: &[(f64, EulerPose)],
    rate: f64,
    horizon: u32,
    velocity: &str,
) -> Vec<(f64, f64)> {
    let ahead = f64::from(horizon) / 1e3;
    let mut all = Vec::new();
    let mut track = PoseTrack::default();
    for pair in samples.windows(2) {
        let [(_, before), (at, newest)] = pair else {
            continue;
        };
        let Some(truth) = motion.at(at + ahead) else {
            break;
        };
        let (Some(from), Some(pose)) = (before.pose(), newest.pose()) else {
            continue;
        };
        #[allow(clippy::cast_possible_truncation, reason = "fractions of a second")]
        let (span, ahead) = ((1.0 / rate) as f32, ahead as f32);
        let moves = match velocity {
            "none" => Velocity::default(),
            "two samples" => Velocity::between(&from, &pose, span),
            // The velocity that the runtime derives for a client that sends no velocity.
            "20 ms" => track.moved(at_time(*at), &pose),
            // An ideal gyroscope and accelerometer, without noise.
            _ => motion.velocity(*at),
        };
        let (place, turned) = extrapolated(&pose, &moves, ahead);
        all.push(truth.from(place, turned));
    }
    all
}

fn print(report: &Report) {
    println!(
        "== prediction of a head's pose: {}, {:.0} s, {} samples at {:.0} a second ==",
        report.motion, report.seconds, report.samples, report.rate
    );
    println!("error (p50 / p95 / p99 / max) by prediction horizon and source of the velocity");
    println!(
        "{:>8}  {:<12} {:>30}   {:>30}",
        "ahead", "velocity", "degrees", "mm"
    );
    for row in &report.rows {
        let text = |errors: &Errors| {
            let Errors { p50, p95, p99, max } = errors;
            format!("{p50:6.2} {p95:7.2} {p99:7.2} {max:7.2}")
        };
        println!(
            "{:>5} ms  {:<12} {:>30}   {:>30}",
            row.horizon_ms,
            row.velocity,
            text(&row.degrees),
            text(&row.millimetres)
        );
    }
}

/// The time that is this number of seconds after the start of the motion.
#[allow(clippy::cast_possible_truncation, reason = "ten hours at most")]
fn at_time(seconds: f64) -> Instant {
    Instant((seconds * 1e9) as i64)
}

/// The angle between two rotations, in degrees.
fn angle(a: Rotation, b: Rotation) -> f64 {
    let vector = a.after(b.inverse()).vector();
    let length = vector.iter().map(|v| v * v).sum::<f32>().sqrt();
    f64::from(length).to_degrees()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prediction_is_better_than_none_and_worse_further_ahead() {
        let motion = Motion::generated(60.0);
        let samples = motion.tracked(250.0);
        let p95 = |horizon, velocity| {
            let errors = errors(&motion, &samples, 250.0, horizon, velocity);
            assert!(errors.len() > 10_000);
            Errors::of(errors.into_iter().map(|e| e.0).collect())
                .unwrap()
                .p95
        };
        assert!(p95(50, "tracker") < p95(50, "none") / 2.0);
        assert!(p95(20, "tracker") < p95(100, "tracker"));
        // If two samples are only 4 ms apart, much of their difference is noise.
        let p50 = |velocity| {
            let errors = errors(&motion, &samples, 250.0, 100, velocity);
            let degrees = errors.into_iter().map(|e| e.0).collect();
            Errors::of(degrees).unwrap().p50
        };
        assert!(p50("20 ms") < p50("two samples") / 2.0);
    }
}
