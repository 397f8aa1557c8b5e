//! The video codecs that the gateway can send to a browser.

use openuvr_runtime::host::{EncoderName, codec_of};

/// The first video section of a session description. The second section, for the other eye of a headset, uses the same
/// codec.
pub(crate) fn first_video(sdp: &str) -> &str {
    let Some(begin) = sdp.find("m=video") else {
        return "";
    };
    let video = &sdp[begin..];
    let end = video.find("\nm=").unwrap_or(video.len());
    &video[..end]
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum VideoCodec {
    /// H.264 in packetization mode 1 (RFC 6184).
    H264,
    /// VP9 of profile 0 (RFC 9628).
    Vp9,
}

impl VideoCodec {
    const ALL: [VideoCodec; 2] = [VideoCodec::H264, VideoCodec::Vp9];

    /// The codecs of a host's encoders. If the encoders have none of these codecs, the result is H.264, so that the
    /// host's refusal names the missing encoder.
    pub(crate) fn of_encoders(encoders: &[EncoderName]) -> Vec<VideoCodec> {
        let encoded = |codec: &VideoCodec| {
            let number = codec.number();
            let mut all = encoders.iter();
            number.is_some() && all.any(|encoder| codec_of(encoder.0) == number)
        };
        let found: Vec<_> = VideoCodec::ALL.into_iter().filter(encoded).collect();
        match found.is_empty() {
            true => vec![VideoCodec::H264],
            false => found,
        }
    }

    /// The codec with this number in the protocol.
    pub(crate) fn numbered(number: u8) -> Option<VideoCodec> {
        let mut all = VideoCodec::ALL.into_iter();
        all.find(|codec| codec.number() == Some(number))
    }

    fn number(self) -> Option<u8> {
        codec_of(match self {
            VideoCodec::H264 => "x264",
            VideoCodec::Vp9 => "libvpx-vp9",
        })
    }

    /// The codec's bit in a set of the protocol's codecs; 0 if this build lacks the codec.
    pub(crate) fn bit(self) -> u32 {
        self.number().map_or(0, |number| 1 << number)
    }

    /// The name in messages.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            VideoCodec::H264 => "H.264 (packetization-mode=1)",
            VideoCodec::Vp9 => "VP9",
        }
    }

    /// The encoding name in SDP (RFC 6184 section 8.2.1, RFC 9628 section 6).
    pub(crate) const fn encoding_name(self) -> &'static str {
        match self {
            VideoCodec::H264 => "H264",
            VideoCodec::Vp9 => "VP9",
        }
    }

    /// Whether a session description, or a part of it, contains the codec in a usable format.
    pub(crate) fn is_in(self, sdp: &str) -> bool {
        let mut formats = sdp.lines().filter_map(|line| {
            let (pt, codec) = line.strip_prefix("a=rtpmap:")?.split_once(' ')?;
            let (name, _) = codec.split_once('/')?;
            name.eq_ignore_ascii_case(self.encoding_name())
                .then(|| format!("a=fmtp:{pt} "))
        });
        formats.any(|fmtp| {
            let mut parameters = sdp.lines().filter_map(|line| line.strip_prefix(&fmtp));
            match self {
                VideoCodec::H264 => parameters.any(|line| line.contains("packetization-mode=1")),
                // Without this parameter, the profile is 0 (RFC 9628 section 6.1).
                VideoCodec::Vp9 => parameters.all(|line| {
                    let mut values = line.split(';').filter_map(|part| {
                        let (name, value) = part.split_once('=')?;
                        (name.trim() == "profile-id").then_some(value.trim())
                    });
                    values.all(|profile| profile == "0")
                }),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_video_counts() {
        let sdp = "v=0\r\nm=audio 9\r\nm=video 9 98\r\na=rtpmap:98 VP9/90000\r\nm=video 9 102\r\na=rtpmap:102 H264/90000\r\n";
        assert_eq!(first_video(sdp), "m=video 9 98\r\na=rtpmap:98 VP9/90000\r");
        assert_eq!(first_video("v=0\r\nm=audio 9\r\n"), "");
    }

    #[test]
    fn a_session_description_names_the_usable_codecs() {
        let has = |sdp: &str| VideoCodec::ALL.map(|codec| codec.is_in(sdp));
        let h264 = "a=rtpmap:102 H264/90000\r\na=fmtp:102 packetization-mode=1;profile-level-id=42e01f\r\n";
        assert_eq!(has(h264), [true, false]);
        assert_eq!(has(&h264.replace("mode=1", "mode=0")), [false, false]);
        let vp9 = "a=rtpmap:98 VP9/90000\r\n";
        assert_eq!(has(vp9), [false, true]);
        for (profile, usable) in [("0", true), ("2", false)] {
            let sdp = format!("{vp9}a=fmtp:98 profile-id={profile}\r\n");
            assert_eq!(has(&sdp), [false, usable], "{sdp}");
        }
        assert_eq!(has(&format!("{h264}{vp9}")), [true, true]);
        assert_eq!(has("a=rtpmap:96 VP8/90000\r\n"), [false, false]);
    }

    #[test]
    fn encoders_select_the_codecs() {
        let of = |names: &[&'static str]| {
            let encoders: Vec<_> = names.iter().copied().map(EncoderName).collect();
            VideoCodec::of_encoders(&encoders)
        };
        assert_eq!(of(&["libvpx-vp9"]), [VideoCodec::Vp9]);
        assert_eq!(of(&["libvpx-vp9", "openh264"]), VideoCodec::ALL);
        assert_eq!(of(&["jpeg"]), [VideoCodec::H264]);
        for codec in VideoCodec::ALL {
            let number = codec.number().unwrap();
            assert_eq!(VideoCodec::numbered(number), Some(codec));
            assert_eq!(codec.bit(), 1 << number);
        }
        assert_eq!(VideoCodec::numbered(200), None);
    }
}
