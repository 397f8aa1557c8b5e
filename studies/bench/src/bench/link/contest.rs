//! `openuvr bench link --aqm`: rate controllers beside competing flows, in the simulator.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use openuvr_lab::contest::controller::Kind;
use openuvr_lab::contest::figures::{Figures, Verdict, fair_rate, verdicts};
use openuvr_lab::contest::run::{Observed, Setting, run as simulate};
use openuvr_proto::send::congestion::Range;
use openuvr_proto::units::Bitrate;
use openuvr_sim::aqm::Discipline;
use openuvr_sim::flows;
use openuvr_sim::script;
use openuvr_terminal::usage::UsageError;
use serde_json::json;

use super::FPS;
use crate::result_file;

/// Options of the simulation.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct ContestArgs {
    /// Instead of measuring, simulate rate controllers beside competing flows, with these queue disciplines at the
    /// bottleneck: droptail, pie, fq_codel, dualpi2. The same seed gives the same figures on every machine
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        conflicts_with_all = ["cases", "recovery", "size", "bitrate", "sched", "host_csv", "host_arg"]
    )]
    aqm: Vec<Discipline>,
    /// With --aqm: numbers of competing flows, at most 4
    #[arg(
        long,
        value_name = "NUMBERS",
        value_delimiter = ',',
        requires = "aqm",
        default_value = "0,1,2,3,4"
    )]
    flows: Vec<usize>,
    /// With --aqm: kinds of the competing flows (cubic, prague, bbr, greedy); if there are more flows than kinds, the
    /// list repeats
    #[arg(
        long,
        value_name = "KINDS",
        value_delimiter = ',',
        requires = "aqm",
        default_value = "cubic"
    )]
    competitors: Vec<flows::Kind>,
    /// With --aqm: rate controllers (own, own-l4s, gcc, scream, scream-l4s, fixed)
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        requires = "aqm",
        default_value = "own,own-l4s,gcc,scream,scream-l4s"
    )]
    controllers: Vec<Kind>,
    /// With --aqm: rate of the bottleneck, at most 1G
    #[arg(long, value_name = "BITS", requires = "aqm", default_value = "20M", value_parser = script::rate)]
    link_rate: Bitrate,
    /// With --aqm: delay in each direction, without queueing; at most 1s
    #[arg(long, value_name = "TIME", requires = "aqm", default_value = "10ms", value_parser = script::time)]
    one_way: Duration,
    /// With --aqm: limit of the bottleneck's queue, as the time that the bottleneck takes to send a full queue; at most
    /// 1s
    #[arg(long, value_name = "TIME", requires = "aqm", default_value = "100ms", value_parser = script::time)]
    queue: Duration,
}

/// Time before the measurement.
const SETTLING: Duration = Duration::from_secs(10);
/// The video's target rate: its minimum (`LEAST`) and its initial value (`FIRST`). Its maximum is the rate of the link.
const LEAST: Bitrate = Bitrate(500_000);
const FIRST: Bitrate = Bitrate::from_mbps(4);
/// Maximum number of competing flows.
const MOST_FLOWS: usize = 4;
/// Maximum rate of the link. The simulation keeps an entry for each datagram of the last 600 frames, which takes 50 MB
/// at this rate.
const MOST_RATE: Bitrate = Bitrate::from_mbps(1000);

impl ContestArgs {
    /// Whether the simulation is selected.
    pub(super) fn is_selected(&self) -> bool {
        !self.aqm.is_empty()
    }

    fn setting(&self, discipline: Discipline, flows: usize, how: &Shared) -> Setting {
        let kinds = self.competitors.iter().copied().cycle();
        Setting {
            controller: Kind::Fixed,
            discipline,
            rate: self.link_rate,
            one_way: self.one_way,
            queue: self.queue,
            competitors: kinds.take(flows).collect(),
            range: Range {
                min: LEAST.min(self.link_rate),
                start: FIRST.min(self.link_rate),
                max: self.link_rate,
            },
            fps: FPS,
            settling: SETTLING,
            lasting: how.lasting,
            seed: how.seed,
        }
    }
}

