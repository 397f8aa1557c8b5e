//! `openuvr bench ablation`: what each optimisation is worth on this machine, the paper's Fig. 11
//! by experiment.
//!
//! Every configuration is a real host and client on the same two displays with the same scene,
//! measured from pixels like `bench latency`. They take turns (A B C A B C …), so that what the
//! machine does meanwhile falls on all of them. It makes no claim about other machines, networks
//! or graphics cards.

mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anyhow::{Context as _, Result, bail, ensure};
use openuvr_proto::units::Size;
use serde::Serialize;

use super::journey::Step;
use super::machine::Machine;
use super::report::QUIET;
use super::rig::{Rig, Source, Streamed, Turns};
use super::stats::{Range, Summary, share};
use crate::cable::Cable;
use crate::pair::TemporaryDir;

/// Measure what each optimisation is worth: with and without it.
///
/// The figures: cumulative, from a stream as screen grabbers and video libraries make it to ours,
/// one change at a time; leave-one-out, ours without one of them; alternatives; the links, over a
/// cable between two network namespaces (needs root); and the same with every core busy. Drawn to
/// visible, from pixels, frames displayed whole only; the median and the range over the repetitions,
/// which take turns. A step smaller than its range is no finding.
///
/// What can't run here is listed with the reason; what fails is tried again in each repetition, and
/// each row says how many runs it stands on.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// Size of the scene
    #[arg(long, default_value = "1280x720")]
    size: Size,
    /// Bitrate given to the host
    #[arg(long, default_value = "10M")]
    bitrate: String,
    /// How often each configuration is measured
    #[arg(long, default_value_t = 5)]
    repetitions: u32,
    /// Seconds of each measurement; 2 let the scene pass each phase against 60 Hz once
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// One repetition of 1 second: shows that it works and what is large
    #[arg(long, conflicts_with_all = ["repetitions", "seconds"])]
    quick: bool,
    /// Only the configurations whose name contains one of these
    #[arg(long, value_delimiter = ',', value_name = "WORDS")]
    only: Vec<String>,
    /// Frames a second of the scene
    #[arg(long, default_value_t = 60.5)]
    scene_fps: f64,
    /// Write ablation.json, .csv, .svg and .png into this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// Frames a second that the host may send, and that it polls.
const FPS: f64 = 60.0;

/// One optimisation: how to do without it. With it, the host is as it is by default.
struct Factor {
    /// What it is.
    name: &'static str,
    /// What is there instead.
    instead: &'static str,
    /// The host's words for that.
    without: &'static [&'static str],
}

/// In the order in which the cumulative figure adds them: along a frame's way.
const FACTORS: [Factor; 8] = [
    Factor {
        name: "capture when drawn",
        instead: "polled at 60 Hz",
        without: &["--capture-mode", "poll"],
    },
    Factor {
        name: "SIMD conversion",
        instead: "swscale",
        without: &["--converter", "swscale"],
    },
    Factor {
        name: "own rate control",
        instead: "x264's CBR",
        without: &["--rate-mode", "cbr"],
    },
    Factor {
        name: "slices on their way",
        instead: "whole frame, one thread",
        without: &["--slices", "1", "--encoder-threads", "1"],
    },
    Factor {
        name: "two encoder threads",
        instead: "one thread",
        without: &["--encoder-threads", "1"],
    },
    Factor {
        name: "burst",
        instead: "batches of 5.56 ms",
        without: &["--pacing", "batches"],
    },
    Factor {
        name: "segmentation offload",
        instead: "a call per datagram",
        without: &["--link", "udp", "--sending", "single"],
    },
    Factor {
        name: "real-time scheduling",
        instead: "SCHED_OTHER",
        without: &["--realtime", "off"],
    },
];

/// Ours with something else in its place; not part of the ladder.
const ALTERNATIVES: [(&str, &[&str]); 1] = [("RGB, not converted", &["--pixels", "rgb444"])];

/// Ours over a cable between two network namespaces, where each link exists: what it is called,
/// and the host's and the client's words. The first is what the others are compared with.
const LINKS: [(&str, &[&str], &[&str]); 5] = [
    (
        "a call per datagram",
        &["--sending", "single"],
        &["--link", "udp"],
    ),
    ("segmented by the kernel", &[], &["--link", "udp-gso"]),
    ("raw Ethernet", &[], &["--link", "raw"]),
    ("raw Ethernet by rings", &[], &["--link", "raw-ring"]),
    ("AF_XDP", &[], &["--link", "xdp"]),
];

