//! Tests of the whole command, from its arguments to its output folder.

use std::path::PathBuf;

use clap::Parser;
use serde_json::Value;
use tempfile::TempDir;

use super::*;

#[derive(Parser)]
struct Program {
    #[command(flatten)]
    wifi: WifiArgs,
}

/// A path in a temporary folder. Nothing exists at this path yet.
struct Scratch(
    PathBuf,
    #[expect(dead_code, reason = "removed on drop")] TempDir,
);

impl Scratch {
    fn new() -> Scratch {
        let folder = tempfile::tempdir().unwrap();
        Scratch(folder.path().join("made"), folder)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap()
    }
}

fn study(folder: &Scratch, options: &[&str]) -> Result<ExitCode> {
    let out = folder.0.to_string_lossy().into_owned();
    let line = ["wifi", "--out", &out]
        .into_iter()
        .chain(options.iter().copied());
    run(&Program::try_parse_from(line)?.wifi)
}

#[test]
fn a_sweep_writes_a_table_and_data() {
    let folder = Scratch::new();
    let options = [
        "--vary",
        "stations=1,2",
        "--vary",
        "batches=fit,1",
        "--runs",
        "2",
        "--duration",
        "200ms",
        "profile=he-su",
        "per=1%",
    ];
    study(&folder, &options).unwrap();
    let table = folder.read("table.csv");
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("stations,batches,packet_ms,packet_ms_ci95,"));
    let cases: Vec<String> = lines[1..]
        .iter()
        .map(|line| line.split(',').take(2).collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(cases, ["1 fit", "2 fit", "1 1", "2 1"]);
    let data: Value = serde_json::from_str(&folder.read("wifi.json")).unwrap();
    assert_eq!(data["words"], "profile=he-su per=1%");
    assert_eq!(data["cases"].as_array().unwrap().len(), 4);
    let mean =
        |case: usize, what: &str| data["cases"][case]["found"][what]["mean"].as_f64().unwrap();
    assert!(
        mean(2, "frame_ms") < mean(0, "frame_ms"),
        "one burst completes earlier"
    );
    assert!(data["machine"]["cores"].as_u64().unwrap() > 0);
    assert_eq!(data["schema"], "openuvr.lab.wifi");
    assert_eq!(data["varied"][1]["values"][0], "fit");
}

#[test]
fn one_network_is_reported_in_one_table() {
    let folder = Scratch::new();
    study(
        &folder,
        &["--runs", "1", "--duration", "200ms", "profile=he-su"],
    )
    .unwrap();
    let table = folder.read("table.csv");
    assert!(table.contains("\"frame delay, ms\",") || table.contains("frame delay, ms"));
    assert!(table.lines().count() > 15);
}

#[test]
fn an_interrupted_study_keeps_the_results_of_an_earlier_one() {
    let folder = Scratch::new();
    let words = "profile=he-su";
    study(&folder, &["--runs", "1", "--duration", "200ms", words]).unwrap();
    let before = folder.read("wifi.json");
    let settings = RunSettings {
        repetition: Repetition { runs: 1, seed: 1 },
        lasting: 200_000_000,
        stop: Arc::new(AtomicBool::new(true)),
    };
    let error = sweep::run(&settings, words, &[], &folder.0).unwrap_err();
    assert!(error.to_string().contains("no results"), "{error}");
    assert_eq!(folder.read("wifi.json"), before);
}

#[test]
fn the_published_study_is_a_folder_with_four_figures() {
    let folder = Scratch::new();
    // These runs are too short for correct figures. The test checks only the folder's contents.
    study(&folder, &["--paper", "--runs", "2", "--duration", "300ms"]).unwrap();
    assert_eq!(folder.read("figures.csv").lines().count(), 1 + 18);
    assert_eq!(folder.read("cases.csv").lines().count(), 1 + 3 + 5 + 5);
    let data: Value = serde_json::from_str(&folder.read("wifi.json")).unwrap();
    assert_eq!(data["paper"]["single_packet_us"], 374.0);
    assert_eq!(data["paper"]["rows"].as_array().unwrap().len(), 18);
    assert!(data["paper"]["rows"][0]["tolerance"].is_f64());
    let spread = &data["paper"]["intervals"][4]["spreads"]["frames"];
    assert!(spread["p5"].as_f64() < spread["p99"].as_f64(), "{spread}");
}

#[test]
fn topologies_have_a_folder_beside_the_published_study() {
    let folder = Scratch::new();
    study(&folder, &["--paper", "--runs", "2", "--duration", "200ms"]).unwrap();
    let options = ["--topology", "--runs", "2", "--duration", "200ms", "mcs=5"];
    study(&folder, &options).unwrap();
    assert_eq!(folder.read("topology.csv").lines().count(), 1 + 6);
    assert_eq!(folder.read("topology-figures.csv").lines().count(), 1 + 6);
    let data: Value = serde_json::from_str(&folder.read("wifi-topology.json")).unwrap();
    assert_eq!(data["schema"], "openuvr.lab.wifi");
    assert!(data["words"].as_str().unwrap().ends_with(" mcs=5"));
    let cases = data["topology"]["cases"].as_array().unwrap();
    let frame = |case: usize| cases[case]["frame_ms"]["p50"].as_f64().unwrap();
    assert!(frame(0) < frame(2), "peers are faster than a router");
    assert_eq!(data["topology"]["rows"][0]["paper"], 3.2);
    // The other study's results remain.
    assert!(folder.read("wifi.json").contains("single_packet_us"));
}

#[test]
fn a_table_of_packets_is_replayed() {
    let folder = Scratch::new();
    let file = Scratch::new();
    let mut table = String::from("time_ns,bytes,frame\n");
    for packet in 0..100_u64 {
        table += &format!("{},1200,{}\n", packet / 10 * 16_666_667, packet / 10);
    }
    std::fs::write(&file.0, table).unwrap();
    let path = file.0.to_string_lossy().into_owned();
    let options = ["--replay", &path, "--runs", "1", "profile=he-su", "per=0"];
    let result = study(&folder, &options);
    std::fs::remove_file(&file.0).unwrap();
    result.unwrap();
    assert_eq!(folder.read("delays.csv").lines().count(), 1 + 100);
    assert_eq!(folder.read("frames.csv").lines().count(), 1 + 10);
    assert!(
        folder
            .read("table.csv")
            .contains("frames later than 16.7ms or incomplete")
    );
}

#[test]
fn invalid_options_fail_before_anything_is_written() {
    for (options, says) in [
        (&["profile=he-su", "mcs=12"][..], "no MCS 12 in 802.11ax"),
        (&["stations=0"], "stations must be at least 1"),
        (&["--runs", "0"], "--runs 0"),
        (&["--vary", "mcs=1,15"], "no MCS 15"),
        (
            &["--vary", "a=1", "--vary", "b=1", "--vary", "c=1"],
            "at most twice",
        ),
        (&["--replay", "/nowhere/at/all"], "/nowhere/at/all"),
        (&["--paper", "mcs=9"], "cannot be used with"),
        (&["--topology", "--paper"], "cannot be used with"),
        (&["--topology", "hops=1"], "sets hops itself"),
    ] {
        let folder = Scratch::new();
        let message = format!("{:#}", study(&folder, options).unwrap_err());
        assert!(message.contains(says), "{options:?}: {message}");
        assert!(!folder.0.exists(), "{options:?}");
    }
}
