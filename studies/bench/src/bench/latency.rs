//! `openuvr bench latency`: latency from drawn to visible, and from a key press to its effect.
//!
//! The bench uses two virtual displays. The scene is on the first display. On the second display is either the copier
//! (the floor), or OpenUVR's client, which is connected to OpenUVR's host. A reader decodes the bar codes on the second
//! display. Sender and receiver are on one machine with one clock, so the result is the software's share of the
//! latency, without panel and radio. The same run also measures the codec by itself, on pictures of the same scene
//! ([`super::codec`]).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use openuvr_proto::units::Size;
use openuvr_terminal::usage::UsageError;
use openuvr_testbed::pair::TemporaryDir;
use openuvr_testbed::sched::Sched;
use serde::Serialize;

use super::case::Sample;
use super::codec::{self, CodecSetup};
use super::report::{Report, Setting, Target, Targets};
use super::report_text;
use super::rig::{Rig, Setup, Source, StreamSetup};
use super::verdict::{JudgedReport, LEAST_COMPLETE};
use crate::durations;
use crate::machine::Machine;
use crate::result_file;

/// Measure drawn-to-visible and input-to-visible latency from pixels.
///
/// Starts two virtual displays, with the scene on the first. The second shows the scene's pictures, transferred first
/// by a copier without a codec, whose latency is the floor, and then by host and client. The default cases are 1280x720
/// with 10 Mb/s, 1920x1080 with 20 Mb/s, and 1280x720 as strips of JPEG; --cases selects other cases, such as
/// 2560x1440, or 120 frames per second. The scene runs at 60.25 frames per second, so that each phase relative to a 60
/// Hz clock occurs within four seconds.
///
/// Codec time is measured in the same run, on pictures of the same scene. Serial time is the total time of these steps,
/// one after another: encoding with x264 (one slice, x264's own constant bitrate, a buffer of one frame), decoding of
/// the whole picture, and both colour conversions. The pipeline is rated by the ratio (end to end - floor) / serial: 1
/// means no overlap and no additional delay.
///
/// Only frames that the host recorded as complete are evaluated. Percentiles use the nearest-rank method. The frames
/// due are the frames that the scene drew (read from the scene's display), up to the number that the host may send. If
/// fewer than 99 % of the frames due are complete, nothing else is judged. If the scene drew too slowly, neither CPU
/// use nor bitrate is judged. If other processes used more than 0.1 core, the run prints multiples of the floor instead
/// of milliseconds, and judges only bitrate and PSNR: measure on a quiet machine.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// Cases to measure
    #[arg(long, value_delimiter = ',', default_value = "720p,1080p,jpeg")]
    cases: Vec<Preset>,
    /// Measure this size instead of the cases; its results are not compared with targets
    #[arg(long, conflicts_with = "cases")]
    size: Option<Size>,
    /// Bitrate of the host (default: the bitrate of the case or, with --size, of 720p)
    #[arg(long)]
    bitrate: Option<String>,
    /// Duration of each of the two measurements of a case: the floor and the stream
    #[arg(long = "duration", value_name = "TIME", default_value = "20s", value_parser = durations::whole_seconds)]
    seconds: u32,
    /// Number of key presses to measure on each display (0: none)
    #[arg(long, default_value_t = 50)]
    presses: u32,
    /// Smoke test with two seconds and four presses; the figures are unreliable
    #[arg(long, conflicts_with_all = ["seconds", "presses"])]
    quick: bool,
    /// Capture method
    #[arg(long, value_enum, default_value = "x11")]
    source: CaptureMethod,
    /// Frames per second of the host
    #[arg(long, default_value_t = 60.0)]
    fps: f64,
    /// Frames per second of the scene
    #[arg(long, default_value_t = 60.25)]
    scene_fps: f64,
    /// Real-time scheduling of displays, reader, copier, host and client
    #[arg(long, value_enum, default_value = "auto")]
    sched: Sched,
    /// Measure only the floor
    #[arg(long)]
    floor_only: bool,
    /// Write the figures to this file, and a row for each visible frame to the CSV file of the same name
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the host's record of each frame to this file (one case only)
    #[arg(long, value_name = "FILE")]
    host_csv: Option<PathBuf>,
    /// Additional argument for the host; may be repeated
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    host_arg: Vec<String>,
    /// Additional argument for the client; may be repeated
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    client_arg: Vec<String>,
}