/// A configuration: which factors are left out, what is said besides, and whether cores are busy.
#[derive(Clone, PartialEq, Debug)]
struct Configuration {
    name: String,
    without: Vec<usize>,
    more: Vec<String>,
    more_client: Vec<String>,
    busy: bool,
    cable: bool,
}

impl Configuration {
    fn without(name: &str, without: Vec<usize>) -> Configuration {
        Configuration {
            name: name.to_owned(),
            without,
            more: Vec::new(),
            more_client: Vec::new(),
            busy: false,
            cable: false,
        }
    }

    /// What the host is told: an option of a later factor gives way to that of an earlier one. The
    /// rate is constant, or a slow link would be made up for by a worse picture.
    fn host_words(&self) -> Vec<String> {
        let mut words: Vec<String> = ["--rate", "constant"].map(String::from).to_vec();
        for &factor in &self.without {
            for pair in FACTORS[factor].without.chunks(2) {
                if !words.iter().any(|word| word == pair[0]) {
                    words.extend(pair.iter().map(|word| (*word).to_owned()));
                }
            }
        }
        words.extend(self.more.iter().cloned());
        words
    }

    /// The link that the client insists on.
    fn link(&self) -> Option<&str> {
        let mut words = self.more_client.iter();
        words.find(|word| *word == "--link")?;
        words.next().map(String::as_str)
    }

    fn client_words(&self) -> Vec<String> {
        let mut words = self.more_client.clone();
        if self
            .host_words()
            .windows(2)
            .any(|w| w == ["--realtime", "off"])
        {
            words.extend(["--realtime", "off"].map(String::from));
        }
        words
    }
}

/// One measurement of one configuration.
#[derive(Clone, Debug, Serialize)]
struct Run {
    configuration: String,
    repetition: u32,
    /// What the video came by.
    link: Option<String>,
    latency_ms: Summary,
    /// Frames drawn and displayed whole meanwhile.
    drawn: usize,
    whole: usize,
    wire_mbps: Option<f64>,
    /// Cores of host and client together.
    cores: f64,
    other_cores: f64,
    steps: Vec<Step>,
}

/// A configuration over all its repetitions.
#[derive(Clone, Debug, Serialize)]
struct Row {
    name: String,
    /// What is in the place of the optimisation, or the host's words.
    note: String,
    /// What the video came by; if not always by the same, the names.
    link: Option<String>,
    /// How often it was measured; fewer than the repetitions if some failed.
    runs: usize,
    /// Why it has no figures.
    unavailable: Option<String>,
    p50_ms: Option<Range>,
    p99_ms: Option<Range>,
    /// Of the frames drawn, displayed whole; the least of the repetitions.
    whole: Option<f64>,
    cores: Option<Range>,
    /// By how much p50 is better: than the row before (cumulative), or than without it.
    worth_ms: Option<f64>,
    /// Whether the ranges of both are apart; unknown if one has a single run.
    clear: Option<bool>,
}

/// All of it.
#[derive(Debug, Serialize)]
struct Ablation {
    machine: Machine,
    size: String,
    bitrate: String,
    #[serde(flatten)]
    turns: Turns,
    floor_ms: Option<Summary>,
    /// The most cores that other processes used during a run.
    other_cores: f64,
    cumulative: Vec<Row>,
    leave_one_out: Vec<Row>,
    alternatives: Vec<Row>,
    links: Vec<Row>,
    busy: Vec<Row>,
    runs: Vec<Run>,
}

