//! A player's connection: its RTSP requests, its RTCP feedback, and the sender reports to the player.

use std::io::{self, Read as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use aws_lc_rs::rand;
use openuvr_clock as clock;
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::host::{SubscribeRequest, SubscriberKind};
use openuvr_proto::id::{FrameId, SubscriberId};
use openuvr_proto::send::intake::Intake;
use openuvr_proto::send::loss::{LinkState, Loss};
use openuvr_proto::send::subscriber::Feedback;
use openuvr_proto::time;
use openuvr_runtime::host::{Payload, SoundCodec, codec_of};
use openuvr_runtime::sched::ThreadRole;
use rtsp_types::{Method, Request, Response, StatusCode, Version};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::access_unit;
use super::connection_limits::ConnectionSlot;
use super::description::{AUDIO, AUDIO_RATE, VIDEO, VIDEO_RATE};
use super::outlet::{Outlet, UdpPair, Writer};
use super::parameters::{ParameterObserver, ParameterSets};
use super::reports::{PlayerFeedback, parse};
use super::requests::{Received, Requests};
use super::session::{Action, MediaPorts, PlaybackStart, Session, Streams, TIMEOUT, TRACKS, Track};
use super::stream::{Origin, RtpStream};
use super::subscriber::{Delivery, Slices};
use super::transport::Transport;
use super::{POLL_INTERVAL, ServerState};

/// Timeout for setting up a track (a guess: players do so within a second).
const SETUP_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval of sender reports, which synchronize the tracks. It is shorter than usual (RFC 3550 section 6.2: 5 s),
/// because a player that loses the first report does not synchronize sound and picture until the next one.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// The codec of the players' stream.
const H264: &str = "x264";

/// The name that the host shows for a player, and the player's software name until it sends its User-Agent.
const UNNAMED: &str = "a video player";

struct Connection<'a> {
    server: &'a ServerState,
    from: SocketAddr,
    here: SocketAddr,
    stream: Arc<TcpStream>,
    place: ConnectionSlot,
    writer: Writer,
    requests: Requests,
    session: Session,
    tracks: [Option<Arc<Delivery>>; 2],
    subscribed: Option<SubscriberId>,
    /// Whether sound is sent. Each subscription has its own flag.
    hears: Arc<AtomicBool>,
    ended: Arc<AtomicBool>,
    /// Locked until the response to a request is queued, so that the response precedes the packets of the stream.
    answering: Arc<Mutex<()>>,
    /// The player's User-Agent.
    software: String,
    heard: Instant,
    report_at: Instant,
}

/// Serves a player until it disconnects, a timeout expires, or the server stops.
pub(super) fn serve(
    server: &ServerState,
    stream: Arc<TcpStream>,
    from: SocketAddr,
    place: ConnectionSlot,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    // On some systems, an accepted socket inherits non-blocking mode from the listener.
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(POLL_INTERVAL))?;
    let here = stream.local_addr()?;
    let (writer, write) = Writer::new(stream.try_clone()?);
    let writes = (server.scheduler).spawn(ThreadRole::Background, "ouvr-rtsp-out", write)?;
    let setup = &server.setup;
    let session = Session::new(
        setup.token.clone(),
        &setup.name,
        setup.sound,
        here.ip().to_canonical(),
        u64::from_ne_bytes(random()?),
    );
    let mut connection = Connection {
        server,
        from,
        here,
        stream,
        place,
        writer,
        requests: Requests::default(),
        session,
        tracks: [None, None],
        subscribed: None,
        hears: Arc::default(),
        ended: Arc::new(AtomicBool::new(false)),
        answering: Arc::default(),
        software: UNNAMED.to_owned(),
        heard: Instant::now(),
        report_at: Instant::now(),
    };
    let result = connection.run();
    connection.pause();
    if !connection.writer.finish() {
        // The shutdown ends a write to a player that does not read. Otherwise, the write would block the writer's
        // thread.
        let _ = connection.stream.shutdown(std::net::Shutdown::Both);
    }
    let _ = writes.join();
    result
}

fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let filled = rand::fill(&mut bytes);
    filled.map_err(|_| io::Error::other("the system provides no random numbers"))?;
    Ok(bytes)
}

