//! `openuvr bench quality`: picture quality at the client, as a function of link conditions and coding parameters.
//!
//! The measurements follow GamingAnywhere (MMSys 2013), section 6.3 (network loads, figure 9) and section 6.4 (video
//! quality, figures 10 and 11), and OpenUVR, section IV-B3 (size of a group of pictures).

mod batches;
pub(super) mod clips;
mod condition;
mod feedback;
mod figures;
mod point;
mod recorder;
mod setup;
mod similarity;

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use openuvr_proto::units::Size;
use openuvr_terminal::usage::UsageError;
use openuvr_testbed::display::VirtualDisplay;

use crate::durations;
use crate::result_file;
use clips::{Content, Format, StoredClip};
use condition::{AxisValue, Condition, Vary, point_of};
use figures::{Conditions, Measured, Table};
use setup::Setup;

/// Measure picture quality (PSNR, SSIM) against delay, loss, bandwidth and key frames.
///
/// A host plays a clip with a bar code in each frame. A client displays it on a virtual display, over an emulated link.
/// Each captured frame is compared with the picture that was displayed for it. If a frame did not arrive, it is
/// compared with the picture that was displayed instead, so freezes count.
///
/// PSNR is the PSNR of luma in decibels: 10 log10(255² / mean squared difference). Above 37, differences are hardly
/// visible; below 30, they are obvious. SSIM is the SSIM of luma, from -1 to 1 (equal pictures), in windows of 8x8
/// pixels (Wang 2004). Each figure is given as the mean over all frames, which hides short drops, and as the mean of
/// the worst batch of 150 frames.
///
/// Delay is the round trip, with half of it each way. Loss is independent for each datagram, both ways. The bandwidth
/// is limited both ways, with a queue of 75 kB (50 packets, the default of dummynet, which the GamingAnywhere paper
/// used). The GOP size is the number of frames from one key frame to the next; `none` is the default of openuvr host,
/// with key frames only on demand. The stream's target is --bitrate. Limited bandwidths are measured with adaptive and
/// with constant bitrate. GOP sizes are measured without loss and with a loss of 1 %. --points and --quick omit the
/// measurements with constant bitrate and with loss. The network load includes IP and UDP headers.
///
/// Two other modes follow the OpenUVR paper. --batches measures a long stream over a perfect link, and compares 150
/// frames of every 10 s (section V-D1). --feedback measures a stream over a link with 1 % loss and a round trip of 4
/// ms, without and with the client's feedback (figure 11). Without feedback, the host ignores all reports, and one key
/// frame per second repairs the picture.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  openuvr bench quality --csv quality.csv --json quality.json    all points, for the plots
  openuvr bench quality --batches --json quality-batches.json    ten minutes of each clip, as in
                                                                 the OpenUVR paper

The clips are stored in ~/.cache/openuvr (or $XDG_CACHE_HOME/openuvr), about 1.4 MB per frame at
1280x720. Any film can be used: convert it with ffmpeg -i FILM -pix_fmt yuv420p FILE.y4m")]
pub(crate) struct Args {
    /// Quantities to vary
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "delay,loss,bandwidth,gop"
    )]
    vary: Vec<Vary>,
    /// Only these values of the varied quantity, such as 0,50,100; the value none means unlimited bandwidth, or no
    /// periodic key frame. Only with a single --vary
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', value_parser = point_of)]
    points: Vec<AxisValue>,
    /// A clip to play in addition to the scene: openarena (a match between bots, recorded at the first run), none, or a
    /// .y4m file
    #[arg(long, value_name = "CLIP", default_value = "openarena", value_parser = content)]
    clip: Option<Content>,
    /// Omit the scene
    #[arg(long, conflicts_with = "quick")]
    no_scene: bool,
    /// Instead of varying quantities, measure a batch of 150 frames every 10 s, for this time
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "10m", value_parser = durations::seconds,
        conflicts_with_all = ["feedback", "vary", "points", "seconds", "quick", "csv"])]
    batches: Option<f64>,
    /// Instead of varying quantities, measure a stream with loss, without and with the client's feedback
    #[arg(long, conflicts_with_all = ["vary", "points", "csv"])]
    feedback: bool,
    /// With --feedback: number of measurements of each variant (without and with feedback)
    #[arg(long, value_name = "N", default_value_t = 5, requires = "feedback", conflicts_with = "quick",
        value_parser = clap::value_parser!(u32).range(1..=100))]
    repetitions: u32,
    /// Size of recorded clips (default: 1280x720; 1920x1080 with --batches)
    #[arg(long)]
    size: Option<Size>,
    /// Frames per second (default: 50; with --batches or --feedback 60, as in the OpenUVR paper)
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=200))]
    fps: Option<u32>,
    /// Target bitrate of the stream (default: 3M; with --batches or --feedback 20M, as in the OpenUVR paper)
    #[arg(long)]
    bitrate: Option<String>,
    /// Duration of each measurement
    #[arg(long = "duration", value_name = "TIME", default_value = "6s", value_parser = durations::seconds)]
    seconds: f64,
    /// Smoke test in less than 45 s: few points, two seconds each, only the scene, at 640x360
    #[arg(long, conflicts_with_all = ["seconds", "clip", "size", "vary", "points"])]
    quick: bool,
    /// Seed of the losses
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Real-time scheduling of the link, host and client
    #[arg(long, value_enum, default_value = "auto")]
    sched: openuvr_testbed::sched::Sched,
    /// Write a CSV with a row per point
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write the measured values to this JSON file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Additional argument for the host; may be repeated
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    host_arg: Vec<String>,
}

