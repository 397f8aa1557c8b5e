//! `openuvr bench latency`: how long from drawn to visible, and from a key press to its effect.
//!
//! Two virtual displays; the scene on the first; on the second either the copier (the floor) or
//! our client, fed by our host. A reader takes the bar codes off the second display. Sender and
//! receiver are on one machine and one clock, so this is the software's share: no panel, no radio.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use openuvr_proto::units::Size;
use serde::Serialize;

use super::floor::Copier;
use super::machine::{self, Load, Machine, Thread};
use super::reader::{Reader, Sighting};
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
/// copier reaches (the floor) with what host and client reach. The scene runs at 60.25 frames a
/// second, so that within four seconds each phase against a 60 Hz clock occurs.
///
/// Percentiles are nearest ranks. A run during which other processes used more than 0.1 core gives
/// multiples of the floor instead of milliseconds: measure on a quiet machine.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// Seconds to measure in each case
    #[arg(long, default_value_t = 20)]
    seconds: u32,
    /// Size of both displays and of the scene
    #[arg(long, default_value = "1280x720", value_parser = crate::size)]
    size: Size,
    /// Frames a second that the host may send
    #[arg(long, default_value_t = 60.0)]
    fps: f64,
    /// Frames a second of the scene
    #[arg(long, default_value_t = 60.25)]
    scene_fps: f64,
    /// Bitrate given to the host
    #[arg(long, default_value = "10M")]
    bitrate: String,
    /// Measure only the floor
    #[arg(long)]
    floor_only: bool,
    /// Key presses to measure in each case; 0 measures none
    #[arg(long, default_value_t = 25)]
    presses: u32,
    /// Write every sample and figure to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Have the host write its record of each frame here, and count the outcomes
    #[arg(long, value_name = "FILE")]
    host_csv: Option<PathBuf>,
    /// One more word for the host's command line; may be repeated
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    host_arg: Vec<String>,
    /// One more word for the client's command line; may be repeated
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    client_arg: Vec<String>,
}

/// Cores of other processes above which milliseconds are not to be trusted.
const QUIET: f64 = 0.1;
/// The case of our host and client.
const STREAM: &str = "stream";
/// How long the first frame of a case may take.
const FIRST_FRAME: Duration = Duration::from_secs(15);
/// What is left out at the start of a case: caches, rate control and schedulers settle.
const WARM_UP: Duration = Duration::from_secs(1);

#[derive(Serialize)]
struct Report {
    machine: Machine,
    size: String,
    fps: f64,
    scene_fps: f64,
    bitrate: String,
    /// Presses made in each case.
    presses: u32,
    seconds: u32,
    /// Key press to its effect on the scene's own display, ms.
    application_reaction_ms: Vec<f64>,
    cases: Vec<Case>,
    /// Rows of the host's record by outcome.
    host_outcomes: Option<BTreeMap<String, usize>>,
}

#[derive(Serialize)]
struct Case {
    name: &'static str,
    frames: Frames,
    latency_ms: Option<Summary>,
    /// Changes of the display after which no bar code could be read.
    unreadable: usize,
    /// Key press on this display to its effect on it, ms.
    reaction_ms: Vec<f64>,
    /// Luma PSNR against the captured picture of the same frame, dB.
    psnr_db: Vec<f64>,
    other_cores: f64,
    /// Cores used, by name of the process.
    cores: BTreeMap<&'static str, f64>,
    loopback_mbps: f64,
    /// Whose policy, and how many threads of that kind.
    threads: Vec<(Thread, usize)>,
    samples: Vec<Sighting>,
}

/// Measures, prints, and writes the samples.
pub(crate) fn run(args: &Args) -> Result<()> {
    ensure!(args.seconds >= 1, "--seconds must be at least 1");
    let stop = crate::stop_on_signals()?;
    let bench = Bench::start(args, &stop)?;
    let mut report = Report {
        machine: Machine::this(),
        size: args.size.to_string(),
        fps: args.fps,
        scene_fps: args.scene_fps,
        bitrate: args.bitrate.clone(),
        presses: args.presses,
        seconds: args.seconds,
        application_reaction_ms: bench.application_reaction()?,
        cases: vec![bench.floor()?],
        host_outcomes: None,
    };
    if !args.floor_only {
        match bench.stream() {
            Ok(case) => report.cases.push(case),
            Err(error) => {
                // The floor stands by itself.
                print(&report);
                return Err(error);
            }
        }
        if let Some(csv) = &args.host_csv {
            report.host_outcomes = Some(outcomes(csv)?);
        }
    }
    print(&report);
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&report)?;
        std::fs::write(path, text).with_context(|| format!("can't write {}", path.display()))?;
    }
    Ok(())
}

