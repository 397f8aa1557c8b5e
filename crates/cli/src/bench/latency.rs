//! `openuvr bench latency`: how long from drawn to visible, and from a key press to its effect.
//!
//! Two virtual displays; the scene on the first; on the second either the copier (the floor) or
//! our client, fed by our host. A reader takes the bar codes off the second display. Sender and
//! receiver are on one machine and one clock, so this is the software's share: no panel, no radio.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use openuvr_proto::units::Size;

use super::floor::Copier;
use super::journey;
use super::machine::{self, Load, Machine};
use super::reader::{Reader, Sighting};
use super::report::{Case, Report, Sample, Setting, Stream, Targets};
use super::sched::{Part, Sched};
use super::stats::{Frames, Summary};
use crate::child::Child;
use crate::clock;
use crate::display::VirtualDisplay;
use crate::pair::{self, Pair, TemporaryDir};
use crate::picture_match::{History, Shot, psnr};
use crate::screen::Screen;

/// Measure drawn-to-visible and input-to-visible latency from pixels.
///
/// Starts two virtual displays, the scene on one, and compares on the other what a codec-less
/// copier reaches (the floor) with what host and client reach, once at 1280x720 with 10 Mb/s and
/// once at 1920x1080 with 20 Mb/s. The scene runs at 60.25 frames a second, so that within four
/// seconds each phase against a 60 Hz clock occurs.
///
/// Only frames that the host's record calls whole count. Percentiles are nearest ranks. A run
/// during which other processes used more than 0.1 core gives multiples of the floor instead of
/// milliseconds and no verdict: measure on a quiet machine.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// What to measure
    #[arg(long, value_delimiter = ',', default_value = "720p,1080p")]
    cases: Vec<Preset>,
    /// Measure this size instead; there are no targets for it
    #[arg(long, value_parser = crate::size, conflicts_with = "cases")]
    size: Option<Size>,
    /// Bitrate given to the host (default: what the case or, for --size, 720p is given)
    #[arg(long)]
    bitrate: Option<String>,
    /// Seconds to measure the floor, and the stream, of each case
    #[arg(long, default_value_t = 20)]
    seconds: u32,
    /// Key presses to measure on each display; 0 measures none
    #[arg(long, default_value_t = 50)]
    presses: u32,
    /// Two seconds, four presses: shows that it works; the figures mean little
    #[arg(long, conflicts_with_all = ["seconds", "presses"])]
    quick: bool,
    /// Frames a second that the host may send
    #[arg(long, default_value_t = 60.0)]
    fps: f64,
    /// Frames a second of the scene
    #[arg(long, default_value_t = 60.25)]
    scene_fps: f64,
    /// Real-time scheduling of displays, reader, copier, host and client
    #[arg(long, value_enum, default_value = "auto")]
    sched: Sched,
    /// Measure only the floor
    #[arg(long)]
    floor_only: bool,
    /// Write every sample and figure to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Keep the host's record of each frame here (one case only)
    #[arg(long, value_name = "FILE")]
    host_csv: Option<PathBuf>,
    /// One more word for the host's command line; may be repeated
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    host_arg: Vec<String>,
    /// One more word for the client's command line; may be repeated
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
}

/// How long the first frame of a case may take.
const FIRST_FRAME: Duration = Duration::from_secs(15);
/// What is left out at the start of a case: caches, rate control and schedulers settle.
const WARM_UP: Duration = Duration::from_secs(2);
/// Frames compared for the PSNR; the targets ask for ten at least.
const COMPARED: usize = 20;

