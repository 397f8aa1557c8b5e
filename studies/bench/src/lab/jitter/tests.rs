//! Tests of the whole command, from its arguments to its output folder. The probes are scripts that copy a prepared
//! file, and one program built from studies/probes/cpp.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Parser;
use openuvr_lab::jitter::samples::{self, Header, Pattern, Sample};
use serde_json::Value;
use tempfile::TempDir;

use super::*;

#[derive(Parser)]
struct Program {
    #[command(flatten)]
    jitter: JitterArgs,
}

/// A temporary folder with subfolders for the probes and for the study.
struct Scratch(TempDir);

impl Scratch {
    fn new() -> Scratch {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("probes")).unwrap();
        Scratch(folder)
    }

    fn out(&self) -> PathBuf {
        self.0.path().join("study")
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.out().join(name)).unwrap()
    }

    /// Creates a probe that writes these samples and then runs the shell command `ends`.
    fn probe(&self, name: &str, all: &[Sample], ends: &str) {
        let (program, file) = (
            self.0.path().join("probes").join(name),
            self.0.path().join("made"),
        );
        sample_file(&file, all);
        let script = format!(
            "#!/bin/sh\nwhile [ $# -gt 0 ]; do [ \"$1\" = --out ] && out=$2; shift; done\n\
             cp {} \"$out\"\necho ready\nread -r line\n{ends}\n",
            file.display()
        );
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn study(&self, options: &[&str]) -> Result<ExitCode> {
        let (probes, out) = (self.0.path().join("probes"), self.out());
        let folders = ["--probes", path(&probes), "--out", path(&out), "--quick"];
        let line = ["jitter"]
            .into_iter()
            .chain(folders)
            .chain(options.iter().copied());
        run(&Program::try_parse_from(line)?.jitter)
    }
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn sample_file(path: &Path, all: &[Sample]) {
    let header = Header {
        name: "made beforehand".into(),
        pattern: Pattern::PingPong,
        capacity: 0,
        begin: 1,
        end: all.last().map(|sample| sample.received),
        rate_millihertz: 0,
        counts: Vec::new(),
    };
    samples::write(path, &header, all).unwrap();
}

fn some(count: u64) -> Vec<Sample> {
    let sample = |n: u64| Sample {
        intended: n * 10_000,
        sent: n * 10_000,
        received: n * 10_000 + 1_000 + n % 7 * 100,
    };
    (1..=count).map(sample).collect()
}

fn is(code: ExitCode, wanted: u8) -> bool {
    format!("{code:?}") == format!("{:?}", ExitCode::from(wanted))
}

#[test]
fn a_study_writes_tables_and_data() {
    let scratch = Scratch::new();
    scratch.probe("cpp-pthread", &some(20_000), "exit 0");
    let code = scratch
        .study(&["--only", "pthread/ping-pong/other"])
        .unwrap();
    assert!(is(code, 0));
    let data: Value = serde_json::from_str(&scratch.read("jitter.json")).unwrap();
    let cell = &data["cells"][0];
    assert_eq!(cell["cell"], "pthread/ping-pong/other");
    assert_eq!(cell["analysis"]["sent"]["count"], 20_000);
    assert_eq!(cell["policies"]["OTHER"], 1);
    assert!(
        cell["command"]
            .as_str()
            .unwrap()
            .starts_with("cpp-pthread --out ")
    );
    assert!(data["conditions"]["floor"]["count"].as_u64().unwrap() > 0);
    assert_eq!(scratch.read("cells.csv").lines().count(), 2);
    assert_eq!(data["schema"], "openuvr.lab.jitter");
    assert!(cell["analysis"]["sent"]["beyond"].is_null(), "only in CSV");
    let tails = scratch.read("tails.csv");
    assert!(tails.contains("\npthread/ping-pong/other,sent,"), "{tails}");
    assert!(scratch.read("pauses.csv").starts_with("cell,from_share,"));
}

#[test]
fn samples_of_a_dying_probe_are_kept() {
    let scratch = Scratch::new();
    scratch.probe("cpp-pthread", &some(500), "echo 'out of luck' >&2; exit 7");
    let code = scratch
        .study(&["--only", "pthread/ping-pong/other"])
        .unwrap();
    assert!(is(code, INCOMPLETE));
    let data: Value = serde_json::from_str(&scratch.read("jitter.json")).unwrap();
    let error = data["cells"][0]["error"].as_str().unwrap();
    assert!(
        error.contains("the probe died") && error.contains("out of luck"),
        "{error}"
    );
    assert_eq!(data["cells"][0]["analysis"]["sent"]["count"], 500);
}

#[test]
fn a_later_run_keeps_the_other_cells() {
    let scratch = Scratch::new();
    scratch.probe("cpp-pthread", &some(500), "exit 0");
    scratch.probe("rust-std", &some(700), "exit 0");
    for runtime in ["pthread", "std"] {
        let only = format!("{runtime}/ping-pong/other");
        assert!(is(scratch.study(&["--only", &only]).unwrap(), 0));
    }
    assert_eq!(scratch.read("cells.csv").lines().count(), 3);
}

#[test]
fn a_study_continues_where_it_stopped() {
    let scratch = Scratch::new();
    let runs = |name: &str| {
        let text = std::fs::read_to_string(scratch.0.path().join(name)).unwrap_or_default();
        text.lines().count()
    };
    let counted = |name: &str| {
        let counts = scratch.0.path().join(name);
        format!("echo once >> {}; exit 0", counts.display())
    };
    scratch.probe("cpp-pthread", &some(500), &counted("one"));
    scratch.probe("rust-std", &some(700), &counted("two"));
    let both = ["--only", "pthread/ping-pong/other,std/ping-pong/other"];
    let on = |more: &[&str]| {
        let options = [&both, &["--continue"][..], more].concat();
        scratch.study(&options)
    };
    assert!(is(
        scratch
            .study(&["--only", "pthread/ping-pong/other"])
            .unwrap(),
        0
    ));
    assert!(is(on(&["--duration", "0ms"]).unwrap(), INCOMPLETE));
    assert_eq!((runs("one"), runs("two")), (1, 0), "no time is left");
    assert!(
        scratch
            .read("jitter.json")
            .contains("1 cells are not measured yet: --continue")
    );
    assert!(is(on(&[]).unwrap(), 0));
    assert_eq!((runs("one"), runs("two")), (1, 1), "only the missing cell");
    assert_eq!(scratch.read("cells.csv").lines().count(), 3);
    assert!(is(on(&["--pairs", "8"]).unwrap(), 0));
    assert_eq!((runs("one"), runs("two")), (2, 2), "a different command");
    // An incomplete cell is measured again.
    scratch.probe("rust-std", &some(700), "exit 7");
    assert!(is(on(&["--pairs", "4"]).unwrap(), INCOMPLETE));
    scratch.probe("rust-std", &some(700), &counted("two"));
    assert!(is(on(&["--pairs", "4"]).unwrap(), 0));
    assert_eq!((runs("one"), runs("two")), (3, 3));
}

#[test]
fn an_absent_probe_is_skipped_and_named() {
    let scratch = Scratch::new();
    scratch.probe("cpp-pthread", &some(500), "exit 0");
    let only = "pthread/ping-pong/other,caf/ping-pong/other,java/ping-pong/other";
    assert!(is(scratch.study(&["--only", only]).unwrap(), INCOMPLETE));
    let page = scratch.read("jitter.json");
    for says in [
        "skipped: cpp-caf is not built: install g++ and libcaf-dev",
        "install default-jdk-headless",
    ] {
        assert!(page.contains(says), "{page}");
    }
    let alone = Scratch::new();
    let error = alone
        .study(&["--only", "caf/flood"])
        .unwrap_err()
        .to_string();
    assert!(error.contains("nothing was measured"), "{error}");
}

#[test]
fn a_silent_probe_is_an_error() {
    let scratch = Scratch::new();
    scratch.probe("cpp-pthread", &some(5), "exit 0");
    let program = scratch.0.path().join("probes/cpp-pthread");
    std::fs::write(&program, "#!/bin/sh\necho 'no room' >&2\nexit 1\n").unwrap();
    let error = scratch
        .study(&["--only", "pthread/flood"])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("ended before it was ready") && error.contains("no room"),
        "{error}"
    );
}

