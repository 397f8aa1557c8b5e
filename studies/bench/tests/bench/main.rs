//! Runs the benches as a user starts them. Tests that everything is measured, counted and written. Times are not
//! checked.
#![allow(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "the test harness captures the output"
)]

mod attack;
mod baseline;
mod hop;
mod peers;
mod portal_attacks;
mod program;
mod quality;
mod reprojection;
mod scheduling;
mod sensor;
mod slices;
mod soak;
mod starvation;
mod traffic;
mod web;

#[path = "../../../../crates/media/tests/skip/mod.rs"]
mod skip;

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use openuvr_xserver::fixture::has_xvfb;
use serde_json::Value;
use skip::has_program;
use tempfile::TempDir;

/// The program `openuvr-bench`. It is in the folder of the program that it measures.
fn openuvr_bench() -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_openuvr-bench"));
    assert!(
        program.with_file_name("openuvr").is_file(),
        "openuvr is not built: cargo build --package openuvr-cli, or test the whole workspace"
    );
    Command::new(program)
}

/// Runs a bench that writes into `folder`. Returns its output.
fn bench(words: &[&str], option: &str, folder: &Path) -> String {
    let out = openuvr_bench()
        .arg("bench")
        .args(words)
        .arg(option)
        .arg(folder)
        .output()
        .expect("openuvr starts");
    let text = String::from_utf8(out.stdout).expect("text");
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{text}\n{errors}");
    let long = text.lines().find(|line| line.chars().count() > 100);
    assert_eq!(long, None, "fits a terminal");
    text
}

/// Reads a JSON file of a folder.
fn read_json(folder: &TempDir, name: &str) -> Value {
    let text = std::fs::read_to_string(folder.path().join(name)).expect("the output");
    serde_json::from_str(&text).expect("JSON")
}

/// An address at which only this process and its children listen, so that a test can choose it before a host binds it.
fn own_address(port: u16) -> SocketAddr {
    let [_, a, b, c] = std::process::id().to_be_bytes();
    SocketAddr::from(([127, a.max(1), b, c], port))
}

fn count(value: &Value) -> usize {
    value.as_array().expect("a list").len()
}

#[test]
fn a_quick_run_measures_floor_and_stream() {
    if !has_xvfb() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("bench.json");
    let out = openuvr_bench()
        .args(["bench", "latency", "--quick", "--size", "640x360"])
        .args(["--bitrate", "4M", "--sched", "off", "--json"])
        .arg(&json)
        .output()
        .unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{text}\n{errors}");
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
    assert!(text.contains("drawn -> visible"), "{text}");

    let all: Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    let samples = std::fs::read_to_string(folder.path().join("bench.csv")).unwrap();
    assert_eq!(all["schema"], "openuvr.bench.latency");
    assert!(
        all["command"]
            .as_str()
            .unwrap()
            .starts_with("openuvr bench latency --quick")
    );
    assert_eq!(count(&all["cases"]), 1, "one case");
    let run = &all["cases"][0];
    let of = |part: &str, outcome: &str| {
        let rows = samples
            .lines()
            .map(|row| row.split(',').collect::<Vec<_>>());
        rows.filter(|row| row[1] == part && row[6].contains(outcome))
            .count()
    };
    assert_eq!(run["setting"]["size"], "640x360");
    assert_eq!(run["setting"]["real_time"], false);
    assert!(run["machine"]["cores"].as_u64().unwrap() >= 1);
    assert!(count(&run["application_reaction_ms"]) <= 4, "four presses");

    let (floor, stream) = (&run["floor"], &run["stream"]);
    for (part, case) in [("floor", floor), ("stream", stream)] {
        let frames = &case["frames"];
        let number = |name: &str| frames[name].as_u64().unwrap();
        assert!(number("visible") > 0);
        assert_eq!(number("drawn"), number("visible") + number("missed"));
        assert_eq!(of(part, "") as u64, number("visible"));
        assert!(case["other_cores"].as_f64().unwrap() >= 0.0);
        assert!(count(&case["threads"]) > 0);
    }
    let complete = of("stream", "complete");
    assert!(
        complete > 0,
        "some frame arrives completely on the loopback"
    );
    assert_eq!(stream["latency_ms"]["count"], complete);
    assert_eq!(stream["incomplete"], of("stream", "") - complete);
    for step in stream["steps"].as_array().unwrap() {
        assert!(step["ms"]["count"].as_u64().unwrap() <= complete as u64);
    }
    let recorded: u64 = stream["outcomes"]
        .as_object()
        .unwrap()
        .values()
        .filter_map(Value::as_u64)
        .sum();
    assert!(recorded > 0, "the host's record covers the samples");
    assert!(stream["wire_mbps"].as_f64().unwrap() > 0.0);
    let codec = &run["codec"];
    assert!(codec["serial"]["count"].as_u64().unwrap() >= 60);
    assert_eq!(
        codec["serial"]["count"], codec["pipelined"]["count"],
        "the same pictures on both paths"
    );
    assert_eq!(count(&codec["steps"]), 4);
    for name in ["host", "client", "scene", "display A", "display B"] {
        assert!(stream["cores"][name].is_f64(), "{name}");
    }
}

