//! The media thread: connects, then receives, decodes and presents until the end.

mod events;
mod pictures;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use openuvr_media::codec::Codec;
use openuvr_net::{Link as _, RecvBatch};
use openuvr_proto::client::ClientSession;
use openuvr_proto::client::playout::{Fate, Playout};
use openuvr_proto::control::credentials::{HostCredentials, PairingOutcome};
use openuvr_proto::control::handshake::Established;
use openuvr_proto::control::ladder::Rung;
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::control::streams::{Grant, HOST_AUDIO, MICROPHONE};
use openuvr_proto::id::ViewId;
use openuvr_proto::recv::Seen;
use openuvr_proto::recv::reassemble::Step;
use openuvr_proto::send::plane::MediaSender;
use openuvr_proto::time::{Instant, PeerInstant};
use openuvr_proto::units::Size;
use openuvr_proto::wire::control::GoodbyeReason;
use openuvr_proto::wire::header::{Plane, plane_of};

use self::pictures::Pictures;
use super::audio;
use super::connect::{Caller, NoSession, pause, shake_hands};
use super::eyes::{EyesPresenter, Opening, Said};
use super::ladder::LinkProber;
use super::microphone::Microphone;
use super::overlay::{Overlay, OverlayFacts};
use super::screen::{Screen, Shown};
use super::search::Search;
use super::{ClientSetup, Notice, PanicReporter, Shared, StopReason, run_input};
use crate::clock;
use crate::handoffs::Site;
use crate::lock::lock;
use crate::sched;
use crate::sound_player::SoundPlayer;

/// Between two attempts to find a lost host.
const RETRY: Duration = Duration::from_millis(500);

/// A host that is silent for this long is looked for anew: four of its pings.
const LINK_CUT: Duration = Duration::from_millis(2000);

/// A turn that begins or lasts so much longer than it should was held up: this machine slept, or the process was
/// stopped. As at the host.
const HELD_UP: Duration = Duration::from_millis(500);

pub(super) struct Media {
    shared: Arc<Shared>,
    setup: ClientSetup,
    /// How the host is recognised.
    credentials: HostCredentials,
    /// Whether there was a session.
    ever: bool,
    /// Where the host is now, if a lost one is looked for.
    search: Option<Search>,
    screen: Screen,
    overlay: Overlay,
    batch: RecvBatch,
    inputs: Vec<JoinHandle<()>>,
    playout: Option<Playout>,
    /// While a session carries sound.
    audio: Option<SoundPlayer>,
    /// While a session carries the person's microphone.
    microphone: Option<Microphone>,
    /// Makes the sender of what this session carries to the host.
    uplink: Option<MediaSender>,
    prober: Option<LinkProber>,
    /// What stands above the window.
    title: String,
    role: Role,
    /// Whether the host has said in this session what it grants.
    granted: bool,
    pictures: Pictures,
    complained: bool,
    /// Whether it was told why there is no session.
    told_trouble: bool,
    /// Whether it stands over the last picture that the host is gone.
    said_lost: bool,
    /// The size of a surface that is open and shows nothing yet.
    blank: Option<Size>,
    /// Whether input comes from elsewhere than the window, which would say the same again.
    window_is_mute: bool,
    /// Whether a head source tells poses.
    has_head: bool,
    /// Where this thread is woken by its timer.
    timer: Site,
    /// When this thread had no turn for long, last.
    held_up: Instant,
}

/// How a session ended.
enum Ended {
    Stop,
    Lost(Option<GoodbyeReason>),
    StopReason(StopReason),
}