/// The displays and the scene, which all cases share.
struct Bench<'a> {
    args: &'a Args,
    stop: &'a AtomicBool,
    scene: Child,
    near: VirtualDisplay,
    far: VirtualDisplay,
}

impl<'a> Bench<'a> {
    fn start(args: &'a Args, stop: &'a AtomicBool) -> Result<Bench<'a>> {
        let near = VirtualDisplay::start(args.size)?;
        let far = VirtualDisplay::start(args.size)?;
        let scene = pair::scene(near.name(), args.size, args.scene_fps)?;
        Ok(Bench {
            args,
            stop,
            scene,
            near,
            far,
        })
    }

    /// How long the scene itself takes to show a press: its wait for the next frame and that
    /// frame's drawing. Nothing streams meanwhile.
    fn application_reaction(&self) -> Result<Vec<f64>> {
        let reader = Reader::start(self.near.name())?;
        self.first_frame(&reader, &mut || Ok(()))?;
        self.reactions(self.near.name(), &reader)
    }

    fn floor(&self) -> Result<Case> {
        let copier = Copier::start(self.near.name(), self.far.name())?;
        let reader = Reader::start(self.far.name())?;
        let case = self.measure("floor", &reader, &[], &mut || Ok(()))?;
        copier.stop()?;
        Ok(case)
    }

    fn stream(&self) -> Result<Case> {
        let dir = TemporaryDir::new()?;
        let mut pair = Pair::start(&pair::Options {
            host_display: self.near.name(),
            client_display: self.far.name(),
            fps: self.args.fps,
            bitrate: &self.args.bitrate,
            dir: dir.path(),
            csv: self.args.host_csv.as_deref(),
            show_host: false,
            more_host: &self.args.host_arg,
            more_client: &self.args.client_arg,
        })?;
        let reader = Reader::start(self.far.name())?;
        let children = [("host", pair.host.id()), ("client", pair.client.id())];
        let mut case = self.measure(STREAM, &reader, &children, &mut || pair.check())?;
        case.reaction_ms = self.reactions(self.far.name(), &reader)?;
        // Last and by itself: taking whole pictures off both displays is load of its own.
        case.psnr_db = self.fidelity(&reader)?;
        drop(reader);
        pair.client.stop();
        pair.host.stop();
        Ok(case)
    }

    fn measure(
        &self,
        name: &'static str,
        reader: &Reader,
        children: &[(&'static str, u32)],
        check: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Case> {
        self.first_frame(reader, check)?;
        self.pass(WARM_UP, check)?;
        let (mark, unreadable, before) = (reader.mark(), reader.unreadable(), Load::now());
        self.pass(Duration::from_secs(self.args.seconds.into()), check)?;
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
            name,
            frames: Frames::of(samples.iter().map(|sighting| sighting.frame)),
            latency_ms: Summary::of(&latencies),
            unreadable: reader.unreadable() - unreadable,
            reaction_ms: Vec::new(),
            psnr_db: Vec::new(),
            other_cores: used.other_cores,
            cores: children
                .iter()
                .chain(&shared)
                .filter_map(|(name, id)| Some((*name, *used.cores.get(id)?)))
                .collect(),
            loopback_mbps: used.loopback_mbps,
            threads: machine::threads().into_iter().collect(),
            samples,
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
        for press in 0..self.args.presses {
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
        for _ in 0..40 {
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

/// Counts the rows of the host's record by their outcome.
fn outcomes(path: &Path) -> Result<BTreeMap<String, usize>> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("can't read the host's record {}", path.display()))?;
    count_outcomes(&text).with_context(|| format!("{} has no column named outcome", path.display()))
}

fn count_outcomes(text: &str) -> Option<BTreeMap<String, usize>> {
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let column = lines
        .next()?
        .split(',')
        .position(|name| name.trim() == "outcome")?;
    let mut counts = BTreeMap::new();
    for line in lines {
        let outcome = line.split(',').nth(column).unwrap_or("").trim();
        *counts.entry(outcome.to_owned()).or_insert(0) += 1;
    }
    Some(counts)
}

fn print(report: &Report) {
    let Machine { cpu, cores, kernel } = &report.machine;
    println!("machine: {cpu}, {cores} cores, Linux {kernel}");
    println!(
        "scene:   {} at {} fps; host up to {} fps, {}",
        report.size, report.scene_fps, report.fps, report.bitrate
    );
    let loud = report.cases.iter().any(|case| case.other_cores > QUIET);
    // Everything in multiples of the floor's median, if the milliseconds would mislead.
    let floor = report
        .cases
        .first()
        .and_then(|case| case.latency_ms)
        .map_or(1.0, |s| s.p50);
    let (scale, unit) = if loud {
        (1.0 / floor, "x floor p50")
    } else {
        (1.0, "ms")
    };
    if loud {
        println!("NOT QUIET: other processes used more than {QUIET} core; ratios only");
    }
    println!("\ndrawn -> visible, {unit}");
    println!(
        "{:<8} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7}",
        "", "p50", "p90", "p99", "max", "drawn", "visible", "missed"
    );
    for case in &report.cases {
        let Frames {
            drawn,
            visible,
            missed,
        } = case.frames;
        match case.latency_ms {
            Some(s) => println!(
                "{:<8} {:>7.2} {:>7.2} {:>7.2} {:>7.2} {drawn:>7} {visible:>7} {missed:>7}",
                case.name,
                s.p50 * scale,
                s.p90 * scale,
                s.p99 * scale,
                s.max * scale
            ),
            None => println!("{:<8} nothing became visible", case.name),
        }
    }
    print_reactions(report, scale, unit);
    for case in &report.cases {
        let rate = case.frames.drawn as f64 / f64::from(report.seconds);
        println!(
            "\n{}: {rate:.1} frames drawn a second, other load {:.2} cores",
            case.name, case.other_cores
        );
        let used: Vec<String> = case
            .cores
            .iter()
            .map(|(name, cores)| format!("{name} {:.0} %", cores * 100.0))
            .collect();
        println!("  of a core: {}", used.join(", "));
        if case.name == STREAM {
            println!("  loopback, all traffic: {:.2} Mb/s", case.loopback_mbps);
        }
        if case.unreadable > 0 {
            println!("  changes without a readable bar code: {}", case.unreadable);
        }
        if let Some(s) = Summary::of(&case.psnr_db) {
            println!(
                "  luma PSNR: median {:.1} dB, least {:.1} dB ({} frames)",
                s.p50, s.min, s.count
            );
        }
        let threads: Vec<String> = case
            .threads
            .iter()
            .map(|(t, count)| {
                let times = if *count > 1 {
                    format!(" x{count}")
                } else {
                    String::new()
                };
                format!("{}/{} {}{times}", t.process, t.thread, t.policy)
            })
            .collect();
        println!("  threads: {}", threads.join("; "));
    }
    if let Some(outcomes) = &report.host_outcomes {
        println!("\nhost's record of frames by outcome:");
        for (outcome, count) in outcomes {
            println!("  {outcome}: {count}");
        }
    }
}

fn print_reactions(report: &Report, scale: f64, unit: &str) {
    let Some(own) = Summary::of(&report.application_reaction_ms) else {
        return;
    };
    println!("\nkey pressed -> visible, {unit}");
    let line = |name: &str, s: &Summary| {
        println!(
            "{name:<28} p50 {:.2}, p90 {:.2}, max {:.2} ({} of {} presses)",
            s.p50 * scale,
            s.p90 * scale,
            s.max * scale,
            s.count,
            report.presses
        );
    };
    line("on the application's display", &own);
    for case in &report.cases {
        if let Some(s) = Summary::of(&case.reaction_ms) {
            line(case.name, &s);
            let beyond = (s.p50 - own.p50) * scale;
            println!("{:<28} p50 {beyond:.2}", "  beyond the application's");
        } else if case.name == STREAM && report.presses > 0 {
            println!("{:<28} no press had a visible effect", case.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_counted_from_whatever_column_they_are_in() {
        let text = "# run\nframe,outcome,Captured\n1,Whole,5\n2,Dropped,\n3,Whole,9\n";
        let counts = count_outcomes(text).unwrap();
        assert_eq!(
            counts,
            BTreeMap::from([("Whole".into(), 2), ("Dropped".into(), 1)])
        );
        assert_eq!(count_outcomes("frame,bytes\n1,2\n"), None);
    }
}