#[test]
fn configurations_take_turns_and_the_report_uses_what_there_is() {
    if !has_xvfb() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let only = ["--only", "conventional,+ real-time,AF_XDP"];
    let size = ["--size", "640x360", "--bitrate", "4M"];
    let short = ["--repetitions", "2", "--duration", "0.5s"];
    let words = [&["ablation"], &only[..], &size[..], &short[..]].concat();
    let text = bench(&words, "--out", folder.path());
    assert!(text.contains("+ real-time scheduling"), "{text}");

    let all = read_json(&folder, "ablation.json");
    let runs = all["runs"].as_array().unwrap();
    let of = |name: &str| -> Vec<u64> {
        let runs = runs.iter().filter(|run| run["configuration"] == name);
        runs.map(|run| run["repetition"].as_u64().unwrap())
            .collect()
    };
    assert_eq!(of("conventional"), [1, 2]);
    assert_eq!(of("+ real-time scheduling"), [1, 2]);
    assert_eq!(runs[0]["configuration"], "conventional");
    assert_ne!(runs[1]["configuration"], "conventional", "they take turns");
    for run in runs {
        assert!(run["complete"].as_u64().unwrap() <= run["drawn"].as_u64().unwrap());
    }
    let xdp = &all["links"][4];
    assert_eq!(xdp["name"], "AF_XDP");
    assert!(
        xdp["p50_ms"].is_object() != xdp["unavailable"].is_string(),
        "measured, or why not: {xdp}"
    );
    assert!(all["cumulative"][1]["p50_ms"].is_null(), "not asked for");
    let csv = std::fs::read_to_string(folder.path().join("ablation.csv")).unwrap();
    assert_eq!(csv.lines().count(), runs.len() + 1);
    let conventional = &all["cumulative"][0]["p50_ms"];
    assert_eq!(
        count(&conventional["values"]),
        2,
        "one per run: {conventional}"
    );

    let text = bench(&["report"], "--from", folder.path());
    assert!(text.contains("report.html"), "{text}");
    let page = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(page.contains("<img ") && !page.contains("<script"));
    for figure in ["figure 6", "figure 10", "figure 11", "V-E", "IV-B3"] {
        assert!(page.contains(figure), "{figure}");
    }
    assert!(page.contains("not measured"), "sync has not run");
}