impl Connection<'_> {
    fn run(&mut self) -> io::Result<()> {
        let began = Instant::now();
        while !self.server.stopping() {
            if self.wait() && !self.take_requests()? {
                return Ok(());
            }
            self.take_reports();
            let now = Instant::now();
            let playing = self.session.is_playing();
            if playing && self.ended.load(Ordering::Relaxed) {
                return Ok(());
            }
            if self.tracks.iter().all(Option::is_none) && now - began > SETUP_TIMEOUT {
                return Err(io::Error::other("timeout: no track was set up"));
            }
            // While packets are interleaved in the connection, a write error reveals a disconnected player, so no
            // timeout is needed.
            if !(playing && self.is_interleaved())
                && now - self.heard > Duration::from_secs(TIMEOUT)
            {
                return Err(io::Error::other("timeout: no message from the player"));
            }
            if playing && now >= self.report_at {
                self.report_at = now + REPORT_INTERVAL;
                self.send_reports(clock::now());
            }
        }
        Ok(())
    }

    fn is_interleaved(&self) -> bool {
        let mut transports = TRACKS
            .into_iter()
            .filter_map(|track| self.session.transport(track));
        transports.any(|transport| matches!(transport, Transport::Interleaved { .. }))
    }

    /// Waits for data from the player. Returns whether the RTSP connection has data.
    fn wait(&self) -> bool {
        let mut polled = vec![PollFd::new(&*self.stream, PollFlags::IN)];
        for track in self.tracks.iter().flatten() {
            if let Outlet::Udp(pair) = &track.outlet {
                polled.push(PollFd::new(&pair.rtcp, PollFlags::IN));
            }
        }
        let timeout = Timespec::try_from(POLL_INTERVAL).ok();
        // If `poll` is interrupted or fails, the caller retries.
        poll(&mut polled, timeout.as_ref()).is_ok() && !polled[0].revents().is_empty()
    }

    /// Reads from the connection. Returns whether it is still open.
    fn take_requests(&mut self) -> io::Result<bool> {
        let mut bytes = [0; 4096];
        let length = match (&*self.stream).read(&mut bytes) {
            Ok(0) => return Ok(false),
            Ok(length) => length,
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                return Ok(true);
            }
            Err(error) => return Err(error),
        };
        self.heard = Instant::now();
        self.requests.put(&bytes[..length]);
        loop {
            match self.requests.poll() {
                Ok(None) => return Ok(true),
                Ok(Some(Received::Request(request))) => {
                    if !self.request(&request)? {
                        return Ok(false);
                    }
                }
                Ok(Some(Received::Packet { channel, bytes })) => self.packet(channel, &bytes),
                Err(error) => {
                    let answer = Response::builder(Version::V1_0, StatusCode::BadRequest);
                    self.send_response(&answer.build(Vec::new()))?;
                    return Err(io::Error::new(io::ErrorKind::InvalidData, error));
                }
            }
        }
    }

    /// Answers a request and executes its action. Returns whether the connection continues.
    fn request(&mut self, request: &Request<Vec<u8>>) -> io::Result<bool> {
        if let Some(agent) = request.header(&rtsp_types::headers::USER_AGENT) {
            // The name is printed to a terminal, so control characters are removed.
            self.software = agent
                .as_str()
                .chars()
                .filter(|c| !c.is_control())
                .take(64)
                .collect();
        }
        let mut has = SessionStreams {
            server: self.server,
            tracks: &mut self.tracks,
            writer: &self.writer,
            here: self.here,
            from: self.from,
            plays_from: clock::now(),
        };
        let (mut response, act) = self.session.answer(request, &mut has);
        let plays_from = has.plays_from;
        // The response must precede packets of the stream.
        let answering = self.answering.clone();
        let _answering = answering.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = *request.method() != Method::Options && response.status().is_success();
        if shown && !self.place.start_playing() {
            tracing::warn!(from = %self.from, "video player refused: player limit reached");
            response.set_status(StatusCode::ServiceUnavailable);
            response.set_reason_phrase("player limit reached");
            self.send_response(&response)?;
            return Ok(false);
        }
        if act == Action::Play
            && let Err(why) = self.play(plays_from)
        {
            tracing::warn!(from = %self.from, why, "video player refused");
            response.set_status(StatusCode::ServiceUnavailable);
            response.set_reason_phrase(why);
            self.send_response(&response)?;
            return Ok(false);
        }
        if act == Action::Pause {
            self.pause();
        }
        self.send_response(&response)?;
        if act == Action::Play {
            // The first reports precede the first packets. Without a report, players align the tracks by their first
            // packets, and shift one track when the report arrives.
            self.report_at = Instant::now() + REPORT_INTERVAL;
            self.send_reports(plays_from);
        }
        Ok(act != Action::End)
    }

    fn send_response(&self, response: &Response<Vec<u8>>) -> io::Result<()> {
        let mut bytes = Vec::new();
        response.write(&mut bytes).map_err(io::Error::other)?;
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        self.writer.put(bytes).map_err(gone)
    }

    /// Subscribes to frames, and to sound that was captured at `from` or later. The error is a reason, which is logged
    /// and sent to the player.
    fn play(&mut self, from: time::Instant) -> Result<(), String> {
        if self.subscribed.is_some() {
            return Ok(());
        }
        for track in self.tracks.iter().flatten() {
            track.closed.store(false, Ordering::Relaxed);
        }
        let codec = self.server.setup.sound;
        if let Some((sound, codec)) = self.tracks[Track::Audio as usize].as_ref().zip(codec) {
            let (sound, answering) = (sound.clone(), self.answering.clone());
            // The new listener gets a new flag. After a short pause, the previous listener may not yet have seen that
            // its own flag was cleared.
            self.hears.store(false, Ordering::Relaxed);
            self.hears = Arc::new(AtomicBool::new(true));
            let hears = self.hears.clone();
            let listener = Box::new(move |payload: &Payload<'_>| {
                if !hears.load(Ordering::Relaxed) {
                    return false;
                }
                let answered = !matches!(answering.try_lock(), Err(TryLockError::WouldBlock));
                if !answered || payload.captured < from {
                    return true;
                }
                let mut gone = false;
                let mut send = |bytes: &[u8], marked| {
                    let (sent, _) = sound.send(payload.captured, marked, bytes, false);
                    gone |= sent == super::outlet::SendOutcome::Gone;
                };
                match codec {
                    // No marker bit, because it would announce a talk spurt (RFC 7587 section 4.1).
                    SoundCodec::Opus => send(payload.bytes, false),
                    SoundCodec::Aac => access_unit::payloads(payload.bytes, send),
                }
                !gone
            });
            self.server.host.listen(codec, listener);
        }
        let Some(video) = &self.tracks[Track::Video as usize] else {
            return Ok(());
        };
        let Some(codec) = codec_of(H264) else {
            return Err("this host does not encode H.264".to_owned());
        };
        let title = format!("{} at {}", UNNAMED, self.from.ip().to_canonical());
        let request = SubscribeRequest {
            kind: SubscriberKind::VideoPlayer,
            intake: Intake::Steady,
            codecs: 1 << codec,
            software: self.software.clone(),
            ..SubscribeRequest::new(Role::Observer, &title)
        };
        self.ended.store(false, Ordering::Relaxed);
        let (video, ended) = (video.clone(), self.ended.clone());
        let watching = ParameterObserver::new(self.server.parameters.clone());
        let slices = Slices::new(video, ended, watching, self.answering.clone());
        let subscribed = self.server.host.subscribe(request, Box::new(slices));
        let (id, _) = subscribed.map_err(|why| why.to_string())?;
        self.subscribed = Some(id);
        Ok(())
    }

    fn pause(&mut self) {
        self.hears.store(false, Ordering::Relaxed);
        for track in self.tracks.iter().flatten() {
            track.closed.store(true, Ordering::Relaxed);
        }
        if let Some(id) = self.subscribed.take() {
            self.server.host.unsubscribe(id);
        }
    }

    /// Handles an interleaved packet. Packets outside the RTCP channels of the tracks are ignored.
    fn packet(&mut self, channel: u8, bytes: &[u8]) {
        let known = TRACKS.iter().any(|track| {
            matches!(self.session.transport(*track), Some(Transport::Interleaved { rtcp, .. }) if rtcp == channel)
        });
        if known {
            self.rtcp(bytes);
        }
    }

    /// Reads the UDP sockets.
    fn take_reports(&mut self) {
        let mut bytes = [0; 1500];
        for track in TRACKS {
            let Some(delivery) = self.tracks[track as usize].clone() else {
                continue;
            };
            let Outlet::Udp(pair) = &delivery.outlet else {
                continue;
            };
            // The number of packets per call is limited, so that a flood does not delay requests.
            for _ in 0..16 {
                match pair.rtcp.recv(&mut bytes) {
                    Ok(length) => self.rtcp(&bytes[..length]),
                    Err(_) => break,
                }
            }
        }
    }

    fn rtcp(&mut self, bytes: &[u8]) {
        let mut heard = Vec::new();
        let now = self.server.wall.ntp(clock::now());
        parse(bytes, now, |one| heard.push(one));
        if heard.is_empty() {
            return;
        }
        self.heard = Instant::now();
        let Some(id) = self.subscribed else { return };
        let Some(video) = &self.tracks[Track::Video as usize] else {
            return;
        };
        let (video, newest) = (video.stream().ssrc(), video.newest());
        for one in heard {
            let feedback = match one {
                PlayerFeedback::KeyFrame => Feedback::KeyFrame {
                    last_good: FrameId::NONE,
                    newest,
                },
                PlayerFeedback::Report {
                    ssrc,
                    lost,
                    round_trip: Some(round_trip),
                } if ssrc == video => {
                    let loss = Loss {
                        rate: lost,
                        run: 1.0,
                    };
                    Feedback::Link(LinkState { round_trip, loss })
                }
                PlayerFeedback::Report { .. } => continue,
            };
            self.server.host.feedback(id, feedback);
        }
    }

    /// Sends reports that map the tracks' RTP clocks to the wall clock.
    fn send_reports(&mut self, now: time::Instant) {
        let ntp = self.server.wall.ntp(now);
        for track in self.tracks.iter().flatten() {
            let report = track.stream().report(now, ntp, &self.server.setup.name);
            if let Some(report) = report {
                track.outlet.rtcp(&report);
            }
        }
    }
}

