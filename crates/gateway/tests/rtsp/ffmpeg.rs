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

/// Whether ffmpeg and ffprobe are installed.
#[expect(clippy::print_stderr, reason = "a test that does less says so")]
pub(crate) fn is_there() -> bool {
    let found = ["ffmpeg", "ffprobe"].into_iter().all(|program| {
        let there = Command::new(program).arg("-version").output();
        there.is_ok_and(|out| out.status.success())
    });
    if !found {
        eprintln!("skipped: install ffmpeg for it");
    }
    found
}

/// Frames of the picture in a file.
pub(crate) fn frames(file: &std::path::Path) -> usize {
    let out = Command::new("ffprobe")
        .args([
            "-v",
            "error",
            "-select_streams",
            "v",
            "-show_entries",
            "packet=size",
            "-of",
            "csv=p=0",
        ])
        .arg(file)
        .output()
        .unwrap();
    String::from_utf8_lossy(&out.stdout).lines().count()
}

/// A recording on another machine, as `docs/clients.md` has it: ffmpeg has nothing to complain of, with sound and picture.
#[test]
fn ffmpeg_copies_both_tracks_without_a_warning() {
    if !is_there() {
        return;
    }
    for transport in ["tcp", "udp"] {
        let players = Players::new(&format!("copy-{transport}"));
        let file = players.rig.folder.0.join("recording.mkv");
        let out = Command::new("ffmpeg")
            .args([
                "-loglevel",
                "warning",
                "-nostdin",
                "-rtsp_transport",
                transport,
            ])
            .args(["-i", &players.url(), "-t", "4", "-c", "copy"])
            // The first packet's time, which ffmpeg's parser loses of each RTSP stream.
            .args(["-bsf:v", "setts=pts=DTS"])
            .arg(&file)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(
            out.status.success() && said.is_empty(),
            "{transport}: {said}"
        );
    }
}

#[test]
fn ffmpeg_begins_without_a_look_at_the_stream() {
    if !is_there() {
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
