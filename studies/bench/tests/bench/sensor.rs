//! `openuvr bench sensor`: tests that the samples of a sensor arrive at the host, and that their times are joined.

use super::{bench, has_xvfb, read_json};

#[test]
fn samples_of_a_sensor_arrive_at_the_host() {
    if !has_xvfb() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let words = ["sensor", "--size", "640x360", "--bitrate", "5M", "--quick"];
    let text = bench(&words, "--out", folder.path());
    let report = read_json(&folder, "sensor.json");
    let late = &report["late_ms"];
    // In 2.5 s, the scene has about 150 frames. On a busy machine, fewer are drawn, and frames share an input.
    assert!(late["count"].as_u64() > Some(10), "{text}");
    // An input does not arrive before it was sampled.
    assert!(late["min"].as_f64() > Some(0.0), "{text}");
    assert!(report["p99_ms"]["median"].as_f64() >= report["p50_ms"]["median"].as_f64());
    assert!(text.contains("sample to arrival at the host"), "{text}");
}
