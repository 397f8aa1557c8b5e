//! The media thread: connects, then receives, decodes and presents until the end.

mod events;
mod first_picture;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_media::codec::Codec;
use openuvr_net::{Link as _, RecvBatch};
use openuvr_proto::client::ClientSession;
use openuvr_proto::client::playout::{FrameResult, Playout};
use openuvr_proto::control::credentials::{HostCredentials, PairingOutcome};
use openuvr_proto::control::handshake::Established;
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::control::streams::{Grant, HOST_AUDIO, MICROPHONE};
use openuvr_proto::control::transport_probe::TransportKind;
use openuvr_proto::id::ViewId;
use openuvr_proto::recv::ArrivalTimes;
use openuvr_proto::recv::reassemble::VideoOutput;
use openuvr_proto::send::plane::MediaSender;
use openuvr_proto::time::{Instant, PeerInstant};
use openuvr_proto::units::Size;
use openuvr_proto::wire::control::GoodbyeReason;
use openuvr_proto::wire::header::{Plane, plane_of};

use self::first_picture::FirstPicture;
use super::audio;
use super::connect::{ConnectError, ConnectOptions, connect, pause};
use super::microphone::Microphone;
use super::overlay::{Overlay, OverlayFacts};
use super::resolver::AddressResolver;
use super::screen::{Screen, ShowOutcome};
use super::stereo::{StereoEvent, StereoOptions, StereoPresenter};
use super::transport_probing::TransportProber;
use super::{ClientSetup, Notice, PanicReporter, Shared, StopReason, run_input};
use crate::lock::lock;
use crate::sched;
use crate::scheduling_latency::WakeupSite;
use crate::sound_player::SoundPlayer;

/// Pause between two attempts to reconnect.
const RETRY: Duration = Duration::from_millis(500);

/// Silence after which the client reconnects: four pings of the host.
const LINK_CUT: Duration = Duration::from_millis(2000);

/// Delay from which an iteration counts as stalled: this machine slept, or the process was stopped. As at the
/// host.
const STALL: Duration = Duration::from_millis(500);

pub(super) struct Media {
    shared: Arc<Shared>,
    setup: ClientSetup,
    /// How the host is authenticated.
    credentials: HostCredentials,
    /// Whether there was a session.
    had_session: bool,
    /// Resolves a lost host's name again, if the client reconnects.
    resolver: Option<AddressResolver>,
    screen: Screen,
    overlay: Overlay,
    batch: RecvBatch,
    inputs: Vec<JoinHandle<()>>,
    playout: Option<Playout>,
    /// While a session carries sound.
    audio: Option<SoundPlayer>,
    /// While a session carries the person's microphone.
    microphone: Option<Microphone>,
    /// Creates the senders of the session's streams to the host.
    uplink: Option<MediaSender>,
    prober: Option<TransportProber>,
    /// The window title.
    title: String,
    role: Role,
    /// Whether the host has granted a role in this session.
    granted: bool,
    first_picture: FirstPicture,
    decode_error_reported: bool,
    /// Whether the connect error was reported.
    connect_error_reported: bool,
    /// Whether the last picture shows that the host was lost.
    shows_lost: bool,
    /// The size of a surface that is open and shows nothing yet.
    unshown_surface: Option<Size>,
    /// Whether input comes from another source, so that the window's would be a duplicate.
    window_input_off: bool,
    /// Whether there is a head-pose source.
    has_head: bool,
    /// The wake-up site of this thread's timer.
    timer: WakeupSite,
    /// When this thread last stalled.
    stalled_at: Instant,
}

/// How a session ended.
enum SessionEnd {
    Stop,
    Lost(Option<GoodbyeReason>),
    StopReason(StopReason),
}

