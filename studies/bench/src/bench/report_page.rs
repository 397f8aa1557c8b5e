//! `openuvr bench report`: runs missing measurements, then starts the reporter (`studies/report`, in Python). The
//! reporter draws one page from the result files.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, bail, ensure};
use openuvr_clock as clock;
use openuvr_testbed::child::Child;
use openuvr_testbed::programs;
use serde_json::Value;

use crate::result_file;

/// Make one HTML page of all measurements, with a verdict for each figure of the papers.
///
/// Reads the result files (JSON, CSV) of the benches and of `openuvr lab wifi`, `lab traffic` and `lab jitter` in one
/// or more folders. Each figure of the papers is marked as reproduced, not reproduced, inconclusive, not measured or
/// not testable here, with the reason and the criterion. The verdict follows from 95 % confidence intervals over
/// repeated runs. A quick run or a busy machine gives no verdict.
///
/// The reporter is a Python program: it needs python3-pandas, python3-matplotlib and
/// python3-jinja2. `python3 studies/report --help` describes it.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// Folder with result files; may be repeated
    #[arg(long, value_name = "FOLDER", default_value = "bench-data")]
    from: Vec<PathBuf>,
    /// Run the benches and studies whose result in the first folder is missing, incomplete or from a quick run (takes
    /// hours; with --quick: minutes)
    #[arg(long)]
    run: bool,
    /// With --run: run the short version of each bench and study; existing results are replaced
    #[arg(long, requires = "run")]
    quick: bool,
    /// Write the page to this file (default: report.html in the first folder)
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write each plot as SVG and PNG into this folder
    #[arg(long, value_name = "FOLDER")]
    plots: Option<PathBuf>,
}

/// A bench or study that `--run` runs.
struct Measurement {
    /// The path of the result file in the output folder.
    file: &'static str,
    /// The command line. `{folder}` stands for the output folder, `{file}` for the result file, `{parent}` for the
    /// folder of the result file, and `{captures}` for a folder inside the output folder.
    command: &'static str,
    /// Additional arguments of the full version.
    full: &'static str,
    /// Additional arguments of the short version, whose result file is marked as that of a quick run. `None` if the
    /// short versions of the other measurements suffice.
    quick: Option<&'static str>,
}

const fn bench(file: &'static str, command: &'static str) -> Measurement {
    Measurement {
        file,
        command,
        full: "",
        quick: Some("--quick"),
    }
}

/// A measurement whose short version has these additional arguments.
const fn shortened(file: &'static str, command: &'static str, quick: &'static str) -> Measurement {
    Measurement {
        file,
        command,
        full: "",
        quick: Some(quick),
    }
}

/// A run of `lab jitter`. The full version measures only the cells that are missing in the run's folder (--continue).
/// It raises --limit, because a cell with one pair can take longer than the default.
const fn jitter(
    file: &'static str,
    command: &'static str,
    quick: Option<&'static str>,
) -> Measurement {
    Measurement {
        file,
        command,
        full: "--continue --limit 1h",
        quick,
    }
}

/// All cells, with the slides' number of pairs.
const ALL_CELLS: &str = "lab jitter --out {parent}";
/// The cells of the slides' claim about parallelism, with one pair and with many.
const WITH_1_PAIR: &str =
    "lab jitter --only pthread/ping-pong/other,caf/ping-pong/other --pairs 1 --out {parent}";
const WITH_64_PAIRS: &str =
    "lab jitter --only pthread/ping-pong/other,caf/ping-pong/other --pairs 64 --out {parent}";

/// The cells of the claim about longer runs, with a tenth of the slides' number of messages.
const SHORT_RUN: &str = "lab jitter --only pthread/ping-pong/other,caf/ping-pong/other --samples 1000000 --out {parent}";

