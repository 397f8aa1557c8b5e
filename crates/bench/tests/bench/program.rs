//! `openuvr bench` as typed by users: the program `openuvr` executes `openuvr-bench`, if installed.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::openuvr_bench;

/// Both programs, as they were built.
fn built() -> [PathBuf; 2] {
    let bench = openuvr_bench().get_program().to_owned();
    let bench = Path::new(&bench);
    [bench.with_file_name("openuvr"), bench.to_owned()]
}

/// Runs `openuvr` with these arguments and only `path` on its `$PATH`.
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
        "latency", "ablation", "quality", "link", "sound", "sync", "doors", "handoff", "peers",
        "sessions", "web", "report",
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
            &["demo", "--for", "-5s"][..],
            "openuvr: invalid value '-5s' for '--for <TIME>': `-5s` must begin with a number, and end in its \
             unit: 5ms, 8M, 1%; `openuvr demo --help` lists all\n",
        ),
        (
            &["bench", "handoff", "--for", "0s"],
            "openuvr: --rate is 1 to 10000, --for 0.1s to 1h\n",
        ),
        (
            &["bench", "latncy"],
            "openuvr: unrecognized subcommand 'latncy'; did you mean latency? `openuvr bench --help` \
             lists all\n",
        ),
    ] {
        let out = openuvr(&program, Path::new("/nonexistent"), words);
        assert_eq!(text(&out.stderr), message);
        assert_eq!(out.status.code(), Some(2));
    }
}

#[test]
fn a_missing_program_is_one_line_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let [built, bench] = built();
    let alone = folder.path().join("openuvr");
    // A symbolic link would still be next to the other program: /proc/self/exe resolves it.
    std::fs::copy(built, &alone).expect("room");
    for name in ["demo", "bench", "lab"] {
        let out = openuvr(&alone, Path::new("/nonexistent"), &[name, "--help"]);
        assert_eq!(
            text(&out.stderr),
            format!(
                "openuvr: `openuvr {name}` requires the program openuvr-bench, which is neither beside \
                 this one nor on $PATH; install it with `./dev install --bench`\n"
            )
        );
        assert_eq!((out.status.code(), out.stdout.len()), (Some(1), 0));
    }
    // It is also found on `$PATH`.
    let elsewhere = folder.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).expect("room");
    symlink(bench, elsewhere.join("openuvr-bench")).expect("room");
    let out = openuvr(&alone, &elsewhere, &["bench", "--help"]);
    assert!(text(&out.stdout).contains("handoff"), "{out:?}");
}

#[test]
fn a_program_that_cannot_be_started_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let [built, _] = built();
    let program = folder.path().join("openuvr");
    std::fs::copy(built, &program).expect("room");
    let broken = folder.path().join("openuvr-bench");
    std::fs::write(&broken, "").expect("room");
    std::fs::set_permissions(&broken, PermissionsExt::from_mode(0o600)).expect("it is ours");
    let out = openuvr(&program, Path::new("/nonexistent"), &["lab"]);
    let message = text(&out.stderr);
    assert!(message.starts_with("openuvr: can't start "), "{message}");
    assert!(message.contains("Permission denied"), "{message}");
    assert_eq!(out.status.code(), Some(1));
}