fn content(text: &str) -> Result<Content, String> {
    match text {
        "none" => Ok(Content::Scene),
        "openarena" => Ok(Content::OpenArena),
        path if path.ends_with(".y4m") => Ok(Content::File(path.into())),
        _ => Err("expected openarena, none, or a file FILE.y4m".into()),
    }
}

/// Measures, prints, and writes the points.
pub(crate) fn run(args: &Args) -> Result<()> {
    ensure!(
        (0.5..=30.0).contains(&args.seconds),
        UsageError::new(
            "--duration must be 0.5s to 30s: all pictures of a point are kept in memory"
        )
    );
    ensure!(
        args.points.is_empty() || args.vary.len() == 1,
        UsageError::new("--points needs exactly one --vary")
    );
    let valid = |vary: Vary| args.points.iter().all(|point| vary.allows(*point));
    ensure!(
        args.vary.iter().copied().all(valid),
        UsageError::new(
            "--points: a delay must be at most 10000 ms, a loss at most 100 %, a bandwidth 1 to 1000 Mb/s, \
             and a GOP 1 to 100000 frames"
        )
    );
    let stop = openuvr_terminal::signals::stop_on_signals()?;
    let contents = args.contents();
    ensure!(
        !contents.is_empty(),
        UsageError::new(
            "--no-scene needs --clip: without the scene, there is nothing else to stream"
        )
    );
    if let Some(seconds) = args.batches {
        return batches::run(args, &contents, seconds, &stop);
    }
    if args.feedback {
        return feedback::run(args, &contents, &stop);
    }
    let mut table = Table::new(Conditions {
        bitrate: args.bitrate().to_owned(),
        fps: args.fps(),
        size: args.format().size,
        seconds: if args.quick { 2.0 } else { args.seconds },
    });
    for clip in clips::find_all(&contents, args.format(), &stop)? {
        println!("{clip}");
        let far = VirtualDisplay::start(clip.size)?;
        table.print_heading(&clip);
        for condition in args.conditions() {
            let content = clip.name.clone();
            match point::measure(&args.setup(&clip, condition)?, &far, &stop) {
                Ok(point) => table.add(Measured {
                    content,
                    condition,
                    point,
                }),
                // The first point has a perfect link, so a failure there is fatal.
                Err(why) if stop.load(Ordering::Relaxed) || table.is_empty() => return Err(why),
                Err(why) => table.miss(content, condition, &why),
            }
        }
    }
    table.print_verdict();
    if let Some(path) = &args.csv {
        std::fs::write(path, table.csv())
            .with_context(|| format!("can't write {}", path.display()))?;
    }
    if let Some(path) = &args.json {
        result_file::write(
            path,
            "bench.quality",
            &table.file(&args.varied(), args.quick),
        )?;
    }
    let missing = table.missing();
    ensure!(
        missing == 0,
        "{missing} points could not be measured: see the reasons above; to measure only these points again, use \
         --vary with --points"
    );
    Ok(())
}

impl Args {
    fn contents(&self) -> Vec<Content> {
        let scene = (!self.no_scene).then_some(Content::Scene);
        let clip = self
            .clip
            .clone()
            .filter(|clip| *clip != Content::Scene && !self.quick);
        scene.into_iter().chain(clip).collect()
    }

    /// Whether the default frame rate and bitrate are those of the OpenUVR paper.
    fn is_openuvrs(&self) -> bool {
        self.feedback || self.batches.is_some()
    }

    fn size(&self) -> Size {
        let usual = match self.batches {
            Some(_) => batches::SIZE,
            None => Size::new(1280, 720),
        };
        self.size.unwrap_or(usual)
    }

    fn fps(&self) -> u32 {
        let usual = if self.is_openuvrs() { batches::FPS } else { 50 };
        self.fps.unwrap_or(usual)
    }