#[test]
fn a_slow_probe_is_stopped() {
    let scratch = Scratch::new();
    scratch.probe("cpp-pthread", &some(50), "sleep 100");
    let options = ["--only", "pthread/ping-pong/other", "--limit", "100ms"];
    assert!(is(scratch.study(&options).unwrap(), INCOMPLETE));
    assert!(
        scratch
            .read("jitter.json")
            .contains("stopped after 100ms (--limit)")
    );
}

#[test]
fn threads_of_a_real_probe_send_in_order() {
    let scratch = Scratch::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../probes/cpp/pthread.cpp");
    let program = scratch.0.path().join("probes/cpp-pthread");
    let words = [
        "-O2",
        "-std=c++17",
        path(&source),
        "-o",
        path(&program),
        "-pthread",
    ];
    assert!(Command::new("g++").args(words).status().unwrap().success());
    for (pattern, count) in [("ping-pong", 16_000), ("flood", 1_600), ("paced", 960)] {
        let cell = format!("pthread/{pattern}/other");
        assert!(
            is(scratch.study(&["--only", &cell]).unwrap(), 0),
            "{pattern}"
        );
        let file = format!("cells/{}.json", cell.replace('/', "-"));
        let measured: Value = serde_json::from_str(&scratch.read(&file)).unwrap();
        assert_eq!(measured["analysis"]["sent"]["count"], count, "{pattern}");
        // Each sample has intended ≤ sent ≤ received.
        assert_eq!(measured["analysis"]["backwards"], 0, "{pattern}");
        assert_eq!(measured["analysis"]["missing"], 0, "{pattern}");
    }
}

