//! An RTSP 1.0 session (RFC 2326 appendix A.2) without I/O. It maps requests to responses and actions.

use std::net::IpAddr;

use openuvr_runtime::host::SoundCodec;
use rtsp_types::headers::{
    ALLOW, CONTENT_BASE, CONTENT_TYPE, CSEQ, PUBLIC, RANGE, REQUIRE, RTP_INFO, SERVER, SESSION,
    TRANSPORT, UNSUPPORTED,
};
use rtsp_types::{Method, Request, Response, ResponseBuilder, StatusCode, Version};

use super::description::describe;
use super::parameters::ParameterSets;
use super::token::Token;
use super::transport::{Transport, choose};

/// Session timeout over UDP in seconds: the default of RFC 2326 section 12.37.
pub(super) const TIMEOUT: u64 = 60;

/// Supported methods.
const METHODS: &str =
    "OPTIONS, DESCRIBE, SETUP, PLAY, PAUSE, GET_PARAMETER, SET_PARAMETER, TEARDOWN";

/// A track.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Track {
    /// Video.
    Video,
    /// Sound.
    Audio,
}

/// All tracks, in the order of their indices.
pub(super) const TRACKS: [Track; 2] = [Track::Video, Track::Audio];

impl Track {
    /// Name in the description.
    fn name(self) -> &'static str {
        match self {
            Track::Video => "video",
            Track::Audio => "audio",
        }
    }
}

/// An action of the connection that a request requires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// No action.
    Nothing,
    /// Send frames and sound of the tracks that have been set up.
    Play,
    /// Stop sending for now.
    Pause,
    /// Close the connection.
    End,
}

/// Transport parameters of a prepared track.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MediaPorts {
    /// The server's RTP and RTCP ports; ignored for interleaved packets.
    pub server: (u16, u16),
    /// SSRC of the track.
    pub ssrc: u32,
}

/// Start of a track's packets after PLAY (RTP-Info, section 12.33).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlaybackStart {
    /// Sequence number of the next packet.
    pub sequence: u16,
    /// RTP timestamp that corresponds to the start.
    pub time: u32,
}

/// The operations of a connection that its session calls.
pub trait Streams {
    /// Parameter sets of the stream; `None` if they are not available now.
    fn parameters(&mut self) -> Option<ParameterSets>;

    /// Prepares a track; `None` if that fails. It is called again if the player sets up the track again.
    fn open(&mut self, track: Track, transport: Transport) -> Option<MediaPorts>;

    /// The sequence number and timestamp with which a track would start now; `None` if it is not prepared.
    fn playback_start(&mut self, track: Track) -> Option<PlaybackStart>;
}

/// State of a player's session.
#[derive(Debug)]
pub struct Session {
    token: Token,
    name: String,
    sound: Option<SoundCodec>,
    /// The server address to which the player connected.
    address: IpAddr,
    /// Session identifier; sent to the player with its first track.
    id: String,
    number: u64,
    tracks: [Option<(Transport, MediaPorts)>; 2],
    playing: bool,
}

impl Session {
    /// Creates the session of a player that connected to `address`. `sound` is the codec of the sound track; `None`
    /// without sound. `number` is random.
    #[must_use]
    pub fn new(
        token: Token,
        name: &str,
        sound: Option<SoundCodec>,
        address: IpAddr,
        number: u64,
    ) -> Session {
        Session {
            token,
            name: name.to_owned(),
            sound,
            address,
            id: format!("{number:016X}"),
            number,
            tracks: [None; 2],
            playing: false,
        }
    }

    /// Transport of a track, if the track has been set up.
    #[must_use]
    pub fn transport(&self, track: Track) -> Option<Transport> {
        self.tracks[track as usize].map(|(transport, _)| transport)
    }

    /// Whether the player is playing.
    #[must_use]
    pub fn is_playing(&self) -> bool {
        self.playing
    }