impl Media {
    pub(super) fn new(
        shared: Arc<Shared>,
        mut setup: ClientSetup,
        resolver: Option<AddressResolver>,
        has_head: bool,
    ) -> Media {
        let known = setup.hosts.key(&setup.host);
        let credentials = match setup.portal {
            Some(word) => HostCredentials::from_portal(word.host, word.ticket),
            None => HostCredentials::new(known, setup.pin.take(), setup.pair_again),
        };
        Media {
            credentials,
            shared,
            role: setup.offer.role,
            timer: setup.scheduler.site("client-media-timer"),
            screen: Screen::new(setup.decoder),
            setup,
            had_session: false,
            resolver,
            overlay: Overlay::default(),
            batch: RecvBatch::default(),
            inputs: Vec::new(),
            playout: None,
            audio: None,
            microphone: None,
            uplink: None,
            prober: None,
            title: String::new(),
            granted: false,
            first_picture: FirstPicture::default(),
            decode_error_reported: false,
            connect_error_reported: false,
            shows_lost: false,
            unshown_surface: None,
            window_input_off: false,
            has_head,
            stalled_at: Instant(0),
        }
    }

    pub(super) fn run(mut self) {
        while !self.shared.stopping() {
            let established = match self.connect() {
                Ok(Some(established)) => established,
                Ok(None) => break,
                Err(e) if self.had_session && self.setup.reconnect && e.is_transient() => {
                    if let Some(why) = e.warning() {
                        self.report_connect_error(why);
                    }
                    self.retry_discovery();
                    continue;
                }
                Err(e) => {
                    self.shared.finish(e.stop_reason(self.setup.only));
                    break;
                }
            };
            self.had_session = true;
            let began = clock::now();
            let ended = self.session(&established);
            // The local reason for the silence, if any.
            let unsent = match &ended {
                SessionEnd::Lost(None) => self.shared.unsent(),
                _ => None,
            };
            match ended {
                SessionEnd::Stop => break,
                SessionEnd::StopReason(reason) => {
                    self.shared.finish(reason);
                    break;
                }
                SessionEnd::Lost(reason) if self.setup.reconnect => {
                    if let Some(why) = unsent {
                        self.report_connect_error(why);
                    }
                    self.show_lost(reason);
                    self.shared.notice(Notice::Lost(reason));
                    if clock::now().since(began) < RETRY {
                        // The session ended at once.
                        self.retry_discovery();
                    } else if let Some(resolver) = &self.resolver {
                        resolver.request();
                    }
                }
                SessionEnd::Lost(reason) => {
                    let silent = || match unsent {
                        Some(why) => StopReason::Failed(format!("no data from the host: {why}")),
                        None => StopReason::Failed("no data from the host".to_owned()),
                    };
                    self.shared
                        .finish(reason.map_or_else(silent, StopReason::Host));
                    break;
                }
            }
        }
        self.shared.stop();
        // The window belongs to the input thread; the presenter is dropped first.
        self.screen.presenter = None;
        for input in self.inputs.drain(..) {
            // A panic was already reported on standard error.
            let _ = input.join();
        }
    }

    /// Waits before the next attempt to reconnect, and takes newly resolved addresses.
    fn retry_discovery(&mut self) {
        if let Some(resolver) = &self.resolver {
            resolver.request();
        }
        pause(&self.shared, RETRY, &mut self.batch);
        if let Some(paths) = self.resolver.as_ref().and_then(AddressResolver::take_found) {
            self.setup.paths = paths;
        }
    }

    /// Reports why there is no session, once until the next session.
    fn report_connect_error(&mut self, why: String) {
        if !std::mem::replace(&mut self.connect_error_reported, true) {
            self.shared.notice(Notice::Warning(why));
        }
    }

    /// Performs the handshake and stores the host's key.
    fn connect(&mut self) -> Result<Option<Established>, ConnectError> {
        let trust = self.credentials.trust()?;
        let options = ConnectOptions {
            identity: &self.setup.identity,
            name: &self.setup.name,
            trust: &trust,
            paths: &self.setup.paths,
            only: self.setup.only,
            lost: self.had_session,
        };
        let Some(established) = connect(&self.shared, &options, &mut self.batch)? else {
            return Ok(None);
        };
        self.connect_error_reported = false;
        let peer = established.peer;
        let outcome = self.credentials.authenticated(&trust, peer);
        if outcome != PairingOutcome::Known
            && let Err(e) = self.setup.hosts.remember(&self.setup.host, peer)
        {
            // This client continues; the next one will need a PIN again.
            self.shared.notice(Notice::Warning(e.to_string()));
        }
        self.shared.notice(Notice::Connected {
            paired: outcome != PairingOutcome::Known,
            fingerprint: peer.fingerprint(),
            before: match outcome {
                PairingOutcome::PairedAgain { before } => Some(before.fingerprint()),
                PairingOutcome::Known | PairingOutcome::Paired => None,
            },
        });
        Ok(Some(established))
    }

