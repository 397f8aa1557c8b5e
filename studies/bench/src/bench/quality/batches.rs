//! `openuvr bench quality --batches`: the picture quality of a long stream, by batches of frames (OpenUVR, section
//! V-D1).
//!
//! The paper records 150 successive frames every 10 s for 10 minutes at both ends, and states the SSIM of each batch.
//! This bench compares each batch before the next one begins, so that only one batch is in memory.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use openuvr_clock as clock;
use openuvr_proto::units::{Bitrate, Size};
use openuvr_terminal::usage::UsageError;
use openuvr_testbed::display::VirtualDisplay;
use serde::Serialize;

use super::Args;
use super::clips::{self, Content, Format, StoredClip};
use super::condition::Condition;
use super::figures::BATCH;
use super::point::{ClipStream, Point};
use super::setup::Setup;
use crate::machine::{Load, Machine, QUIET};
use crate::result_file;

/// The paper's conditions (sections III-A and V-D1): size, bitrate and frame rate.
pub(super) const SIZE: Size = Size::new(1920, 1080);
pub(super) const BITRATE: &str = "20M";
pub(super) const FPS: u32 = 60;

/// A run shorter than this number of seconds is a smoke test, because it has fewer than six batches (guess). The
/// paper's ten minutes may consist of several runs.
const SMOKE: f64 = 60.0;

/// The paper's interval between the beginnings of two batches.
const EVERY: Duration = Duration::from_secs(10);

/// Waiting time after a batch. The reports on the batch's last frames arrive within milliseconds, and the host writes
/// its record once a second.
const WRITTEN: Duration = Duration::from_millis(1500);

/// Number of pictures of a clip. Playing it forwards and backwards takes 13 s at 60 frames/s, so batches every 10 s
/// show different parts of the clip. The paper's game does not repeat its pictures.
pub(super) const CLIP_FRAMES: u32 = 390;

/// The batches of a clip.
#[derive(Debug, Serialize)]
struct Batches {
    content: String,
    clip_sha256: String,
    /// The size of the clip and of the stream.
    size: String,
    #[serde(skip)]
    height: u32,
    /// The beginning of each measured batch, in seconds since the beginning of the first one.
    begin_s: Vec<f64>,
    /// The mean luma PSNR of each measured batch, in decibels.
    psnr: Vec<f64>,
    /// The mean luma SSIM of each measured batch.
    ssim: Vec<f64>,
    /// Number of frames by outcome, over all batches.
    outcomes: BTreeMap<String, u32>,
    /// Number of frames that were displayed, but that the bench missed. They are not compared.
    unseen: u32,
    /// The batches that were not measured, each with the reason.
    missing: Vec<String>,
    /// Number of cores used by processes other than the bench and the processes that it started.
    other_cores: f64,
}

/// The result file. Its fields for the conditions have the same names as in the other modes of `bench quality`.
#[derive(Debug, Serialize)]
struct File {
    size: String,
    height_pixels: u32,
    fps: u32,
    bitrate: String,
    target_mbps: Option<f64>,
    seconds: f64,
    quick: bool,
    other_cores: f64,
    batches: Vec<Batches>,
}

/// Measures batches for `seconds`, prints them, and writes them to the result file.
pub(super) fn run(
    args: &Args,
    contents: &[Content],
    seconds: f64,
    stop: &AtomicBool,
) -> Result<()> {
    let count = count(seconds)?;
    println!("machine  {}", Machine::this());
    println!(
        "batches  {count} of {BATCH} frames, one every {} s; {} frames/s, bitrate {}",
        EVERY.as_secs(),
        args.fps(),
        args.bitrate()
    );
    let format = Format {
        frames: CLIP_FRAMES,
        ..args.format()
    };
    let mut all = Vec::new();
    for clip in clips::find_all(contents, format, stop)? {
        let batches = of_clip(args, &clip, count, stop)?;
        batches.print();
        all.push(batches);
    }
    if let Some(path) = &args.json {
        let target = args.bitrate().parse::<Bitrate>().ok();
        // The clips of --clip may differ in size.
        let smallest = all.iter().min_by_key(|one| one.height);
        let file = File {
            size: smallest.map_or(String::new(), |one| one.size.clone()),
            height_pixels: smallest.map_or(0, |one| one.height),
            fps: args.fps(),
            bitrate: args.bitrate().to_owned(),
            target_mbps: target.map(|target| target.0 as f64 / 1e6),
            seconds: f64::from(count) * EVERY.as_secs_f64(),
            quick: seconds < SMOKE,
            other_cores: all.iter().map(|one| one.other_cores).fold(0.0, f64::max),
            batches: all,
        };
        result_file::write(path, "bench.quality", &file)?;
    }
    Ok(())
}

/// Number of batches in this time.
fn count(seconds: f64) -> Result<u32> {
    ensure!(
        (10.0..=86_400.0).contains(&seconds),
        UsageError::new("--batches must be 10s to 24h: a batch begins every 10 s")
    );
    Ok((seconds / EVERY.as_secs_f64()) as u32)
}

fn of_clip(args: &Args, clip: &StoredClip, count: u32, stop: &AtomicBool) -> Result<Batches> {
    println!("{clip}");
    let far = VirtualDisplay::start(clip.size)?;
    let setup = Setup {
        seconds: BATCH as f64 / f64::from(args.fps()),
        ..args.setup(clip, Condition::default())?
    };
    measure(&setup, clip, &far, (count, stop))
}