/// Measures, prints, writes.
pub(crate) fn run(args: &Args) -> Result<()> {
    let turns = Turns::new(args.quick, 1.0, args.repetitions, args.seconds)?;
    let Turns {
        repetitions,
        seconds,
        ..
    } = turns;
    let stop = openuvr_terminal::signals::stop_on_signals()?;
    let mut rig = Rig::start(turns.setup(args.size, args.scene_fps), &stop)?;
    let floor = rig.floor(seconds)?;
    let dir = TemporaryDir::new()?;
    let mut measured = Measured::default();
    let all: Vec<Configuration> = configurations()
        .into_iter()
        .filter(|c| args.only.is_empty() || args.only.iter().any(|only| c.name.contains(only)))
        .collect();
    ensure!(!all.is_empty(), "--only names no configuration");
    for repetition in 1..=repetitions {
        for configuration in &all {
            eprintln!(
                "bench ablation: {repetition}/{repetitions} {}",
                configuration.name
            );
            let outcome = measure(args, &mut rig, &dir, configuration, seconds, repetition);
            if stop.load(Ordering::Relaxed) {
                bail!("interrupted");
            }
            match outcome {
                Ok(run) => measured.runs.push(run),
                // It may have been a mishap: the next repetition tries it again.
                Err(why) => {
                    let why = reason(&format!("{why:#}"));
                    eprintln!("bench ablation: {}: {why}", configuration.name);
                    measured.failed.insert(configuration.name.clone(), why);
                }
            }
        }
    }
    let ablation = Ablation {
        machine: Machine::this(),
        size: args.size.to_string(),
        bitrate: args.bitrate.clone(),
        turns,
        floor_ms: floor.latency_ms,
        other_cores: measured
            .runs
            .iter()
            .map(|r| r.other_cores)
            .fold(floor.other_cores, f64::max),
        cumulative: measured.cumulative(),
        leave_one_out: measured.leave_one_out(),
        alternatives: measured.alternatives(),
        links: measured.over_links(),
        busy: measured.busy(),
        runs: measured.runs,
    };
    print!("{}", write::text(&ablation));
    if let Some(folder) = &args.out {
        write::files(&ablation, folder)?;
    }
    Ok(())
}

/// Every configuration, each once.
fn configurations() -> Vec<Configuration> {
    let all = FACTORS.len();
    let cumulative =
        (0..=all).map(|with| Configuration::without(&rung(with), (with..all).collect()));
    // The last rung but one is ours without the last factor.
    let leave_one_out =
        (0..all - 1).map(|factor| Configuration::without(&lacking(factor), vec![factor]));
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let alternatives = ALTERNATIVES.iter().map(|(name, words)| Configuration {
        more: owned(words),
        ..Configuration::without(name, Vec::new())
    });
    let links = LINKS.iter().map(|(name, host, client)| Configuration {
        more: owned(host),
        more_client: owned(client),
        cable: true,
        ..Configuration::without(name, Vec::new())
    });
    let busy =
        [(BUSY_OURS, vec![]), (BUSY_OTHER, vec![all - 1])].map(|(name, without)| Configuration {
            busy: true,
            ..Configuration::without(name, without)
        });
    cumulative
        .chain(leave_one_out)
        .chain(alternatives)
        .chain(links)
        .chain(busy)
        .collect()
}

const BUSY_OURS: &str = "all cores busy, real-time";
const BUSY_OTHER: &str = "all cores busy, SCHED_OTHER";

/// The cumulative configuration with the first `with` factors.
fn rung(with: usize) -> String {
    match with.checked_sub(1) {
        None => "conventional".to_owned(),
        Some(last) => format!("+ {}", FACTORS[last].name),
    }
}

/// Ours without `factor`.
fn lacking(factor: usize) -> String {
    if factor + 1 == FACTORS.len() {
        return rung(factor);
    }
    format!("without {}", FACTORS[factor].name)
}

fn measure(
    args: &Args,
    rig: &mut Rig<'_>,
    dir: &TemporaryDir,
    configuration: &Configuration,
    seconds: f64,
    repetition: u32,
) -> Result<Run> {
    let _busy = configuration.busy.then(Busy::start).transpose()?;
    if let Some(link) = configuration.link()
        && !openuvr_net::LINKS
            .iter()
            .any(|kind| kind.rung.name() == link)
    {
        bail!("this build has no link {link}");
    }
    let cable = configuration.cable.then(Cable::lay).transpose()?;
    let csv = dir.path().join("frames.csv");
    let stream = rig.stream(&Streamed {
        source: Source::Screen,
        cable: cable.as_ref(),
        fps: FPS,
        bitrate: &args.bitrate,
        seconds,
        presses: 0,
        compare: false,
        dir: dir.path(),
        csv: &csv,
        more_host: &configuration.host_words(),
        more_client: &configuration.client_words(),
    })?;
    let latency_ms = stream.case.latency_ms.context("no frame came whole")?;
    Ok(Run {
        configuration: configuration.name.clone(),
        repetition,
        link: stream.link.clone(),
        latency_ms,
        drawn: stream.case.frames.drawn,
        whole: stream.whole(),
        wire_mbps: stream.wire_mbps,
        cores: stream.cores(),
        other_cores: stream.case.other_cores,
        steps: stream.steps,
    })
}

