//! One player's connection: its requests, what it says by RTCP, and the sender reports that it gets.

use std::io::{self, Read as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use aws_lc_rs::rand;
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::host::{SubscribeRequest, SubscriberKind};
use openuvr_proto::id::{FrameId, SubscriberId};
use openuvr_proto::send::intake::Intake;
use openuvr_proto::send::loss::{LinkState, Loss};
use openuvr_proto::send::subscriber::Feedback;
use openuvr_proto::time;
use openuvr_runtime::clock;
use openuvr_runtime::host::codec_of;
use openuvr_runtime::sched::ThreadRole;
use rtsp_types::{Method, Request, Response, StatusCode, Version};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

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
use super::{LOOK_EVERY, ServerState};

/// A connection that has set up no track by then is no player's (a guess: players do so within a second).
const PATIENCE: Duration = Duration::from_secs(10);

/// How often a player learns how the tracks' clocks belong together. Less often is usual (RFC 3550 section
/// 6.2 has 5 s), but until the first report sound and picture don't fit.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// The encoder whose stream players take.
const H264: &str = "x264";

/// How the player is called at the host until it has said what it is.
const UNNAMED: &str = "a video player";

/// A connection that goes on.
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
    /// Sound is wanted, since the newest PLAY.
    hears: Arc<AtomicBool>,
    ended: Arc<AtomicBool>,
    /// Locked while a request is answered.
    answering: Arc<Mutex<()>>,
    /// What the player says that it is.
    software: String,
    heard: Instant,
    report_at: Instant,
}

/// Serves a player until it goes, is silent for too long, or the server ends.
pub(super) fn serve(
    server: &ServerState,
    stream: Arc<TcpStream>,
    from: SocketAddr,
    place: ConnectionSlot,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    // Not inherited from the listener on every system.
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(LOOK_EVERY))?;
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
        // A player that does not read does not keep us.
        let _ = connection.stream.shutdown(std::net::Shutdown::Both);
    }
    let _ = writes.join();
    result
}

fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let filled = rand::fill(&mut bytes);
    filled.map_err(|_| io::Error::other("the system gives no random numbers"))?;
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
            if self.tracks.iter().all(Option::is_none) && now - began > PATIENCE {
                return Err(io::Error::other("it set up no track"));
            }
            // While packets are written into its connection, that says when a player is gone.
            if !(playing && self.is_interleaved())
                && now - self.heard > Duration::from_secs(TIMEOUT)
            {
                return Err(io::Error::other("nothing was heard of it for too long"));
            }
            if playing && now >= self.report_at {
                self.report_at = now + REPORT_EVERY;
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

    /// Waits for anything from the player; whether some of it came by the connection.
    fn wait(&self) -> bool {
        let mut polled = vec![PollFd::new(&*self.stream, PollFlags::IN)];
        for track in self.tracks.iter().flatten() {
            if let Outlet::Udp(pair) = &track.outlet {
                polled.push(PollFd::new(&pair.rtcp, PollFlags::IN));
            }
        }
        let timeout = Timespec::try_from(LOOK_EVERY).ok();
        // Interrupted, or failed: the caller tries again.
        poll(&mut polled, timeout.as_ref()).is_ok() && !polled[0].revents().is_empty()
    }

    /// What came by the connection; whether it goes on.
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

    /// Answers a request and does what it asks for; whether the connection goes on.
    fn request(&mut self, request: &Request<Vec<u8>>) -> io::Result<bool> {
        if let Some(agent) = request.header(&rtsp_types::headers::USER_AGENT) {
            // It is shown in a terminal.
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
        // Nothing of the stream stands in front of the answer.
        let answering = self.answering.clone();
        let _answering = answering.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = *request.method() != Method::Options && response.status().is_success();
        if shown && !self.place.start_playing() {
            tracing::warn!(from = %self.from, "a video player is refused: there are as many as this host serves");
            response.set_status(StatusCode::ServiceUnavailable);
            response.set_reason_phrase("as many players as this host serves are connected");
            self.send_response(&response)?;
            return Ok(false);
        }
        if act == Action::Play
            && let Err(why) = self.play(plays_from)
        {
            tracing::warn!(from = %self.from, why, "a video player is refused");
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
            // In front of the first packets: without a report players put each track's first packet at the same time,
            // and move a track when they hear better.
            self.report_at = Instant::now() + REPORT_EVERY;
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

    /// Subscribes, to what is captured from this moment on; why not, in words for a line.
    fn play(&mut self, from: time::Instant) -> Result<(), String> {
        if self.subscribed.is_some() {
            return Ok(());
        }
        for track in self.tracks.iter().flatten() {
            track.closed.store(false, Ordering::Relaxed);
        }
        if let Some(sound) = &self.tracks[Track::Audio as usize] {
            let (sound, answering) = (sound.clone(), self.answering.clone());
            // One of its own: a pause may be over before the listener of the time before has noticed it.
            self.hears.store(false, Ordering::Relaxed);
            self.hears = Arc::new(AtomicBool::new(true));
            let hears = self.hears.clone();
            self.server.host.listen(Box::new(move |payload| {
                if !hears.load(Ordering::Relaxed) {
                    return false;
                }
                let told = !matches!(answering.try_lock(), Err(TryLockError::WouldBlock));
                if !told || payload.captured < from {
                    return true;
                }
                let (sent, _) = sound.send(payload.captured, false, payload.bytes, false);
                sent != super::outlet::SendOutcome::Gone
            }));
        }
        let Some(video) = &self.tracks[Track::Video as usize] else {
            return Ok(());
        };
        let Some(codec) = codec_of(H264) else {
            return Err("this host makes no H.264".to_owned());
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

    /// A packet between the requests: RTCP in a channel that is for it.
    fn packet(&mut self, channel: u8, bytes: &[u8]) {
        let known = TRACKS.iter().any(|track| {
            matches!(self.session.transport(*track), Some(Transport::Interleaved { rtcp, .. }) if rtcp == channel)
        });
        if known {
            self.rtcp(bytes);
        }
    }

    /// What came by UDP.
    fn take_reports(&mut self) {
        let mut bytes = [0; 1500];
        for track in TRACKS {
            let Some(delivery) = self.tracks[track as usize].clone() else {
                continue;
            };
            let Outlet::Udp(pair) = &delivery.outlet else {
                continue;
            };
            // So many in one go at most, that a flood does not keep requests waiting.
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

    /// Tells how the tracks' clocks belong together at this moment.
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

/// What the session asks for.
struct SessionStreams<'a> {
    server: &'a ServerState,
    tracks: &'a mut [Option<Arc<Delivery>>; 2],
    writer: &'a Writer,
    here: SocketAddr,
    from: SocketAddr,
    /// What was captured before is not sent.
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
                tracing::warn!(from = %self.from, %error, "no ports for a video player");
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

/// Makes ready for a track.
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
            // Where the requests come from, never where a header says: nobody is sent what he did not ask for.
            let pair = UdpPair::open(here.ip(), from.ip(), (rtp, rtcp))?;
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
