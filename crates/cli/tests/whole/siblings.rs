//! `openuvr bench` and `openuvr portal` execute other programs, which are found next to this one or otherwise on
//! `$PATH`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::{Folder, install};

/// Copies `openuvr` to an empty folder. With a symbolic link, the program would still find the sibling programs,
/// because /proc/self/exe resolves the link.
fn alone(folder: &Folder) -> PathBuf {
    let alone = folder.path().join("openuvr");
    install(Path::new(env!("CARGO_BIN_EXE_openuvr")), &alone, 0o755);
    alone
}

/// A program that prints its arguments.
fn sibling(folder: &Path, mode: u32) {
    let draft = folder.join("draft");
    std::fs::write(&draft, "#!/bin/sh\necho \"$@\"\nexit 7\n").expect("a script");
    install(&draft, &folder.join("openuvr-bench"), mode);
}

/// Runs `openuvr` with these arguments and only `path` on its `$PATH`.
fn run(program: &Path, path: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(words).env("PATH", path);
    command.output().expect("it starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

#[test]
fn a_missing_program_is_one_line_with_a_remedy() {
    let folder = Folder::new();
    let alone = alone(&folder);
    for (name, file, package, option) in [
        ("bench", "openuvr-bench", "openuvr-studies", "--bench"),
        ("lab", "openuvr-bench", "openuvr-studies", "--bench"),
        ("portal", "openuvr-portal", "openuvr-portal", "--portal"),
    ] {
        let out = run(&alone, Path::new("/nonexistent"), &[name, "--help"]);
        assert_eq!(
            text(&out.stderr),
            format!(
                "openuvr: `openuvr {name}` requires the program {file}, which is neither next to this program nor on \
                 $PATH; \
                 install the package {package}, or run `./dev install {option}`\n"
            )
        );
        assert_eq!((out.status.code(), out.stdout.len()), (Some(1), 0));
    }
}

#[test]
fn a_program_beside_or_on_the_path_gets_all_arguments() {
    let folder = Folder::new();
    let alone = alone(&folder);
    let elsewhere = folder.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).expect("a folder");
    for (at, path) in [
        (&elsewhere, elsewhere.as_path()),
        (&folder.path().to_owned(), Path::new("/nonexistent")),
    ] {
        sibling(at, 0o700);
        let out = run(&alone, path, &["lab", "hop", "--help"]);
        assert_eq!(text(&out.stdout), "lab hop --help\n", "{out:?}");
        assert_eq!(out.status.code(), Some(7));
    }
}

#[test]
fn a_program_that_cannot_be_started_is_named() {
    let folder = Folder::new();
    let alone = alone(&folder);
    sibling(folder.path(), 0o600);
    let out = run(&alone, Path::new("/nonexistent"), &["lab"]);
    let message = text(&out.stderr);
    assert!(message.starts_with("openuvr: can't start "), "{message}");
    assert!(message.contains("Permission denied"), "{message}");
    assert_eq!(out.status.code(), Some(1));
}
