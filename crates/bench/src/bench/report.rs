//! What a run of `bench latency` found: as JSON with every sample, and as text for people.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, Result};
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;
use serde::Serialize;

use super::codec::Cost;
use super::journey::Step;
use super::machine::{Machine, Thread};
use super::reader::Sighting;
use super::rig::Turns;
use super::stats::{Frames, Summary, share};
use openuvr_terminal::wrap::wrapped;

/// Cores of other processes above which milliseconds are not to be trusted.
pub(super) const QUIET: f64 = 0.1;

/// How far above its frames a second the host goes (`--fps`): a display of 60 Hz has 60.2.
const LET_BY: f64 = 1.02;

/// What a comparison of several ways says of itself.
#[derive(Debug, Serialize)]
pub(super) struct Head {
    machine: Machine,
    size: String,
    bitrate: String,
    scene_fps: f64,
    #[serde(flatten)]
    turns: Turns,
    /// The most that other processes used during a measurement.
    pub(super) other_cores: f64,
    /// What the videos came by.
    links: BTreeSet<String>,
}

impl Head {
    /// From the size, bitrate and frames a second that were asked for, and all that was streamed.
    pub(super) fn new<'a>(
        (size, bitrate, scene_fps): (Size, &str, f64),
        turns: Turns,
        streams: impl Iterator<Item = &'a Stream>,
    ) -> Head {
        let mut head = Head {
            machine: Machine::this(),
            size: size.to_string(),
            bitrate: bitrate.to_owned(),
            scene_fps,
            turns,
            other_cores: 0.0,
            links: BTreeSet::new(),
        };
        for stream in streams {
            head.other_cores = head.other_cores.max(stream.case.other_cores);
            head.links.extend(stream.link.clone());
        }
        head
    }

    pub(super) fn print(&self, what: &str, more: &str) {
        let Head {
            size,
            bitrate,
            scene_fps,
            ..
        } = self;
        println!("== {what}: {size} at {bitrate}, scene at {scene_fps} frames/s{more} ==");
        println!("machine  {}", self.machine);
        print_links(&Vec::from_iter(&self.links));
        if self.other_cores > QUIET {
            println!(
                "NOT QUIET: other processes used up to {:.1} cores; the figures mean little",
                self.other_cores
            );
        }
    }
}

/// Says what videos came by, on one machine.
fn print_links(names: &[&String]) {
    let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
    let names = match names.is_empty() {
        true => "unknown".to_owned(),
        false => names.join(", "),
    };
    println!("link     {names}, over the loopback device");
}

/// Writes `value` as the file `name` into a folder, which is made if it is not there.
pub(super) fn keep(folder: &Path, name: &str, value: &impl Serialize) -> Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("can't make the folder {}", folder.display()))?;
    let path = folder.join(name);
    std::fs::write(&path, serde_json::to_string_pretty(value)?)
        .with_context(|| format!("can't write {}", path.display()))
}

/// Columns of a terminal that text may take.
const WIDTH: usize = 96;

/// One size and bitrate.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    machine: Machine,
    pub(super) setting: Setting,
    /// Key press to its effect on the scene's own display, ms.
    pub(super) application_reaction_ms: Vec<f64>,
    pub(super) floor: Option<Case>,
    pub(super) stream: Option<Stream>,
    pub(super) codec: Option<Cost>,
}

/// What was asked for.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Setting {
    pub(super) name: String,
    pub(super) size: String,
    #[serde(skip)]
    pub(super) pixels: Size,
    pub(super) fps: f64,
    pub(super) scene_fps: f64,
    pub(super) encoder: String,
    pub(super) bitrate: String,
    pub(super) seconds: u32,
    /// Presses made on each display.
    pub(super) presses: u32,
    /// Whether real-time scheduling was asked for; `threads` says what was got.
    pub(super) real_time: bool,
    /// Whether it was the short version.
    pub(super) quick: bool,
    pub(super) targets: Targets,
}

/// A figure to reach.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub(super) struct Target {
    /// Short of it, the target is missed; `None`: there is none.
    pub(super) pass: Option<f64>,
    /// What is hoped for beyond.
    pub(super) aim: Option<f64>,
}

impl Target {
    pub(super) const fn at(pass: f64) -> Target {
        Target {
            pass: Some(pass),
            aim: None,
        }
    }

    pub(super) const fn aiming(pass: f64, aim: f64) -> Target {
        Target {
            pass: Some(pass),
            aim: Some(aim),
        }
    }
}

