//! `openuvr bench sensor`: latency from a sample of a client's inertial sensor to the host.
//!
//! This program provides the sensor: the files of Linux IIO, with a FIFO in place of the character device. A sample's
//! timestamp is the time at which the sample is written. The sensor turns, so that each sample moves the mouse at the
//! host (`--motion mouse`). Host and client use the same clock. The host's record has one such input per frame: the
//! newest one before the capture.
//!
//! The time until the input has arrived at the host is an upper bound of the time until the client has sent it. The
//! sensor's own path into the kernel (I²C, interrupt) is not included.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result};
use openuvr_clock as clock;
use openuvr_proto::time::Instant;
use openuvr_testbed::inertial;
use openuvr_testbed::journey::{self, Row};
use openuvr_testbed::pair::TemporaryDir;
use openuvr_testbed::stats::{Range, Summary};
use rustix::fs::{OFlags, fcntl_setfl};
use serde::Serialize;

use super::case::Stream;
use super::heading::{Heading, print_range, write_json};
use super::rig::{Rig, Source, StreamSetup};
use super::turns::{ComparisonOptions, Turns};
use super::verdict::line;

/// Measure the latency from a sample of a client's inertial sensor to the host.
///
/// The figure is the time from a sample until the mouse motion that it causes has arrived at the host, over the
/// loopback device. It is an upper bound of the time until the client has sent the motion. This bench provides the
/// sensor, with 200 samples per second.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    options: ComparisonOptions,
    /// Write sensor.json into this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// Target for the median latency in ms, from a sample until the client has sent its effect.
const TARGET: f64 = 1.0;

/// The sensor's angular velocity, in digits: 60° per second.
const SPEED: i16 = 1966;

/// Number of samples after which the sensor turns back: one second.
const SWING: i16 = 200;

/// Number of different angular velocities, one digit apart, that the sensor reports in turn. If the sensor repeated one
/// value, the client would treat it as stuck.
const NOISE: i16 = 7;

/// The JSON output.
#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    head: Heading,
    target_ms: f64,
    /// Latency of the inputs of all frames, over all repetitions.
    late_ms: Option<Summary>,
    /// The medians of the repetitions.
    p50_ms: Option<Range>,
    /// The 99th percentiles of the repetitions.
    p99_ms: Option<Range>,
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
        eprintln!("bench sensor: {repetition}/{}", turns.repetitions);
        let (stream, late) = once(args, turns, &stop)?;
        streams.push(stream);
        all.push(late);
    }
    let over = |of: fn(Summary) -> f64| {
        let each = all.iter().filter_map(|late| Summary::of(late).map(of));
        Range::of(&each.collect::<Vec<_>>())
    };
    let pictures = (streams.iter()).filter_map(|stream| Some(stream.case.latency_ms?.p50));
    let report = Report {
        head: Heading::new(&args.options, turns, streams.iter()),
        target_ms: TARGET,
        late_ms: Summary::of(&all.concat()),
        p50_ms: over(|late| late.p50),
        p99_ms: over(|late| late.p99),
        picture_p50_ms: Range::of(&pictures.collect::<Vec<_>>()),
    };
    report.print();
    if let Some(folder) = &args.out {
        write_json(folder, "sensor", &report)?;
    }
    Ok(())
}

fn once(args: &Args, turns: Turns, stop: &AtomicBool) -> Result<(Stream, Vec<f64>)> {
    let dir = TemporaryDir::new()?;
    let (folder, csv) = (dir.path().join("sensor"), dir.path().join("frames.csv"));
    let fifo = sensor(&folder).context("the sensor's files can't be made")?;
    let head = format!("iio:{}", folder.display());
    let more_client = ["--head-pose", &head, "--motion", "mouse"].map(str::to_owned);
    let mut rig = Rig::start(turns.setup(args.options.size, args.options.scene_fps), stop)?;
    let over = AtomicBool::new(false);
    let stream = std::thread::scope(|scope| {
        scope.spawn(|| swing(&fifo, &over));
        let stream = rig.stream(&StreamSetup {
            source: Source::Screen,
            cable: None,
            impaired: None,
            fps: args.options.scene_fps.floor().max(1.0),
            bitrate: &args.options.bitrate,
            seconds: turns.seconds,
            presses: 0,
            compare: false,
            dir: dir.path(),
            csv: &csv,
            sound: None,
            pads: None,
            more_host: &[],
            more_client: &more_client,
        });
        over.store(true, Ordering::Relaxed);
        stream
    })?;
    let record = std::fs::read_to_string(&csv)
        .with_context(|| format!("can't read the host's record {}", csv.display()))?;
    let late = late(&journey::parse(&record)?, stream.case.window);
    Ok((stream, late))
}

