//! VP9 for a browser: complete frames in packets, a key frame on request, and H.264 for a browser without VP9.

use openuvr_proto::units::Size;
use openuvr_runtime::host::EncoderName;
use serde_json::json;
use str0m::format::Codec;
use str0m::media::KeyframeRequestKind;
use str0m::rtp::RtpPacket;

use super::caller::Caller;
use super::remote::{Arrived, Remote};
use super::support::stalls::measured_without_stalls;
use super::support::{Rig, STALLED};

const SIZE: Size = Size::new(640, 384);

/// Flags of the payload descriptor (RFC 9628 section 4.2).
const PREDICTED: u8 = 0x40;
const BEGINS: u8 = 0x08;
const ENDS: u8 = 0x04;
const STRUCTURE: u8 = 0x02;

fn encoding(name: &str, encoders: &[&'static str]) -> Rig {
    let encoders = encoders.iter().copied().map(EncoderName).collect();
    Rig::with(name, SIZE, |config| config.encoders = encoders)
}

/// A frame whose packets arrived in order: its picture ID, and whether it is a key frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Frame {
    picture: u16,
    key: bool,
}

/// The frame that ends with this packet.
fn taken(open: &mut Option<Frame>, packet: &RtpPacket) -> Option<Frame> {
    let payload = &packet.payload;
    assert!(payload.len() <= openuvr_gateway::packetise::MAX_PAYLOAD);
    let picture = u16::from_be_bytes([payload[1], payload[2]]) & 0x7fff;
    let key = payload[0] & PREDICTED == 0;
    if payload[0] & BEGINS != 0 {
        assert_eq!(*open, None, "the last frame has not ended");
        assert_eq!(payload[0] & STRUCTURE != 0, key);
        *open = Some(Frame { picture, key });
    }
    assert_eq!(*open, Some(Frame { picture, key }));
    let ends = payload[0] & ENDS != 0;
    assert_eq!(packet.header.marker, ends);
    if ends { open.take() } else { None }
}

/// The next `count` frames. The error is a loss of packets: the socket drops packets that arrive while the test is
/// starved for too long.
fn frames(remote: &mut Remote, count: usize) -> Result<Vec<Frame>, String> {
    let (mut open, mut frames) = (None, Vec::new());
    let mut newest: Option<u64> = None;
    let complete = remote.wait("frames of VP9", |arrived| {
        if let Arrived::Packet(packet) = arrived {
            let number = *packet.seq_no;
            let before = newest.replace(number);
            if before.is_some_and(|before| number != before + 1) {
                return Some(Err(format!("{number} follows {before:?}")));
            }
            frames.extend(taken(&mut open, &packet));
        }
        (frames.len() == count).then_some(Ok(()))
    });
    complete.map(|()| frames)
}

#[test]
fn vp9_frames_are_complete_and_start_with_a_key_frame() {
    let rig = encoding("vp9", &["libvpx-vp9"]);
    let caller = Caller::known(&rig);
    measured_without_stalls(5, STALLED, || {
        let mut remote = Remote::with_codecs(&caller, "", &[Codec::Vp9]);
        assert!(remote.answer.contains("VP9/90000"), "{}", remote.answer);
        assert!(!remote.answer.contains("H264/"), "{}", remote.answer);
        let frames = frames(&mut remote, 60)?;
        assert!(frames[0].key, "{frames:?}");
        for pair in frames.windows(2) {
            assert_eq!(pair[1].picture, (pair[0].picture + 1) & 0x7fff);
        }
        // A subscriber whose thread is starved misses frames and gets another key frame.
        let (keys, missed) = (
            frames.iter().filter(|frame| frame.key).count(),
            rig.missed_frames(),
        );
        match keys <= 3 + missed {
            true => Ok(()),
            false => Err(format!("{keys} key frames for {missed} missed frames")),
        }
    });
}

#[test]
fn a_pli_brings_a_key_frame_of_vp9() {
    let rig = encoding("vp9-pli", &["libvpx-vp9"]);
    let caller = Caller::known(&rig);
    let mut remote = Remote::with_codecs(&caller, "", &[Codec::Vp9]);
    frames(&mut remote, 10).unwrap();
    remote.wants_key_frame(KeyframeRequestKind::Pli);
    remote.wait("a key frame", |arrived| match arrived {
        Arrived::Packet(packet) => {
            let flags = packet.payload[0] & (PREDICTED | BEGINS);
            (flags == BEGINS).then_some(())
        }
        _ => None,
    });
}

#[test]
fn the_first_common_codec_of_the_hosts_encoders_is_used() {
    let rig = encoding("codecs", &["libvpx-vp9", "x264"]);
    let caller = Caller::known(&rig);
    for (codecs, vp9) in [
        (&[Codec::H264][..], false),
        (&[Codec::Vp9][..], true),
        (&[Codec::H264, Codec::Vp9][..], true),
    ] {
        let mut remote = Remote::with_codecs(&caller, "role=watch", codecs);
        let first = remote.wait("a packet", |arrived| match arrived {
            Arrived::Packet(packet) => Some(packet),
            _ => None,
        });
        let payload = *first.header.payload_type;
        let of = |codec: &str| {
            remote
                .answer
                .contains(&format!("a=rtpmap:{payload} {codec}/"))
        };
        assert_eq!((of("VP9"), of("H264")), (vp9, !vp9), "{codecs:?}");
    }
}

#[test]
fn the_hosts_codecs_are_known_before_the_log_in() {
    for (encoders, codecs) in [
        (&["x264"][..], json!(["H264"])),
        (&["libvpx-vp9", "jpeg"][..], json!(["VP9"])),
        (&["libvpx-vp9", "x264"][..], json!(["H264", "VP9"])),
    ] {
        let rig = encoding("named-codecs", encoders);
        let answer = Caller::new(&rig).request("GET /codecs", &[], "");
        assert_eq!((answer.status, answer.json()), (200, codecs));
    }
}

#[test]
fn a_browser_without_the_hosts_codec_gets_a_remedy() {
    let rig = encoding("no-vp9", &["libvpx-vp9"]);
    let refused = Remote::offer(&Caller::known(&rig), "", &[Codec::H264]);
    let (answer, _socket) = *refused.err().unwrap();
    assert_eq!(answer["type"], "error");
    assert_eq!(
        answer["message"],
        "the browser does not offer to receive VP9: use a browser that supports it, or add x264 to the \
         host's --encoder"
    );
}
