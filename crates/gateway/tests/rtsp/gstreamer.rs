//! GStreamer's own client, over UDP and TCP.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::Players;
use crate::beside::{is_part_of, nal_units, write_down};
use crate::support::stalls::measured_without_stalls;
use crate::support::{STALLED, TIMEOUT};

/// Output length in bytes at which GStreamer is stopped: more than a second of the test pattern.
const BYTES: u64 = 300_000;

/// The video that `rtspsrc` receives over `protocols`, as output by a depacketizer.
fn take(players: &Players, protocols: &str) -> Vec<u8> {
    let file = players.rig.folder.path().join(format!("{protocols}.h264"));
    let url = format!("location={}", players.url());
    let protocols = format!("protocols={protocols}");
    let location = format!("location={}", file.display());
    let words = [
        &[
            "-q",
            "rtspsrc",
            &url,
            "latency=0",
            &protocols,
            "name=source",
        ][..],
        // Sound is also set up and played.
        &[
            "source.",
            "!",
            "application/x-rtp,media=audio",
            "!",
            "fakesink",
            "async=false",
        ],
        &[
            "source.",
            "!",
            "application/x-rtp,media=video",
            "!",
            "rtph264depay",
        ],
        &[
            "!",
            "video/x-h264,stream-format=byte-stream,alignment=nal",
            "!",
            "filesink",
        ],
        &[&location, "async=false"],
    ];
    let mut command = Command::new("gst-launch-1.0");
    command
        .args(words.concat())
        .stdin(Stdio::null())
        .stderr(Stdio::piped());
    let child = command.spawn();
    let mut child = child.expect("gst-launch-1.0, of the package gstreamer1.0-tools");
    let end = Instant::now() + TIMEOUT;
    while std::fs::metadata(&file).map_or(0, |file| file.len()) < BYTES {
        let over = child.try_wait().unwrap().is_some() || Instant::now() > end;
        if over {
            let _ = child.kill();
            let said = child.wait_with_output().unwrap().stderr;
            panic!("too little output: {}", String::from_utf8_lossy(&said));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    std::fs::read(file).unwrap()
}

#[test]
fn gstreamer_writes_the_encoders_output() {
    for protocols in ["udp", "tcp"] {
        // A starved reader's socket loses datagrams.
        measured_without_stalls(3, STALLED, || {
            let players = Players::new(&format!("rtsp-gst-{protocols}"));
            let made = write_down(&players.rig.host);
            let stream = take(&players, protocols);
            let mut units = nal_units(&stream);
            // The last NAL unit may be truncated.
            units.pop();
            assert!(units.len() > 20, "{protocols}: {} units", units.len());
            is_part_of(&units, &made).map_err(|e| format!("{protocols}: {e}"))
        });
    }
}