/// The benches and studies, in the order in which they run. A result file of `lab jitter` counts as one run, and a
/// verdict needs three runs.
static MEASUREMENTS: [Measurement; 37] = [
    bench("latency.json", "bench latency --json {file}"),
    bench("ablation.json", "bench ablation --out {folder}"),
    bench("sync.json", "bench sync --out {folder}"),
    bench("capture.json", "bench capture --out {folder}"),
    bench("slices.json", "bench slices --out {folder}"),
    bench("peers.json", "bench peers --out {folder}"),
    bench("scheduling.json", "bench scheduling --out {folder}"),
    shortened(
        "encoder.json",
        "bench encoder x264 --out {folder}",
        "--frames 60",
    ),
    bench("link.json", "bench link --json {file}"),
    bench("sound.json", "bench sound --out {folder}"),
    bench("web.json", "bench web --out {folder}"),
    bench("pads.json", "bench pads --out {folder}"),
    bench("sensor.json", "bench sensor --out {folder}"),
    bench("quality.json", "bench quality --json {file}"),
    bench("sessions.json", "bench sessions --out {folder}"),
    shortened(
        "foveation.json",
        "bench foveation --out {folder}",
        "--frames 10",
    ),
    shortened(
        "prediction.json",
        "bench prediction --out {folder}",
        "--duration 20s",
    ),
    shortened(
        "reprojection.json",
        "bench reprojection --out {folder}",
        "--round-trips 0,50 --duration 1s",
    ),
    shortened(
        "wifi.json",
        "lab wifi --paper --out {folder}",
        "--runs 2 --duration 1s",
    ),
    shortened(
        "wifi-topology.json",
        "lab wifi --topology --out {folder}",
        "--runs 2 --duration 1s",
    ),
    shortened(
        "captures/truth.json",
        "lab traffic --generate --out {captures}",
        "--duration 5s",
    ),
    shortened(
        "traffic.json",
        "lab traffic {captures}/server.pcapng {captures}/client.pcapng --sent-fps 90 \
         --out {folder}",
        "",
    ),
    jitter("jitter-1/jitter.json", ALL_CELLS, Some("--quick")),
    jitter("jitter-2/jitter.json", ALL_CELLS, None),
    jitter("jitter-3/jitter.json", ALL_CELLS, None),
    jitter(
        "jitter-1-with-1-pair/jitter.json",
        WITH_1_PAIR,
        Some("--quick"),
    ),
    jitter(
        "jitter-1-with-64-pairs/jitter.json",
        WITH_64_PAIRS,
        Some("--quick"),
    ),
    jitter("jitter-1-short/jitter.json", SHORT_RUN, Some("")),
    jitter("jitter-2-short/jitter.json", SHORT_RUN, None),
    jitter("jitter-3-short/jitter.json", SHORT_RUN, None),
    jitter("jitter-2-with-1-pair/jitter.json", WITH_1_PAIR, None),
    jitter("jitter-2-with-64-pairs/jitter.json", WITH_64_PAIRS, None),
    jitter("jitter-3-with-1-pair/jitter.json", WITH_1_PAIR, None),
    jitter("jitter-3-with-64-pairs/jitter.json", WITH_64_PAIRS, None),
    bench(
        "link_aqm.json",
        "bench link --aqm droptail,pie,fq_codel,dualpi2 --json {file}",
    ),
    shortened(
        "quality-feedback.json",
        "bench quality --feedback --clip none --json {file}",
        "--repetitions 1 --duration 2s --size 640x360",
    ),
    shortened(
        "quality-batches.json",
        "bench quality --clip none --json {file} --batches",
        "20s --size 640x360",
    ),
];

/// Exit code of a study in which a figure differs from the paper, or in which cells are missing. The results of such a
/// study are used. A failed study has the same exit code, but writes no results.
const DIFFERS: i32 = 1;

/// Time limit for a bench to clean up: to end its hosts, clients and displays, and to remove its namespaces.
const CLEAN_UP: Duration = Duration::from_secs(20);

/// Runs missing measurements, if requested, and draws the page.
pub(crate) fn run(args: &Args) -> Result<()> {
    let first = args.from.first().context("--from names no folder")?;
    let mut failed = Vec::new();
    if args.run {
        let stop = openuvr_terminal::signals::stop_on_signals()?;
        std::fs::create_dir_all(first)
            .with_context(|| format!("can't make the folder {}", first.display()))?;
        let all = Vec::from_iter(measurements(args.quick));
        for (number, measurement) in (1..).zip(&all) {
            if !args.quick && measurement.has_full_run(first) {
                continue;
            }
            println!(
                "\n{number} of {}: openuvr {}",
                all.len(),
                measurement.name()
            );
            // If a measurement fails, continue with the others.
            let outcome = measurement.run(first, args.quick, &stop);
            ensure!(!stop.load(Ordering::Relaxed), "interrupted");
            if let Err(error) = outcome {
                eprintln!("openuvr bench report: {error:#}");
                failed.push(measurement.file);
            }
        }
    }
    draw(args)?;
    let failed = failed.join(", ");
    ensure!(
        failed.is_empty(),
        "these measurements failed, so the page may lack some or all of their results: {failed}"
    );
    Ok(())
}

