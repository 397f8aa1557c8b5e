//! `openuvr bench web` with a browser, if one is installed, and without a browser.

use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use super::traffic::{stream, traffic};
use super::{bench, count, has_xvfb, openuvr_bench, read_json};

const SMALL: [&str; 7] = [
    "web",
    "--quick",
    "--size",
    "640x360",
    "--bitrate",
    "4M",
    "--parts",
];

/// Whether this program is installed. If not, prints that the test is skipped.
fn has(program: &str) -> bool {
    let there = Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .output();
    let there = there.expect("a shell").status.success();
    if !there {
        assert!(
            std::env::var("CI").as_deref() != Ok("true"),
            "{program} is not installed: apt-get install {program}"
        );
        eprintln!("skipped: {program} is missing (./dev test-web installs it)");
    }
    there
}

fn number(value: &Value, at: &str) -> f64 {
    let found = value.pointer(at).and_then(Value::as_f64);
    found.unwrap_or_else(|| panic!("no number {at}: {value}"))
}

#[test]
#[ignore = "plays in a browser for a minute: ./dev test-web"]
fn vp9_under_gcc_is_measured() {
    if !has_xvfb() || !has("chromium") || !has("ffmpeg") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let variant = ["browser", "--codec", "vp9", "--rate-control", "gcc"];
    bench(&[&SMALL[..], &variant].concat(), "--out", folder.path());
    let all = read_json(&folder, "web.json");
    let browsers = all["browsers"].as_array().expect("a list");
    let names: Vec<&str> = browsers
        .iter()
        .filter_map(|browser| browser["name"].as_str())
        .collect();
    let links = ["direct", "1 % lost", "5 % lost"];
    assert_eq!(names, links.map(|link| format!("{link}, VP9, GCC")));
    for browser in browsers {
        assert_eq!(browser["variant"]["codec"], "vp9");
        assert_eq!(browser["variant"]["rate_control"], "gcc");
        for figure in ["decoded_fps", "sent_mbps"] {
            assert!(
                number(browser, &format!("/{figure}/median")) > 0.0,
                "{browser}"
            );
        }
    }
}

#[test]
#[ignore = "plays in a browser for a minute: ./dev test-web"]
fn a_browser_is_measured_with_and_without_loss() {
    if !has_xvfb() || !has("chromium") || !has("ffmpeg") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    bench(&[&SMALL[..], &["browser"]].concat(), "--out", folder.path());
    let all = read_json(&folder, "web.json");
    assert_eq!(count(&all["browsers"]), 3);
    for browser in all["browsers"].as_array().expect("a list") {
        for figure in [
            "p50_ms",
            "p99_ms",
            "handed_fps",
            "drawn_fps",
            "decoded_fps",
            "presented_fps",
            "complete_fps",
            "freeze_ms",
        ] {
            assert!(
                number(browser, &format!("/{figure}/median")) > 0.0,
                "{browser}"
            );
        }
        let drawn = number(browser, "/drawn_fps/median");
        assert!(number(browser, "/handed_fps/median") <= drawn, "{browser}");
        let steps = browser["steps"].as_array().expect("steps");
        let to: Vec<&str> = steps
            .iter()
            .filter_map(|step| step["to"].as_str())
            .collect();
        let stages = [
            "Captured",
            "Converted",
            "FirstSlice",
            "Encoded",
            "LastSent",
            "Recoverable",
            "Submitted",
            "Submitted",
        ];
        assert_eq!(to, stages);
        // No stage ends before the preceding one. The tolerance of 0.2 ms covers the error of the page's clock.
        assert!(
            steps.iter().all(|step| number(step, "/ms/p50") > -0.2),
            "{steps:?}"
        );
        let arrived = browser["input_ms"]["count"].as_u64().unwrap_or(0);
        let lost = browser["presses_lost"].as_u64().expect("a count");
        assert_eq!(arrived + lost, 5, "each press is accounted for");
    }
    assert_eq!(count(&all["verdicts"]), 6);
    assert_eq!(
        count(&all["beside"]) + count(&all["players"]),
        0,
        "not asked for"
    );
}

#[test]
#[ignore = "plays in a browser for a minute: ./dev test-web"]
fn a_browsers_captures_are_analysed() {
    if !has_xvfb() || !has("chromium") || !has("ffmpeg") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let ends = folder.path().join("ends");
    bench(&[&SMALL[..], &["browser"]].concat(), "--capture", &ends);
    let data = traffic(&folder, ["ends/server.pcapng", "ends/client.pcapng"]);
    for capture in 0..2 {
        let video = stream(&data, capture, "RTP video");
        assert_eq!(video["way"], "down");
        let complete = video["video"]["frames"]["complete"].as_u64();
        assert!(complete > Some(10), "{video}");
        stream(&data, capture, "DTLS");
        stream(&data, capture, "STUN");
    }
    // The link's delay is 2 ms each way, and both captures have the same clock.
    let joined = &data["joined"];
    let delay = joined["down"]["delay_ns"]["min"].as_f64().expect("a delay");
    assert!(delay > 1.5e6, "{joined}");
}

