//! Tests of the whole command, from its arguments to its output folder.

use std::path::PathBuf;

use clap::Parser;
use serde_json::Value;
use tempfile::TempDir;

use super::*;

#[derive(Parser)]
struct Program {
    #[command(flatten)]
    traffic: TrafficArgs,
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

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap()
    }
}

fn traffic(folder: &Scratch, options: &[&str]) -> Result<ExitCode> {
    let out = folder.0.to_string_lossy().into_owned();
    let line = ["traffic", "--out", &out]
        .into_iter()
        .chain(options.iter().copied());
    run(&Program::try_parse_from(line)?.traffic)
}

#[test]
fn generated_captures_are_analysed_and_joined() {
    let made = Scratch::new();
    let options = [
        "--generate",
        "--duration",
        "2s",
        "--loss",
        "1%",
        "--offset",
        "3s",
        "--drift",
        "-9",
    ];
    traffic(&made, &options).unwrap();
    let truth: Value = serde_json::from_str(&made.read("truth.json")).unwrap();
    let folder = Scratch::new();
    let (server, client) = (made.path("server.pcapng"), made.path("client.pcapng"));
    let about = ["--sent-fps", "90", "--medium", "wired", "--variant", "vp9"];
    let files = [server.as_str(), client.as_str()];
    traffic(&folder, &[&files[..], &about].concat()).unwrap();
    let data: Value = serde_json::from_str(&folder.read("traffic.json")).unwrap();
    assert_eq!(data["captures"][0]["end"], "server");
    assert_eq!(data["captures"][0]["generated"], true);
    let offset = data["joined"]["offset_ns"].as_f64().unwrap();
    assert!((offset - 3e9).abs() < 1e6, "{offset}");
    let streams = data["captures"][1]["streams"].as_array().unwrap();
    let video = streams.iter().find(|stream| stream["name"] == "RTP video");
    assert_eq!(video.unwrap()["sequence"]["lost"], truth["lost"]);
    for name in [
        "server-streams.csv",
        "client-streams.csv",
        "server-distributions.csv",
        "client-distributions.csv",
        "joined-distributions.csv",
        "joined.csv",
    ] {
        assert!(folder.0.join(name).is_file(), "{name}");
    }
    let table = folder.read("server-streams.csv");
    assert!(table.starts_with("way,stream,from,to,packets,bytes,ms,Mb/s,"));
    let close = data["captures"][0]["streams"][0]["below_1ms_percent"].as_f64();
    assert!(close.is_some_and(|percent| percent > 90.0), "{close:?}");
    let distributions = folder.read("client-distributions.csv");
    assert!(distributions.starts_with("quantity,stream,value,count\n"));
    assert!(distributions.contains("\nassembly_ns,frames,"));
    assert_eq!(
        (&data["nominal_fps"], &data["medium"], &data["variant"]),
        (&json!(90.0), &json!("wired"), &json!("vp9"))
    );
}

#[test]
fn a_corrupt_capture_writes_a_folder_and_fails() {
    let made = Scratch::new();
    traffic(&made, &["--generate", "--duration", "1s"]).unwrap();
    let whole = std::fs::read(made.0.join("server.pcapng")).unwrap();
    std::fs::write(made.0.join("cut.pcapng"), &whole[..whole.len() / 2 + 1]).unwrap();
    let folder = Scratch::new();
    let code = traffic(&folder, &[&made.path("cut.pcapng"), "--end", "server"]).unwrap();
    assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::from(BROKEN)));
    let data: Value = serde_json::from_str(&folder.read("traffic.json")).unwrap();
    assert!(
        data["captures"][0]["broken"]
            .as_str()
            .unwrap()
            .contains("unreadable after packet")
    );
    assert!(folder.read("streams.csv").lines().count() > 4);
}

#[test]
fn invalid_options_fail_before_anything_is_written() {
    let text = Scratch::new();
    std::fs::create_dir_all(&text.0).unwrap();
    std::fs::write(text.0.join("notes"), "no capture").unwrap();
    let notes = text.path("notes");
    for (options, says) in [
        (&["/nowhere/at/all"][..], "/nowhere/at/all"),
        (&[&notes], "neither pcap nor pcapng"),
        (
            &[&notes, &notes, "--end", "client"],
            "--end is for a single capture",
        ),
        (&[], "required"),
        (&["--generate", "--fps", "0"], "frames/s"),
        (&[&notes, "--duration", "0s"], "--duration 0s"),
    ] {
        let folder = Scratch::new();
        let message = format!("{:#}", traffic(&folder, options).unwrap_err());
        assert!(message.contains(says), "{options:?}: {message}");
        assert!(!folder.0.exists(), "{options:?}");
    }
}

#[test]
fn our_frames_match_the_analysis() {
    use openuvr_lab::capture::datagram::{OPENUVR_ETHER_TYPE, OPENUVR_MAGIC};
    use openuvr_net::ether;
    assert_eq!(OPENUVR_ETHER_TYPE, ether::ETHER_TYPE);
    let prefix = ether::prefix(0x1234, 0x5678, 0x3ff);
    assert_eq!(prefix[..2], OPENUVR_MAGIC);
    assert_eq!(prefix[2..], [0xff, 3, 0x34, 0x12, 0x78, 0x56]);
}