/// Measures, prints, and writes the samples.
pub(crate) fn run(args: &Args) -> Result<()> {
    ensure!(args.seconds >= 1, "--seconds must be at least 1");
    let settings = settings(args);
    ensure!(
        args.host_csv.is_none() || settings.len() == 1,
        "--host-csv keeps one record: choose one of --cases"
    );
    let stop = crate::stop_on_signals()?;
    let mut reports = Vec::new();
    for setting in settings {
        let mut report = Report::new(Machine::this(), setting);
        let bench = Bench::start(args, &report.setting, &stop)?;
        let outcome = bench.measure_all(&mut report);
        // The floor stands by itself.
        report.print();
        outcome?;
        reports.push(report);
    }
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&reports)?;
        std::fs::write(path, text).with_context(|| format!("can't write {}", path.display()))?;
    }
    Ok(())
}

fn settings(args: &Args) -> Vec<Setting> {
    let setting = |name: &str, size: Size, bitrate: &str, targets: Targets| Setting {
        name: name.to_owned(),
        size: size.to_string(),
        pixels: size,
        fps: args.fps,
        scene_fps: args.scene_fps,
        bitrate: args.bitrate.clone().unwrap_or_else(|| bitrate.to_owned()),
        seconds: if args.quick { 2 } else { args.seconds },
        presses: if args.quick { 4 } else { args.presses },
        real_time: args.sched == Sched::Auto,
        targets,
    };
    if let Some(size) = args.size {
        return vec![setting(&size.to_string(), size, "10M", Targets::default())];
    }
    let preset = |preset: &Preset| match preset {
        Preset::P720 => {
            let targets = Targets {
                p50_ms: Some(8.0),
                p99_ms: Some(14.0),
                reaction_ms: Some(10.0),
                cores: Some(0.6),
                wire_mbps: Some(10.0),
                psnr_db: Some(37.0),
            };
            setting("720p", Size::new(1280, 720), "10M", targets)
        }
        Preset::P1080 => {
            let targets = Targets {
                p50_ms: Some(12.0),
                wire_mbps: Some(20.0),
                ..Targets::default()
            };
            setting("1080p", Size::new(1920, 1080), "20M", targets)
        }
    };
    args.cases.iter().map(preset).collect()
}

/// The displays and the scene, which floor and stream share.
struct Bench<'a> {
    args: &'a Args,
    setting: Setting,
    stop: &'a AtomicBool,
    scene: Child,
    near: VirtualDisplay,
    far: VirtualDisplay,
}

