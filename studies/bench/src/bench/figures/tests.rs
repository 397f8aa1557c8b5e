use serde_json::json;

use super::*;

fn mark(data: &Data, name: &str) -> (Mark, String) {
    let found = all(data).into_iter().find(|f| f.name == name).unwrap();
    (found.mark, found.why)
}

#[test]
fn without_data_nothing_is_claimed() {
    for figure in all(&Data::default()) {
        assert!(
            matches!(figure.mark, Mark::NotMeasured | Mark::NotTestable),
            "{figure:?}"
        );
    }
}

#[test]
fn the_breakdown_follows_the_data() {
    let step = |from: &str, to: &str, ms: f64| json!({"from": from, "to": to, "ms": {"p50": ms}});
    let run = |network: f64| {
        json!({
            "configuration": "conventional",
            "latency_ms": {"p50": 30.0},
            "steps": [
                step("drawn", "Captured", 8.0), step("Captured", "Converted", 2.0),
                step("Converted", "FirstSlice", 5.0), step("FirstSlice", "Encoded", 1.0),
                step("Encoded", "Recoverable", network), step("Recoverable", "Decoded", 2.0),
                step("Decoded", "Submitted", 0.5), step("Submitted", "visible", 1.0),
            ],
        })
    };
    let of = |runs: Vec<Value>| Data {
        ablation: json!({"runs": runs}),
        ..Data::default()
    };
    let data = |network: f64| of(vec![run(network), run(network)]);
    assert_eq!(mark(&data(11.0), "OpenUVR fig. 6").0, Mark::Reproduced);
    let alone = of(vec![run(11.0)]);
    assert_eq!(mark(&alone, "OpenUVR fig. 6").0, Mark::Inconclusive);
    let torn = of(vec![run(11.0), run(0.5)]);
    assert_eq!(mark(&torn, "OpenUVR fig. 6").0, Mark::Inconclusive);
    let (judged, why) = mark(&data(0.5), "OpenUVR fig. 6");
    assert_eq!(judged, Mark::NotReproduced);
    assert!(
        why.contains("0.5 ms on the network, 6.0 ms on encoding"),
        "{why}"
    );
    assert_eq!(
        breakdowns(&data(1.0)).len(),
        1,
        "ours is missing, not empty"
    );
}

#[test]
fn a_step_within_its_range_decides_nothing() {
    let row = |name: &str, worth: f64, clear: bool| json!({"name": name, "worth_ms": worth, "clear": clear, "unavailable": null});
    let data = |alternatives: Value| Data {
        ablation: json!({"alternatives": alternatives}),
        ..Data::default()
    };
    let rgb = "OpenUVR fig. 11, transcoding";
    let name = "RGB, not converted";
    assert_eq!(
        mark(&data(json!([row(name, 2.0, true)])), rgb).0,
        Mark::Reproduced
    );
    for worth in [2.0, -2.0] {
        let (judged, why) = mark(&data(json!([row(name, worth, false)])), rgb);
        assert_eq!(judged, Mark::Inconclusive, "{why}");
    }
    let one = json!([{"name": name, "worth_ms": 0.01, "clear": null}]);
    let (judged, why) = mark(&data(one), rgb);
    assert_eq!(judged, Mark::Inconclusive);
    assert!(why.contains("in the one run"), "{why}");
    let (judged, why) = mark(&data(json!([row(name, -1.5, true)])), rgb);
    assert_eq!(judged, Mark::NotReproduced);
    assert!(why.contains("costs 1.50 ms"), "{why}");
    let raw = Data {
        ablation: json!({"links": [
            {"name": "raw Ethernet", "unavailable": "needs CAP_NET_RAW"},
        ]}),
        ..Data::default()
    };
    let (judged, why) = mark(&raw, "OpenUVR fig. 11, network");
    assert_eq!(judged, Mark::NotTestable);
    assert!(why.contains("CAP_NET_RAW"), "{why}");
}