/// What is to be reached, as far as there are targets.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Targets {
    /// Drawn to visible, at most.
    pub(super) p50_ms: Target,
    /// Likewise.
    pub(super) p99_ms: Target,
    /// Median of press to visible beyond that on the application's own display, at most.
    pub(super) reaction_ms: Target,
    /// (end to end - floor) / serial codec time, medians, at most.
    pub(super) ratio: Target,
    /// Cores of host and client together, at most.
    pub(super) cores: Target,
    /// Media on the wire, at most.
    pub(super) wire_mbps: Target,
    /// Median luma PSNR, at least.
    pub(super) psnr_db: Target,
    /// Whole frames of those due, at least.
    pub(super) whole: Target,
}

/// What was measured of the floor, and likewise of the stream.
#[derive(Debug, Serialize)]
pub(super) struct Case {
    /// Those that the scene drew while it was measured, and what became of them.
    pub(super) frames: Frames,
    /// From when to when, on this machine's clock.
    #[serde(skip)]
    pub(super) window: [Instant; 2],
    pub(super) seconds: f64,
    /// Drawn to visible; of the stream only frames displayed whole.
    pub(super) latency_ms: Option<Summary>,
    /// Changes of the display after which no bar code could be read.
    pub(super) unreadable: usize,
    pub(super) other_cores: f64,
    /// Cores used, by name of the process.
    pub(super) cores: BTreeMap<&'static str, f64>,
    pub(super) loopback_mbps: f64,
    /// Whose policy, and how many threads of that kind.
    pub(super) threads: Vec<(Thread, usize)>,
    pub(super) samples: Vec<Sample>,
}

/// A frame that was seen.
#[derive(Debug, Serialize)]
pub(super) struct Sample {
    #[serde(flatten)]
    pub(super) sighting: Sighting,
    /// What the host's record says of it.
    pub(super) outcome: Option<String>,
}

/// What is known of the stream besides.
#[derive(Debug, Serialize)]
pub(super) struct Stream {
    #[serde(flatten)]
    pub(super) case: Case,
    /// What the video came by when it had been measured, such as `udp-gso`.
    pub(super) link: Option<String>,
    /// Frames seen that the record doesn't call whole, or doesn't have.
    pub(super) not_whole: usize,
    pub(super) steps: Vec<Step>,
    /// Rows of the host's record by outcome.
    pub(super) outcomes: BTreeMap<String, usize>,
    /// Media datagrams with their IPv4 and UDP headers.
    pub(super) wire_mbps: Option<f64>,
    /// Key press on this display to its effect on it, ms.
    pub(super) reaction_ms: Vec<f64>,
    /// Luma PSNR against the captured picture of the same frame, dB.
    pub(super) psnr_db: Vec<f64>,
}

/// (end to end − floor) ÷ serial codec time, medians.
pub(super) fn ratio(end: f64, floor: f64, serial: f64) -> f64 {
    (end - floor) / serial
}

impl Case {
    /// Frames a second that the scene drew.
    pub(super) fn drawn_fps(&self) -> f64 {
        self.frames.drawn as f64 / self.seconds
    }
}

impl Stream {
    /// Frames displayed whole.
    pub(super) fn whole(&self) -> usize {
        self.case.latency_ms.map_or(0, |latency| latency.count)
    }

    /// Cores of host and client together.
    pub(super) fn cores(&self) -> f64 {
        let of = |name| self.case.cores.get(name).copied().unwrap_or(0.0);
        of("host") + of("client")
    }

    /// With those of the application, where it is a process of its own.
    pub(super) fn all_cores(&self) -> f64 {
        self.cores() + self.case.cores.get("scene").copied().unwrap_or(0.0)
    }

    /// Those, of the frames drawn.
    pub(super) fn whole_share(&self) -> Option<f64> {
        share(self.whole(), self.case.frames.drawn)
    }
}

/// A target and what was measured.
#[derive(Clone, PartialEq, Debug)]
struct Verdict {
    what: &'static str,
    unit: &'static str,
    measured: Option<f64>,
    target: Target,
    at_least: bool,
    /// Why it is not judged.
    withheld: Option<&'static str>,
}

/// Of the frames due, those that must come whole for anything to be judged. A frame that did not
/// come is later than any that did: with more than one of a hundred missing, there is no p99.
pub(super) const LEAST_WHOLE: f64 = 0.99;

/// Presses below which their median is chance (a guess).
const FEWEST_PRESSES: usize = 10;

