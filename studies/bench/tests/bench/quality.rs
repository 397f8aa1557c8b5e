//! `openuvr bench quality` as a user starts it. Tests that two points of a short clip are judged, counted and written.
//! Picture quality depends on the codec and on the machine's load. With the raw encoder, a completely received
//! picture is always equal to the captured one.

use serde_json::Value;

use super::{has_xvfb, openuvr_bench};

/// A clip of 20 pictures. Its textured background moves by two pixels per picture.
fn clip() -> Vec<u8> {
    const WIDTH: usize = 320;
    const HEIGHT: usize = 240;
    let mut file = format!("YUV4MPEG2 W{WIDTH} H{HEIGHT} F30:1 Ip C420jpeg\n").into_bytes();
    for picture in 0..20 {
        file.extend_from_slice(b"FRAME\n");
        for y in 0..HEIGHT {
            let value = |x: usize| 60 + (x + 2 * picture) / 5 * 37 % 90 + y / 6 * 29 % 70;
            file.extend((0..WIDTH).map(|x| u8::try_from(value(x)).unwrap_or(u8::MAX)));
        }
        file.extend(std::iter::repeat_n(128, WIDTH * HEIGHT / 2));
    }
    file
}

#[test]
fn two_points_are_judged_and_written() {
    if !has_xvfb() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    std::fs::write(at("moving.y4m"), clip()).expect("a writable folder");
    let (clip, csv, json) = (at("moving.y4m"), at("a.csv"), at("a.json"));
    let measure = |more: &[&str]| {
        let out = openuvr_bench()
            .args(["bench", "quality", "--no-scene", "--clip", &clip])
            .args(["--fps", "30", "--duration", "1.5s", "--sched", "off"])
            .args(["--csv", &csv, "--json", &json])
            .args(more)
            .output()
            .unwrap();
        let text = String::from_utf8(out.stdout).unwrap();
        let errors = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{text}\n{errors}");
        assert!(text.contains("sha256"), "{text}");
        let rows = std::fs::read_to_string(&csv).unwrap();
        let figures = std::fs::read_to_string(&json).unwrap();
        (text, rows, serde_json::from_str::<Value>(&figures).unwrap())
    };

    let (text, rows, figures) = measure(&["--vary", "gop", "--points", "none,15"]);
    let rows: Vec<Vec<&str>> = rows.lines().map(|row| row.split(',').collect()).collect();
    let [names, best, grouped] = &rows[..] else {
        panic!("two rows: {rows:?}");
    };
    assert!(text.contains("GOP 15"), "{text}");
    let number = |row: &[&str], name: &str| {
        let column = names.iter().position(|n| *n == name).unwrap();
        row[column].parse::<f64>().unwrap()
    };
    assert_eq!((best[4], grouped[4]), ("none", "15"));
    for row in [best, grouped] {
        let of = |name: &str| number(row, name);
        // A run of 1.5 s at 30 frames/s has 45 frames. Each is judged or excluded, and each has an outcome.
        assert_eq!(of("frames") + of("unseen"), 45.0);
        let ends = [
            "complete",
            "concealed",
            "tainted",
            "dropped",
            "not_captured",
        ];
        assert_eq!(ends.iter().map(|name| of(name)).sum::<f64>(), 45.0);
        assert!(of("complete") > 0.0, "{row:?}");
        for (name, most) in [("psnr", 100.0), ("ssim", 1.0)] {
            let of = |what: &str| of(&format!("{name}_{what}"));
            assert!(of("worst") <= of("mean") && of("mean") <= most, "{row:?}");
            assert!(of("lo") <= of("hi"), "{row:?}");
        }
        assert!(of("down_mbps") > of("up_mbps") && of("up_mbps") > 0.0);
    }

    let titled = |title: &str| {
        let all = figures["figures"].as_array().unwrap();
        let is = |figure: &&Value| figure["title"].as_str().unwrap().starts_with(title);
        all.iter().find(is).unwrap_or_else(|| panic!("no {title}"))
    };
    for (title, name) in [("PSNR against size", "psnr"), ("SSIM against size", "ssim")] {
        let points = titled(title)["series"][0]["points"]
            .as_array()
            .unwrap()
            .clone();
        assert_eq!(points.len(), 2);
        for (point, row) in points.iter().zip([grouped, best]) {
            for what in ["mean", "worst", "lo", "hi"] {
                let (drawn, row) = (&point[what], number(row, &format!("{name}_{what}")));
                assert!((drawn.as_f64().unwrap() - row).abs() < 1e-3, "{point}");
            }
        }
    }
    let load = &titled("Network load: bit rate")["series"];
    assert_eq!(load[0]["points"][0]["label"], "moving");

    let (_, rows, _) = measure(&[
        "--vary",
        "gop",
        "--points",
        "none",
        "--host-arg=--encoder=raw",
    ]);
    let row: Vec<&str> = rows.lines().nth(1).unwrap().split(',').collect();
    let (best_frames, lo, hi) = (&row[6], &row[9], &row[10]);
    assert_ne!(*best_frames, "0");
    assert_eq!(*hi, "100.0000", "raw pixels are equal: {row:?}, {lo}");
}