/// With `quick`, the measurements that have a short version; otherwise, all measurements.
fn measurements(quick: bool) -> impl Iterator<Item = &'static Measurement> {
    MEASUREMENTS
        .iter()
        .filter(move |measurement| !quick || measurement.quick.is_some())
}

impl Measurement {
    /// The name of the bench or study, such as `bench latency`.
    fn name(&self) -> String {
        let words = self.command.split_whitespace().take(2);
        Vec::from_iter(words).join(" ")
    }

    /// The words of the command line.
    fn words(&self, folder: &Path, quick: bool) -> Vec<String> {
        let more = match quick {
            true => self.quick.unwrap_or_default(),
            false => self.full,
        };
        let words = self.command.split_whitespace();
        let text = |path: &Path| path.display().to_string();
        let file = folder.join(self.file);
        let parent = file.parent().unwrap_or(folder);
        words
            .chain(more.split_whitespace())
            .map(|word| {
                word.replace("{folder}", &text(folder))
                    .replace("{file}", &text(&file))
                    .replace("{parent}", &text(parent))
                    .replace("{captures}", &text(&folder.join("captures")))
            })
            .collect()
    }

    /// Whether there is a result file of a complete run that was not quick. Always false for the generated captures,
    /// whose file contains no command line.
    fn has_full_run(&self, folder: &Path) -> bool {
        let text = std::fs::read_to_string(folder.join(self.file)).unwrap_or_default();
        let file = serde_json::from_str::<Value>(&text).unwrap_or_default();
        let command = file.get("command").and_then(Value::as_str);
        let quick = self.quick.filter(|words| !words.is_empty());
        let is_short = |command: &str| quick.is_some_and(|words| command.contains(words));
        // The parts that are missing, such as the failed cases of `bench latency`.
        let missing = file.get("incomplete").and_then(Value::as_array);
        // `bench web` without its programs measures nothing, and states the reason.
        let is_complete = missing.is_none_or(Vec::is_empty) && file.get("skipped").is_none();
        command.is_some_and(|command| !is_short(command)) && is_complete && !has_quick(&file)
    }

    /// The process of the measurement.
    fn process(&self, folder: &Path, quick: bool) -> Result<Command> {
        let words = self.words(folder, quick);
        let (group, words) = words.split_first().context("an empty command")?;
        let mut command = programs::own(group)?;
        command.args(words);
        if quick {
            command.env(result_file::QUICK, "1");
        } else {
            command.env_remove(result_file::QUICK);
        }
        Ok(command)
    }

    /// Runs the measurement to its end. If this program is stopped, it stops the measurement.
    fn run(&self, folder: &Path, quick: bool, stop: &AtomicBool) -> Result<()> {
        let before = self.written(folder);
        let mut bench = Child::start("bench", self.process(folder, quick)?, None)?;
        let status = loop {
            if let Some(status) = bench.ended() {
                break status;
            }
            if stop.load(Ordering::Relaxed) {
                bench.stop_within(CLEAN_UP);
                bail!("interrupted");
            }
            clock::sleep_until(clock::now() + Duration::from_millis(100));
        };
        ensure!(
            self.has_results(status, self.written(folder) != before),
            "{} ended with {status}: see its messages above",
            self.name()
        );
        Ok(())
    }

    /// The time at which the result file was last written; `None` if there is no such file.
    fn written(&self, folder: &Path) -> Option<SystemTime> {
        let file = std::fs::metadata(folder.join(self.file)).ok()?;
        file.modified().ok()
    }

    /// Whether a measurement with this exit status has results. `is_written` states whether the measurement has written
    /// its result file, because an existing file may be from an earlier run.
    fn has_results(&self, status: ExitStatus, is_written: bool) -> bool {
        let differs = self.command.starts_with("lab ") && status.code() == Some(DIFFERS);
        status.success() || (differs && is_written)
    }
}

