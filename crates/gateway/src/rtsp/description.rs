//! The description of the streams: SDP (RFC 8866).

use std::net::IpAddr;

use openuvr_runtime::host::SoundCodec;
use sdp_types::{Attribute, Connection, Media, Origin, Session, Time};

use super::access_unit;
use super::parameters::ParameterSets;

/// Payload types, from the dynamic range (RFC 3551 section 3).
pub(super) const VIDEO: u8 = 96;
pub(super) const AUDIO: u8 = 97;

/// RTP clock rates of video (RFC 6184 section 8.2.1) and sound in Hz. The clock rate of AAC is the sampling rate (RFC
/// 3640 section 3.1), and the clock rate of Opus is always 48 kHz (RFC 7587 section 4.1).
pub(super) const VIDEO_RATE: u32 = 90_000;
pub(super) const AUDIO_RATE: u32 = 48_000;

/// The description of a host called `name` at `address`.
///
/// `parameters` are the H.264 parameter sets, if known. They may change with the picture size, and also precede each
/// key frame.
pub(super) fn describe(
    name: &str,
    address: IpAddr,
    id: u64,
    parameters: Option<&ParameterSets>,
    sound: Option<SoundCodec>,
) -> Vec<u8> {
    let flag = |name: &str| Attribute::new(name);
    let value = |name: &str, value: &str| Attribute::with_value(name, value);
    let media = |kind: &str, payload: u8, attributes: Vec<Attribute>| Media {
        media: kind.to_owned(),
        port: 0,
        num_ports: None,
        // The profile is RTP/AVP, without feedback, because live555 (used by VLC) accepts no other. Players that
        // support feedback (RFC 4585) still use the feedback attributes.
        proto: "RTP/AVP".to_owned(),
        fmt: payload.to_string(),
        media_title: None,
        connections: Vec::new(),
        bandwidths: Vec::new(),
        key: None,
        attributes,
    };
    let mut format = format!("{VIDEO} packetization-mode=1");
    if let Some(sets) = parameters {
        // The parameters are those of the example in RFC 6184 section 8.2.1.
        let (level, sets) = (sets.profile_level_id(), sets.in_words());
        format += &format!(";profile-level-id={level};sprop-parameter-sets={sets}");
    }
    let mut medias = vec![media(
        "video",
        VIDEO,
        vec![
            value("rtpmap", &format!("{VIDEO} H264/{VIDEO_RATE}")),
            value("fmtp", &format),
            value("rtcp-fb", &format!("{VIDEO} nack pli")),
            value("rtcp-fb", &format!("{VIDEO} ccm fir")),
            value("control", "video"),
        ],
    )];
    if let Some(codec) = sound {
        let (encoding, format) = match codec {
            SoundCodec::Opus => ("opus", "sprop-stereo=1".to_owned()),
            SoundCodec::Aac => ("mpeg4-generic", access_unit::format()),
        };
        let encoding = format!("{AUDIO} {encoding}/{AUDIO_RATE}/2");
        medias.push(media(
            "audio",
            AUDIO,
            vec![
                value("rtpmap", &encoding),
                value("fmtp", &format!("{AUDIO} {format}")),
                value("control", "audio"),
            ],
        ));
    }
    // A line break in the name would start a new SDP line.
    let title: String = name.chars().filter(|c| !c.is_control()).collect();
    let session = Session {
        origin: Origin::with_ip_addr(id, 1, address),
        session_name: if title.is_empty() {
            "OpenUVR".to_owned()
        } else {
            title
        },
        session_description: None,
        uri: None,
        emails: Vec::new(),
        phones: Vec::new(),
        connection: Some(Connection::from_ip_addr(match address {
            IpAddr::V4(_) => IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED),
        })),
        bandwidths: Vec::new(),
        times: vec![Time::new(0, 0)],
        time_zones: Vec::new(),
        key: None,
        attributes: vec![
            flag("recvonly"),
            value("control", "*"),
            value("range", "npt=now-"),
        ],
        medias,
    };
    let mut text = Vec::new();
    // Writing to memory cannot fail.
    let _ = session.write(&mut text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPUS: Option<SoundCodec> = Some(SoundCodec::Opus);

    #[test]
    fn aac_is_described_as_in_rfc_3640() {
        let address = "192.0.2.7".parse().unwrap();
        let text = describe("h", address, 7, None, Some(SoundCodec::Aac));
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<&str> = text.split("\r\n").collect();
        // The required parameters of RFC 3640 sections 4.1 and 3.3.6.
        for line in [
            "m=audio 0 RTP/AVP 97",
            "a=rtpmap:97 mpeg4-generic/48000/2",
            "a=fmtp:97 streamtype=5;profile-level-id=41;mode=AAC-hbr;config=1190;sizelength=13;\
             indexlength=3;indexdeltalength=3",
        ] {
            assert!(lines.contains(&line), "{line} is missing in {text}");
        }
    }

    #[test]
    fn the_description_reads_back_with_both_tracks() {
        let address = "192.0.2.7".parse().unwrap();
        let text = describe("a host\r\nm=evil", address, 7, None, OPUS);
        let read = Session::parse(&text).unwrap();
        assert_eq!(read.session_name, "a hostm=evil");
        let tracks: Vec<&str> = read.medias.iter().map(|media| &media.media[..]).collect();
        assert_eq!(tracks, ["video", "audio"]);
        let map = |at: usize| read.medias[at].get_first_attribute_value("rtpmap").unwrap();
        assert_eq!(map(0), Some("96 H264/90000"));
        assert_eq!(map(1), Some("97 opus/48000/2"));
        assert_eq!(
            Session::parse(&describe("", address, 7, None, None))
                .unwrap()
                .medias
                .len(),
            1
        );
    }

    /// Parameter sets of x264 for 640x384, and a slice.
    const KEY: &[u8] = &[
        0, 0, 0, 1, 0x67, 0x42, 0xc0, 0x1e, 0xd9, 0, 0xa0, 0x18, 0x2a, 0x10, 0, 0, 0, 1, 0x68,
        0xcb, 0x83, 0xcb, 0x20, 0, 0, 1, 0x65, 0x88, 0x84,
    ];

    #[test]
    fn players_without_feedback_read_profile_and_parameter_sets() {
        let sets = ParameterSets::of(KEY).unwrap();
        let text = describe("h", "192.0.2.7".parse().unwrap(), 7, Some(&sets), OPUS);
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<&str> = text.split("\r\n").collect();
        for line in [
            // Format of live555's `sscanf(line, "m=%s %hu RTP/AVP %u", …)`.
            "m=video 0 RTP/AVP 96",
            "m=audio 0 RTP/AVP 97",
            "a=rtcp-fb:96 nack pli",
            "a=rtcp-fb:96 ccm fir",
            "a=fmtp:96 packetization-mode=1;profile-level-id=42C01E;\
             sprop-parameter-sets=Z0LAHtkAoBgqEA==,aMuDyyA=",
        ] {
            assert!(lines.contains(&line), "{line} is missing in {text}");
        }
        assert_eq!(ParameterSets::of(&KEY[18..]), None);
        assert_eq!(ParameterSets::of(&[0, 0, 1, 0x67, 0, 0, 1, 0x68]), None);
    }
}