/// A case with targets.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Preset {
    /// 1280x720, 10 Mb/s
    #[value(name = "720p")]
    P720,
    /// 1920x1080, 20 Mb/s
    #[value(name = "1080p")]
    P1080,
    /// 1280x720 as strips of JPEG, 60 Mb/s
    Jpeg,
    /// 2560x1440, 30 Mb/s
    #[value(name = "1440p")]
    P1440,
    /// 1280x720, 10 Mb/s, at twice the frame rate
    #[value(name = "720p120")]
    P720Fast,
}

/// Capture methods.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum CaptureMethod {
    /// A host captures the scene's display
    X11,
    /// `openuvr run` starts the scene, and the host is in the scene's process
    Hook,
    /// The scene streams itself through the C API, from a pixel buffer
    Capi,
}

impl From<CaptureMethod> for Source {
    fn from(method: CaptureMethod) -> Source {
        match method {
            CaptureMethod::X11 => Source::Screen,
            CaptureMethod::Hook => Source::Hook,
            CaptureMethod::Capi => Source::Api { synchronous: false },
        }
    }
}

/// Warm-up of a case, during which caches, rate control and schedulers settle.
const WARM_UP: Duration = Duration::from_secs(2);
/// Warm-up of a smoke test.
const QUICK_WARM_UP: Duration = Duration::from_millis(500);
/// Number of frames that are compared for the PSNR. The targets require at least ten.
const COMPARED: usize = 20;

/// The host's default encoder. The serial time is defined for this encoder.
const DEFAULT_ENCODER: &str = "x264";

/// Measures the cases, prints the results, and writes them to files if requested.
pub(crate) fn run(args: &Args) -> Result<()> {
    ensure!(
        args.seconds >= 1,
        UsageError::new("--duration must be at least 1s")
    );
    let settings = settings(args);
    ensure!(
        args.host_csv.is_none() || settings.len() == 1,
        UsageError::new(
            "--host-csv keeps the record of one case: choose a single case with --cases"
        )
    );
    let stop = openuvr_terminal::signals::stop_on_signals()?;
    let (mut reports, mut failed) = (Vec::new(), Vec::new());
    for setting in settings {
        let mut report = Report::new(Machine::this(), setting);
        let outcome = measure(args, &mut report, &stop);
        // If the measurement failed, the measured floor and the other cases remain valid.
        report_text::print(&report);
        if let Err(error) = outcome {
            let name = &report.setting.name;
            eprintln!("openuvr bench latency: {name}: {error:#}");
            failed.push(name.clone());
        }
        reports.push(report);
        ensure!(!stop.load(Ordering::Relaxed), "interrupted");
    }
    if let Some(path) = &args.json {
        write(path, &reports, &failed)?;
    }
    let failed = failed.join(", ");
    ensure!(failed.is_empty(), "failed cases: {failed}");
    Ok(())
}

/// Writes the result file. Next to it, writes a file that lists the frames seen.
fn write(path: &Path, reports: &[Report], failed: &[String]) -> Result<()> {
    let csv = path.with_extension("csv");
    let name = csv
        .file_name()
        .context("the path of --json has no file name")?;
    let file = ResultFile {
        samples_csv: name.to_string_lossy().into_owned(),
        incomplete: failed,
        cases: reports.iter().map(JudgedReport::of).collect(),
    };
    result_file::write(path, "bench.latency", &file)?;
    let rows = reports.iter().flat_map(|report| {
        let name = &report.setting.name;
        let samples = report.cases().flat_map(|(part, case)| {
            let samples = case.samples.iter();
            samples.map(move |sample| (part, sample))
        });
        samples.map(move |(part, Sample { sighting, outcome })| {
            let latency = format!("{:.3}", sighting.latency_ms());
            let numbers = [sighting.drawn_us, sighting.seen_us].map(|us| us.to_string());
            let [drawn, seen] = numbers;
            let outcome = outcome.clone().unwrap_or_default();
            let frame = sighting.frame.to_string();
            vec![
                name.clone(),
                part.to_owned(),
                frame,
                drawn,
                seen,
                latency,
                outcome,
            ]
        })
    });
    result_file::write_csv(&csv, &SAMPLE_HEADS, rows)
}

const SAMPLE_HEADS: [&str; 7] = [
    "case",
    "part",
    "frame",
    "drawn_us",
    "seen_us",
    "latency_ms",
    "outcome",
];

#[derive(Serialize)]
struct ResultFile<'a> {
    /// Name of the file that lists the frames seen.
    samples_csv: String,
    /// Names of the cases that failed. Their figures are missing.
    incomplete: &'a [String],
    cases: Vec<JudgedReport<'a>>,
}

