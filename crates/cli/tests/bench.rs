//! `openuvr bench latency` as a user starts it: everything is measured, counted and written. Times
//! are not looked at.

use std::process::{Command, Stdio};

use serde_json::Value;

fn has_displays() -> bool {
    let there = Command::new("Xvfb")
        .arg("-help")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok();
    if !there {
        assert!(
            std::env::var("CI").as_deref() != Ok("true"),
            "Xvfb is missing: apt install xvfb"
        );
        eprintln!("skipped: Xvfb is missing (apt install xvfb)");
    }
    there
}

fn count(value: &Value) -> usize {
    value.as_array().expect("a list").len()
}

#[test]
fn a_quick_run_measures_floor_and_stream() {
    if !has_displays() {
        return;
    }
    let dir = std::env::temp_dir().join(format!("openuvr-bench-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let json = dir.join("bench.json");
    let out = Command::new(env!("CARGO_BIN_EXE_openuvr"))
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
    std::fs::remove_dir_all(&dir).unwrap();
    assert_eq!(count(&all), 1, "one case");
    let run = &all[0];
    assert_eq!(run["setting"]["size"], "640x360");
    assert_eq!(run["setting"]["real_time"], false);
    assert!(run["machine"]["cores"].as_u64().unwrap() >= 1);
    assert!(count(&run["application_reaction_ms"]) <= 4, "four presses");

    let (floor, stream) = (&run["floor"], &run["stream"]);
    for case in [floor, stream] {
        let frames = &case["frames"];
        let number = |name: &str| frames[name].as_u64().unwrap();
        assert!(number("visible") > 0);
        assert_eq!(number("drawn"), number("visible") + number("missed"));
        assert_eq!(count(&case["samples"]) as u64, number("visible"));
        assert!(case["other_cores"].as_f64().unwrap() >= 0.0);
        assert!(count(&case["threads"]) > 0);
    }
    let whole = stream["samples"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|sample| sample["outcome"] == "whole")
        .count();
    assert!(whole > 0, "some frame arrives whole on the loopback");
    assert_eq!(stream["latency_ms"]["count"], whole);
    let seen = count(&stream["samples"]);
    assert_eq!(stream["not_whole"], seen - whole);
    for step in stream["steps"].as_array().unwrap() {
        assert!(step["ms"]["count"].as_u64().unwrap() <= whole as u64);
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
