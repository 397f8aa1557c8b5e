//! Players based on live555, which supports only the profile `RTP/AVP`: VLC, if built with RTSP, and live555's own
//! program.

use std::process::{Command, Stdio};

use crate::support::skip::skip;
use crate::support::vlc;
use crate::{Players, ffmpeg};

#[test]
#[ignore = "./dev test-web, where there is a VLC with RTSP, which Debian's lacks"]
fn vlc_plays_a_stream() {
    if !vlc::is_there(Some("access/liblive555_plugin.so")) || !ffmpeg::is_there() {
        return;
    }
    let players = Players::new("rtsp-vlc");
    let (file, out) = vlc::copies(&players.url(), players.rig.folder.path(), 4);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}");
    let frames = ffmpeg::frames(&file);
    // A fast machine sends 240 frames in these four seconds, but VLC needs a part of the time to start.
    assert!(frames > 10, "{frames} frames; {said}");
}

#[test]
#[ignore = "./dev test-web, where there is openRTSP, which Debian lacks"]
fn live555s_own_program_plays_a_stream() {
    if !Command::new("openRTSP")
        .output()
        .is_ok_and(|out| !out.stderr.is_empty())
    {
        return skip("openRTSP is not installed: package livemedia-utils, which Debian 13 lacks");
    }
    let players = Players::new("rtsp-live555");
    for by_tcp in [true, false] {
        let mut command = Command::new("openRTSP");
        command
            .args(["-v", "-V", "-d", "4"])
            .args(by_tcp.then_some("-t"));
        // openRTSP writes the picture to standard output, unchanged.
        let out = command
            .arg(players.url())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success() && out.stdout.len() > 20_000, "{said}");
    }
}