impl Media {
    pub(super) fn new(
        shared: Arc<Shared>,
        mut setup: ClientSetup,
        search: Option<Search>,
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
            ever: false,
            search,
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
            pictures: Pictures::default(),
            complained: false,
            told_trouble: false,
            said_lost: false,
            blank: None,
            window_is_mute: false,
            has_head,
            held_up: Instant(0),
        }
    }

    pub(super) fn run(mut self) {
        while !self.shared.stopping() {
            let met = match self.meet() {
                Ok(Some(met)) => met,
                Ok(None) => break,
                Err(e) if self.ever && self.setup.reconnect && e.is_passing() => {
                    if let Some(why) = e.trouble() {
                        self.tell_trouble(why);
                    }
                    self.look_again();
                    continue;
                }
                Err(e) => {
                    self.shared.finish(e.over(self.setup.only));
                    break;
                }
            };
            self.ever = true;
            let began = clock::now();
            let ended = self.session(&met);
            // Why it is silent, if that is our own.
            let unsent = match &ended {
                Ended::Lost(None) => self.shared.unsent(),
                _ => None,
            };
            match ended {
                Ended::Stop => break,
                Ended::StopReason(over) => {
                    self.shared.finish(over);
                    break;
                }
                Ended::Lost(reason) if self.setup.reconnect => {
                    if let Some(why) = unsent {
                        self.tell_trouble(why);
                    }
                    self.say_lost(reason);
                    self.shared.notice(Notice::Lost(reason));
                    if clock::now().since(began) < RETRY {
                        // It ends as soon as it begins.
                        self.look_again();
                    } else if let Some(search) = &self.search {
                        search.again();
                    }
                }
                Ended::Lost(reason) => {
                    let silent = || match unsent {
                        Some(why) => StopReason::Failed(format!("the host fell silent: {why}")),
                        None => StopReason::Failed("the host fell silent".to_owned()),
                    };
                    self.shared
                        .finish(reason.map_or_else(silent, StopReason::Host));
                    break;
                }
            }
        }
        self.shared.stop();
        // The window belongs to the input thread; the presenter goes first.
        self.screen.presenter = None;
        for input in self.inputs.drain(..) {
            // A thread that panicked has said so on standard error.
            let _ = input.join();
        }
    }

    /// Waits a moment before the next attempt to find the host, which is where its name says now.
    fn look_again(&mut self) {
        if let Some(search) = &self.search {
            search.again();
        }
        pause(&self.shared, RETRY, &mut self.batch);
        if let Some(paths) = self.search.as_ref().and_then(Search::found) {
            self.setup.paths = paths;
        }
    }

    /// Tells why there is no session, once until there was one again.
    fn tell_trouble(&mut self, why: String) {
        if !std::mem::replace(&mut self.told_trouble, true) {
            self.shared.notice(Notice::Trouble(why));
        }
    }

    /// Shakes hands and remembers the host.
    fn meet(&mut self) -> Result<Option<Established>, NoSession> {
        let trust = self.credentials.trust()?;
        let who = Caller {
            identity: &self.setup.identity,
            name: &self.setup.name,
            trust: &trust,
            paths: &self.setup.paths,
            only: self.setup.only,
            lost: self.ever,
        };
        let Some(established) = shake_hands(&self.shared, &who, &mut self.batch)? else {
            return Ok(None);
        };
        self.told_trouble = false;
        let peer = established.peer;
        let meeting = self.credentials.authenticated(&trust, peer);
        if meeting != PairingOutcome::Known
            && let Err(e) = self.setup.hosts.remember(&self.setup.host, peer)
        {
            // This client goes on; the next one will need a PIN again.
            self.shared.notice(Notice::Trouble(e.to_string()));
        }
        self.shared.notice(Notice::Connected {
            paired: meeting != PairingOutcome::Known,
            fingerprint: peer.fingerprint(),
            before: match meeting {
                PairingOutcome::PairedAgain { before } => Some(before.fingerprint()),
                PairingOutcome::Known | PairingOutcome::Paired => None,
            },
        });
        Ok(Some(established))
    }

    fn session(&mut self, established: &Established) -> Ended {
        let now = clock::now();
        let mut session = ClientSession::new(now, established, self.setup.offer.clone());
        let (link, paths) = (self.shared.link.clone(), self.shared.paths.clone());
        self.prober = Some(LinkProber::begin(
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
        // A host that wants it says so anew.
        self.screen.relative_mouse(false);
        self.granted = false;
        self.pictures = Pictures::default();
        let ended = loop {
            if self.shared.stopping() {
                break Ended::Stop;
            }
            let timeout = self.timeout();
            let until = clock::now() + timeout;
            if let Err(e) = self.setup.link.recv(&mut self.batch, Some(timeout)) {
                break Ended::StopReason(StopReason::Failed(format!("receiving failed: {e}")));
            }
            self.shared.to_media.received();
            if self.batch.is_empty() && !timeout.is_zero() {
                self.timer.woke(until);
            }
            self.looked_by(until);
            if let Some(ended) = self.turn() {
                break ended;
            }
        };
        if let Some(session) = self.shared.session().take().as_mut() {
            if !matches!(ended, Ended::Lost(_)) {
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

    /// Plays the sound of this session, if it was granted and there is somewhere to play it.
    fn start_audio(&mut self) -> std::io::Result<()> {
        let media = self.playout.as_mut().map(|playout| &mut playout.media);
        let Some(timed) = media.and_then(|media| media.timed(HOST_AUDIO.stream)) else {
            return Ok(());
        };
        // The jitter buffer waits for what is late.
        timed.set_wait(Duration::ZERO);
        if let Some(sink) = self.setup.audio.take() {
            self.audio = Some(audio::start(&self.shared, &self.setup.scheduler, sink)?);
        }
        Ok(())
    }

    /// Sends the person's microphone, if it was granted and there is one.
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

    /// Says over the last picture why it stands still; the next one takes it away.
    fn say_lost(&mut self, reason: Option<GoodbyeReason>) {
        let why = match reason {
            Some(GoodbyeReason::Quit) => "the host said goodbye",
            Some(_) => "something failed at the host",
            None => "the host fell silent",
        };
        self.screen.write(&[format!("{why}; looking for it again")]);
        self.said_lost = true;
    }

    /// What was due at `due` is done now. Who comes much later knows nothing of the host's silence.
    fn looked_by(&mut self, due: Instant) {
        let now = clock::now();
        if now.since(due) >= HELD_UP {
            self.held_up = now;
        }
    }

    /// How long nothing needs to be done, if nothing arrives.
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

    /// Deals with what arrived and what is due.
    fn turn(&mut self) -> Option<Ended> {
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
                        // A thread that wakes late is not a link that is slow.
                        let arrived = arrived.unwrap_or(now).min(now);
                        // What is refused is forged, repeated or absurd: it never was.
                        let _ = (playout.media).handle_arrival(Seen { arrived, now }, datagram);
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
        // A window is opened with the host's name and the role, which may arrive with the first
        // picture or, if they were lost, after it.
        if !self.granted {
            let ended = self.converse();
            if ended.is_some() || !self.granted {
                return ended;
            }
        }
        if let Some(ended) = self.show() {
            return Some(ended);
        }
        self.write_overlay();
        // A window that was opened, or frames that took long to decode: what came meanwhile waits in the socket.
        self.looked_by(now);
        self.converse()
    }

    /// Brings the figures over the picture up to date, if they are wanted and it is time.
    fn write_overlay(&mut self) {
        let now = clock::now();
        let wanted = self.shared.overlay.load(Ordering::Relaxed) && self.screen.presenter.is_some();
        if self.overlay.show(now, wanted) && !wanted {
            self.screen.write(&[]);
        }
        if self.overlay.next().is_none_or(|at| at > now) {
            return;
        }
        let codec = self.screen.configuration.map(|c| Codec::try_from(c.codec));
        let about = OverlayFacts {
            size: self.screen.configuration.map(|c| c.size),
            codec: &codec.map_or_else(String::new, |codec| match codec {
                Ok(codec) => format!("{codec:?}"),
                Err(unknown) => unknown.to_string(),
            }),
            link: (self.prober.as_ref())
                .and_then(LinkProber::on)
                .map_or("…", Rung::name),
            round_trip: (self.shared.session().as_ref())
                .and_then(|session| session.clock().round_trip()),
        };
        if let Some(lines) = self.overlay.lines(now, &about) {
            self.screen.write(&lines);
        }
    }

    /// Decodes and presents what is there.
    fn show(&mut self) -> Option<Ended> {
        // Taken out while it lends slices, so that the rest of `self` stays usable.
        let mut playout = self.playout.take()?;
        let mut ended = None;
        loop {
            let outdated = playout.media.first().has_later();
            let Some(step) = playout.media.first().poll(clock::now()) else {
                break;
            };
            if let Some(fate) = Fate::of(&step) {
                self.finish(&mut playout, &fate);
                continue;
            }
            match &step {
                Step::Slice { first, .. } | Step::Missing { first, .. } => {
                    if *first {
                        self.screen.begin();
                    }
                    let mut shown = self.screen.show(&step, outdated);
                    if let Shown::NeedsSurface(size) = shown {
                        shown = match self.open_surface(size) {
                            Ok(()) => self.screen.show(&step, outdated),
                            Err(e) => Shown::Gone(e),
                        };
                    }
                    match shown {
                        Shown::Fine | Shown::NeedsSurface(_) => {
                            if self.screen.presentation.submitted.is_some() {
                                if let Some(size) = self.blank.take() {
                                    self.shared.notice(Notice::Showing(size));
                                }
                                if std::mem::take(&mut self.said_lost) {
                                    self.screen.write(&[]);
                                }
                            }
                        }
                        Shown::DecodeFailed(why) => {
                            if !std::mem::replace(&mut self.complained, true) {
                                self.shared.notice(Notice::Trouble(why));
                            }
                            playout.media.first().decoding_failed();
                        }
                        Shown::Gone(why) => {
                            ended = Some(Ended::StopReason(StopReason::Failed(why)));
                            break;
                        }
                    }
                }
                Step::End(_) | Step::Dropped { .. } => {}
            }
        }
        self.playout = Some(playout);
        ended
    }

    fn open_surface(&mut self, size: Size) -> Result<(), String> {
        let (presenter, window_input) =
            (self.setup.surface)(size, &self.title, self.role).map_err(|e| e.to_string())?;
        let shared = self.shared.clone();
        let opening = Opening {
            desk: Arc::clone(&shared.eyes),
            told: Box::new(move |said| {
                shared.notice(match said {
                    Said::Cost(re_aimed) => Notice::ReAimed(re_aimed),
                    Said::Trouble(why) => Notice::Trouble(why),
                });
            }),
            eyes: self.setup.eyes,
            has_head: self.has_head,
            scheduler: self.setup.scheduler.clone(),
        };
        self.screen.presenter = Some(Box::new(EyesPresenter::new(presenter, opening)));
        self.screen.pointer_for_new_surface();
        self.blank = Some(size);
        let other = self.setup.input.take();
        self.window_is_mute |= other.is_some();
        let send = self.setup.send_input;
        let sources = [
            (other, "ouvr-input", send),
            (window_input, "ouvr-window", send && !self.window_is_mute),
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

    /// A frame is over: reports what became of it.
    fn finish(&mut self, playout: &mut Playout, fate: &Fate) {
        let shared = self.shared.clone();
        let mut session = shared.session();
        let Some(session) = session.as_mut() else {
            return;
        };
        let now = clock::now();
        let report = playout.finish(now, ViewId::FIRST, fate, &self.screen.presentation, session);
        let end = match fate {
            Fate::Out(end) => Some(end),
            Fate::Dropped { .. } => None,
        };
        let journey = end
            .filter(|_| self.overlay.next().is_some())
            .and_then(|end| {
                let captured = PeerInstant(end.header.captured);
                let captured = session.clock().to_mine(captured, now)?;
                Some((end.first_received.since(captured.at), captured.bound))
            });
        self.overlay.frame(now, &report, journey);
        if let Some(microphone) = &self.microphone {
            microphone.note(now, &report);
        }
        shared.flush(session);
        shared.notice(Notice::Report(report));
    }
}