impl<'a> Bench<'a> {
    fn start(args: &'a Args, setting: &Setting, stop: &'a AtomicBool) -> Result<Bench<'a>> {
        let near = VirtualDisplay::start(setting.pixels)?;
        let far = VirtualDisplay::start(setting.pixels)?;
        for display in [&near, &far] {
            args.sched.raise(display.id(), Part::Display);
        }
        let scene = pair::scene(near.name(), setting.pixels, args.scene_fps)?;
        Ok(Bench {
            args,
            setting: setting.clone(),
            stop,
            scene,
            near,
            far,
        })
    }

    fn measure_all(&self, report: &mut Report) -> Result<()> {
        report.application_reaction_ms = self.application_reaction()?;
        report.floor = Some(self.floor()?);
        if !self.args.floor_only {
            report.stream = Some(self.stream()?);
        }
        Ok(())
    }

    /// How long the scene itself takes to show a press: its wait for the next frame and that
    /// frame's drawing. Nothing streams meanwhile.
    fn application_reaction(&self) -> Result<Vec<f64>> {
        let reader = Reader::start_as(self.near.name(), self.args.sched)?;
        self.first_frame(&reader, &mut || Ok(()))?;
        self.reactions(self.near.name(), &reader)
    }

    fn floor(&self) -> Result<Case> {
        let copier = Copier::start_as(self.near.name(), self.far.name(), self.args.sched)?;
        let reader = Reader::start_as(self.far.name(), self.args.sched)?;
        let case = self.measure(&reader, &[], &mut || Ok(()))?;
        copier.stop()?;
        Ok(case)
    }

    fn stream(&self) -> Result<Stream> {
        let dir = TemporaryDir::new()?;
        let own_csv = dir.path().join("frames.csv");
        let csv = self.args.host_csv.as_ref().unwrap_or(&own_csv);
        let (mut more_host, mut more_client) =
            (self.args.host_arg.clone(), self.args.client_arg.clone());
        if self.args.sched == Sched::Off {
            for more in [&mut more_host, &mut more_client] {
                more.extend(["--realtime".to_owned(), "off".to_owned()]);
            }
        }
        let mut pair = Pair::start(&pair::Options {
            host_display: self.near.name(),
            client_display: self.far.name(),
            fps: self.args.fps,
            bitrate: &self.setting.bitrate,
            dir: dir.path(),
            csv: Some(csv),
            show_host: false,
            more_host: &more_host,
            more_client: &more_client,
        })?;
        let reader = Reader::start_as(self.far.name(), self.args.sched)?;
        let children = [("host", pair.host.id()), ("client", pair.client.id())];
        let case = self.measure(&reader, &children, &mut || pair.check())?;
        let reaction_ms = self.reactions(self.far.name(), &reader)?;
        // Last and by itself: taking whole pictures off both displays is load of its own. The
        // flashes that the presses set off are to have passed.
        self.pass(WARM_UP, &mut || pair.check())?;
        let psnr_db = self.fidelity(&reader)?;
        drop(reader);
        pair.client.stop();
        pair.host.stop();
        let text = std::fs::read_to_string(csv)
            .with_context(|| format!("can't read the host's record {}", csv.display()))?;
        let record = journey::parse(&text)?;
        Ok(with_record(case, &record, reaction_ms, psnr_db))
    }

    fn measure(
        &self,
        reader: &Reader,
        children: &[(&'static str, u32)],
        check: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Case> {
        self.first_frame(reader, check)?;
        self.pass(WARM_UP, check)?;
        let (mark, unreadable, before) = (reader.mark(), reader.unreadable(), Load::now());
        self.pass(Duration::from_secs(self.setting.seconds.into()), check)?;
        let (after, samples) = (Load::now(), reader.since(mark));
        let used = after.since(&before);
        let shared = [
            ("scene", self.scene.id()),
            ("display A", self.near.id()),
            ("display B", self.far.id()),
            ("bench", std::process::id()),
        ];
        let latencies: Vec<f64> = samples.iter().map(Sighting::latency_ms).collect();
        Ok(Case {
            frames: Frames::of(samples.iter().map(|sighting| sighting.frame)),
            latency_ms: Summary::of(&latencies),
            unreadable: reader.unreadable() - unreadable,
            other_cores: used.other_cores,
            cores: children
                .iter()
                .chain(&shared)
                .filter_map(|(name, id)| Some((*name, *used.cores.get(id)?)))
                .collect(),
            loopback_mbps: used.loopback_mbps,
            threads: machine::threads().into_iter().collect(),
            samples: samples
                .into_iter()
                .map(|sighting| Sample {
                    sighting,
                    outcome: None,
                })
                .collect(),
        })
    }

    fn first_frame(&self, reader: &Reader, check: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let until = clock::now() + FIRST_FRAME;
        while reader
            .wait(0, Duration::from_millis(100), |_| true)?
            .is_none()
        {
            self.pass(Duration::ZERO, check)?;
            if clock::now() > until {
                bail!(
                    "no bar code became visible within {} s",
                    FIRST_FRAME.as_secs()
                );
            }
        }
        Ok(())
    }

    /// Lets time pass as long as everybody is well.
    fn pass(&self, span: Duration, check: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let until = clock::now() + span;
        loop {
            if self.stop.load(Ordering::Relaxed) {
                bail!("interrupted");
            }
            check()?;
            let now = clock::now();
            if now >= until {
                return Ok(());
            }
            clock::sleep_until(until.min(now + Duration::from_millis(200)));
        }
    }

    /// Presses a key on `display` again and again, and waits for each to show there.
    fn reactions(&self, display: &str, reader: &Reader) -> Result<Vec<f64>> {
        let keyboard = Screen::open(display)?;
        let mut reactions = Vec::new();
        self.args.sched.raise_me(Part::Injector);
        let _ordinary_again = Lowered(self.args.sched);
        for press in 0..self.setting.presses {
            let before = reader.latest().map(|sighting| sighting.inputs);
            let mark = reader.mark();
            let pressed = clock::now();
            keyboard.press_key()?;
            let changed = |sighting: &Sighting| Some(sighting.inputs) != before;
            if let Some(seen) = reader.wait(mark, Duration::from_secs(2), changed)? {
                let ms = (seen.seen_us as f64 - pressed.0 as f64 / 1000.0) / 1000.0;
                reactions.push(ms);
            }
            // 150 ms let the last press come to rest; the rest meets frames at another phase.
            let apart = Duration::from_micros(150_000 + u64::from(press) * 6_180 % 16_667);
            clock::sleep_until(pressed + apart);
            self.pass(Duration::ZERO, &mut || Ok(()))?;
        }
        Ok(reactions)
    }

    /// Compares pictures of the same frame number on both displays.
    fn fidelity(&self, reader: &Reader) -> Result<Vec<f64>> {
        let Some(area) = reader.area() else {
            return Ok(Vec::new());
        };
        let history = History::start(self.near.name(), None)?;
        let screen = Screen::open(self.far.name())?;
        let mut ratios = Vec::new();
        for _ in 0..3 * COMPARED {
            if ratios.len() == COMPARED {
                break;
            }
            self.pass(Duration::from_millis(90), &mut || Ok(()))?;
            let shown = Shot::take(&screen, area)?;
            let Some(stamp) = shown.stamp else { continue };
            let same = |shot: &Shot| shot.stamp.is_some_and(|other| other.frame == stamp.frame);
            ratios.extend(
                history
                    .shots()
                    .iter()
                    .find(|s| same(s))
                    .and_then(|s| psnr(s, &shown)),
            );
        }
        Ok(ratios)
    }
}

/// Makes the calling thread ordinary when dropped.
struct Lowered(Sched);

impl Drop for Lowered {
    fn drop(&mut self) {
        self.0.lower_me();
    }
}

/// Takes only what was whole, and what the record says of the time of these samples.
fn with_record(
    mut case: Case,
    record: &[journey::Row],
    reaction_ms: Vec<f64>,
    psnr_db: Vec<f64>,
) -> Stream {
    let sightings: Vec<Sighting> = case.samples.iter().map(|s| s.sighting).collect();
    let joined = journey::join(&sightings, record);
    for (sample, row) in case.samples.iter_mut().zip(&joined) {
        sample.outcome = row.map(|row| row.outcome.clone());
    }
    let whole: Vec<f64> = sightings
        .iter()
        .zip(&joined)
        .filter(|(_, row)| row.is_some_and(journey::Row::is_whole))
        .map(|(sighting, _)| sighting.latency_ms())
        .collect();
    case.latency_ms = Summary::of(&whole);
    let steps = journey::steps(&sightings, &joined);
    let ns = |us: u64| i64::try_from(us).unwrap_or(i64::MAX / 1000) * 1000;
    let from = sightings.first().map_or(0, |s| ns(s.seen_us));
    let to = sightings.last().map_or(0, |s| ns(s.seen_us));
    let mut outcomes = BTreeMap::new();
    let mut wire_bytes = 0;
    for row in record {
        if row.at("Captured").is_some_and(|at| at >= from && at < to) {
            *outcomes.entry(row.outcome.clone()).or_insert(0) += 1;
            wire_bytes += row.wire_bytes;
        }
    }
    let seconds = (to - from) as f64 / 1e9;
    Stream {
        not_whole: sightings.len() - whole.len(),
        steps,
        outcomes,
        wire_mbps: (seconds > 0.0).then(|| wire_bytes as f64 * 8.0 / 1e6 / seconds),
        reaction_ms,
        psnr_db,
        case,
    }
}
