//! `openuvr demo` with and without a browser. The test with a browser runs if one is installed.

mod support;

use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::Duration;

use openuvr_xserver::fixture::has_xvfb;
use support::stalls::measured_without_stalls;
use support::{Folder, skip};

/// Whether this program is installed. If not, prints the reason for the skipped test.
fn has(program: &str) -> bool {
    let mut shell = Command::new("sh");
    let found = shell
        .args(["-c", &format!("command -v {program}")])
        .output();
    let there = found.expect("a shell").status.success();
    if !there {
        skip(&format!("{program} is not installed"));
    }
    there
}

/// Creates a folder for `$PATH` that contains only Xvfb and the programs that Xvfb needs.
fn little(folder: &Folder) -> std::path::PathBuf {
    let path = folder.path().join("path");
    std::fs::create_dir(&path).expect("space");
    for name in ["Xvfb", "setxkbmap", "xkbcomp"] {
        let out = Command::new("sh")
            .args(["-c", &format!("command -v {name}")])
            .output();
        let text = String::from_utf8(out.expect("a shell").stdout).expect("a path");
        if !text.is_empty() {
            symlink(text.trim(), path.join(name)).expect("space");
        }
    }
    path
}

/// Runs a demo for this time. Returns its standard output and its standard error. If `path` is set, it is the only
/// folder in the search path.
fn demo(folder: &Folder, seconds: &str, path: Option<std::path::PathBuf>) -> (String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_openuvr"));
    command.args(["demo", "--web", "--size", "640x360", "--duration", seconds]);
    command.arg("--out").arg(folder.path());
    if let Some(path) = path {
        command.env("PATH", path);
    }
    let out = command.output().expect("it starts");
    let message = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (text, errors) = (message(&out.stdout), message(&out.stderr));
    assert!(out.status.success(), "{text}\n{errors}");
    (text, errors)
}

#[test]
fn a_demo_without_a_browser_prints_the_pages_address() {
    if !has_xvfb() {
        return;
    }
    let folder = Folder::new();
    let (text, errors) = demo(&folder, "1s", Some(little(&folder)));
    assert!(text.contains("Chromium is not installed"), "{text}");
    let page = text
        .split("open https://127.0.0.1:")
        .nth(1)
        .expect("the page's address");
    let words: Vec<&str> = page.split_whitespace().collect();
    let pin = words
        .iter()
        .position(|word| *word == "PIN")
        .map(|at| words[at + 1]);
    assert!(pin.is_some_and(|pin| pin.len() == 6), "{text}");
    assert!(errors.contains("browsers: https://127.0.0.1:"), "{errors}");
}

#[test]
#[ignore = "plays in a browser for a minute: ./dev test-web"]
fn a_demo_shows_the_page_in_a_browser() {
    if !has_xvfb() || !has("chromium") {
        return;
    }
    let folder = Folder::new();
    let (text, _) = demo(&folder, "5s", None);
    assert!(
        text.contains("the page's picture matches the host's"),
        "{text}"
    );
    assert!(
        text.contains("frames were handed to the compositor"),
        "{text}"
    );
    for name in ["openuvr-demo-page.png", "openuvr-demo-host.png"] {
        let bytes = std::fs::read(folder.path().join(name)).expect("a picture");
        assert!(bytes.starts_with(b"\x89PNG"), "{name}");
    }
}

#[test]
fn a_demo_matches_and_leaves_a_picture() {
    if !has_xvfb() {
        return;
    }
    // In a stall, the client may not show a picture in time.
    measured_without_stalls(3, Duration::from_millis(100), show_demo);
}

/// Runs a demo without a terminal. Returns an error if the demo fails.
fn show_demo() -> Result<(), String> {
    let folder = Folder::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_openuvr"));
    command.args([
        "demo",
        "--headless",
        "--size",
        "320x200",
        "--duration",
        "10s",
        "--out",
    ]);
    let out = command.arg(folder.path()).output().expect("it starts");
    let (text, errors) = (
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr),
    );
    if !out.status.success() {
        return Err(format!("{text}\n{errors}"));
    }
    assert!(
        text.contains("the client's picture matches the host's"),
        "{text}"
    );
    let picture = std::fs::read(folder.path().join("openuvr-demo.png")).expect("a picture");
    assert!(picture.starts_with(b"\x89PNG"));
    // The first chunk holds the width and the height (RFC 2083, section 4.1.1). The width is that of the host's
    // picture, a gap and the client's picture together.
    let [width, height] =
        [16, 20].map(|at| u32::from_be_bytes(picture[at..at + 4].try_into().expect("4 bytes")));
    assert_eq!((width, height), (320 + 8 + 320, 200));
    Ok(())
}
