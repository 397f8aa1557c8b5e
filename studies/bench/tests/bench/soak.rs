//! `openuvr lab soak` for a few seconds.

use super::{has_xvfb, openuvr_bench};

#[test]
fn a_short_soak_accounts_for_all_frames_without_verdict() {
    let out = openuvr_bench()
        .args(["lab", "soak", "--duration", "3s", "--every", "100ms"])
        .args(["--source", "pattern", "--size", "320x200", "--fps", "30"])
        .args(["--bitrate", "2M", "--host-arg=--realtime", "--host-arg=off"])
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let errors = String::from_utf8_lossy(&out.stderr);
    let line = |name: &str| {
        let found = text.lines().find(|line| line.starts_with(name));
        found.unwrap_or_else(|| panic!("no {name}: {text}\n{errors}"))
    };
    for name in ["host", "client"] {
        let line = line(name);
        assert!(line.contains("MiB/h: too short to tell"), "{line}");
        let mib: f64 = line[name.len()..]
            .split_whitespace()
            .next()
            .and_then(|word| word.parse().ok())
            .expect("a figure");
        assert!((3.0..500.0).contains(&mib), "{line}");
    }
    let frames = line("frames");
    assert!(frames.ends_with("adds up"), "{frames}");
    let captured: u32 = frames
        .split_whitespace()
        .nth(1)
        .and_then(|word| word.parse().ok())
        .expect("a count");
    // On a quiet machine, 90 frames are captured.
    assert!(captured > 0, "{frames}");
    assert!(line("time").contains(" s of 3, "), "{text}");
    assert!(
        line("soak").contains("NOT JUDGED: the test ran for less than 60 s"),
        "{text}"
    );
    assert_eq!(out.status.code(), Some(1), "{text}");
}

#[test]
fn a_time_that_is_too_short_to_judge_is_refused_at_once() {
    let out = openuvr_bench()
        .args(["lab", "soak", "--duration", "1s", "--every", "1s"])
        .output()
        .expect("it runs");
    assert_eq!(out.status.code(), Some(2));
    let error = String::from_utf8_lossy(&out.stderr);
    assert!(
        error.contains("--duration must be at least 16 times"),
        "{error}"
    );
}

#[test]
fn the_scene_is_streamed_between_two_displays() {
    if !has_xvfb() {
        return;
    }
    let out = openuvr_bench()
        .args(["lab", "soak", "--duration", "2s", "--every", "100ms"])
        .args(["--size", "320x240", "--fps", "20", "--bitrate", "2M"])
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(text.contains(": adds up"), "{text}\n{errors}");
}