/// The options that the simulation shares with the measurement.
pub(super) struct Shared<'a> {
    pub(super) lasting: Duration,
    pub(super) seed: u64,
    pub(super) quick: bool,
    pub(super) json: Option<&'a Path>,
}

/// Simulates all cases and prints the figures and verdicts. With a result file, writes them and the time series.
pub(super) fn run(args: &ContestArgs, how: &Shared<'_>, stop: &AtomicBool) -> Result<()> {
    ensure!(
        args.flows.iter().all(|flows| *flows <= MOST_FLOWS),
        UsageError::new("--flows: each number must be at most 4")
    );
    ensure!(
        args.link_rate <= MOST_RATE,
        UsageError::new("--link-rate must be at most 1G")
    );
    ensure!(
        args.one_way <= Duration::from_secs(1) && args.queue <= Duration::from_secs(1),
        UsageError::new("--one-way and --queue must be at most 1s")
    );
    println!(
        "simulated: {:.1} Mb/s, {:?} each way, queue of {:?}; latency from capture to the last datagram",
        args.link_rate.0 as f64 / 1e6,
        args.one_way,
        args.queue
    );
    let mut all = Vec::new();
    for discipline in &args.aqm {
        for flows in &args.flows {
            let setting = args.setting(*discipline, *flows, how);
            let path = simulate(&alone_at_the_fair_rate(&setting));
            for (number, controller) in args.controllers.iter().enumerate() {
                if stop.load(Ordering::Relaxed) {
                    bail!("interrupted");
                }
                let setting = Setting {
                    controller: *controller,
                    ..setting.clone()
                };
                let observed = simulate(&setting);
                let mut figures = Figures::of(&setting, &observed, &path);
                if number == 0 {
                    print_case(&figures);
                }
                print(&figures);
                if let Some(path) = how.json {
                    figures.series = Some(write_series(path, &figures, &observed)?);
                }
                all.push(figures);
            }
        }
    }
    let verdicts = verdicts(&all);
    println!();
    for verdict in &verdicts {
        println!("target   {}", verdict.line());
    }
    if let Some(path) = how.json {
        result_file::write(path, "bench.link_aqm", &content(args, how, &all, &verdicts))?;
    }
    Ok(())
}

/// The setting that measures the path: a fixed rate, without competing flows.
fn alone_at_the_fair_rate(setting: &Setting) -> Setting {
    let fair = Bitrate(fair_rate(setting) as u64);
    Setting {
        controller: Kind::Fixed,
        competitors: Vec::new(),
        range: Range {
            start: fair,
            ..setting.range
        },
        ..setting.clone()
    }
}

fn content(
    args: &ContestArgs,
    how: &Shared<'_>,
    runs: &[Figures],
    verdicts: &[Verdict],
) -> serde_json::Value {
    json!({
        "quick": how.quick,
        "seed": how.seed,
        "seconds": how.lasting.as_secs_f64(),
        "link_mbps": args.link_rate.0 as f64 / 1e6,
        "one_way_ms": args.one_way.as_secs_f64() * 1e3,
        "queue_ms": args.queue.as_secs_f64() * 1e3,
        "runs": runs,
        "verdicts": verdicts,
    })
}

fn print_case(figures: &Figures) {
    println!();
    println!(
        "== {}; p99 alone at the fair rate: {} ms ==",
        figures.case_name(),
        millis(figures.path_p99_ms)
    );
    println!(
        "{:<12}{:>8}{:>8}{:>12}{:>9}{:>8}{:>7}{:>7}{:>8}{:>8}",
        "controller",
        "p50 ms",
        "p99 ms",
        "complete/s",
        "skipped",
        "Mb/s",
        "share",
        "Jain",
        "marked",
        "dropped"
    );
}

fn print(figures: &Figures) {
    println!(
        "{:<12}{:>8}{:>8}{:>12.1}{:>8.1}%{:>8.2}{:>7.2}{:>7.2}{:>8}{:>8}",
        figures.controller,
        millis(figures.p50_ms),
        millis(figures.p99_ms),
        figures.complete_per_second,
        figures.skipped * 100.0,
        figures.mbps,
        figures.fair_share,
        figures.jain,
        figures.marked,
        figures.dropped
    );
}

