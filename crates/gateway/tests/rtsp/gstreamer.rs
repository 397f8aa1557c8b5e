//! GStreamer's own client, by UDP and by TCP.

use std::process::{Command, Stdio};

use crate::Players;
use crate::beside::{assert_is_part_of, nal_units, write_down};

/// Packets that it takes until it ends by itself.
const PACKETS: usize = 400;

/// What `rtspsrc` and a depacketiser write for `protocols`; `None`: there is no GStreamer here.
fn take(players: &Players, protocols: &str) -> Option<Vec<u8>> {
    let file = players.rig.folder.0.join(format!("{protocols}.h264"));
    let (url, location) = (
        format!("location={}", players.url()),
        format!("location={}", file.display()),
    );
    let words = [
        "-q",
        "rtspsrc",
        &url,
        "latency=0",
        &format!("protocols={protocols}"),
        "name=source",
        // The sound is set up and played as well.
        "source.",
        "!",
        "application/x-rtp,media=audio",
        "!",
        "fakesink",
        "async=false",
        "source.",
        "!",
        "application/x-rtp,media=video",
        "!",
        "identity",
        &format!("eos-after={PACKETS}"),
        "!",
        "rtph264depay",
        "!",
        "video/x-h264,stream-format=byte-stream",
        "!",
        "filesink",
        &location,
    ];
    let run = Command::new("gst-launch-1.0")
        .args(words)
        .stdin(Stdio::null())
        .output();
    let run = match run {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: install gstreamer1.0-tools");
            return None;
        }
        run => run.unwrap(),
    };
    assert!(
        run.status.success(),
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
    Some(std::fs::read(file).unwrap())
}

#[test]
fn gstreamer_writes_what_the_encoder_made() {
    for protocols in ["udp", "tcp"] {
        let players = Players::new(&format!("rtsp-gst-{protocols}"));
        let made = write_down(&players.rig.host);
        let Some(stream) = take(&players, protocols) else {
            return;
        };
        let mut units = nal_units(&stream);
        // The last one may be cut, and GStreamer repeats nothing.
        units.pop();
        assert!(units.len() > 50, "{protocols}: {} units", units.len());
        assert_is_part_of(&units, &made);
    }
}