/// Of its frames a second, those that the scene must draw for what is counted in seconds to be
/// judged (a guess): fewer frames take less of everything.
const LEAST_DRAWN: f64 = 0.9;

impl Report {
    pub(super) fn new(machine: Machine, setting: Setting) -> Report {
        Report {
            machine,
            setting,
            application_reaction_ms: Vec::new(),
            floor: None,
            stream: None,
            codec: None,
        }
    }

    /// What the pipeline is worth; `None` if a part was not measured.
    fn ratio(&self) -> Option<f64> {
        let end = self.stream.as_ref()?.case.latency_ms?;
        let floor = self.floor.as_ref()?.latency_ms?;
        Some(ratio(end.p50, floor.p50, self.codec.as_ref()?.serial.p50))
    }

    fn cases(&self) -> impl Iterator<Item = (&'static str, &Case)> {
        let floor = self.floor.iter().map(|case| ("floor", case));
        floor.chain(self.stream.iter().map(|stream| ("stream", &stream.case)))
    }

    /// Whole frames of those due: of what the scene drew, or, if it draws more than the host may
    /// send, of that.
    fn whole_of_due(&self) -> Option<f64> {
        let stream = self.stream.as_ref()?;
        let Setting { fps, scene_fps, .. } = self.setting;
        let most = match scene_fps > fps * LET_BY {
            true => (fps * stream.case.seconds) as usize,
            false => usize::MAX,
        };
        share(stream.whole(), stream.case.frames.drawn.min(most)).map(|share| share.min(1.0))
    }

    fn is_loud(&self) -> bool {
        self.cases().any(|(_, case)| case.other_cores > QUIET)
    }

    /// By what times are multiplied, and what they are then.
    fn scale(&self) -> (f64, &'static str) {
        let floor = self.floor.as_ref().and_then(|case| case.latency_ms);
        match floor {
            Some(floor) if self.is_loud() => (1.0 / floor.p50, "x floor p50"),
            _ => (1.0, "ms"),
        }
    }

    pub(super) fn print(&self) {
        let is = &self.setting;
        println!("== {}: {} at {} frames/s ==", is.name, is.size, is.fps);
        println!("machine  {}", self.machine);
        if let Some(stream) = &self.stream {
            print_links(&Vec::from_iter(&stream.link));
        }
        println!(
            "scene    {} frames/s: each phase against {} Hz; host given {}, {} s a case",
            is.scene_fps, is.fps, is.bitrate, is.seconds
        );
        if self.is_loud() {
            println!("NOT QUIET: other processes used more than {QUIET} core; ratios only");
        }
        self.print_latency();
        self.print_steps();
        self.print_codec();
        self.print_reactions();
        self.print_use();
        self.print_verdicts();
        println!();
    }

    fn print_latency(&self) {
        let (scale, unit) = self.scale();
        println!(
            "\n{:<26} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7}",
            format!("drawn -> visible, {unit}"),
            "p50",
            "p90",
            "p99",
            "max",
            "drawn",
            "visible",
            "missed"
        );
        for (name, case) in self.cases() {
            let Frames {
                drawn,
                visible,
                missed,
            } = case.frames;
            let Some(s) = case.latency_ms else {
                println!("{name:<26} nothing became visible whole");
                continue;
            };
            let [p50, p90, p99, max] = [s.p50, s.p90, s.p99, s.max].map(|ms| ms * scale);
            println!(
                "{name:<26} {p50:>7.2} {p90:>7.2} {p99:>7.2} {max:>7.2} {drawn:>7} {visible:>7} \
                 {missed:>7}"
            );
            if case.unreadable > 0 {
                println!("  changes without a readable bar code: {}", case.unreadable);
            }
        }
        if let Some(stream) = &self.stream {
            let whole = self
                .whole_of_due()
                .map_or("-".to_owned(), |share| format!("{:.1} %", share * 100.0));
            println!(
                "  whole, of the frames due: {whole}; visible but not whole, and left out: {}",
                stream.not_whole
            );
            let outcomes: Vec<String> = stream
                .outcomes
                .iter()
                .map(|(outcome, count)| format!("{outcome} {count}"))
                .collect();
            lines("  host's record: ", &outcomes.join("; "));
        }
    }