fn millis(time: Option<f64>) -> String {
    time.map_or("-".into(), |time| format!("{time:.1}"))
}

/// Writes the time series of a run beside the result file. Returns the name of the series' file.
fn write_series(path: &Path, figures: &Figures, observed: &Observed) -> Result<String> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = format!(
        "{stem}-{}-{}-{}.csv",
        figures.aqm,
        figures.competitors.len(),
        figures.controller
    );
    let heads = [
        "seconds",
        "video_mbps",
        "target_mbps",
        "competitors_mbps",
        "latency_ms",
        "queue_ms",
        "marked",
        "dropped",
    ];
    let rows = observed.series.iter().map(|point| {
        vec![
            format!("{:.1}", point.at.as_secs_f64()),
            format!("{:.3}", point.video / 1e6),
            format!("{:.3}", point.target.0 as f64 / 1e6),
            format!("{:.3}", point.bulk / 1e6),
            format!("{:.3}", point.latency.as_secs_f64() * 1e3),
            format!("{:.3}", point.queue.as_secs_f64() * 1e3),
            point.marked.to_string(),
            point.dropped.to_string(),
        ]
    });
    result_file::write_csv(&path.with_file_name(&name), &heads, rows)?;
    Ok(name)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        link: super::super::Args,
    }

    fn parse(line: &str) -> Result<ContestArgs, clap::Error> {
        let words = format!("link {line}");
        Program::try_parse_from(words.split_whitespace()).map(|program| program.link.contest)
    }

    #[test]
    fn the_options_describe_every_case() {
        let args = parse("--aqm dualpi2,pie --flows 0,3 --competitors cubic,bbr --controllers gcc");
        let args = args.unwrap();
        assert_eq!(args.aqm, [Discipline::DualPi2, Discipline::Pie]);
        let how = Shared {
            lasting: Duration::from_secs(1),
            seed: 1,
            quick: true,
            json: None,
        };
        let setting = args.setting(Discipline::Pie, 3, &how);
        let [cubic, bbr] = [flows::Kind::Cubic, flows::Kind::Bbr];
        assert_eq!(setting.competitors, [cubic, bbr, cubic]);
        let path = alone_at_the_fair_rate(&setting);
        assert_eq!(path.range.start, Bitrate::from_mbps(5));
        assert!(path.competitors.is_empty());
        assert!(!parse("").unwrap().is_selected());
    }

    #[test]
    fn nonsense_is_refused() {
        for wrong in [
            "--aqm red",
            "--flows 2",
            "--aqm pie --cases loss",
            "--aqm pie --competitors reno",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn values_above_the_limits_are_refused() {
        let how = Shared {
            lasting: Duration::from_secs(1),
            seed: 1,
            quick: true,
            json: None,
        };
        for (option, value) in [("--flows", "5"), ("--link-rate", "2G"), ("--queue", "2s")] {
            let args = parse(&format!("--aqm pie {option} {value}")).unwrap();
            let error = run(&args, &how, &AtomicBool::new(false)).unwrap_err();
            assert!(error.to_string().contains(option), "{error}");
        }
    }

    #[test]
    fn a_run_writes_figures_verdicts_and_series() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("aqm.json");
        let args = parse("--aqm dualpi2 --flows 2 --controllers own,gcc").unwrap();
        let how = Shared {
            lasting: Duration::from_secs(2),
            seed: 1,
            quick: true,
            json: Some(&path),
        };
        run(&args, &how, &AtomicBool::new(false)).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let written: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(written["schema"], "openuvr.bench.link_aqm");
        assert_eq!(written["runs"].as_array().unwrap().len(), 2);
        // Two goals of L4S, and three comparisons with GCC.
        assert_eq!(written["verdicts"].as_array().unwrap().len(), 5);
        let series = folder.path().join("aqm-dualpi2-2-own.csv");
        let lines = std::fs::read_to_string(series).unwrap().lines().count();
        assert!(lines > 110, "{lines}");
    }
}
