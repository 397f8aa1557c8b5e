//! The `Transport` header (RFC 2326 section 12.39): the transport that a player requests.
//!
//! The header is parsed here, because the library's parser of this header panics at unbalanced quotation marks
//! (rtsp-types 0.1.3).

/// Transport of one track.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// UDP to these ports of the player.
    Udp {
        /// RTP.
        rtp: u16,
        /// RTCP.
        rtcp: u16,
        /// The player requested the profile with feedback (RFC 4585), and the response confirms it.
        feedback: bool,
    },
    /// Interleaved with RTSP messages (section 10.12), in these channels.
    Interleaved {
        /// RTP.
        rtp: u8,
        /// RTCP.
        rtcp: u8,
        /// As with UDP.
        feedback: bool,
    },
}

/// The first supported transport of a header; `None` if none is supported.
///
/// `free` and the next number are unused interleaved channels for a player that requests none.
#[must_use]
pub fn choose(header: &str, free: u8) -> Option<Transport> {
    header.split(',').find_map(|offer| read(offer, free))
}

fn read(offer: &str, free: u8) -> Option<Transport> {
    let mut words = offer.trim().split(';').map(str::trim);
    let (feedback, tcp) = match words.next()? {
        "RTP/AVP" | "RTP/AVP/UDP" => (false, false),
        "RTP/AVPF" | "RTP/AVPF/UDP" => (true, false),
        "RTP/AVP/TCP" => (false, true),
        "RTP/AVPF/TCP" => (true, true),
        _ => return None,
    };
    let (mut ports, mut channels) = (None, None);
    for word in words {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        match name {
            // Old players omit "unicast". Multicast is not supported.
            "multicast" => return None,
            "client_port" => ports = Some(pair::<u16>(value)?),
            "interleaved" => channels = Some(pair::<u8>(value)?),
            "mode" if !value.trim_matches('"').eq_ignore_ascii_case("play") => return None,
            _ => {}
        }
    }
    if tcp {
        let (rtp, rtcp) = channels.map_or((Some(free), None), |(rtp, rtcp)| (Some(rtp), rtcp));
        let rtp = rtp?;
        let rtcp = rtcp.or(rtp.checked_add(1))?;
        return (rtp != rtcp).then_some(Transport::Interleaved {
            rtp,
            rtcp,
            feedback,
        });
    }
    let (rtp, rtcp) = ports?;
    let rtcp = rtcp.or(rtp.checked_add(1))?;
    // Lower ports belong to services that did not request video.
    (rtp >= 1024 && rtcp >= 1024 && rtp != rtcp).then_some(Transport::Udp {
        rtp,
        rtcp,
        feedback,
    })
}

/// `5000-5001`, or `5000`.
fn pair<N: std::str::FromStr>(text: &str) -> Option<(N, Option<N>)> {
    match text.split_once('-') {
        Some((first, second)) => Some((first.parse().ok()?, Some(second.parse().ok()?))),
        None => Some((text.parse().ok()?, None)),
    }
}

impl Transport {
    /// The response header. `server` are the local ports, for UDP.
    #[must_use]
    pub fn answer(&self, server: (u16, u16), ssrc: u32) -> String {
        let profile = |feedback| if feedback { "AVPF" } else { "AVP" };
        match *self {
            Transport::Udp {
                rtp,
                rtcp,
                feedback,
            } => format!(
                "RTP/{};unicast;client_port={rtp}-{rtcp};server_port={}-{};ssrc={ssrc:08X};mode=\"PLAY\"",
                profile(feedback),
                server.0,
                server.1,
            ),
            Transport::Interleaved {
                rtp,
                rtcp,
                feedback,
            } => format!(
                "RTP/{}/TCP;unicast;interleaved={rtp}-{rtcp};ssrc={ssrc:08X};mode=\"PLAY\"",
                profile(feedback),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn udp(rtp: u16, rtcp: u16, feedback: bool) -> Option<Transport> {
        Some(Transport::Udp {
            rtp,
            rtcp,
            feedback,
        })
    }

    fn tcp(rtp: u8, rtcp: u8) -> Option<Transport> {
        let feedback = false;
        Some(Transport::Interleaved {
            rtp,
            rtcp,
            feedback,
        })
    }

    #[test]
    fn transports_of_players_are_parsed() {
        let table = [
            // ffmpeg, GStreamer, VLC
            (
                "RTP/AVP/UDP;unicast;client_port=19000-19001",
                udp(19000, 19001, false),
            ),
            (
                "RTP/AVPF;unicast;client_port=40002-40003",
                udp(40002, 40003, true),
            ),
            (
                "RTP/AVP;unicast;client_port=50000-50001",
                udp(50000, 50001, false),
            ),
            ("RTP/AVP/TCP;unicast;interleaved=2-3", tcp(2, 3)),
            // The first supported transport is used.
            (
                "RTP/SAVP;unicast;client_port=6000-6001, RTP/AVP/TCP;unicast",
                tcp(4, 5),
            ),
            (
                "RTP/AVP;multicast,RTP/AVP;unicast;client_port=6000",
                udp(6000, 6001, false),
            ),
            ("RTP/AVP/TCP;interleaved=7;mode=\"PLAY\"", tcp(7, 8)),
        ];
        for (header, expected) in table {
            assert_eq!(choose(header, 4), expected, "{header}");
        }
    }

    #[test]
    fn unsupported_transports_are_rejected() {
        for header in [
            "",
            ",;,=",
            "RTP/AVP",
            "RTP/AVP;client_port=53-54",
            "RTP/AVP;client_port=65535",
            "RTP/AVP;client_port=70000-70001",
            "RTP/AVP;client_port=6000-6000",
            "RTP/AVP/TCP;interleaved=255",
            "RTP/AVP/TCP;interleaved=1-2;mode=\"RECORD\"",
            "RTP/AVP;unicast;dest_addr=\"",
            "RAW/RAW/UDP;client_port=6000-6001",
        ] {
            assert_eq!(choose(header, 4), None, "{header}");
        }
    }
}
