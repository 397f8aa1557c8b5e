//! The media thread: connects, then receives, decodes and presents until the client ends.

mod display_times;
mod events;
mod first_picture;
mod session;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_media::codec::Codec;
use openuvr_net::RecvBatch;
use openuvr_proto::control::credentials::{HostCredentials, PairingOutcome};
use openuvr_proto::control::handshake::Established;
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;
use openuvr_proto::wire::control::GoodbyeReason;
use openuvr_proto::wire::video::Configuration;

use self::display_times::DisplayTimes;
use self::session::{ActiveSession, GrantedRole};
use super::connect::{ConnectError, ConnectOptions, connect, pause};
use super::overlay::Overlay;
use super::resolver::{AddressResolver, paths_after, paths_after_search};
use super::screen::Screen;
use super::stereo::{StereoEvent, StereoOptions, StereoPresenter};
use super::{ClientSetup, Notice, PanicReporter, Shared, StopReason, input};
use crate::sched;
use crate::scheduling_latency::WakeupSite;

/// Pause between two attempts to reconnect.
const RETRY: Duration = Duration::from_millis(500);

/// If the host is silent for this long, the client reconnects. A host sends at least four pings in this time.
const LINK_CUT: Duration = Duration::from_millis(2000);

/// If an iteration is delayed by this much, the thread counts as stalled, because the process or its virtual machine
/// was stopped. The host uses the same value.
const STALL: Duration = Duration::from_millis(500);

/// State that outlives a session. [`ActiveSession`] has the state of a single session.
pub(super) struct Media {
    shared: Arc<Shared>,
    setup: ClientSetup,
    /// How the host is authenticated.
    credentials: HostCredentials,
    connection: ConnectionState,
    /// Resolves a lost host's name again; `None` if the client does not reconnect.
    resolver: Option<AddressResolver>,
    screen: Screen,
    overlay: Overlay,
    display_times: DisplayTimes,
    batch: RecvBatch,
    inputs: Vec<JoinHandle<()>>,
    panel: PanelContent,
    decode_error_reported: bool,
    /// The last reported size of the shown pictures.
    shown_size: Option<Size>,
    /// Whether there is a head-pose source.
    has_head: bool,
    /// The wake-up site of this thread's timer.
    timer: WakeupSite,
    /// When this thread last stalled.
    stalled_at: Instant,
}