    fn session(&mut self, established: &Established) -> SessionEnd {
        let now = clock::now();
        let mut session = ClientSession::new(now, established, self.setup.offer.clone());
        let (link, paths) = (self.shared.link.clone(), self.shared.paths.clone());
        self.prober = Some(TransportProber::start(
            link,
            paths,
            self.setup.only,
            now,
            &mut session,
        ));
        let mut shared = self.shared.session();
        if let Some(size) = *lock(&self.shared.window_size) {
            session.window_size(size);
        }
        if let Some(display) = *lock(&self.shared.display) {
            session.display(now, display);
        }
        *shared = Some(session);
        drop(shared);
        self.playout = Some(Playout::new(established));
        self.uplink = Some(MediaSender::of_client(established));
        self.screen.reset();
        // A host that wants it requests it again.
        self.screen.relative_mouse(false);
        self.granted = false;
        self.first_picture = FirstPicture::default();
        let ended = loop {
            if self.shared.stopping() {
                break SessionEnd::Stop;
            }
            let timeout = self.timeout();
            let until = clock::now() + timeout;
            if let Err(e) = self.setup.link.recv(&mut self.batch, Some(timeout)) {
                break SessionEnd::StopReason(StopReason::Failed(format!("receiving failed: {e}")));
            }
            self.shared.to_media.received();
            if self.batch.is_empty() && !timeout.is_zero() {
                self.timer.woke(until);
            }
            self.note_stall(until);
            if let Some(ended) = self.turn() {
                break ended;
            }
        };
        if let Some(session) = self.shared.session().take().as_mut() {
            if !matches!(ended, SessionEnd::Lost(_)) {
                session.goodbye(GoodbyeReason::Quit);
            }
            self.shared.flush(session);
        }
        self.playout = None;
        if let Some(audio) = self.audio.take() {
            self.setup.audio = audio.end();
        }
        if let Some(microphone) = self.microphone.take() {
            self.setup.microphone = microphone.end();
        }
        self.uplink = None;
        ended
    }

    /// Starts playback, if sound was granted and there is an output.
    fn start_audio(&mut self) -> std::io::Result<()> {
        let media = self.playout.as_mut().map(|playout| &mut playout.media);
        let Some(timed) = media.and_then(|media| media.timed(HOST_AUDIO.stream)) else {
            return Ok(());
        };
        // The jitter buffer waits for late payloads.
        timed.set_wait(Duration::ZERO);
        if let Some(sink) = self.setup.audio.take() {
            self.audio = Some(audio::start(&self.shared, &self.setup.scheduler, sink)?);
        }
        Ok(())
    }

    /// Starts the microphone, if it was granted and there is one.
    fn start_microphone(&mut self, grants: &[Grant]) -> std::io::Result<()> {
        let granted = |grant: &Grant| grant.stream == MICROPHONE.stream && grant.to_host;
        if !grants.iter().any(granted) || self.microphone.is_some() {
            return Ok(());
        }
        let Some(sender) = self.uplink.as_ref().map(|up| up.timed(MICROPHONE.stream)) else {
            return Ok(());
        };
        if let Some(source) = self.setup.microphone.take() {
            let (shared, scheduler) = (&self.shared, &self.setup.scheduler);
            let started = Microphone::start(shared, scheduler, source, sender)?;
            self.microphone = Some(started);
        }
        Ok(())
    }

    /// Shows the reason over the frozen picture; the next picture removes it.
    fn show_lost(&mut self, reason: Option<GoodbyeReason>) {
        let why = match reason {
            Some(GoodbyeReason::Quit) => "the host ended the session",
            Some(_) => "the host failed",
            None => "no data from the host",
        };
        self.screen.set_panel(&[format!("{why}; reconnecting")]);
        self.shows_lost = true;
    }

    /// Notes a stall if this thread is much later than `due`: then silence of the host is not known.
    fn note_stall(&mut self, due: Instant) {
        let now = clock::now();
        if now.since(due) >= STALL {
            self.stalled_at = now;
        }
    }