/// Whether a field `quick` is true, at any depth.
fn has_quick(value: &Value) -> bool {
    match value {
        Value::Object(fields) => (fields.iter()).any(|(name, value)| {
            (name == "quick" && *value == Value::Bool(true)) || has_quick(value)
        }),
        Value::Array(all) => all.iter().any(has_quick),
        _ => false,
    }
}

/// The distribution's Python. Unlike a Python that a user has installed, it has the distribution's packages.
const PYTHON: &str = "/usr/bin/python3";

/// Starts the reporter, which reads the folders and draws the page.
fn draw(args: &Args) -> Result<()> {
    let mut command = Command::new(PYTHON);
    // Don't write compiled files (-B), because the installation may be read-only.
    command.arg("-B").arg(reporter()?).args(&args.from);
    for (option, value) in [("--out", &args.out), ("--plots", &args.plots)] {
        if let Some(value) = value {
            command.arg(option).arg(value);
        }
    }
    let status = command
        .status()
        .with_context(|| format!("can't start the reporter with {PYTHON} (install python3)"))?;
    if status.signal().is_some() {
        bail!("the reporter was ended by a signal");
    }
    ensure!(
        status.success(),
        "the reporter failed: its message is above"
    );
    Ok(())
}

/// The reporter's folder: in the installation of this program, otherwise in the source tree.
fn reporter() -> Result<PathBuf> {
    let program = std::env::current_exe().context("can't find the path of this executable")?;
    let installed = program.ancestors().nth(2);
    let installed = installed.map(|prefix| prefix.join("share/openuvr/report"));
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let sources = sources.map(|folder| folder.join("studies/report"));
    let mut places = installed.into_iter().chain(sources);
    let found = places.find(|place| place.join("__main__.py").is_file());
    found.context("the reporter is not installed: ./dev install --bench installs it")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use openuvr_testbed::pair::TemporaryDir;
    use serde_json::json;

    use super::*;

    fn of(file: &str) -> &'static Measurement {
        let found = MEASUREMENTS.iter().find(|one| one.file == file);
        found.expect("a measurement")
    }

    /// This test fails for a new bench until the report runs it.
    #[test]
    fn the_report_runs_all_benches() {
        let bench = clap::Command::new("bench");
        let bench = <crate::bench::Args as clap::Args>::augment_args(bench);
        let names = bench.get_subcommands().map(clap::Command::get_name);
        let missing = Vec::from_iter(names.filter(|name| {
            let command = format!("bench {name} ");
            let mut all = MEASUREMENTS.iter();
            !all.any(|one| one.command.starts_with(&command))
        }));
        assert_eq!(missing, ["report"]);
    }

    #[test]
    fn a_quick_run_is_measured_again() {
        let folder = TemporaryDir::new().unwrap();
        let is_full = |file: &str, value: Value| {
            let measurement = of(file);
            let path = folder.path().join(measurement.file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, value.to_string()).unwrap();
            measurement.has_full_run(folder.path())
        };
        let command = "openuvr bench latency";
        let cases = |quick: bool| json!([{"setting": {"quick": quick}}]);
        assert!(is_full(
            "latency.json",
            json!({"command": command, "cases": cases(false)})
        ));
        assert!(!is_full(
            "latency.json",
            json!({"command": command, "cases": cases(true)})
        ));
        assert!(is_full(
            "wifi.json",
            json!({"command": "openuvr lab wifi --paper --out a"})
        ));
        assert!(!is_full(
            "wifi.json",
            json!({"command": "openuvr lab wifi --paper --runs 2 --duration 1s"})
        ));
        assert!(!is_full("captures/truth.json", json!({"lost": 0})));
        // The captures may be a user's own, so their analysis is not replaced.
        let own = json!({"command": "openuvr lab traffic a.pcap b.pcap --sent-fps 60"});
        assert!(is_full("traffic.json", own));
        let generated = json!({"command": "openuvr lab traffic f/server.pcapng", "quick": true});
        assert!(!is_full("traffic.json", generated));
        let marked = json!({"command": "openuvr bench encoder x264", "quick": true});
        assert!(!is_full("encoder.json", marked));
        let failed = json!({"command": command, "cases": cases(false), "incomplete": ["1080p"]});
        assert!(!is_full("latency.json", failed));
        let skipped = json!({"command": "openuvr bench web", "skipped": "install chromium"});
        assert!(!is_full("web.json", skipped));
        assert!(!of("ablation.json").has_full_run(folder.path()), "absent");
        let jitter = |missing: &[&str]| {
            let command = "openuvr lab jitter --out f/jitter-2 --continue";
            is_full(
                "jitter-2/jitter.json",
                json!({"command": command, "incomplete": missing}),
            )
        };
        assert!(jitter(&[]));
        assert!(!jitter(&["5 cells are not measured yet"]), "resumed");
    }

    #[test]
    fn a_failed_study_does_not_use_the_file_of_an_earlier_run() {
        let has_results = |file: &str, code: i32, is_written: bool| {
            of(file).has_results(ExitStatus::from_raw(code << 8), is_written)
        };
        assert!(has_results("jitter-1/jitter.json", DIFFERS, true));
        assert!(!has_results("jitter-1/jitter.json", DIFFERS, false));
        assert!(!has_results("latency.json", DIFFERS, true));
        assert!(has_results("latency.json", 0, true));
        let folder = TemporaryDir::new().unwrap();
        let latency = of("latency.json");
        assert_eq!(latency.written(folder.path()), None);
        std::fs::write(folder.path().join(latency.file), "{}").unwrap();
        assert!(latency.written(folder.path()).is_some());
    }

    #[test]
    fn each_short_version_marks_its_result_file() {
        for measurement in measurements(true) {
            let mark = |quick: bool| {
                let process = measurement.process(Path::new("f"), quick).unwrap();
                let mut set = process.get_envs();
                set.any(|(name, value)| name == result_file::QUICK && value.is_some())
            };
            assert!(mark(true) && !mark(false), "{}", measurement.file);
        }
    }

    #[test]
    fn commands_have_their_output_and_the_short_version() {
        let words = |file, quick| of(file).words(Path::new("a b"), quick);
        assert_eq!(
            words("latency.json", true),
            ["bench", "latency", "--json", "a b/latency.json", "--quick"]
        );
        assert_eq!(
            words("ablation.json", false),
            ["bench", "ablation", "--out", "a b"]
        );
        assert_eq!(
            words("jitter-2/jitter.json", false),
            [
                "lab",
                "jitter",
                "--out",
                "a b/jitter-2",
                "--continue",
                "--limit",
                "1h"
            ]
        );
        assert_eq!(
            words("jitter-1/jitter.json", true),
            ["lab", "jitter", "--out", "a b/jitter-1", "--quick"]
        );
        let captured = words("traffic.json", true);
        assert_eq!(captured[2], "a b/captures/server.pcapng");
        for measurement in &MEASUREMENTS {
            let words = measurement.words(Path::new("f"), false).join(" ");
            assert!(words.contains('f') && !words.contains('{'), "{words}");
        }
    }

    #[test]
    fn each_command_line_is_accepted() {
        for quick in [false, true] {
            for measurement in measurements(quick) {
                let words = measurement.words(Path::new("f"), quick);
                let words = std::iter::once("openuvr".to_owned()).chain(words);
                let parsed = crate::command().try_get_matches_from(words);
                assert!(parsed.is_ok(), "{}: {parsed:?}", measurement.file);
            }
        }
    }

    #[test]
    fn jitter_has_three_full_runs_and_one_short_run() {
        let runs = |quick: bool, command: &str| {
            let all = measurements(quick);
            all.filter(|one| one.command == command).count()
        };
        for command in [ALL_CELLS, WITH_1_PAIR, WITH_64_PAIRS, SHORT_RUN] {
            let counts = (runs(false, command), runs(true, command));
            assert_eq!(counts, (3, 1), "{command}");
        }
    }

    #[test]
    fn each_measurement_has_its_own_result_file() {
        let files: BTreeSet<&str> = MEASUREMENTS.iter().map(|one| one.file).collect();
        assert_eq!(files.len(), MEASUREMENTS.len());
    }

    #[test]
    fn the_reporter_of_the_sources_is_found() {
        assert!(reporter().unwrap().ends_with("report"));
    }
}
