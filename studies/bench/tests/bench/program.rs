//! `openuvr bench` as users type it: the program `openuvr` executes `openuvr-bench` if it is installed.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::openuvr_bench;

/// The built programs `openuvr` and `openuvr-bench`.
fn built() -> [PathBuf; 2] {
    let bench = openuvr_bench().get_program().to_owned();
    let bench = Path::new(&bench);
    [bench.with_file_name("openuvr"), bench.to_owned()]
}

/// Runs `openuvr` with these arguments. Its `$PATH` contains only `path`.
fn openuvr(program: &Path, path: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(words).env("PATH", path);
    command.output().expect("it starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

#[test]
fn the_help_passes_through_with_all_benches() {
    let [program, _] = built();
    let out = openuvr(&program, Path::new("/nonexistent"), &["bench", "--help"]);
    let help = text(&out.stdout);
    assert!(out.status.success(), "{help}");
    assert!(help.contains("Usage: openuvr bench <COMMAND>"), "{help}");
    for bench in [
        "latency",
        "ablation",
        "quality",
        "link",
        "sound",
        "sync",
        "capture",
        "scheduling",
        "peers",
        "sessions",
        "web",
        "report",
    ] {
        assert!(help.contains(&format!("\n  {bench}")), "{bench}: {help}");
    }
    let out = openuvr(&program, Path::new("/nonexistent"), &["lab", "hop", "-h"]);
    assert!(
        text(&out.stdout).contains("Usage: openuvr lab hop"),
        "{out:?}"
    );
}

#[test]
fn errors_and_exit_codes_pass_through() {
    let [program, _] = built();
    for (words, message) in [
        (
            &["bench", "scheduling", "--duration", "0s"][..],
            "openuvr: --rate must be 1 to 10000, --duration 0.1s to 1h\n",
        ),
        (
            &["bench", "latncy"],
            "openuvr: unrecognized subcommand 'latncy'; did you mean latency? see `openuvr bench --help`\n",
        ),
    ] {
        let out = openuvr(&program, Path::new("/nonexistent"), words);
        assert_eq!(text(&out.stderr), message);
        assert_eq!(out.status.code(), Some(2));
    }
}

#[test]
fn a_link_needs_an_address() {
    let words = ["lab", "hop", "--listen", "nowhere", "--to", "127.0.0.1:1"];
    let out = openuvr(&built()[0], Path::new("/nonexistent"), &words);
    assert!(text(&out.stderr).contains("'nowhere'"), "{out:?}");
    assert_eq!(out.status.code(), Some(2));
}