#[test]
#[ignore = "plays in a browser for a minute: ./dev test-web"]
fn a_player_is_measured_with_observers() {
    if !has_xvfb() || !has("chromium") || !has("ffmpeg") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    bench(&[&SMALL[..], &["beside"]].concat(), "--out", folder.path());
    let all = read_json(&folder, "web.json");
    let ways = all["beside"].as_array().expect("ways");
    let names: Vec<&str> = ways.iter().filter_map(|way| way["name"].as_str()).collect();
    let mut counts = vec![
        ("alone", 1),
        ("beside", 3),
        ("many", 6),
        ("kinds", 4),
        ("stalled", 2),
    ];
    // The case `kinds` is absent if moonlight-python is not installed. No package of the distribution contains it.
    counts.retain(|(name, _)| *name != "kinds" || names.contains(name));
    let expected = Vec::from_iter(counts.iter().map(|(name, _)| *name));
    assert_eq!(names, expected);
    for (way, (_, subscribers)) in ways.iter().zip(counts) {
        assert!(number(way, "/p50_ms/median") > 0.0, "{way}");
        assert_eq!(number(way, "/encoders_opened"), 1.0, "{way}");
        assert_eq!(number(way, "/unaccounted"), 0.0, "{way}");
        // A video player first requests a description of the stream. For the description, the host inspects one frame,
        // and the record counts this frame for an additional subscriber.
        let all = way["company"][0]["subscribers"].as_array();
        let stays = |of: &&Value| {
            let outcomes = of["outcomes"].as_object().expect("outcomes").values();
            outcomes.filter_map(Value::as_u64).sum::<u64>() > 10
        };
        let stay = all.expect("subscribers").iter().filter(stays).count();
        assert_eq!(stay, subscribers, "{way}");
    }
    assert_eq!(count(&all["browsers"]), 0, "not asked for");
}

#[test]
#[ignore = "plays in a browser for a minute: ./dev test-web"]
fn a_browsers_window_is_read_like_any_other() {
    if !has_xvfb() || !has("chromium") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let names = ["openuvr-page", "openuvr-floor", "openuvr-floor-2d"];
    let mut words = vec!["peers", "--quick", "--size", "640x360", "--bitrate", "4M"];
    let only = names.join(",");
    words.extend(["--links", "direct", "--only", &only]);
    bench(&words, "--out", folder.path());
    let all = read_json(&folder, "peers.json");
    let rows = all["ways"].as_array().expect("ways");
    assert_eq!(rows.len(), names.len());
    for (row, name) in rows.iter().zip(names) {
        assert_eq!(row["name"], name);
        let figures = &row["direct"];
        for figure in ["p50_ms", "p99_ms", "seen_fps", "receiver_cores"] {
            assert!(number(figures, &format!("/{figure}/median")) > 0.0, "{row}");
        }
        let steps = figures["steps"].as_array().expect("steps");
        let has = |step: &str| steps.iter().any(|known| known["name"] == step);
        assert!(has("Chromium: Display::DrawAndSwap"), "{row}");
        let plays = !name.starts_with("openuvr-floor");
        assert_eq!(has("Submitted -> visible"), plays, "{row}");
        if plays {
            // The browser's picture is not scaled, so that it can be compared.
            assert!(number(figures, "/psnr_db/p50") > 20.0, "{row}");
        }
    }
}

/// Creates a folder for `$PATH` that contains only Xvfb and the programs that Xvfb needs.
fn little(folder: &TempDir) -> std::path::PathBuf {
    let path = folder.path().join("path");
    std::fs::create_dir(&path).expect("room");
    for name in ["Xvfb", "setxkbmap", "xkbcomp"] {
        let out = Command::new("sh")
            .args(["-c", &format!("command -v {name}")])
            .output();
        let text = String::from_utf8(out.expect("a shell").stdout).expect("a path");
        if !text.is_empty() {
            symlink(text.trim(), path.join(name)).expect("room");
        }
    }
    path
}

#[test]
fn without_a_browser_the_bench_names_its_package() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = openuvr_bench();
    command
        .arg("bench")
        .args(SMALL)
        .args(["browser", "--out"])
        .arg(folder.path());
    let out = command
        .env("PATH", little(&folder))
        .output()
        .expect("it starts");
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{errors}");
    assert!(
        errors.contains("skipped: install chromium ffmpeg"),
        "{errors}"
    );
    let left = read_json(&folder, "web.json");
    assert_eq!(left["skipped"], "install chromium ffmpeg");
}