    /// The response to a request, and the resulting action.
    pub fn answer(
        &mut self,
        request: &Request<Vec<u8>>,
        streams: &mut dyn Streams,
    ) -> (Response<Vec<u8>>, Action) {
        let (answer, act) = self.decide(request, streams);
        let response = match answer {
            Ok((builder, body)) => builder.build(body),
            Err(status) => refusal(status).build(Vec::new()),
        };
        let mut response = response;
        if let Some(number) = request.header(&CSEQ) {
            response.insert_header(CSEQ, number.clone());
        }
        response.insert_header(SERVER, concat!("OpenUVR/", env!("CARGO_PKG_VERSION")));
        (response, act)
    }

    fn decide(
        &mut self,
        request: &Request<Vec<u8>>,
        streams: &mut dyn Streams,
    ) -> (Result<(ResponseBuilder, Vec<u8>), StatusCode>, Action) {
        let plain = |builder| (Ok((builder, Vec::new())), Action::Nothing);
        let refused = |status| (Err(status), Action::Nothing);
        if request.version() != Version::V1_0 {
            return refused(StatusCode::RTSPVersionNotSupported);
        }
        if let Some(required) = request.header(&REQUIRE) {
            // No extension is supported (sections 12.32 and 12.40).
            let builder = refusal(StatusCode::OptionNotSupported);
            return plain(builder.header(UNSUPPORTED, required.clone()));
        }
        if *request.method() == Method::Options {
            return plain(ok().header(PUBLIC, METHODS));
        }
        let path = match self.path(request) {
            Ok(path) => path,
            Err(status) => return refused(status),
        };
        let named = request.header(&SESSION);
        let named = named.map(|value| value.as_str().split(';').next().unwrap_or("").trim());
        let set_up = self.tracks.iter().any(Option::is_some);
        if named.is_some_and(|named| !set_up || named != self.id) {
            return refused(StatusCode::SessionNotFound);
        }
        match (request.method(), set_up) {
            (Method::Describe, _) => self.description(request, streams),
            (Method::Setup, _) => match self.set_up(request, &path, streams) {
                Ok(builder) => plain(builder),
                Err(status) => refused(status),
            },
            (Method::Play, true) => {
                self.playing = true;
                let playback_starts = self.playback_starts(request, streams);
                let builder = self.ok().header(RTP_INFO, playback_starts);
                // The stream is live, so any requested range is "now" (section 10.5 requires a range in the response).
                let builder = builder.header(RANGE, "npt=now-");
                (Ok((builder, Vec::new())), Action::Play)
            }
            (Method::Pause, true) => {
                self.playing = false;
                (Ok((self.ok(), Vec::new())), Action::Pause)
            }
            (Method::Teardown, true) => {
                self.playing = false;
                (Ok((self.ok(), Vec::new())), Action::End)
            }
            // Players send these requests as keep-alives (section 10.8).
            (Method::GetParameter | Method::SetParameter, true) => plain(self.ok()),
            (Method::GetParameter | Method::SetParameter, false) => plain(ok()),
            (Method::Play | Method::Pause | Method::Teardown, false) => {
                refused(StatusCode::MethodNotValidInThisState)
            }
            // The header is required (section 12.4).
            _ => plain(refusal(StatusCode::MethodNotAllowed).header(ALLOW, METHODS)),
        }
    }

    /// The path after the token in a request's URL.
    fn path(&self, request: &Request<Vec<u8>>) -> Result<String, StatusCode> {
        let url = request.request_uri().ok_or(StatusCode::BadRequest)?;
        let path = url.path().trim_start_matches('/');
        let (token, rest) = path.split_once('/').unwrap_or((path, ""));
        match self.token.is(token) {
            true => Ok(rest.trim_end_matches('/').to_owned()),
            // Not 401 Unauthorized, because a player would then prompt for a password, which does not exist.
            false => Err(StatusCode::NotFound),
        }
    }

