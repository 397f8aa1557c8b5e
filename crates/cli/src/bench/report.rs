//! What a run of `bench latency` found: as JSON with every sample, and as text for people.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result};
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;
use serde::Serialize;

use super::codec::Cost;
use super::journey::Step;
use super::machine::{Machine, Thread};
use super::reader::Sighting;
use super::stats::{Frames, Summary, share};
use crate::wrap::wrapped;

/// Cores of other processes above which milliseconds are not to be trusted.
pub(super) const QUIET: f64 = 0.1;
/// Says which machine it was, and whether others used so much of it that figures mean little.
pub(super) fn print_machine(machine: &Machine, other_cores: f64) {
    println!("machine  {machine}");
    if other_cores > QUIET {
        println!(
            "NOT QUIET: other processes used up to {other_cores:.1} cores; the figures mean little"
        );
    }
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
    /// Says nothing on a busy machine.
    is_time: bool,
}

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

    /// (end to end - floor) / serial codec time, medians.
    pub(super) fn ratio(&self) -> Option<f64> {
        let end = self.stream.as_ref()?.case.latency_ms?;
        let floor = self.floor.as_ref()?.latency_ms?;
        Some((end.p50 - floor.p50) / self.codec.as_ref()?.serial.p50)
    }

    fn cases(&self) -> impl Iterator<Item = (&'static str, &Case)> {
        let floor = self.floor.iter().map(|case| ("floor", case));
        floor.chain(self.stream.iter().map(|stream| ("stream", &stream.case)))
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
        let Machine { cpu, cores, kernel } = &self.machine;
        let is = &self.setting;
        println!("== {}: {} at {} frames/s ==", is.name, is.size, is.fps);
        println!("machine  {cpu}, {cores} cores, Linux {kernel}");
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
            println!(
                "  visible but not whole, and left out: {}",
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
        let latency = stream.case.latency_ms;
        let median = |samples: &[f64]| Summary::of(samples).map(|s| s.p50);
        let reaction = median(&stream.reaction_ms)
            .zip(median(&self.application_reaction_ms))
            .map(|(all, own)| all - own);
        let cores = stream.cores();
        let verdict = |what, unit, measured, target: Target| {
            target.pass.map(|_| Verdict {
                what,
                unit,
                measured,
                target,
                at_least: false,
                is_time: true,
            })
        };
        let psnr = Some(&stream.psnr_db).filter(|all| all.len() >= 10);
        let steady = |verdict: Option<Verdict>, at_least: bool| {
            verdict.map(|verdict| Verdict {
                at_least,
                is_time: false,
                ..verdict
            })
        };
        let hundredfold = |cores: f64| cores * 100.0;
        let core_target = Target {
            pass: targets.cores.pass.map(hundredfold),
            aim: targets.cores.aim.map(hundredfold),
        };
        [
            verdict(
                "drawn -> visible p50",
                "ms",
                latency.map(|s| s.p50),
                targets.p50_ms,
            ),
            verdict(
                "drawn -> visible p99",
                "ms",
                latency.map(|s| s.p99),
                targets.p99_ms,
            ),
            verdict(
                "reaction beyond the application's",
                "ms",
                reaction,
                targets.reaction_ms,
            ),
            verdict(
                "(end to end - floor) / serial",
                "",
                self.ratio(),
                targets.ratio,
            ),
            verdict(
                "host + client, of a core",
                "%",
                Some(hundredfold(cores)),
                core_target,
            ),
            steady(
                verdict("on the wire", "Mb/s", stream.wire_mbps, targets.wire_mbps),
                false,
            ),
            steady(
                verdict(
                    "luma PSNR, median",
                    "dB",
                    psnr.and_then(|all| median(all)),
                    targets.psnr_db,
                ),
                true,
            ),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn print_verdicts(&self) {
        let verdicts = self.verdicts();
        if verdicts.is_empty() {
            return;
        }
        println!("\n{:<36} {:>10} {:>10}", "target", "", "measured");
        for verdict in verdicts {
            println!("{}", verdict.line(self.is_loud()));
        }
    }
}

impl Verdict {
    fn line(&self, loud: bool) -> String {
        let sign = if self.at_least { ">=" } else { "<=" };
        let bound = self.target.pass.unwrap_or(f64::INFINITY);
        let target = format!("{sign} {bound}");
        let (what, unit) = (self.what, self.unit);
        if loud && self.is_time {
            return format!("{what:<36} {target:>10} {:>10} {unit:<4}  not judged", "");
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
            is_time: !at_least,
        }
    }

    #[test]
    fn a_verdict_says_by_how_much_and_keeps_quiet_on_a_loud_machine() {
        let judged = |verdict: Verdict, loud| verdict.line(loud);
        assert!(judged(verdict(Some(8.0), false), false).ends_with("met"));
        assert!(judged(verdict(Some(9.5), false), false).ends_with("MISSED by 1.50 ms"));
        assert!(judged(verdict(Some(9.5), true), false).ends_with("met"));
        assert!(judged(verdict(Some(7.0), true), true).ends_with("MISSED by 1.00 ms"));
        assert!(judged(verdict(Some(1.0), false), true).ends_with("not judged"));
        assert!(judged(verdict(None, false), false).ends_with("not measured"));
        let hoped = |measured| Verdict {
            target: Target::aiming(8.0, 6.0),
            ..verdict(Some(measured), false)
        };
        assert!(judged(hoped(5.9), false).ends_with("met, and the aim of 6 too"));
        assert!(judged(hoped(7.5), false).ends_with("met; 1.50 ms from the aim of 6"));
        assert!(judged(hoped(9.0), false).ends_with("MISSED by 1.00 ms"));
    }
}