fn settings(args: &Args) -> Vec<Setting> {
    let setting = |name: &str, size: Size, encoder: &str, bitrate: &str, targets| Setting {
        name: name.to_owned(),
        size: size.to_string(),
        pixels: size,
        fps: args.fps,
        scene_fps: args.scene_fps,
        encoder: encoder.to_owned(),
        bitrate: args.bitrate.clone().unwrap_or_else(|| bitrate.to_owned()),
        seconds: if args.quick { 2 } else { args.seconds },
        presses: if args.quick { 4 } else { args.presses },
        real_time: args.sched == Sched::Auto,
        quick: args.quick,
        targets,
    };
    if let Some(size) = args.size {
        let name = size.to_string();
        return vec![setting(
            &name,
            size,
            DEFAULT_ENCODER,
            "10M",
            Targets::default(),
        )];
    }
    let hd = Size::new(1280, 720);
    let within = |p50_ms, p99_ms| Targets {
        p50_ms: Target::at(p50_ms),
        p99_ms: Target::at(p99_ms),
        complete: Target::at(LEAST_COMPLETE),
        ..Targets::default()
    };
    let preset = |preset: &Preset| match preset {
        Preset::P720 => {
            let targets = Targets {
                p50_ms: Target::aiming(6.2, 5.5),
                p99_ms: Target::aiming(10.0, 9.0),
                reaction_ms: Target::at(10.0),
                ratio: Target::aiming(0.85, 0.75),
                cores: Target::at(0.42),
                wire_mbps: Target::at(10.0),
                psnr_db: Target::at(37.0),
                complete: Target::at(LEAST_COMPLETE),
            };
            setting("720p", hd, DEFAULT_ENCODER, "10M", targets)
        }
        Preset::P1080 => {
            let targets = Targets {
                ratio: Target::aiming(0.85, 0.75),
                wire_mbps: Target::at(20.0),
                ..within(10.0, 15.0)
            };
            setting(
                "1080p",
                Size::new(1920, 1080),
                DEFAULT_ENCODER,
                "20M",
                targets,
            )
        }
        Preset::Jpeg => setting("jpeg", hd, "jpeg", "60M", within(3.5, 6.0)),
        Preset::P1440 => {
            let size = Size::new(2560, 1440);
            setting("1440p", size, DEFAULT_ENCODER, "30M", within(7.5, 9.0))
        }
        Preset::P720Fast => Setting {
            fps: 2.0 * args.fps,
            scene_fps: 2.0 * args.scene_fps,
            ..setting("720p120", hd, DEFAULT_ENCODER, "10M", within(3.0, 5.0))
        },
    };
    args.cases.iter().map(preset).collect()
}

/// Measures one case: the floor, the stream, and the codec by itself.
fn measure(args: &Args, report: &mut Report, stop: &Arc<AtomicBool>) -> Result<()> {
    let setting = report.setting.clone();
    let setup = Setup {
        size: setting.pixels,
        scene_fps: setting.scene_fps,
        sched: args.sched,
        warm_up: if setting.quick {
            QUICK_WARM_UP
        } else {
            WARM_UP
        },
        compared: COMPARED,
    };
    let mut rig = Rig::start(setup, stop)?;
    report.application_reaction_ms = rig.application_reaction(setting.presses)?;
    let seconds = f64::from(setting.seconds);
    report.floor = Some(rig.floor(seconds)?);
    if args.floor_only {
        return Ok(());
    }
    let dir = TemporaryDir::new()?;
    let own_csv = dir.path().join("frames.csv");
    let mut more_host = Vec::new();
    if setting.encoder != DEFAULT_ENCODER {
        more_host.extend(["--encoder".to_owned(), setting.encoder.clone()]);
    }
    more_host.extend(args.host_arg.iter().cloned());
    report.stream = Some(rig.stream(&StreamSetup {
        source: args.source.into(),
        cable: None,
        impaired: None,
        fps: setting.fps,
        bitrate: &setting.bitrate,
        seconds,
        presses: setting.presses,
        compare: true,
        dir: dir.path(),
        csv: args.host_csv.as_ref().unwrap_or(&own_csv),
        sound: None,
        pads: None,
        more_host: &more_host,
        more_client: &args.client_arg,
    })?);
    // The serial time is defined for x264 only.
    if setting.encoder == DEFAULT_ENCODER {
        let bitrate = openuvr_sim::script::rate(&setting.bitrate).map_err(|e| anyhow!(e))?;
        let film = rig.film()?;
        drop(rig);
        let how = CodecSetup {
            fps: setting.fps,
            bitrate,
            frames: (seconds / 4.0 * setting.fps).clamp(60.0, 600.0) as u32,
            sched: args.sched,
        };
        report.codec = Some(codec::measure(&film, how, stop)?);
    }
    Ok(())
}