    fn description(
        &self,
        request: &Request<Vec<u8>>,
        streams: &mut dyn Streams,
    ) -> (Result<(ResponseBuilder, Vec<u8>), StatusCode>, Action) {
        let Some(url) = request.request_uri() else {
            return (Err(StatusCode::BadRequest), Action::Nothing);
        };
        let base = format!("{}/", url.as_str().trim_end_matches('/'));
        let builder = ok()
            .header(CONTENT_TYPE, "application/sdp")
            .header(CONTENT_BASE, base);
        let (parameters, number) = (streams.parameters(), self.number);
        let body = describe(
            &self.name,
            self.address,
            number,
            parameters.as_ref(),
            self.sound,
        );
        (Ok((builder, body)), Action::Nothing)
    }

    fn set_up(
        &mut self,
        request: &Request<Vec<u8>>,
        path: &str,
        streams: &mut dyn Streams,
    ) -> Result<ResponseBuilder, StatusCode> {
        if self.playing {
            return Err(StatusCode::MethodNotValidInThisState);
        }
        let track = TRACKS.into_iter().find(|track| track.name() == path);
        let track = track.filter(|track| self.sound.is_some() || *track == Track::Video);
        let track = track.ok_or(StatusCode::NotFound)?;
        let header = request.header(&TRANSPORT).ok_or(StatusCode::BadRequest)?;
        let free = 2 * track as u8;
        let transport = choose(header.as_str(), free).ok_or(StatusCode::UnsupportedTransport)?;
        let other = self.tracks[1 - track as usize];
        if other.is_some_and(|(other, _)| shares_channel(other, transport)) {
            return Err(StatusCode::UnsupportedTransport);
        }
        let ports = streams
            .open(track, transport)
            .ok_or(StatusCode::ServiceUnavailable)?;
        self.tracks[track as usize] = Some((transport, ports));
        Ok(self
            .ok()
            .header(TRANSPORT, transport.answer(ports.server, ports.ssrc)))
    }

    /// A successful response with the session header.
    fn ok(&self) -> ResponseBuilder {
        ok().header(SESSION, format!("{};timeout={TIMEOUT}", self.id))
    }

    /// The RTP-Info of each track (section 12.33).
    fn playback_starts(&self, request: &Request<Vec<u8>>, streams: &mut dyn Streams) -> String {
        let url = request.request_uri().map_or("", |url| url.as_str());
        let url = url.trim_end_matches('/');
        // A player of one track may request it by the track's own URL.
        let mut tracks = TRACKS.into_iter();
        let base = tracks.find_map(|track| url.strip_suffix(track.name())?.strip_suffix('/'));
        let url = base.unwrap_or(url);
        let set_up = TRACKS.into_iter().filter_map(|track| {
            self.tracks[track as usize]?;
            let name = track.name();
            let PlaybackStart { sequence, time } = streams.playback_start(track)?;
            Some(format!("url={url}/{name};seq={sequence};rtptime={time}"))
        });
        set_up.collect::<Vec<_>>().join(",")
    }
}

/// Whether two tracks cannot be combined: they share a channel, or only one of them is interleaved.
fn shares_channel(one: Transport, other: Transport) -> bool {
    let channels = |transport| match transport {
        Transport::Interleaved { rtp, rtcp, .. } => Some([rtp, rtcp]),
        Transport::Udp { .. } => None,
    };
    match (channels(one), channels(other)) {
        (Some(one), Some(other)) => one.iter().any(|channel| other.contains(channel)),
        // Both tracks may use UDP. A UDP track and an interleaved track cannot be combined, because packet loss would
        // affect only one of them.
        (None, None) => false,
        _ => true,
    }
}

fn ok() -> ResponseBuilder {
    Response::builder(Version::V1_0, StatusCode::Ok)
}