    fn print_steps(&self) {
        let (scale, unit) = self.scale();
        let Some(stream) = self.stream.as_ref().filter(|s| !s.steps.is_empty()) else {
            return;
        };
        println!(
            "\n{:<32} {:>7} {:>7}   (some overlap)",
            format!("where the time goes, {unit}"),
            "p50",
            "p99"
        );
        for step in &stream.steps {
            println!(
                "{:<32} {:>7.2} {:>7.2}",
                format!("  {} -> {}", step.from, step.to),
                step.ms.p50 * scale,
                step.ms.p99 * scale
            );
        }
    }

    fn print_codec(&self) {
        let (scale, unit) = self.scale();
        let Some(codec) = &self.codec else { return };
        let line = |name: &str, s: &Summary| {
            println!("{name:<32} {:>7.2} {:>7.2}", s.p50 * scale, s.p99 * scale);
        };
        println!(
            "\n{:<32} {:>7} {:>7}   (same scene, no network, no display)",
            format!("the codec alone, {unit}"),
            "p50",
            "p99"
        );
        for (name, step) in &codec.steps {
            line(&format!("  {name}"), step);
        }
        line("serial, one-slice x264 CBR", &codec.serial);
        line("pipelined, as host and client", &codec.pipelined);
        println!(
            "  {:.2} and {:.2} Mb/s; pipelined / serial {:.2}",
            codec.serial_mbps,
            codec.pipelined_mbps,
            codec.pipelined.p50 / codec.serial.p50
        );
        if let Some(ratio) = self.ratio() {
            println!("(end to end - floor) / serial     {ratio:>6.2}");
        }
    }

    fn print_reactions(&self) {
        let (scale, unit) = self.scale();
        let Some(own) = Summary::of(&self.application_reaction_ms) else {
            return;
        };
        println!(
            "\n{:<32} {:>7} {:>7} {:>7} {:>7}",
            format!("key pressed -> visible, {unit}"),
            "p50",
            "p90",
            "p99",
            "seen"
        );
        let line = |name: &str, [p50, p90, p99]: [f64; 3], seen: &str| {
            let [p50, p90, p99] = [p50, p90, p99].map(|ms| ms * scale);
            println!("{name:<32} {p50:>7.2} {p90:>7.2} {p99:>7.2} {seen:>7}");
        };
        let of = |s: &Summary| format!("{}/{}", s.count, self.setting.presses);
        line(
            "application on its own display",
            [own.p50, own.p90, own.p99],
            &of(&own),
        );
        let Some(stream) = &self.stream else { return };
        let Some(s) = Summary::of(&stream.reaction_ms) else {
            println!("stream: no press had a visible effect");
            return;
        };
        line("stream", [s.p50, s.p90, s.p99], &of(&s));
        let beyond = [s.p50 - own.p50, s.p90 - own.p90, s.p99 - own.p99];
        line("  beyond the application's", beyond, "");
    }

    fn print_use(&self) {
        println!();
        for (name, case) in self.cases() {
            let used: Vec<String> = case
                .cores
                .iter()
                .map(|(name, cores)| format!("{name} {:.0} %", cores * 100.0))
                .collect();
            let text = format!(
                "of a core: {}; all other processes {:.0} %",
                used.join(", "),
                case.other_cores * 100.0
            );
            lines(&format!("{name:<8} "), &text);
            println!(
                "{:<8} the scene drew {:.1} of {} frames/s",
                "",
                case.drawn_fps(),
                self.setting.scene_fps
            );
        }
        if let Some(stream) = &self.stream {
            let wire = stream
                .wire_mbps
                .map_or("unknown".to_owned(), |mbps| format!("{mbps:.2} Mb/s"));
            println!(
                "wire     media with IP and UDP headers {wire}; the whole loopback device {:.2} Mb/s",
                stream.case.loopback_mbps
            );
            if let Some(s) = Summary::of(&stream.psnr_db) {
                println!(
                    "picture  luma PSNR median {:.1} dB, least {:.1} dB ({} frames)",
                    s.p50, s.min, s.count
                );
            }
        }
        let threads: Vec<String> = self
            .stream
            .as_ref()
            .map(|stream| &stream.case)
            .or(self.floor.as_ref())
            .into_iter()
            .flat_map(|case| &case.threads)
            .map(|(t, count)| {
                let times = if *count > 1 {
                    format!(" x{count}")
                } else {
                    String::new()
                };
                format!("{}/{} {}{times}", t.process, t.thread, t.policy)
            })
            .collect();
        lines("threads  ", &threads.join("; "));
    }

