//! What video players send to the gateway.

use openuvr_gateway::rtsp::{
    Beginning, Heard, MediaPorts, ParameterSets, Received, Requests, Session, Streams, Track,
    Transport, parse_reports,
};

/// What a fuzzer's player knows.
const TOKEN: &str = "fuzzer-s";

/// A connection that has everything.
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

    fn beginning(&mut self, _: Track) -> Option<Beginning> {
        Some(Beginning {
            sequence: 1,
            time: 1,
        })
    }
}

/// Every request is answered, and none keeps more than the longest.
pub fn rtsp(bytes: &[u8]) {
    let mut requests = Requests::default();
    let token = TOKEN.parse().expect("a token");
    let here = std::net::IpAddr::from([127, 0, 0, 1]);
    let mut session = Session::new(token, "host", true, here, 7);
    // As it comes from a socket: in pieces.
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

/// A share is one, and a round trip no more than the half of what 32 bits can say (9.1 hours).
pub fn rtcp(bytes: &[u8]) {
    parse_reports(bytes, 0x1234_5678_9abc_def0, |heard| {
        if let Heard::Report {
            lost, round_trip, ..
        } = heard
        {
            assert!((0.0..=1.0).contains(&lost));
            assert!(round_trip.is_none_or(|trip| trip.as_secs() <= 32_768));
        }
    });
}
