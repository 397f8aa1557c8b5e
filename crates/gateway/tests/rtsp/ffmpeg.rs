//! ffmpeg as a player that does not look at the stream before it takes it, as `docs/clients.md` has it.

use std::process::Command;

use crate::Players;

/// It looks at one packet alone, which has to be of the picture, and whole.
const AT_ONCE: [&str; 6] = [
    "-probesize",
    "32",
    "-analyzeduration",
    "0",
    "-allowed_media_types",
    "video",
];

#[test]
fn ffmpeg_begins_without_a_look_at_the_stream() {
    let there = Command::new("ffmpeg").arg("-version").output();
    if !there.is_ok_and(|out| out.status.success()) {
        eprintln!("skipped: install ffmpeg for it");
        return;
    }
    let players = Players::new("ffmpeg");
    let url = players.url();
    for _ in 0..5 {
        let out = Command::new("ffmpeg")
            .args(["-loglevel", "error", "-nostdin"])
            .args(AT_ONCE)
            .args(["-rtsp_transport", "tcp", "-i", &url, "-map", "0:v"])
            .args(["-c", "copy", "-frames:v", "20", "-f", "null", "-"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success() && said.is_empty(), "{said}");
    }
}