    fn verdicts(&self) -> Vec<Verdict> {
        let Some(stream) = &self.stream else {
            return Vec::new();
        };
        let targets = &self.setting.targets;
        let median = |samples: &[f64]| Summary::of(samples).map(|s| s.p50);
        let reaction = median(&stream.reaction_ms)
            .zip(median(&self.application_reaction_ms))
            .map(|(all, own)| all - own);
        let psnr = Some(&stream.psnr_db).filter(|all| all.len() >= 10);
        let whole = self.whole_of_due();
        let lacking = whole.is_none_or(|share| share < LEAST_WHOLE);
        let loud = self.is_loud().then_some("not quiet");
        let lacking = lacking.then_some("frames are missing");
        let wanted = self.setting.scene_fps.min(self.setting.fps);
        let slow = stream.case.drawn_fps() < wanted * LEAST_DRAWN;
        let slow = slow.then_some("the scene was slow");
        let percent = |target: Target| Target {
            pass: target.pass.map(|share| share * 100.0),
            aim: target.aim.map(|share| share * 100.0),
        };
        let most = |what, unit, measured, target: Target, withheld| Verdict {
            what,
            unit,
            measured,
            target,
            at_least: false,
            withheld,
        };
        let least = |what, unit, measured, target, withheld| Verdict {
            at_least: true,
            ..most(what, unit, measured, target, withheld)
        };
        let time = loud.or(lacking);
        let seen = stream
            .reaction_ms
            .len()
            .min(self.application_reaction_ms.len());
        // Those without an effect are not in the median, and would be its slow half.
        let unseen = seen < FEWEST_PRESSES || seen * 10 < self.setting.presses as usize * 9;
        let pressed = time.or(unseen.then_some("few presses seen"));
        let [p50, p99] = [
            stream.case.latency_ms.map(|s| s.p50),
            stream.case.latency_ms.map(|s| s.p99),
        ];
        let cores = Some(stream.cores() * 100.0);
        let whole = whole.map(|share| share * 100.0);
        let psnr = psnr.and_then(|all| median(all));
        let all = [
            least(
                "whole frames, of those due",
                "%",
                whole,
                percent(targets.whole),
                loud,
            ),
            most("drawn -> visible p50", "ms", p50, targets.p50_ms, time),
            most("drawn -> visible p99", "ms", p99, targets.p99_ms, time),
            most(
                "reaction beyond the application's",
                "ms",
                reaction,
                targets.reaction_ms,
                pressed,
            ),
            most(
                "(end to end - floor) / serial",
                "",
                self.ratio(),
                targets.ratio,
                time,
            ),
            most(
                "host + client, of a core",
                "%",
                cores,
                percent(targets.cores),
                time.or(slow),
            ),
            most(
                "on the wire",
                "Mb/s",
                stream.wire_mbps,
                targets.wire_mbps,
                lacking.or(slow),
            ),
            least("luma PSNR, median", "dB", psnr, targets.psnr_db, lacking),
        ];
        let mut all = Vec::from(all);
        all.retain(|verdict| verdict.target.pass.is_some());
        all
    }

    fn print_verdicts(&self) {
        let verdicts = self.verdicts();
        if verdicts.is_empty() {
            return;
        }
        println!("\n{:<36} {:>10} {:>10}", "target", "", "measured");
        for verdict in verdicts {
            println!("{}", verdict.line());
        }
    }
}

impl Verdict {
    fn line(&self) -> String {
        let sign = if self.at_least { ">=" } else { "<=" };
        let bound = self.target.pass.unwrap_or(f64::INFINITY);
        let target = format!("{sign} {bound}");
        let (what, unit) = (self.what, self.unit);
        if let Some(why) = self.withheld {
            return format!(
                "{what:<36} {target:>10} {:>10} {unit:<4}  not judged: {why}",
                ""
            );
        }
        let Some(measured) = self.measured else {
            return format!("{what:<36} {target:>10} {:>10} {unit:<4}  not measured", "");
        };
        let beyond = |bound: f64| match self.at_least {
            true => bound - measured,
            false => measured - bound,
        };
        let judged = match self.target.aim {
            _ if beyond(bound) > 0.0 => format!("MISSED by {:.2} {unit}", beyond(bound)),
            None => "met".to_owned(),
            Some(aim) if beyond(aim) <= 0.0 => format!("met, and the aim of {aim} too"),
            Some(aim) => format!("met; {:.2} {unit} from the aim of {aim}", beyond(aim)),
        };
        format!("{what:<36} {target:>10} {measured:>10.2} {unit:<4}  {judged}")
    }
}