#[test]
fn quality_is_judged_by_its_ends() {
    let plot = |title: &str, x: &str, means: [f64; 2]| {
        let title = format!("{title} against {x}");
        json!({"title": title, "x": x, "series": [{"name": "scene", "points": [
            {"x": 0.0, "mean": means[0]}, {"x": 10.0, "mean": means[1]},
        ]}]})
    };
    let data = Data {
        quality: vec![
            plot("PSNR", "delay, ms", [40.0, 39.8]),
            plot("SSIM", "delay, ms", [0.95, 0.949]),
            plot("PSNR", "loss, %", [40.0, 31.0]),
            plot("SSIM", "loss, %", [0.95, 0.7]),
            plot("PSNR", "bandwidth, Mb/s", [37.0, 40.0]),
        ],
        ..Data::default()
    };
    let marks = |name| mark(&data, name).0;
    assert_eq!(marks("GamingAnywhere fig. 10(a), 11(a)"), Mark::Reproduced);
    assert_eq!(marks("GamingAnywhere fig. 10(b), 11(b)"), Mark::Reproduced);
    assert_eq!(
        marks("GamingAnywhere fig. 10(c), 11(c)"),
        Mark::Inconclusive
    );
    assert_eq!(marks("OpenUVR section V-D1"), Mark::Reproduced);
    assert_eq!(marks("OpenUVR section IV-B3"), Mark::NotMeasured);
}

#[test]
fn a_longer_group_is_judged_with_loss_and_without_or_not_at_all() {
    let line = |name: &str, means: [f64; 2]| {
        json!({"name": name, "points": [
            {"x": 5.0, "mean": means[0]}, {"x": 300.0, "mean": means[1]},
        ]})
    };
    let data = |lines: Value| Data {
        quality: vec![
            json!({"title": "PSNR against size of a group of pictures", "series": lines}),
        ],
        ..Data::default()
    };
    let of = |lines: Value| mark(&data(lines), "OpenUVR section IV-B3").0;
    let clean = line("scene, no loss", [35.0, 38.0]);
    assert_eq!(of(json!([clean])), Mark::NotMeasured);
    let lossy = line("scene, 1 % loss", [34.0, 30.0]);
    assert_eq!(of(json!([lossy])), Mark::NotMeasured);
    assert_eq!(of(json!([clean, lossy])), Mark::Reproduced);
}

#[test]
fn quick_and_single_runs_and_a_busy_machine_decide_little() {
    let way = |name: &str, p50: [f64; 3]| {
        let [min, median, max] = p50;
        json!({"name": name, "p50_ms": {"min": min, "median": median, "max": max}})
    };
    let data = |repetitions: u32, quick: bool, other_cores: f64| Data {
        sync: json!({
            "repetitions": repetitions, "quick": quick, "other_cores": other_cores,
            "ways": [way("captured", [8.0, 9.0, 10.0]), way("submitted", [5.0, 6.0, 7.0])],
        }),
        ..Data::default()
    };
    let sharing = |data: &Data| mark(data, "OpenUVR fig. 11, sharing");
    assert_eq!(sharing(&data(3, false, 0.0)).0, Mark::Reproduced);
    // Of a single run only what is far beyond what runs differ by.
    assert_eq!(sharing(&data(1, false, 0.0)).0, Mark::Inconclusive);
    let ends = |first: f64| Data {
        ablation: json!({"repetitions": 1, "quick": true, "cumulative": [
            {"p50_ms": {"median": first}}, {"p50_ms": {"median": 6.0}},
        ]}),
        ..Data::default()
    };
    for (first, wanted) in [(31.0, Mark::Reproduced), (12.0, Mark::Inconclusive)] {
        assert_eq!(mark(&ends(first), "OpenUVR fig. 10").0, wanted, "{first}");
    }
    let (judged, text) = sharing(&data(3, false, 0.3));
    assert_eq!(judged, Mark::Inconclusive);
    assert!(text.contains("not quiet"), "{text}");
    let wire = json!({"quick": true, "setting": {"bitrate": "10M"}, "stream": {"wire_mbps": 9.0}});
    let latency = Data {
        latency: vec![wire],
        ..Data::default()
    };
    let (judged, text) = mark(&latency, "GamingAnywhere fig. 9");
    assert_eq!(judged, Mark::Inconclusive);
    assert!(text.contains("a quick run"), "{text}");
}