    fn bitrate(&self) -> &str {
        let usual = if self.is_openuvrs() {
            batches::BITRATE
        } else {
            "3M"
        };
        self.bitrate.as_deref().unwrap_or(usual)
    }

    fn format(&self) -> Format {
        let (size, frames) = match self.quick {
            true => (Size::new(640, 360), 60),
            // The clip has two batches of frames. It is played forwards and backwards, so it lasts for four batches.
            false => (self.size(), 300),
        };
        Format {
            size,
            fps: self.fps(),
            frames,
        }
    }

    fn varied(&self) -> Vec<Vary> {
        let mut varied = self.vary.clone();
        varied.sort_unstable();
        varied.dedup();
        varied
    }

    /// All conditions, each once. The first is the best, which is the reference for the others.
    fn conditions(&self) -> Vec<Condition> {
        let mut all = vec![Condition::default()];
        for vary in self.varied() {
            let points = if self.points.is_empty() {
                vary.points(self.quick)
            } else {
                self.points.clone()
            };
            // Explicit points apply only to the first line of a figure.
            let short = self.quick || !self.points.is_empty();
            for condition in vary.conditions(&points, short) {
                if !all.contains(&condition) {
                    all.push(condition);
                }
            }
        }
        all
    }

    fn setup<'a>(&'a self, clip: &'a StoredClip, condition: Condition) -> Result<Setup<'a>> {
        let mut more_host = self.host_arg.clone();
        if let Some(gop) = condition.gop {
            more_host.extend(["--key-frame-interval".to_owned(), gop.to_string()]);
        }
        if condition.constant {
            more_host.extend(["--rate", "constant"].map(String::from));
        }
        Ok(Setup {
            clip: &clip.path,
            size: clip.size,
            fps: f64::from(self.fps()),
            bitrate: self.bitrate(),
            link: condition.link(),
            round_trip: Duration::from_millis(condition.delay_ms.into()),
            seed: self.seed,
            seconds: if self.quick { 2.0 } else { self.seconds },
            real_time: self.sched == openuvr_testbed::sched::Sched::Auto,
            more_host,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use openuvr_proto::units::Bitrate;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        args: Args,
    }

    fn parse(line: &str) -> Args {
        let words = std::iter::once("quality").chain(line.split_whitespace());
        Program::try_parse_from(words).unwrap().args
    }

    #[test]
    fn each_condition_is_measured_once_and_the_best_first() {
        let all = parse("").conditions();
        assert_eq!(all[0], Condition::default());
        for (at, one) in all.iter().enumerate() {
            assert!(!all[at + 1..].contains(one), "{one:?} twice");
        }
        // 7 + 7 + 14 + 14, minus duplicates: the best condition is in each figure, and 1 % loss is in two figures.
        assert_eq!(all.len(), 38);
        assert_eq!(parse("--vary loss").conditions().len(), 7);
        assert_eq!(parse("--quick").conditions().len(), 5);
        let chosen = parse("--vary gop --points 15,none").conditions();
        let gops: Vec<AxisValue> = chosen.iter().map(|condition| condition.gop).collect();
        assert_eq!(gops, [None, Some(15)]);
        assert!(run(&parse("--points 15")).is_err(), "of which axis?");
        assert!(run(&parse("--vary gop --points 0")).is_err());
    }

    #[test]
    fn batches_and_feedback_have_the_conditions_of_their_paper() {
        let of = |line: &str| {
            let args = parse(line);
            let size = args.size().to_string();
            (size, args.fps(), args.bitrate().to_owned(), args.batches)
        };
        let full = ("1920x1080".to_owned(), 60, "20M".to_owned(), Some(600.0));
        assert_eq!(of("--batches"), full);
        assert_eq!(of("").2, "3M");
        assert_eq!(of("--batches 20s --size 640x360").0, "640x360");
        assert_eq!(of("--feedback --quick").2, "20M");
    }

    #[test]
    fn a_delay_is_split_and_both_ways_are_alike() {
        let condition = Condition {
            delay_ms: 300,
            loss_percent: 2,
            mbps: Some(3),
            ..Condition::default()
        };
        let link = condition.link();
        let link = link.last();
        assert_eq!(link.delay, Duration::from_millis(150));
        assert_eq!((link.loss, link.rate), (0.02, Some(Bitrate(3_000_000))));
    }

    #[test]
    fn the_scene_is_included_unless_excluded() {
        assert_eq!(parse("").contents(), [Content::Scene, Content::OpenArena]);
        assert_eq!(parse("--clip none").contents(), [Content::Scene]);
        let own = parse("--no-scene --clip a.y4m").contents();
        assert_eq!(own, [Content::File("a.y4m".into())]);
        assert!(parse("--no-scene --clip none").contents().is_empty());
        assert_eq!(parse("--quick").contents(), [Content::Scene]);
    }
}