/// What an error says of why: the program's own line, or else the last.
fn reason(text: &str) -> String {
    let said = text.lines().find_map(|line| {
        let own = ["openuvr: ", "error: "]
            .iter()
            .find_map(|word| line.split_once(word));
        own.map(|(_, why)| why)
    });
    let line = said.or_else(|| text.lines().last()).unwrap_or(text);
    line.trim().to_owned()
}

/// A busy ordinary thread on each core, until dropped.
struct Busy {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Busy {
    fn start() -> Result<Busy> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut busy = Busy {
            stop: Arc::new(AtomicBool::new(false)),
            threads: Vec::new(),
        };
        for _ in 0..cores {
            let stop = busy.stop.clone();
            let thread = std::thread::Builder::new()
                .name("busy".into())
                .spawn(move || {
                    let mut work = 1_u64;
                    while !stop.load(Ordering::Relaxed) {
                        for _ in 0..10_000 {
                            work =
                                std::hint::black_box(work.wrapping_mul(6_364_136_223_846_793_005));
                        }
                    }
                });
            busy.threads.push(thread?);
        }
        Ok(busy)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// What has been measured, and what could not be.
#[derive(Default)]
struct Measured {
    runs: Vec<Run>,
    /// Why a configuration failed the last time that it did.
    failed: BTreeMap<String, String>,
}

impl Measured {
    fn of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Run> {
        self.runs
            .iter()
            .filter(move |run| run.configuration == name)
    }

    /// Why there is no run of it.
    fn why_not(&self, name: &str) -> Option<&String> {
        let none = self.of(name).next().is_none();
        self.failed.get(name).filter(|_| none)
    }

    fn links(&self, name: &str) -> Option<String> {
        let links: BTreeSet<&str> = self
            .of(name)
            .filter_map(|run| run.link.as_deref())
            .collect();
        (!links.is_empty()).then(|| Vec::from_iter(links).join(", "))
    }

    fn range(&self, name: &str, of: impl Fn(&Run) -> f64) -> Option<Range> {
        Range::of(&self.of(name).map(of).collect::<Vec<_>>())
    }

    /// The row of a configuration; `other` is the one that its worth is compared with.
    fn row(&self, name: &str, note: &str, other: Option<&str>) -> Row {
        let p50 = |name| self.range(name, |run: &Run| run.latency_ms.p50);
        let p50_ms = p50(name);
        let both = p50_ms.zip(other.and_then(p50));
        let repeated = |name: &&str| self.of(name).count() > 1;
        Row {
            name: name.to_owned(),
            note: note.to_owned(),
            link: self.links(name),
            runs: self.of(name).count(),
            unavailable: self.why_not(name).cloned(),
            p50_ms,
            p99_ms: self.range(name, |run| run.latency_ms.p99),
            whole: self
                .of(name)
                .filter_map(|run| share(run.whole, run.drawn))
                .reduce(f64::min),
            cores: self.range(name, |run| run.cores),
            worth_ms: both.map(|(own, other)| other.median - own.median),
            clear: both
                .filter(|_| [Some(name), other].iter().flatten().all(repeated))
                .map(|(own, other)| own.max < other.min || other.max < own.min),
        }
    }

    fn cumulative(&self) -> Vec<Row> {
        (0..=FACTORS.len())
            .map(|with| match with.checked_sub(1) {
                None => {
                    let all: Vec<&str> = FACTORS.iter().map(|f| f.instead).collect();
                    self.row(&rung(0), &all.join(", "), None)
                }
                Some(last) => {
                    let note = format!("not {}", FACTORS[last].instead);
                    self.row(&rung(with), &note, Some(&rung(last)))
                }
            })
            .collect()
    }

    fn leave_one_out(&self) -> Vec<Row> {
        let ours = rung(FACTORS.len());
        let rows = FACTORS.iter().enumerate().map(|(factor, what)| {
            let mut row = self.row(&lacking(factor), what.instead, Some(&ours));
            row.name = format!("without {}", what.name);
            // What is lost without it is what it is worth.
            row.worth_ms = row.worth_ms.map(|worth| -worth);
            row
        });
        rows.collect()
    }