/// The connection's implementation of `Streams`.
struct SessionStreams<'a> {
    server: &'a ServerState,
    tracks: &'a mut [Option<Arc<Delivery>>; 2],
    writer: &'a Writer,
    here: SocketAddr,
    from: SocketAddr,
    /// The start of playback. Sound that was captured earlier is not sent.
    plays_from: time::Instant,
}

impl Streams for SessionStreams<'_> {
    fn parameters(&mut self) -> Option<ParameterSets> {
        let codec = codec_of(H264)?;
        self.server.parameters.sets(&*self.server.host, codec)
    }

    fn open(&mut self, track: Track, transport: Transport) -> Option<MediaPorts> {
        match open(track, transport, self.here, self.from, self.writer) {
            Ok((delivery, ports)) => {
                self.tracks[track as usize] = Some(Arc::new(delivery));
                Some(ports)
            }
            Err(error) => {
                tracing::warn!(from = %self.from, %error, "cannot open UDP ports for a video player");
                None
            }
        }
    }

    fn playback_start(&mut self, track: Track) -> Option<PlaybackStart> {
        let stream = self.tracks[track as usize].as_ref()?.stream();
        Some(PlaybackStart {
            sequence: stream.sequence(),
            time: stream.stamp(self.plays_from),
        })
    }
}