#[test]
fn a_run_lasts_until_a_complete_frame() {
    if !has_xvfb() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // If each run lasted only 0.1 s, most runs would end before the scene draws its next picture.
    let slow = ["--duration", "0.1s", "--scene-fps", "2"];
    let size = ["--size", "320x180", "--bitrate", "4M"];
    let three = ["--only", "conventional", "--repetitions", "3"];
    let words = [&["ablation"], &slow[..], &size, &three].concat();
    bench(&words, "--out", folder.path());
    let all = read_json(&folder, "ablation.json");
    let runs = all["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 3, "{runs:?}");
    for run in runs {
        assert!(run["complete"].as_u64().unwrap() > 0, "{run}");
    }
}

#[test]
fn the_scene_is_captured_submitted_and_waits() {
    if !has_xvfb() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let words = ["sync", "--quick", "--size", "640x360", "--bitrate", "4M"];
    bench(&words, "--out", folder.path());
    let all = read_json(&folder, "sync.json");
    let names: Vec<&str> = all["ways"]
        .as_array()
        .unwrap()
        .iter()
        .map(|way| {
            assert!(way["p50_ms"]["median"].as_f64().unwrap() > 0.0, "{way}");
            assert!(way["drawn_fps"]["median"].as_f64().unwrap() > 0.0, "{way}");
            assert!(way["complete"].as_f64().unwrap() <= 1.0, "{way}");
            way["name"].as_str().unwrap()
        })
        .collect();
    assert_eq!(names, ["captured", "submitted", "lock-step"]);
}

#[test]
fn sound_is_measured_and_the_picture_with_and_without() {
    if !has_xvfb()
        || Command::new("pulseaudio")
            .arg("--version")
            .output()
            .is_err()
    {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let words = ["sound", "--quick", "--size", "640x360", "--bitrate", "4M"];
    bench(&words, "--out", folder.path());
    let all = read_json(&folder, "sound.json");
    let ways = all["ways"].as_array().unwrap();
    for way in ways {
        assert!(way["p50_ms"]["median"].as_f64().unwrap() > 0.0, "{way}");
    }
    assert!(ways[0]["sound_ms"].is_null(), "{}", ways[0]);
    assert!(ways[0]["host_audio_cores"].is_null(), "{}", ways[0]);
    for figure in ["/sound_ms/p50", "/reported_ms/p50", "/delay_ms/median"] {
        let measured = ways[1].pointer(figure).and_then(Value::as_f64);
        assert!(measured.is_some_and(|ms| ms > 0.0), "{figure}: {}", ways[1]);
    }
    assert!(ways[1]["offset_ms"]["count"].as_u64().unwrap() > 0);
    assert!(ways[1]["host_audio_cores"]["median"].as_f64().unwrap() > 0.0);
    let links = all["links"].as_array().unwrap();
    assert_eq!(links.len(), 2);
    assert!(
        links.iter().all(|link| link["longest_ms"].is_number()),
        "{links:?}"
    );
}

#[test]
fn each_capture_method_is_measured_with_its_cost() {
    if !has_xvfb() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let size = ["--size", "320x180", "--bitrate", "4M"];
    let ways = ["--ways", "alone,hook,c-api"];
    bench(
        &[&["capture", "--quick"][..], &size, &ways].concat(),
        "--out",
        folder.path(),
    );
    let all = read_json(&folder, "capture.json");
    let rows = all["ways"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|r| r["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["alone", "hook", "c-api"]);
    for row in rows {
        let streamed = row["name"] != "alone";
        assert_eq!(row["p50_ms"]["median"].is_f64(), streamed, "{row}");
        assert_eq!(row["cores"]["median"].is_f64(), streamed, "{row}");
        assert!(
            row["frame_p50_ms"]["median"].as_f64().unwrap() > 0.0,
            "{row}"
        );
        assert!(row["unheld_fps"]["median"].as_f64().unwrap() > 0.0, "{row}");
    }
}

#[test]
fn wayland_displays_and_windows_are_measured_with_their_cost() {
    if !has_xvfb() || !has_program("sway", "sway") || !has_program("Xwayland", "xwayland") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let size = ["--size", "320x180", "--bitrate", "4M", "--presses", "2"];
    let names = [
        "session",
        "session-240",
        "virtual-xvfb",
        "virtual-wayland",
        "client-x11",
        "client-wayland",
    ];
    let ways = ["--ways", &names.join(",")];
    let words = [&["capture", "--quick"][..], &size, &ways].concat();
    let text = bench(&words, "--out", folder.path());
    assert!(text.contains("still picture"), "{text}");
    let all = read_json(&folder, "capture.json");
    let rows = all["ways"].as_array().unwrap();
    assert_eq!(
        Vec::from_iter(rows.iter().map(|row| row["name"].as_str().unwrap())),
        names
    );
    for row in rows {
        for figure in [
            "p50_ms",
            "cores",
            "host_cores",
            "still_cores",
            "reaction_ms",
            "frame_p50_ms",
            "unheld_fps",
        ] {
            let median = row[figure]["median"].as_f64();
            assert!(
                median.is_some_and(|median| median >= 0.0),
                "{figure}: {row}"
            );
        }
        assert!(row["complete"].as_f64().unwrap() > 0.0, "{row}");
        // In this case, the host itself is the Wayland display, so there is no separate display process.
        let own = row["name"] == "virtual-wayland";
        assert_eq!(row["display_cores"].is_null(), own, "{row}");
    }
}

#[test]
fn sessions_are_played_and_their_cost_is_measured() {
    if !has_xvfb() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let words = ["sessions", "--quick", "--size", "320x180"];
    bench(&words, "--out", folder.path());
    let all = read_json(&folder, "sessions.json");
    assert_eq!(all["quick"], true, "{all}");
    let [step] = all["steps"].as_array().unwrap().as_slice() else {
        panic!("{all}");
    };
    assert_eq!(step["sessions"], 1, "{step}");
    let [played] = step["played"].as_array().unwrap().as_slice() else {
        panic!("{step}");
    };
    assert!(played["complete_fps"].as_f64().unwrap() > 0.0, "{step}");
    assert!(
        played["latency_ms"]["p50"].as_f64().unwrap() > 0.0,
        "{step}"
    );
    assert!(step["cores"]["median"].as_f64().unwrap() > 0.0, "{step}");
    assert!(
        step["memory_mib"]["median"].as_f64().unwrap() > 1.0,
        "{step}"
    );
}

#[test]
fn scheduling_latency_and_sealing_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let words = ["scheduling", "--rate", "1000", "--duration", "0.1s"];
    bench(&words, "--out", folder.path());
    let all = read_json(&folder, "scheduling.json");
    let cells = all["wake_ups"].as_array().unwrap();
    let left_out = count(&all["left_out"]);
    // There are eight combinations of two primitives, two policies and two placements. Further conditions depend on the
    // machine.
    assert!((8..=11).contains(&cells.len()), "{}", cells.len());
    assert_eq!(left_out > 0, cells.len() < 11, "{}", all["left_out"]);
    for cell in cells {
        assert_eq!(cell["sent"], 100, "{cell}");
        assert_eq!(cell["us"]["count"], 100, "none is lost: {cell}");
    }
    assert_eq!(count(&all["sealing_us"]), 2);
    assert!(all["recording_ns"]["woke"].as_f64().unwrap() > 0.0);
}

#[test]
fn the_link_bench_counts_outcomes_on_a_bad_link() {
    if !has_xvfb() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("link.json");
    let refresh = ["--recovery", "intra-refresh"];
    let words = ["link", "--quick", "--cases", "heavy", "--sched", "off"];
    let words = [&words[..], &refresh].concat();
    let text = bench(&words, "--json", &json);
    assert!(text.contains("complete "), "{text}");
    let all = read_json(&folder, "link.json");
    assert_eq!(count(&all["cases"]), 1);
    let figures = &all["cases"][0];
    assert_eq!(figures["case"], "heavy");
    assert_eq!(figures["recovery"], "intra-refresh");
    assert!(figures["narrow"].is_null());
    let outcomes = figures["outcomes"].as_object().expect("outcomes");
    let number = |how: &str| outcomes.get(how).and_then(Value::as_u64).unwrap_or(0);
    let recorded: u64 = outcomes.values().filter_map(Value::as_u64).sum();
    // The number of complete frames depends on stalls of the machine. Retransmission and FEC always complete some.
    let complete = number("complete");
    assert!(0 < complete && complete <= recorded, "{text}");
    let seconds = figures["seconds"].as_f64().expect("seconds");
    let rate = figures["complete_per_second"].as_f64().expect("a rate");
    assert!((rate * seconds - complete as f64).abs() < 1e-6);
    assert_eq!(figures["latency_ms"]["count"], complete);
    assert!(figures["wire_mbps"].as_f64().expect("a rate") > 0.0);
    assert!(figures["longest_gap_ms"].as_f64().expect("a gap") > 0.0);
}