    fn alternatives(&self) -> Vec<Row> {
        let ours = rung(FACTORS.len());
        let row = |&(name, words): &(&str, &[&str])| self.row(name, &words.join(" "), Some(&ours));
        ALTERNATIVES.iter().map(row).collect()
    }

    fn over_links(&self) -> Vec<Row> {
        let first = LINKS[0].0;
        let row = |(name, host, client): &(&str, &[&str], &[&str])| {
            let note = [*host, *client].concat().join(" ");
            self.row(name, &note, (*name != first).then_some(first))
        };
        LINKS.iter().map(row).collect()
    }

    fn busy(&self) -> Vec<Row> {
        vec![
            self.row(BUSY_OTHER, "a busy thread on each core", None),
            self.row(BUSY_OURS, "likewise", Some(BUSY_OTHER)),
        ]
    }
}

impl Ablation {
    fn is_loud(&self) -> bool {
        self.other_cores > QUIET
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(configuration: &str, repetition: u32, p50: f64) -> Run {
        Run {
            configuration: configuration.to_owned(),
            repetition,
            link: Some("udp-gso".into()),
            latency_ms: Summary::of(&[p50]).unwrap(),
            drawn: 10,
            whole: 9,
            wire_mbps: None,
            cores: 0.3,
            other_cores: 0.0,
            steps: Vec::new(),
        }
    }

    #[test]
    fn each_configuration_has_a_name_and_adds_one_factor() {
        let all = configurations();
        let names: std::collections::BTreeSet<_> = all.iter().map(|c| &c.name).collect();
        assert_eq!(names.len(), all.len());
        for (with, rung) in all.iter().take(FACTORS.len() + 1).enumerate() {
            assert_eq!(rung.without.len(), FACTORS.len() - with);
        }
        let conventional = all[0].host_words();
        let times = |word: &str| conventional.iter().filter(|w| *w == word).count();
        for factor in &FACTORS {
            for option in factor.without.iter().step_by(2) {
                assert_eq!(times(option), 1, "{option} once, or the host refuses it");
            }
        }
        assert!(
            all[FACTORS.len()].host_words() == ["--rate", "constant"],
            "ours is the default"
        );
        assert_eq!(all[0].client_words(), ["--realtime", "off"]);
    }

    #[test]
    fn worth_is_clear_if_the_ranges_are_apart() {
        let ours = rung(FACTORS.len());
        let mut measured = Measured::default();
        for (repetition, (own, without)) in [(5.0, 9.0), (6.0, 7.0), (5.5, 8.0)].iter().enumerate()
        {
            let repetition = u32::try_from(repetition).unwrap();
            measured.runs.push(run(&ours, repetition, *own));
            measured.runs.push(run(&lacking(0), repetition, *without));
            measured.runs.push(run(&lacking(1), repetition, *own + 0.2));
        }
        measured
            .failed
            .insert("AF_XDP".into(), "no such device".into());
        // It failed once, and then it worked.
        measured.failed.insert(ours.clone(), "a mishap".into());
        let rows = measured.leave_one_out();
        assert_eq!((rows[0].worth_ms, rows[0].clear), (Some(2.5), Some(true)));
        assert!((rows[1].worth_ms.unwrap() - 0.2).abs() < 1e-9);
        assert_eq!(rows[1].clear, Some(false));
        assert_eq!(rows[2].worth_ms, None, "not measured is not zero");
        assert_eq!(rows[0].whole, Some(0.9));
        let last = measured.cumulative().pop().unwrap();
        assert_eq!((last.runs, last.unavailable), (3, None));
        assert_eq!(last.link.as_deref(), Some("udp-gso"));
        let xdp = &measured.over_links()[4];
        assert_eq!(xdp.unavailable.as_deref(), Some("no such device"));
    }

    #[test]
    fn the_reason_is_the_programs_own_line() {
        let text = "the host ended: exit status: 2\nerror: invalid value 'raw'\n\nTry --help";
        assert_eq!(reason(text), "invalid value 'raw'");
        assert_eq!(reason("openuvr: can't bind"), "can't bind");
        assert_eq!(reason("one\ntwo"), "two");
    }
}