fn refusal(status: StatusCode) -> ResponseBuilder {
    Response::builder(Version::V1_0, status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtsp::requests::{Received, Requests};

    const PORTS: MediaPorts = MediaPorts {
        server: (7000, 7001),
        ssrc: 0xabcd,
    };

    /// A fake connection; `None` if no ports are available.
    struct FakeStreams(Option<MediaPorts>);

    impl Streams for FakeStreams {
        fn parameters(&mut self) -> Option<ParameterSets> {
            ParameterSets::of(&[0, 0, 1, 0x67, 0x42, 0xc0, 0x1e, 1, 0, 0, 1, 0x68, 1])
        }

        fn open(&mut self, _: Track, _: Transport) -> Option<MediaPorts> {
            self.0
        }

        fn playback_start(&mut self, track: Track) -> Option<PlaybackStart> {
            Some(match track {
                Track::Video => PlaybackStart {
                    sequence: 77,
                    time: 90_000,
                },
                Track::Audio => PlaybackStart {
                    sequence: 88,
                    time: 48_000,
                },
            })
        }
    }

    fn session() -> Session {
        let token = "secret-token".parse().unwrap();
        let (sound, here) = (Some(SoundCodec::Opus), "127.0.0.1".parse().unwrap());
        Session::new(token, "host", sound, here, 0xbeef)
    }

    fn request(session: &mut Session, lines: &str) -> (u16, String, Action) {
        let mut requests = Requests::default();
        requests.put(lines.replace('\n', "\r\n").as_bytes());
        requests.put(b"\r\n");
        let Ok(Some(Received::Request(request))) = requests.poll() else {
            panic!("no request: {lines}");
        };
        let (response, act) = session.answer(&request, &mut FakeStreams(Some(PORTS)));
        let mut text = Vec::new();
        response.write(&mut text).unwrap();
        (
            response.status().into(),
            String::from_utf8(text).unwrap(),
            act,
        )
    }

    fn line(method: &str, path: &str, more: &str) -> String {
        format!("{method} rtsp://h:8554/{path} RTSP/1.0\nCSeq: 5\n{more}")
    }

    const UDP: &str = "Transport: RTP/AVP;unicast;client_port=5000-5001\n";

    #[test]
    fn a_player_watches_pauses_and_leaves() {
        let mut session = session();
        let (status, text, _) = request(&mut session, &line("OPTIONS", "", ""));
        assert!(
            status == 200 && text.contains("DESCRIBE") && text.contains("CSeq: 5"),
            "{text}"
        );
        let (status, text, _) = request(&mut session, &line("DESCRIBE", "secret-token", ""));
        assert_eq!(status, 200);
        assert!(
            text.contains("Content-Base: rtsp://h:8554/secret-token/\r\n"),
            "{text}"
        );
        assert!(
            text.contains("m=video") && text.contains("m=audio"),
            "{text}"
        );
        assert!(text.contains("profile-level-id=42C01E;sprop"), "{text}");
        let (status, text, _) = request(&mut session, &line("SETUP", "secret-token/video", UDP));
        assert!(
            status == 200 && text.contains("server_port=7000-7001"),
            "{text}"
        );
        assert!(
            text.contains("Session: 000000000000BEEF;timeout=60"),
            "{text}"
        );
        let named = "Session: 000000000000BEEF\n";
        let (status, _, _) = request(&mut session, &line("SETUP", "secret-token/audio", UDP));
        assert_eq!(status, 200);
        let from_the_start = format!("{named}Range: npt=0.000-\n");
        let (status, text, act) = request(
            &mut session,
            &line("PLAY", "secret-token/", &from_the_start),
        );
        assert_eq!(
            (status, act, session.is_playing()),
            (200, Action::Play, true)
        );
        let expected = "RTP-Info: url=rtsp://h:8554/secret-token/video;seq=77;rtptime=90000,\
                    url=rtsp://h:8554/secret-token/audio;seq=88;rtptime=48000\r\n";
        assert!(text.contains(expected), "{text}");
        assert!(text.contains("Range: npt=now-\r\n"), "{text}");
        let (_, _, act) = request(&mut session, &line("PAUSE", "secret-token", named));
        assert_eq!((act, session.is_playing()), (Action::Pause, false));
        let (_, _, act) = request(&mut session, &line("TEARDOWN", "secret-token", named));
        assert_eq!(act, Action::End);
    }

    #[test]
    fn an_invalid_token_finds_nothing() {
        let mut session = session();
        for path in [
            "",
            "secret",
            "secret-tokens",
            "/secret-token2/video",
            "video",
        ] {
            for method in ["DESCRIBE", "SETUP", "PLAY", "GET_PARAMETER", "TEARDOWN"] {
                let (status, text, act) = request(&mut session, &line(method, path, UDP));
                assert_eq!(
                    (status, act),
                    (404, Action::Nothing),
                    "{method} {path}: {text}"
                );
            }
        }
    }

    #[test]
    fn invalid_requests_get_their_status() {
        let mut session = session();
        let mut status = |lines: &str| request(&mut session, lines).0;
        assert_eq!(status(&line("PLAY", "secret-token", "")), 455);
        assert_eq!(status(&line("SETUP", "secret-token/smell", UDP)), 404);
        assert_eq!(status(&line("SETUP", "secret-token/video", "")), 400);
        assert_eq!(
            status(&line("SETUP", "secret-token/video", "Transport: RAW\n")),
            461
        );
        assert_eq!(
            status(&line("SETUP", "secret-token/video", "Require: x\n")),
            551
        );
        assert_eq!(status(&line("RECORD", "secret-token", "")), 405);
        assert_eq!(status(&line("PAUSE", "secret-token", "Session: 1\n")), 454);
        assert_eq!(
            status("DESCRIBE rtsp://h/secret-token RTSP/2.0\nCSeq: 1\n"),
            505
        );
        assert_eq!(status(&line("SETUP", "secret-token/video", UDP)), 200);
        assert_eq!(status(&line("PLAY", "secret-token", "Session: 1\n")), 454);
        // One track over UDP, the other interleaved.
        let tcp = "Transport: RTP/AVP/TCP;interleaved=0-1\n";
        assert_eq!(status(&line("SETUP", "secret-token/audio", tcp)), 461);
        assert_eq!(status(&line("PLAY", "secret-token", "")), 200);
        assert_eq!(status(&line("SETUP", "secret-token/audio", UDP)), 455);
    }

    #[test]
    fn a_track_that_plays_by_its_own_url_is_named_once() {
        let mut session = session();
        let track = "secret-token/video";
        assert_eq!(request(&mut session, &line("SETUP", track, UDP)).0, 200);
        let (status, text, _) = request(&mut session, &line("PLAY", track, ""));
        assert_eq!(status, 200, "{text}");
        let expected = "RTP-Info: url=rtsp://h:8554/secret-token/video;seq=77;rtptime=90000\r\n";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn refusals_name_the_option_and_the_allowed_methods() {
        let mut session = session();
        let required = line("SETUP", "secret-token/video", "Require: play.scale\n");
        let (status, text, _) = request(&mut session, &required);
        assert!(
            status == 551 && text.contains("Unsupported: play.scale\r\n"),
            "{text}"
        );
        let (status, text, _) = request(&mut session, &line("RECORD", "secret-token", ""));
        assert!(
            status == 405 && text.contains("Allow: OPTIONS, DESCRIBE, "),
            "{text}"
        );
    }

    #[test]
    fn no_port_is_no_track() {
        let mut session = session();
        let mut requests = Requests::default();
        requests.put(
            line("SETUP", "secret-token/video", UDP)
                .replace('\n', "\r\n")
                .as_bytes(),
        );
        requests.put(b"\r\n");
        let Ok(Some(Received::Request(request))) = requests.poll() else {
            panic!("no request");
        };
        let (response, _) = session.answer(&request, &mut FakeStreams(None));
        assert_eq!(response.status(), StatusCode::ServiceUnavailable);
        assert_eq!(session.transport(Track::Video), None);
    }
}