    /// Time until the next timeout, if nothing arrives.
    fn timeout(&mut self) -> Duration {
        let session = self.shared.session();
        let session_next = session
            .as_ref()
            .and_then(|s| s.next_timeout())
            .map(|(at, _)| at);
        let playout = self.playout.as_ref().filter(|_| self.granted);
        let media_next = playout.and_then(|playout| playout.media.next_timeout());
        let now = clock::now();
        let next = session_next
            .into_iter()
            .chain(media_next)
            .chain(self.overlay.next().filter(|_| self.granted))
            .chain([now + LINK_CUT])
            .min()
            .unwrap_or(now);
        self.shared
            .media_sleeps_until
            .store(next.0, Ordering::Relaxed);
        next.since(now)
    }

    /// Handles received datagrams and due timeouts.
    fn turn(&mut self) -> Option<SessionEnd> {
        let now = clock::now();
        let batch = std::mem::take(&mut self.batch);
        for (from, arrived, datagram) in batch.with_arrivals() {
            if !self.shared.paths.has(from) {
                continue;
            }
            match plane_of(datagram) {
                Ok(Plane::Media) => {
                    self.overlay.received(datagram.len());
                    if let Some(playout) = self.playout.as_mut() {
                        // A late wake-up must not count as link delay.
                        let arrived = arrived.unwrap_or(now).min(now);
                        // A rejected datagram is forged, replayed or malformed: it is ignored.
                        let _ =
                            (playout.media).handle_arrival(ArrivalTimes { arrived, now }, datagram);
                    }
                }
                Ok(Plane::Control) => {
                    if let Some(session) = self.shared.session().as_mut() {
                        let _ = session.handle_datagram(now, from, datagram);
                    }
                }
                Ok(Plane::Handshake) => {
                    if let Some(session) = self.shared.session().as_mut() {
                        session.handle_unsealed(now, datagram);
                    }
                }
                Err(_) => {}
            }
        }
        self.batch = batch;
        if let (Some(audio), Some(playout)) = (&self.audio, &mut self.playout)
            && let Some(timed) = playout.media.timed(HOST_AUDIO.stream)
        {
            audio.receive(now, timed);
        }
        // A window is opened with the host's name and the role, which may arrive with the first picture or,
        // after a loss, later.
        if !self.granted {
            let ended = self.poll_session();
            if ended.is_some() || !self.granted {
                return ended;
            }
        }
        if let Some(ended) = self.show() {
            return Some(ended);
        }
        self.write_overlay();
        // Opening a window or decoding may take long: datagrams that arrived meanwhile wait in the socket.
        self.note_stall(now);
        self.poll_session()
    }

    /// Updates the overlay, if it is shown and due.
    fn write_overlay(&mut self) {
        let now = clock::now();
        let shown = self.shared.overlay.load(Ordering::Relaxed) && self.screen.presenter.is_some();
        if self.overlay.show(now, shown) && !shown {
            self.screen.set_panel(&[]);
        }
        if self.overlay.next().is_none_or(|at| at > now) {
            return;
        }
        let codec = self.screen.configuration.map(|c| Codec::try_from(c.codec));
        let facts = OverlayFacts {
            size: self.screen.configuration.map(|c| c.size),
            codec: &codec.map_or_else(String::new, |codec| match codec {
                Ok(codec) => format!("{codec:?}"),
                Err(unknown) => unknown.to_string(),
            }),
            link: (self.prober.as_ref())
                .and_then(TransportProber::selected)
                .map_or("…", TransportKind::name),
            round_trip: (self.shared.session().as_ref())
                .and_then(|session| session.clock().round_trip()),
        };
        if let Some(lines) = self.overlay.lines(now, &facts) {
            self.screen.set_panel(&lines);
        }
    }

