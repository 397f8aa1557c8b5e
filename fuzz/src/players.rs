//! Requests of video players to the gateway.

use openuvr_gateway::rtsp::{
    MediaPorts, ParameterSets, PlaybackStart, PlayerFeedback, Received, Requests, Session, Streams,
    Track, Transport, parse_reports,
};
use openuvr_runtime::host::SoundCodec;

/// The token of the fuzzer's player.
const TOKEN: &str = "fuzzer-s";

/// A connection that offers all media.
struct Has;

impl Streams for Has {
    fn parameters(&mut self) -> Option<ParameterSets> {
        ParameterSets::of(&[0, 0, 1, 0x67, 0x42, 0xc0, 0x1e, 1, 0, 0, 1, 0x68, 1])
    }

    fn open(&mut self, _: Track, _: Transport) -> Option<MediaPorts> {
        Some(MediaPorts {
            server: (6000, 6001),
            ssrc: 1,
        })
    }

    fn playback_start(&mut self, _: Track) -> Option<PlaybackStart> {
        Some(PlaybackStart {
            sequence: 1,
            time: 1,
        })
    }
}

/// Every request is answered.
pub fn rtsp(bytes: &[u8]) {
    let mut requests = Requests::default();
    let token = TOKEN.parse().expect("a token");
    let here = std::net::IpAddr::from([127, 0, 0, 1]);
    let mut session = Session::new(token, "host", Some(SoundCodec::Aac), here, 7);
    // Parse the input in chunks, as if it were read from a socket.
    for piece in bytes.chunks(bytes.len() / 3 + 1) {
        requests.put(piece);
        loop {
            match requests.poll() {
                Ok(Some(Received::Request(request))) => {
                    let (response, _) = session.answer(&request, &mut Has);
                    let mut answer = Vec::new();
                    response.write(&mut answer).expect("into memory");
                    assert!(answer.starts_with(b"RTSP/1.0 "));
                }
                Ok(Some(Received::Packet { bytes, .. })) => rtcp(&bytes),
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
}

/// The loss is a fraction between 0 and 1. The round trip is at most half the range of RTCP's 32-bit times in units of
/// 1/65536 s (9.1 hours).
pub fn rtcp(bytes: &[u8]) {
    parse_reports(bytes, 0x1234_5678_9abc_def0, |heard| {
        if let PlayerFeedback::Report {
            lost, round_trip, ..
        } = heard
        {
            assert!((0.0..=1.0).contains(&lost));
            assert!(round_trip.is_none_or(|trip| trip.as_secs() <= 32_768));
        }
    });
}