/// Makes the sensor's files. The returned FIFO is non-blocking, because after the client has ended, nothing reads it.
fn sensor(folder: &Path) -> std::io::Result<File> {
    let fifo = inertial::make(folder)?;
    fcntl_setfl(&fifo, OFlags::RDWR | OFlags::NONBLOCK)?;
    Ok(fifo)
}

/// Swings the sensor around its vertical axis until `over` is set.
fn swing(mut fifo: &File, over: &AtomicBool) {
    let mut due = clock::now();
    for n in (0..2 * SWING * NOISE).cycle() {
        due = Instant(due.0 + inertial::PERIOD);
        clock::sleep_until(due);
        if over.load(Ordering::Relaxed) {
            return;
        }
        let digits = SPEED + n % NOISE;
        let digits = if n % (2 * SWING) < SWING {
            digits
        } else {
            -digits
        };
        // If the FIFO is full, the sample is lost.
        let _ = fifo.write_all(&inertial::sample(digits, clock::now().0));
    }
}

/// From sample to arrival at the host, in ms, for each frame that was captured within `window` and is the first to show
/// an input.
fn late(rows: &[Row], window: [Instant; 2]) -> Vec<f64> {
    let of = |row: &Row| {
        let captured = row.at("Captured")?;
        let counts = (window[0].0..window[1].0).contains(&captured);
        // The motion-to-photon latency lasts from the sample to the last stage.
        let last = row.at("Presented").or(row.at("Submitted"))?;
        let sampled = last - row.motion_to_photon?;
        let arrived = row.at("InputReceived")?;
        counts.then_some((arrived - sampled) as f64 / 1e6)
    };
    rows.iter().filter_map(of).collect()
}

impl Report {
    fn print(&self) {
        self.head.print("sensor", "");
        println!();
        match self.late_ms {
            Some(s) => println!(
                "{:<36} p50 {:.2} ms, p90 {:.2}, p99 {:.2}, {:.2} to {:.2}, of {}",
                "sample to arrival at the host", s.p50, s.p90, s.p99, s.min, s.max, s.count
            ),
            None => println!("no sample of the sensor arrived at the host"),
        }
        print_range("p50 of the repetitions, ms", self.p50_ms.as_ref());
        print_range("p99 of the repetitions, ms", self.p99_ms.as_ref());
        print_range(
            "video latency meanwhile, p50 ms",
            self.picture_p50_ms.as_ref(),
        );
        println!("\n{}", self.verdict());
    }

    fn verdict(&self) -> String {
        let what = "sample to arrival at the host, p50";
        let measured = self.late_ms.map(|s| s.p50);
        line(what, measured, self.target_ms, "ms", self.head.withheld())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "subscriber,frame,outcome,stage,cause,InputReceived_ns,Captured_ns,Converted_ns,FirstSlice_ns,\
        Encoded_ns,FirstSent_ns,LastSent_ns,FirstReceived_ns,Recoverable_ns,Decoded_ns,Submitted_ns,Presented_ns,\
        datagrams,bytes,motion_to_photon_ns";

    /// A row with these times in µs.
    fn row(
        received: &str,
        captured: &str,
        submitted: &str,
        presented: &str,
        photon: &str,
    ) -> String {
        let ns = |us: &str| {
            if us.is_empty() {
                String::new()
            } else {
                format!("{us}000")
            }
        };
        let [received, captured, submitted, presented, photon] =
            [received, captured, submitted, presented, photon].map(ns);
        format!(
            "1,7,complete,,,{received},{captured},,,,,,,,,{submitted},{presented},2,100,{photon}"
        )
    }

    #[test]
    fn a_sample_is_timed_from_the_photon_backwards() {
        let text = [
            HEADER.to_owned(),
            // Sampled at 1000 µs.
            row("1300", "5000", "9000", "", "8000"),
            // Sampled at 11000 µs.
            row("11500", "15000", "19000", "20000", "9000"),
            // No new input, not displayed, and outside of the window.
            row("", "25000", "29000", "", ""),
            row("31000", "35000", "", "", ""),
            row("41000", "95000", "99000", "", "60000"),
        ]
        .join("\n");
        let rows = journey::parse(&text).expect("a record");
        let window = [Instant(0), Instant(90_000_000)];
        assert_eq!(late(&rows, window), [0.3, 0.5]);
    }

    #[test]
    fn samples_do_not_block_without_a_client() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut fifo = sensor(folder.path()).expect("its files");
        let bytes = inertial::sample(SPEED, 0);
        let lost = (0..100_000).find(|_| fifo.write_all(&bytes).is_err());
        assert!(lost.is_some());
    }
}