/// Prepares a track.
fn open(
    track: Track,
    transport: Transport,
    here: SocketAddr,
    from: SocketAddr,
    writer: &Writer,
) -> io::Result<(Delivery, MediaPorts)> {
    let [a, b, c, d, e, f, g, h, i, j] = random()?;
    let from_where = Origin {
        ssrc: u32::from_ne_bytes([a, b, c, d]),
        sequence: u16::from_ne_bytes([e, f]),
        offset: u32::from_ne_bytes([g, h, i, j]),
    };
    let (payload_type, rate) = match track {
        Track::Video => (VIDEO, VIDEO_RATE),
        Track::Audio => (AUDIO, AUDIO_RATE),
    };
    let (outlet, server) = match transport {
        Transport::Udp { rtp, rtcp, .. } => {
            // Packets always go to the source address of the requests, never to an address in a header. Otherwise, a
            // player could direct the stream to another host.
            let pair = UdpPair::open(here, from, (rtp, rtcp))?;
            let ports = pair.ports()?;
            (Outlet::Udp(pair), ports)
        }
        Transport::Interleaved { rtp, rtcp, .. } => {
            let writer = writer.clone();
            (Outlet::Interleaved { rtp, rtcp, writer }, (0, 0))
        }
    };
    let ports = MediaPorts {
        server,
        ssrc: from_where.ssrc,
    };
    let stream = RtpStream::new(payload_type, rate, from_where);
    Ok((Delivery::new(stream, outlet), ports))
}