/// Prints `text` behind `first`, in lines that fit.
fn lines(first: &str, text: &str) {
    let mut first = first.to_owned();
    for line in wrapped(text, WIDTH - first.len()) {
        println!("{first}{line}");
        first = " ".repeat(first.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(measured: Option<f64>, at_least: bool) -> Verdict {
        Verdict {
            what: "it",
            unit: "ms",
            measured,
            target: Target::at(8.0),
            at_least,
            withheld: None,
        }
    }

    #[test]
    fn a_verdict_says_by_how_much_or_why_not() {
        let judged = |verdict: Verdict| verdict.line();
        assert!(judged(verdict(Some(8.0), false)).ends_with("met"));
        assert!(judged(verdict(Some(9.5), false)).ends_with("MISSED by 1.50 ms"));
        assert!(judged(verdict(Some(9.5), true)).ends_with("met"));
        assert!(judged(verdict(Some(7.0), true)).ends_with("MISSED by 1.00 ms"));
        assert!(judged(verdict(None, false)).ends_with("not measured"));
        let hoped = |measured| Verdict {
            target: Target::aiming(8.0, 6.0),
            ..verdict(Some(measured), false)
        };
        assert!(judged(hoped(5.9)).ends_with("met, and the aim of 6 too"));
        assert!(judged(hoped(7.5)).ends_with("met; 1.50 ms from the aim of 6"));
        assert!(judged(hoped(9.0)).ends_with("MISSED by 1.00 ms"));
        let withheld = Verdict {
            withheld: Some("frames are missing"),
            ..hoped(5.0)
        };
        assert!(judged(withheld).ends_with("not judged: frames are missing"));
    }

    /// A report of 10 s at 60 frames a second, of which the scene drew so many and so many came
    /// whole, while others used so much.
    fn report(drawn: usize, whole: usize, other_cores: f64) -> Report {
        let setting = Setting {
            name: "it".into(),
            size: "1280x720".into(),
            pixels: Size::new(1280, 720),
            fps: 60.0,
            scene_fps: 60.25,
            encoder: "x264".into(),
            bitrate: "10M".into(),
            seconds: 10,
            presses: 0,
            real_time: false,
            quick: false,
            targets: Targets {
                p50_ms: Target::at(6.2),
                wire_mbps: Target::at(10.0),
                whole: Target::at(LEAST_WHOLE),
                ..Targets::default()
            },
        };
        let case = Case {
            frames: Frames {
                drawn,
                visible: whole,
                missed: drawn - whole,
            },
            window: [Instant(0); 2],
            seconds: 10.0,
            latency_ms: Summary::of(&vec![5.0; whole]),
            unreadable: 0,
            other_cores,
            cores: BTreeMap::new(),
            loopback_mbps: 0.0,
            threads: Vec::new(),
            samples: Vec::new(),
        };
        let mut report = Report::new(Machine::this(), setting);
        report.stream = Some(Stream {
            case,
            link: None,
            not_whole: 0,
            steps: Vec::new(),
            outcomes: BTreeMap::new(),
            wire_mbps: Some(9.0),
            reaction_ms: Vec::new(),
            psnr_db: Vec::new(),
        });
        report
    }

    #[test]
    fn nothing_is_judged_where_frames_are_missing() {
        let lines = |report: Report| -> Vec<String> {
            report.verdicts().iter().map(Verdict::line).collect()
        };
        let ends = |report: Report, ends: [&str; 3]| {
            let lines = lines(report);
            for (line, end) in lines.iter().zip(ends) {
                assert!(
                    line.ends_with(end) && line.chars().count() <= 100,
                    "{lines:?}"
                );
            }
            assert_eq!(lines.len(), 3);
        };
        ends(report(602, 600, 0.0), ["met", "met", "met"]);
        let lacking = "not judged: frames are missing";
        ends(
            report(602, 330, 0.0),
            ["MISSED by 44.18 %", lacking, lacking],
        );
        let slow = "not judged: the scene was slow";
        ends(report(330, 330, 0.0), ["met", "met", slow]);
        let loud = "not judged: not quiet";
        ends(report(602, 602, 0.5), [loud, loud, "met"]);
        let nothing = Report::new(Machine::this(), report(1, 1, 0.0).setting);
        assert!(nothing.verdicts().is_empty());
        // What the host may not send is not due.
        let mut fast = report(1200, 600, 0.0);
        fast.setting.scene_fps = 120.0;
        assert_eq!(fast.whole_of_due(), Some(1.0));
    }
}
