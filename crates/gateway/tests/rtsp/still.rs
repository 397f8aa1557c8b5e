//! A still picture. Players can start, and keep receiving frames.

use std::process::{Command, Stdio};

use openuvr_media::capture::pattern::Pattern;

use crate::player::{Player, VIDEO};
use crate::support::STALLED;
use crate::support::stalls::measured_without_stalls;
use crate::{Players, SIZE, ffmpeg};

/// A host with a picture that changes every ten seconds.
fn still(name: &str) -> Players {
    Players::showing(name, Box::new(Pattern::open(SIZE, 0.1).unwrap()))
}

#[test]
fn a_description_names_the_parameter_sets_of_the_stream() {
    let players = still("rtsp-sprop");
    // The server omits the parameter sets if it waits too long for a key frame.
    let format = measured_without_stalls(5, STALLED, || {
        let mut player = Player::connect(players.server.address(), &players.url());
        let (status, text) = player.request("DESCRIBE", "", "Accept: application/sdp\r\n");
        assert_eq!(status, 200);
        let line = text.lines().find(|line| line.starts_with("a=fmtp:96 "));
        let line = line.unwrap();
        match line.contains("sprop-parameter-sets=") {
            true => Ok(line.to_owned()),
            false => Err(format!("no parameter sets: {line}")),
        }
    });
    // In base64, a sequence parameter set begins with `Z`, and a picture parameter set of x264 with `aM`.
    let level = format.split("profile-level-id=").nth(1).unwrap();
    let sets = format.split("sprop-parameter-sets=").nth(1).unwrap();
    assert!(level.len() > 6 && level.as_bytes()[6] == b';', "{format}");
    assert!(sets.starts_with("Z") && sets.contains(",aM"), "{format}");
}

#[test]
fn a_still_picture_is_repeated() {
    let players = still("rtsp-still");
    // A stall delays repetitions.
    measured_without_stalls(5, STALLED, || {
        let mut player = Player::that_plays(players.server.address(), &players.url());
        let mut stamps = Vec::new();
        while stamps.len() < 36 {
            let (channel, bytes) = player.packet();
            if channel == VIDEO {
                let packet = rtp_types::RtpPacket::parse(&bytes).unwrap();
                if packet.marker_bit() {
                    stamps.push(packet.timestamp());
                }
            }
        }
        // By their timestamps, the frames are at most one second apart, and the first twenty intervals take less than
        // five seconds. On a fast machine, they take one second. If the host did not repeat the picture faster at the
        // start, they would take ten.
        let gap = |pair: &[u32]| pair[1].wrapping_sub(pair[0]);
        let gaps: Vec<u32> = stamps.windows(2).map(gap).collect();
        let near = gaps.iter().all(|gap| (1..=90_000).contains(gap));
        match near && stamps[20].wrapping_sub(stamps[0]) < 450_000 {
            true => Ok(()),
            false => Err(format!("ticks between the frames: {gaps:?}")),
        }
    });
}

#[test]
fn ffprobe_probes_a_still_picture() {
    if !ffmpeg::is_there() {
        return;
    }
    let players = still("rtsp-ffprobe");
    for transport in ["tcp", "udp"] {
        let out = Command::new("ffprobe")
            .args(["-v", "error", "-rtsp_transport", transport])
            .args([
                "-show_entries",
                "stream=codec_name,width,height",
                "-of",
                "csv=p=0",
            ])
            .arg(players.url())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let (told, said) = (
            String::from_utf8_lossy(&out.stdout),
            String::from_utf8_lossy(&out.stderr),
        );
        assert!(
            out.status.success() && said.is_empty(),
            "{transport}: {said}"
        );
        let size = format!("h264,{},{}", SIZE.width, SIZE.height);
        assert_eq!(told.lines().next(), Some(&size[..]), "{transport}");
    }
}
