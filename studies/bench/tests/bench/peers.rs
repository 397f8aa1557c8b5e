//! `openuvr bench peers` with the installed programs, and without any program.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{bench, has_xvfb, openuvr_bench, read_json};

const SMALL: [&str; 6] = ["peers", "--quick", "--size", "640x360", "--bitrate", "4M"];

fn row<'a>(all: &'a Value, name: &str) -> &'a Value {
    let rows = all["ways"].as_array().expect("ways");
    let found = rows.iter().find(|row| row["name"] == name);
    found.unwrap_or_else(|| panic!("no {name}: {all}"))
}

#[test]
fn installed_programs_are_measured_like_ours() {
    if !has_xvfb() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let links = ["--links", "direct"];
    let text = bench(&[&SMALL[..], &links].concat(), "--out", folder.path());
    let all = read_json(&folder, "peers.json");
    for name in [
        "openuvr",
        "openuvr-ordinary",
        "gstreamer",
        "webrtc",
        "ffmpeg",
        "tigervnc",
        "gaminganywhere",
        "openuvr-moonlight",
    ] {
        let row = row(&all, name);
        if let Some(what) = row["skipped"].as_str() {
            assert!(what.starts_with("install "), "{row}");
            // The output wraps long lines, so compare it without line breaks.
            let words = Vec::from_iter(text.split_whitespace()).join(" ");
            assert!(words.contains(&format!("skipped: {what}")), "{text}");
            assert!(row["direct"].is_null(), "{row}");
            continue;
        }
        assert!(!row["versions"].as_array().expect("versions").is_empty());
        let figures = &row["direct"];
        for figure in ["p50_ms", "p99_ms", "seen_fps", "wire_mbps", "sender_cores"] {
            assert!(
                figures[figure]["median"].as_f64().expect(figure) > 0.0,
                "{row}"
            );
        }
        let psnr = figures["psnr_db"]["p50"].as_f64();
        let reactions = figures["reaction_ms"]["count"].as_u64();
        if name.starts_with("openuvr") && row["takes_input"] == true {
            assert!(psnr.expect("pictures to compare") > 20.0, "{row}");
            assert!(reactions.expect("presses") > 0, "{row}");
        }
        // On a busy machine, another program may be so late that the drawn picture is no longer stored for comparison,
        // and that presses time out.
        let compared = figures["compared"].as_u64().expect("a count");
        assert_eq!(compared > 0, psnr.is_some(), "{row}");
        if row["takes_input"] == false {
            assert_eq!(reactions, None, "{row}");
        }
    }
}

#[test]
fn ours_and_a_peer_use_a_lossy_link() {
    if !has_xvfb() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let some = ["--links", "loss", "--only", "openuvr,gstreamer,webrtc"];
    bench(&[&SMALL[..], &some].concat(), "--out", folder.path());
    let all = read_json(&folder, "peers.json");
    for name in ["openuvr", "gstreamer", "webrtc"] {
        let row = row(&all, name);
        assert!(row["direct"].is_null(), "not asked for: {row}");
        if row["skipped"].is_null() {
            let wire = &row["loss"]["wire_mbps"]["median"];
            assert!(wire.as_f64().expect("the link's load") > 0.0, "{row}");
        }
    }
}

#[test]
fn missing_programs_are_skipped_by_name() {
    if !has_xvfb() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("path");
    std::fs::create_dir(&path).expect("room");
    symlink(xvfb(), path.join("Xvfb")).expect("room");
    let mut command = openuvr_bench();
    command.arg("bench").args(SMALL).args(["--links", "direct"]);
    command.args([
        "--only",
        "openuvr,gstreamer,webrtc,ffmpeg,tigervnc,gaminganywhere,openuvr-moonlight",
        "--out",
    ]);
    let out = command
        .arg(folder.path())
        .env("PATH", &path)
        .env_remove("OPENUVR_GAMINGANYWHERE")
        .output()
        .expect("it starts");
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{errors}");
    let text = String::from_utf8_lossy(&out.stdout);
    let long = text.lines().find(|line| line.chars().count() > 100);
    assert_eq!(long, None, "fits a terminal");
    let all = read_json(&folder, "peers.json");
    assert!(row(&all, "openuvr")["direct"].is_object());
    for (name, package) in [
        ("gstreamer", "gstreamer1.0-tools gstreamer1.0-plugins-base"),
        ("webrtc", "gstreamer1.0-tools"),
        ("ffmpeg", "ffmpeg"),
        ("tigervnc", "tigervnc-scraping-server tigervnc-viewer"),
        ("gaminganywhere", "GamingAnywhere (built by hand"),
        ("openuvr-moonlight", "gstreamer1.0-plugins-base"),
    ] {
        let what = row(&all, name)["skipped"]
            .as_str()
            .expect("skipped")
            .to_owned();
        assert!(what.starts_with(&format!("install {package}")), "{what}");
        assert!(errors.contains(&what), "{errors}");
    }
}

#[test]
fn an_unknown_name_is_reported() {
    let out = openuvr_bench()
        .args(["bench", "peers", "--only", "vnc"])
        .output();
    let out = out.expect("it starts");
    let message = String::from_utf8_lossy(&out.stderr);
    assert!(
        message.contains(
            "expected one of openuvr, openuvr-ordinary, gstreamer, webrtc, ffmpeg, tigervnc"
        ),
        "{message}"
    );
    assert_eq!(out.status.code(), Some(2));
}

fn xvfb() -> std::path::PathBuf {
    let out = Command::new("sh").args(["-c", "command -v Xvfb"]).output();
    let text = String::from_utf8(out.expect("a shell").stdout).expect("a path");
    Path::new(text.trim()).to_owned()
}