#[test]
fn files_are_analysed_and_damage_is_reported() {
    let scratch = Scratch::new();
    let (file, out) = (scratch.0.path().join("one.jitter"), scratch.out());
    sample_file(&file, &some(3_000));
    let analyse = |file: &Path| {
        let line = ["jitter", "analyse", path(file), "--out", path(&out)];
        run(&Program::try_parse_from(line)?.jitter)
    };
    assert!(is(analyse(&file).unwrap(), 0));
    assert!(scratch.read("latency.csv").contains("received − intended"));
    assert!(scratch.read("tails.csv").lines().count() > 10);
    assert!(scratch.read("samples.json").contains("openuvr.lab.samples"));
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    assert!(is(analyse(&file).unwrap(), INCOMPLETE));
    std::fs::write(&file, "time,bytes\n1,2\n").unwrap();
    let error = analyse(&file).unwrap_err().to_string();
    assert!(error.contains("is not a sample file"), "{error}");
}

#[test]
fn invalid_options_fail_before_anything_is_written() {
    let scratch = Scratch::new();
    for (options, says) in [
        (&["--only", "fortran"][..], "no cell has such a name"),
        (&["--rate", "0"], "--rate must be above 0"),
        (
            &["--probes", "/nowhere/at/all"],
            "there are no probes in /nowhere/at/all",
        ),
        (&["--pairs", "0"], "--pairs"),
        (&["--samples", "5", "--quick"], "cannot be used with"),
    ] {
        let out = scratch.out();
        let line = ["jitter", "--out", path(&out)]
            .into_iter()
            .chain(options.iter().copied());
        let message = Program::try_parse_from(line)
            .map_err(anyhow::Error::from)
            .and_then(|program| run(&program.jitter));
        let message = format!("{:#}", message.unwrap_err());
        assert!(message.contains(says), "{options:?}: {message}");
        assert!(!out.exists(), "{options:?}");
    }
}
