//! `openuvr bench reprojection`: angular error of pictures while the head turns, read from pixels.
//!
//! A host in this process draws coloured poles all around the head, for the latest received pose, without prediction.
//! `openuvr client` displays them on a virtual display. The client's scripted head turns at constant speed. The link
//! between host and client has a delay. At each display change, the angle in the picture is read and compared with the
//! head's pose at that moment, as reported by the client. Host and client are on one machine with one clock.

mod around;
mod run;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use openuvr_proto::units::Size;
use openuvr_terminal::usage::UsageError;
use openuvr_testbed::display::VirtualDisplay;
use openuvr_testbed::pair::TemporaryDir;
use openuvr_testbed::stats::percentile;
use serde::Serialize;

use self::run::RunSetup;
use super::heading::write_json;
use crate::durations;
use crate::machine::{Load, Machine};

/// Measure the angular error of pictures while the head turns.
///
/// The error is the angle, in degrees, between a picture's direction and the head's direction when the picture becomes
/// visible. It is measured with and without reprojection by the client, for round trips of 0 to 200 ms. A further
/// figure is the cost of reprojection.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// Width and height of the picture of one eye, in pixels
    #[arg(long, default_value_t = 640)]
    eye: u32,
    /// Frame rate of the host and refresh rate of the client's display
    #[arg(long, default_value_t = 90.0)]
    rate: f64,
    /// Speed of the head, in degrees per second
    #[arg(long, default_value_t = 100.0)]
    speed: f64,
    /// Round trips to emulate, in milliseconds
    #[arg(long, value_delimiter = ',', default_value = "0,20,50,100,200")]
    round_trips: Vec<u32>,
    /// Duration of each measurement
    #[arg(long = "duration", value_name = "TIME", default_value = "4s", value_parser = durations::seconds)]
    seconds: f64,
    /// Renderer of the reprojection: software, gl, or software,gl for both; without a GPU, gl also renders on the CPU
    #[arg(long, value_delimiter = ',', default_value = "software", value_parser = ["software", "gl"])]
    with: Vec<String>,
    /// Write reprojection.json into this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// Warm-up before counting.
const WARM_UP: Duration = Duration::from_secs(1);

/// Order statistics of angular errors, in degrees.
#[derive(Clone, Copy, Debug, Serialize)]
struct Degrees {
    pictures: usize,
    p50: f64,
    p95: f64,
    max: f64,
}

impl Degrees {
    fn of(errors: &[f64]) -> Option<Degrees> {
        let mut sizes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
        sizes.sort_by(f64::total_cmp);
        Some(Degrees {
            pictures: sizes.len(),
            p50: percentile(&sizes, 50.0)?,
            p95: percentile(&sizes, 95.0)?,
            max: *sizes.last()?,
        })
    }
}

/// The results for one round-trip time.
#[derive(Debug, Serialize)]
struct Row {
    round_trip_ms: u32,
    without: Option<Degrees>,
    re_aimed: Vec<Reprojected>,
}

/// The results of one reprojection method.
#[derive(Debug, Serialize)]
struct Reprojected {
    with: String,
    degrees: Option<Degrees>,
    /// The client's report of the cost, which names the renderer.
    cost: Option<String>,
}

#[derive(Debug, Serialize)]
struct Report {
    machine: Machine,
    #[serde(rename = "eye_pixels")]
    eye: u32,
    #[serde(rename = "rate_hz")]
    rate: f64,
    #[serde(rename = "speed_degrees_per_s")]
    speed: f64,
    seconds: f64,
    other_cores: f64,
    round_trips: Vec<Row>,
}

/// Measures, prints the results, and writes them to a file if requested.
pub(crate) fn run(args: &Args) -> Result<()> {
    ensure!(
        (64..=2048).contains(&args.eye) && args.eye.is_multiple_of(2),
        UsageError::new("--eye must be an even number from 64 to 2048")
    );
    ensure!(
        (1.0..=240.0).contains(&args.rate)
            && (1.0..=300.0).contains(&args.speed)
            && (0.5..=600.0).contains(&args.seconds),
        UsageError::new("--rate must be 1 to 240, --speed 1 to 300, --duration 0.5s to 10m")
    );
    ensure!(
        args.round_trips.iter().all(|ms| *ms <= 2000),
        UsageError::new("--round-trips must be at most 2000")
    );
    let stop = openuvr_terminal::signals::stop_on_signals()?;
    let before = Load::now();
    let mut round_trips = Vec::new();
    for &round_trip_ms in &args.round_trips {
        let mut row = Row {
            round_trip_ms,
            without: None,
            re_aimed: Vec::new(),
        };
        let ways = args.with.iter().map(|with| Some(with.as_str()));
        for with in std::iter::once(None).chain(ways) {
            eprintln!("bench reprojection: {round_trip_ms} ms, {}", name(with));
            // Use a new display, which does not contain the previous picture.
            let display = VirtualDisplay::start(Size::new(args.eye * 2, args.eye))?;
            let dir = TemporaryDir::new()?;
            let setup = RunSetup {
                eye: Size::new(args.eye, args.eye),
                rate: args.rate,
                speed: args.speed,
                round_trip: Duration::from_millis(round_trip_ms.into()),
                with,
                lasting: Duration::from_secs_f64(args.seconds),
                warm_up: WARM_UP,
                dir: dir.path(),
            };
            let result = run::run(&display, &setup, &stop)?;
            let degrees = Degrees::of(&result.errors);
            match with {
                Some(with) => row.re_aimed.push(Reprojected {
                    with: with.to_owned(),
                    degrees,
                    cost: result.cost,
                }),
                None => row.without = degrees,
            }
        }
        round_trips.push(row);
    }
    let report = Report {
        machine: Machine::this(),
        eye: args.eye,
        rate: args.rate,
        speed: args.speed,
        seconds: args.seconds,
        other_cores: Load::now().since(&before).other_cores,
        round_trips,
    };
    print(&report);
    if let Some(folder) = &args.out {
        write_json(folder, "reprojection", &report)?;
    }
    Ok(())
}

fn name(with: Option<&str>) -> String {
    match with {
        Some(with) => format!("reprojected, {with}"),
        None => "as drawn".to_owned(),
    }
}

fn print(report: &Report) {
    println!(
        "2x{0}x{0} at {1} Hz, head speed {2} degrees per second",
        report.eye, report.rate, report.speed
    );
    println!("round trip                       error, degrees: p50    p95    max  pictures");
    for row in &report.round_trips {
        let line = |with, degrees: Option<Degrees>| {
            let figures = match degrees {
                Some(it) => {
                    let Degrees {
                        pictures,
                        p50,
                        p95,
                        max,
                    } = it;
                    format!("{p50:6.2} {p95:6.2} {max:6.2}  {pictures:8}")
                }
                None => "none seen".to_owned(),
            };
            println!("{:6} ms     {:30} {figures}", row.round_trip_ms, name(with));
        };
        line(None, row.without);
        for way in &row.re_aimed {
            line(Some(&way.with), way.degrees);
        }
    }
    for row in &report.round_trips {
        for cost in row.re_aimed.iter().filter_map(|way| way.cost.as_ref()) {
            println!(
                "round trip {} ms: stereo pictures drawn: {cost}",
                row.round_trip_ms
            );
        }
    }
    println!("other cores      {:.2}", report.other_cores);
}