    /// Decodes and presents the reassembled slices.
    fn show(&mut self) -> Option<SessionEnd> {
        // Taken out while slices borrow from it, so that `self` stays usable.
        let mut playout = self.playout.take()?;
        let mut ended = None;
        loop {
            let outdated = playout.media.first().has_later();
            let Some(step) = playout.media.first().poll(clock::now()) else {
                break;
            };
            if let Some(fate) = FrameResult::of(&step) {
                self.finish(&mut playout, &fate);
                continue;
            }
            match &step {
                VideoOutput::Slice { first, .. } | VideoOutput::Missing { first, .. } => {
                    if *first {
                        self.screen.start_frame();
                    }
                    let mut shown = self.screen.show(&step, outdated);
                    if let ShowOutcome::NeedsSurface(size) = shown {
                        shown = match self.open_surface(size) {
                            Ok(()) => self.screen.show(&step, outdated),
                            Err(e) => ShowOutcome::SurfaceLost(e),
                        };
                    }
                    match shown {
                        ShowOutcome::Ok | ShowOutcome::NeedsSurface(_) => {
                            if self.screen.presentation.submitted.is_some() {
                                if let Some(size) = self.unshown_surface.take() {
                                    self.shared.notice(Notice::Showing(size));
                                }
                                if std::mem::take(&mut self.shows_lost) {
                                    self.screen.set_panel(&[]);
                                }
                            }
                        }
                        ShowOutcome::DecodeFailed(why) => {
                            if !std::mem::replace(&mut self.decode_error_reported, true) {
                                self.shared.notice(Notice::Warning(why));
                            }
                            playout.media.first().decoding_failed();
                        }
                        ShowOutcome::SurfaceLost(why) => {
                            ended = Some(SessionEnd::StopReason(StopReason::Failed(why)));
                            break;
                        }
                    }
                }
                VideoOutput::End(_) | VideoOutput::Dropped { .. } => {}
            }
        }
        self.playout = Some(playout);
        ended
    }

    fn open_surface(&mut self, size: Size) -> Result<(), String> {
        let (presenter, window_input) =
            (self.setup.surface)(size, &self.title, self.role).map_err(|e| e.to_string())?;
        let shared = self.shared.clone();
        let options = StereoOptions {
            mailbox: Arc::clone(&shared.eyes),
            on_event: Box::new(move |event| {
                shared.notice(match event {
                    StereoEvent::Cost(cost) => Notice::ReprojectionCost(cost),
                    StereoEvent::Warning(why) => Notice::Warning(why),
                });
            }),
            eyes: self.setup.eyes,
            has_head: self.has_head,
            scheduler: self.setup.scheduler.clone(),
        };
        self.screen.presenter = Some(Box::new(StereoPresenter::new(presenter, options)));
        self.screen.pointer_for_new_surface();
        self.unshown_surface = Some(size);
        let other = self.setup.input.take();
        self.window_input_off |= other.is_some();
        let send = self.setup.send_input;
        let sources = [
            (other, "ouvr-input", send),
            (window_input, "ouvr-window", send && !self.window_input_off),
        ];
        for (source, name, send) in sources {
            let Some(source) = source else { continue };
            let panic_reporter = PanicReporter(self.shared.clone(), "input");
            let spawned = self
                .setup
                .scheduler
                .spawn(sched::ThreadRole::Input, name, move || {
                    run_input(&panic_reporter.0, source, send);
                });
            self.inputs
                .push(spawned.map_err(|e| format!("can't start a thread: {e}"))?);
        }
        Ok(())
    }

    /// Reports the outcome of a finished frame.
    fn finish(&mut self, playout: &mut Playout, fate: &FrameResult) {
        let shared = self.shared.clone();
        let mut session = shared.session();
        let Some(session) = session.as_mut() else {
            return;
        };
        let now = clock::now();
        let report = playout.finish(now, ViewId::FIRST, fate, &self.screen.presentation, session);
        let end = match fate {
            FrameResult::Completed(end) => Some(end),
            FrameResult::Dropped { .. } => None,
        };
        let transit = end
            .filter(|_| self.overlay.next().is_some())
            .and_then(|end| {
                let captured = PeerInstant(end.header.captured);
                let captured = session.clock().to_mine(captured, now)?;
                Some((end.first_received.since(captured.at), captured.bound))
            });
        self.overlay.frame(now, &report, transit);
        if let Some(microphone) = &self.microphone {
            microphone.note(now, &report);
        }
        shared.flush(session);
        shared.notice(Notice::Report(report));
    }
}