/// Measuring the scene takes minutes. If the bench noticed the missing clip only afterwards, the scene's results would
/// be lost.
#[test]
fn a_missing_clip_is_reported_before_the_scene_is_measured() {
    if !has_xvfb() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = openuvr_bench()
        .args(["bench", "quality", "--size", "320x192"])
        .args(["--clip", "/missing.y4m", "--sched", "off"])
        .env("XDG_CACHE_HOME", folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(!out.status.success(), "{text}");
    assert!(errors.contains("/missing.y4m"), "{errors}");
    assert!(!text.contains("PSNR"), "{text}");
}

/// Runs a mode of the bench with the moving clip at 30 frames/s. Returns its result file.
fn mode(args: &[&str]) -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    std::fs::write(at("moving.y4m"), clip()).expect("a writable folder");
    let out = openuvr_bench()
        .args(["bench", "quality", "--no-scene", "--fps", "30"])
        .args(["--clip", &at("moving.y4m"), "--sched", "off"])
        .args(["--json", &at("a.json")])
        .args(args)
        .output()
        .expect("the program starts");
    let text = String::from_utf8_lossy(&out.stdout);
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{text}\n{errors}");
    let file = std::fs::read_to_string(at("a.json")).expect("a result file");
    let file: Value = serde_json::from_str(&file).expect("JSON");
    assert_eq!(file["schema"], "openuvr.bench.quality");
    file
}

#[test]
fn batches_of_a_long_stream_have_150_frames_each() {
    if !has_xvfb() {
        return;
    }
    let file = mode(&["--batches", "20s", "--host-arg=--encoder=raw"]);
    assert_eq!(file["seconds"], 20.0);
    assert_eq!(file["quick"], true);
    assert_eq!(file["height_pixels"], 240, "the clip's, not the default");
    let batches = &file["batches"][0];
    let outcomes = batches["outcomes"].as_object().unwrap();
    let judged: u64 = outcomes.values().filter_map(Value::as_u64).sum();
    let ssim = batches["ssim"].as_array().unwrap();
    assert_eq!((ssim.len(), judged), (2, 300), "{batches}");
    assert_eq!(batches["missing"].as_array().unwrap().len(), 0);
    for ssim in ssim {
        let ssim = ssim.as_f64().unwrap();
        // If a frame is displayed late, the frame shown before it is compared.
        assert!(ssim > 0.5 && ssim <= 1.0, "{batches}");
    }
}

#[test]
fn a_stream_without_feedback_is_measured_beside_others() {
    if !has_xvfb() {
        return;
    }
    let file = mode(&["--feedback", "--repetitions", "1", "--duration", "2s"]);
    assert_eq!(file["loss_percent"], 1);
    let ways = file["feedback"][0]["ways"].as_array().unwrap();
    let options: Vec<&str> = ways
        .iter()
        .map(|way| way["options"].as_str().unwrap())
        .collect();
    assert_eq!(options[0], "--recovery none --key-frame-interval 30");
    assert_eq!(ways.len(), 3);
    for way in ways {
        assert_eq!(way["runs"], 1, "{way}");
        for figure in ["psnr_db", "ssim", "complete"] {
            assert_eq!(way[figure]["values"].as_array().unwrap().len(), 1, "{way}");
        }
        // Only complete frames have a latency. Without feedback, there may be none in two seconds.
        let complete = way["complete"]["values"][0].as_f64().unwrap();
        assert_eq!(way["latency_ms"].is_null(), complete == 0.0, "{way}");
    }
}

/// A point at which no frame is received is reported as missing, with the reason. The other points are present.
#[test]
fn a_point_that_fails_is_missing_and_the_sweep_goes_on() {
    if !has_xvfb() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    std::fs::write(at("moving.y4m"), clip()).unwrap();
    let csv = at("a.csv");
    let out = openuvr_bench()
        .args([
            "bench",
            "quality",
            "--no-scene",
            "--clip",
            &at("moving.y4m"),
        ])
        .args(["--fps", "30", "--duration", "0.5s", "--sched", "off"])
        .args(["--vary", "loss", "--points", "100,1", "--csv", &csv])
        .output()
        .unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let errors = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{text}\n{errors}");
    assert!(text.contains("missing: the client ended early"), "{text}");
    assert!(text.contains("no answer from the host"), "{text}");
    assert!(text.contains("missing: moving 100 % loss"), "{text}");
    assert!(
        errors.contains("1 points could not be measured"),
        "{errors}"
    );
    // The lines are the header, the perfect link, and the point after the failed one.
    let rows = std::fs::read_to_string(&csv).unwrap();
    assert_eq!(rows.lines().count(), 3, "{rows}");
}