fn measure(
    setup: &Setup<'_>,
    clip: &StoredClip,
    far: &VirtualDisplay,
    (count, stop): (u32, &AtomicBool),
) -> Result<Batches> {
    let mut batches = Batches::of(clip);
    let mut stream = ClipStream::start(setup, far, stop)?;
    let load = Load::now();
    let begin = clock::now();
    for batch in 0..count {
        stream.pass_until(begin + EVERY * batch)?;
        let begin_s = clock::now().since(begin).as_secs_f64();
        stream.record()?;
        stream.pass(WRITTEN + setup.round_trip)?;
        let measured = batches.ssim.len();
        match stream.judge_recorded() {
            Ok(point) => batches.add(begin_s, &point),
            Err(why) => batches
                .missing
                .push(format!("batch {}: {why:#}", batch + 1)),
        }
        ensure!(!stop.load(Ordering::Relaxed), "interrupted");
        if let Some(ssim) = batches.ssim.get(measured) {
            eprintln!(
                "bench quality: batch {} of {count}: SSIM {ssim:.3}",
                batch + 1
            );
        }
    }
    ensure!(
        !batches.ssim.is_empty(),
        "no batch could be measured: {}",
        batches.missing.join("; ")
    );
    batches.other_cores = Load::now().since(&load).other_cores;
    Ok(batches)
}

impl Batches {
    fn of(clip: &StoredClip) -> Batches {
        Batches {
            content: clip.name.clone(),
            clip_sha256: clip.sha256.clone(),
            size: clip.size.to_string(),
            height: clip.size.height,
            begin_s: Vec::new(),
            psnr: Vec::new(),
            ssim: Vec::new(),
            outcomes: BTreeMap::new(),
            unseen: 0,
            missing: Vec::new(),
            other_cores: 0.0,
        }
    }

    fn add(&mut self, begin_s: f64, point: &Point) {
        if let (Some(psnr), Some(ssim)) = (mean(&point.psnr), mean(&point.ssim)) {
            self.begin_s.push(begin_s);
            self.psnr.push(psnr);
            self.ssim.push(ssim);
        } else {
            let why = "no picture was seen";
            self.missing.push(format!("batch at {begin_s:.0} s: {why}"));
        }
        for (outcome, frames) in &point.outcomes {
            *self.outcomes.entry(outcome.clone()).or_insert(0) += frames;
        }
        self.unseen += point.unseen;
    }

    fn print(&self) {
        let line = |what: &str, values: &[f64], digits: usize| {
            let (least, most) = values.iter().fold(
                (f64::INFINITY, f64::NEG_INFINITY),
                |(least, most), value| (least.min(*value), most.max(*value)),
            );
            let mean = mean(values).unwrap_or(f64::NAN);
            println!(
                "{what}     mean {mean:.digits$}, best batch {most:.digits$}, worst batch {least:.digits$}"
            );
        };
        println!("{}: {} batches", self.content, self.ssim.len());
        line("SSIM", &self.ssim, 3);
        line("PSNR", &self.psnr, 1);
        for missing in &self.missing {
            println!("missing  {missing}");
        }
        if self.other_cores > QUIET {
            println!(
                "NOT QUIET: other processes used {:.1} cores; the figures are unreliable",
                self.other_cores
            );
        }
    }
}

/// The mean; `None` without values.
fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_begins_every_ten_seconds() {
        assert_eq!(count(600.0).unwrap(), 60);
        assert_eq!(count(19.0).unwrap(), 1);
        assert!(count(9.0).is_err());
    }

    #[test]
    fn each_batch_has_one_mean() {
        let clip = StoredClip {
            name: "scene".into(),
            path: "/nowhere.y4m".into(),
            size: SIZE,
            frames: CLIP_FRAMES,
            sha256: String::new(),
        };
        let mut batches = Batches::of(&clip);
        let unseen = Point {
            unseen: 150,
            ..Point::default()
        };
        // A batch without a seen picture has no mean.
        batches.add(0.0, &unseen);
        assert_eq!(batches.missing, ["batch at 0 s: no picture was seen"]);
        for (begin_s, ssim) in [(10.0, 0.9), (20.0, 0.7)] {
            let seen = Point {
                psnr: vec![30.0; 150],
                ssim: vec![ssim; 150],
                outcomes: [("complete".to_owned(), 150)].into(),
                ..Point::default()
            };
            batches.add(begin_s, &seen);
        }
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(near(batches.ssim[0], 0.9) && near(batches.ssim[1], 0.7));
        assert_eq!((batches.ssim.len(), batches.psnr.len()), (2, 2));
        assert_eq!(batches.begin_s, [10.0, 20.0]);
        assert_eq!((batches.outcomes["complete"], batches.unseen), (300, 150));
    }

    #[test]
    fn batches_every_ten_seconds_show_different_parts() {
        use openuvr_media::capture::clip::picture_index;
        let frames = EVERY.as_secs() as u32 * FPS;
        let starts = (0..60).map(|batch| picture_index(1 + batch * frames, CLIP_FRAMES));
        let different: std::collections::BTreeSet<u32> = starts.collect();
        assert!(different.len() > 20, "{different:?}");
    }
}