/// Progress of connecting. It determines the reaction to connect errors.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ConnectionState {
    /// There has been no session yet, so an error ends the client.
    Initial,
    /// There was a session, so transient errors are retried.
    Established,
    /// There was a session, and an error has been reported since then. Further errors are not reported.
    ErrorReported,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PanelContent {
    /// The overlay, or nothing.
    Overlay,
    /// The reason why the last session ended. The next picture removes it.
    LossReason,
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
            timer: setup.scheduler.site("client-media-timer"),
            screen: Screen::new(setup.decoder),
            setup,
            connection: ConnectionState::Initial,
            resolver,
            overlay: Overlay::default(),
            display_times: DisplayTimes::default(),
            batch: RecvBatch::default(),
            inputs: Vec::new(),
            panel: PanelContent::Overlay,
            decode_error_reported: false,
            shown_size: None,
            has_head,
            stalled_at: Instant(0),
        }
    }

    pub(super) fn run(mut self) {
        while !self.shared.stopping() {
            let established = match self.connect() {
                Ok(Some(established)) => established,
                Ok(None) => break,
                Err(e) if self.was_connected() && self.setup.reconnect && e.is_transient() => {
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
            let began = clock::now();
            let ended = ActiveSession::run(&mut self, &established);
            // The last send error, if any, explains why the host is silent.
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
                        // The session ended at once, so wait before the next attempt.
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
        // Drop the presenter before the input thread ends, because that thread owns the window.
        self.screen.presenter = None;
        for input in self.inputs.drain(..) {
            // A panic was already reported on standard error.
            let _ = input.join();
        }
    }

    /// Whether there was a session.
    fn was_connected(&self) -> bool {
        self.connection != ConnectionState::Initial
    }

    /// Waits before the next attempt to reconnect, and then uses newly found addresses.
    fn retry_discovery(&mut self) {
        if let Some(resolver) = &self.resolver {
            resolver.request();
        }
        pause(&self.shared, RETRY, &mut self.batch);
        if let Some(resolver) = &self.resolver
            && let Some(found) = resolver.take_found()
        {
            let setup = &mut self.setup;
            setup.paths = match resolver.discovers {
                true => paths_after_search(found, &setup.paths),
                false => paths_after(&setup.target, found, &setup.paths),
            };
        }
    }

    /// Reports why there is no session. Until the next session, only the first reason is reported.
    fn report_connect_error(&mut self, why: String) {
        let before = std::mem::replace(&mut self.connection, ConnectionState::ErrorReported);
        if before != ConnectionState::ErrorReported {
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
            lost: self.was_connected(),
        };
        let Some(established) = connect(&self.shared, &options, &mut self.batch)? else {
            return Ok(None);
        };
        self.connection = ConnectionState::Established;
        let peer = established.peer;
        let outcome = self.credentials.authenticated(&trust, peer);
        if outcome != PairingOutcome::Known
            && let Err(e) = self.setup.hosts.remember(&self.setup.host, peer)
        {
            // This client continues, but the next client will need a PIN again.
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

    /// Shows over the frozen picture why the session ended. The next picture removes the text.
    fn show_lost(&mut self, reason: Option<GoodbyeReason>) {
        let why = match reason {
            Some(GoodbyeReason::Quit) => "the host has stopped",
            Some(_) => "the host failed",
            None => "no data from the host",
        };
        self.screen.set_panel(&[format!("{why}; reconnecting")]);
        self.panel = PanelContent::LossReason;
    }

    /// Notes a stall if this thread is much later than `due`. During a stall, it is unknown whether the host was
    /// silent.
    fn note_stall(&mut self, due: Instant) {
        let now = clock::now();
        if now.since(due) >= STALL {
            self.stalled_at = now;
        }
    }

    /// Opens the surface for the client's first picture, and starts the input threads.
    fn open_surface(
        &mut self,
        configuration: Configuration,
        granted: &GrantedRole,
    ) -> Result<(), String> {
        let opened = (self.setup.surface)(configuration, &granted.title, granted.role);
        let (presenter, window_input) = opened.map_err(|e| e.to_string())?;
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
        let other = self.setup.input.take();
        let send = self.setup.send_input;
        // The window's input would duplicate the input of the other source.
        let send_window = send && other.is_none();
        let sources = [
            (other, "ouvr-input", send),
            (window_input, "ouvr-window", send_window),
        ];
        for (source, name, send) in sources {
            let Some(source) = source else { continue };
            let panic_reporter = PanicReporter(self.shared.clone(), "input");
            let spawned = self
                .setup
                .scheduler
                .spawn(sched::ThreadRole::Input, name, move || {
                    input::run(&panic_reporter.0, source, send);
                });
            self.inputs
                .push(spawned.map_err(|e| format!("can't start a thread: {e}"))?);
        }
        Ok(())
    }

    /// Passes on the reports of frames whose display time is now known.
    fn take_display_times(&mut self) {
        while let Some((frame, at)) = self.screen.presented() {
            (self.display_times).presented(frame, at, |report| {
                self.shared.notice(Notice::Report(report))
            });
        }
    }

    /// Called when a picture has been handed to the display. Reports a new size, and removes the reason for a lost
    /// session from the picture.
    fn picture_submitted(&mut self) {
        let shown = self.screen.configuration;
        if let Some(shown) = shown.filter(|shown| self.shown_size != Some(shown.size)) {
            self.shown_size = Some(shown.size);
            self.shared.notice(match Codec::try_from(shown.codec) {
                Ok(Codec::Null) => Notice::Warning(
                    "frames arrive, but the host's encoder makes no pictures (codec null)"
                        .to_owned(),
                ),
                _ => Notice::Showing(shown.size),
            });
        }
        let before = std::mem::replace(&mut self.panel, PanelContent::Overlay);
        if before == PanelContent::LossReason {
            self.screen.set_panel(&[]);
        }
    }

    /// Reports the client's first decode error.
    fn report_decode_error(&mut self, why: String) {
        if !std::mem::replace(&mut self.decode_error_reported, true) {
            self.shared.notice(Notice::Warning(why));
        }
    }
}
