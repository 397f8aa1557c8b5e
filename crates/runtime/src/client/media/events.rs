//! Session events, and the media thread's reactions.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use openuvr_clock as clock;
use openuvr_media::clipboard::OpenClipboard;
use openuvr_net::Link as _;
use openuvr_proto::client::{ClientEvent, ClientSession};
use openuvr_proto::control::clipboard::ClipboardDirections;
use openuvr_proto::control::negotiate::{ObserverReason, Role};
use openuvr_proto::control::streams::Grant;
use openuvr_proto::input::keys::Keys;
use openuvr_proto::time::Instant;
use openuvr_proto::wire::control::GoodbyeReason;

use super::super::transport_probing::TransportEvent;
use super::super::{Notice, PanicReporter, Shared, StopReason, clipboard, pads, title};
use super::first_picture::NO_PICTURE;
use super::session::{ActiveSession, GrantedRole};
use super::{LINK_CUT, Media, SessionEnd};
use crate::sched::{Scheduler, ThreadRole};

impl ActiveSession {
    /// Runs the session's timeouts and handles its events.
    pub(super) fn poll(&mut self, media: &mut Media) -> Option<SessionEnd> {
        let shared = media.shared.clone();
        let mut session = shared.session();
        let session = session.as_mut()?;
        let now = clock::now();
        session.handle_timeout(now);
        self.playout.consult(now, session);
        let mut ended = None;
        while let Some(event) = session.poll_event() {
            ended = self.event(media, now, event, session).or(ended);
        }
        if let Some(event) = self.prober.check_alive(now, session) {
            ended = media.link_event(event).or(ended);
        }
        // Check only the pictures, because sound may arrive without pictures.
        let received = self.playout.media.first().has_begun();
        if self.first_picture.is_overdue(now, received) {
            shared.notice(Notice::Warning(NO_PICTURE.to_owned()));
        }
        // Count the silence from the end of this thread's last stall.
        let silence = session.silence(now).min(now.since(media.stalled_at));
        if ended.is_none() && silence >= LINK_CUT {
            ended = Some(SessionEnd::Lost(None));
        }
        shared.flush(session);
        ended
    }

    fn event(
        &mut self,
        media: &mut Media,
        now: Instant,
        event: ClientEvent,
        session: &mut ClientSession,
    ) -> Option<SessionEnd> {
        match event {
            ClientEvent::Granted {
                role,
                host,
                keys,
                observer_reason,
            } => self.role_granted(media, now, role, host, keys, observer_reason),
            ClientEvent::Refused(why) => {
                return Some(SessionEnd::StopReason(StopReason::Refused(why)));
            }
            ClientEvent::Announced(view, newest) => {
                self.first_picture.announced = true;
                if let Some(view) = self.playout.media.view(view) {
                    view.announce(now, newest);
                }
            }
            ClientEvent::Streams(grants) => self.streams_granted(media, &grants),
            ClientEvent::ClipboardDirections(directions) => {
                media.clipboard_directions(directions, session);
            }
            ClientEvent::PadsTaken(_) => media.pads_taken(session),
            ClientEvent::EcnFeedback => {
                // Without counts from the client, the host does not send ECT(1).
                if media.shared.link.read_ecn() {
                    self.playout.media.report_ecn();
                }
            }
            ClientEvent::Rumble(pad, rumble, lasts) => {
                media.shared.pads.rumble(pad, rumble, lasts);
            }
            ClientEvent::Haptic(haptic) => media.shared.notice(Notice::Haptic(haptic)),
            ClientEvent::Clipboard(text) => media.shared.clipboard.receive(text),
            ClientEvent::SourceShown(shown) => media.shared.notice(Notice::SourceShown(shown)),
            ClientEvent::ControlEvent(event) => media.overlay.set_control_event(&event.to_string()),
            ClientEvent::CursorMoved(at) => media.screen.cursor_moved(at),
            ClientEvent::CursorShape { size, hot, argb } => {
                media.screen.cursor_shape(size, hot, argb);
            }
            ClientEvent::RelativeMouse(relative) => media.screen.relative_mouse(relative),
            ClientEvent::Probed(found) => {
                let mut ended = None;
                for event in self.prober.on_result(&found, now, session) {
                    ended = media.link_event(event).or(ended);
                }
                return ended;
            }
            ClientEvent::Ended(reason) => return Some(session_end(reason)),
        }
        None
    }

    fn role_granted(
        &mut self,
        media: &mut Media,
        now: Instant,
        role: Role,
        host: String,
        keys: Keys,
        observer_reason: Option<ObserverReason>,
    ) {
        media.shared.keys.store(keys as u8, Ordering::Relaxed);
        // When the client reconnects, it does not take over again, because that would demote a newer player. A demoted
        // client reconnects as an observer, unless it has become the player again.
        let offer = &mut media.setup.offer;
        offer.take_over = false;
        if observer_reason == Some(ObserverReason::TakenOver) {
            offer.role = Role::Observer;
        } else if role == Role::Player {
            offer.role = Role::Player;
        }
        let title = title(&host, observer_reason);
        self.first_picture.since.get_or_insert(now);
        media.screen.role_changed(role, &title);
        self.granted = Some(GrantedRole { role, title });
        media.shared.clipboard.close();
        media.shared.notice(Notice::Granted {
            role,
            host,
            observer_reason,
        });
    }

    fn streams_granted(&mut self, media: &mut Media, grants: &[Grant]) {
        self.playout.media.granted(grants);
        if let Err(e) = self.start_audio(media) {
            let why = format!("no sound: can't start a thread: {e}");
            media.shared.notice(Notice::Warning(why));
        }
        if let Err(e) = self.start_microphone(media, grants) {
            let why = format!("no microphone: can't start a thread: {e}");
            media.shared.notice(Notice::Warning(why));
        }
    }
}

impl Media {
    /// Handles the clipboard directions that the host allows.
    fn clipboard_directions(
        &mut self,
        directions: ClipboardDirections,
        session: &mut ClientSession,
    ) {
        let Some(open) = &self.setup.clipboard else {
            return;
        };
        let shared = &self.shared;
        if shared.clipboard.open(directions) {
            match start_clipboard(shared, &self.setup.scheduler, open) {
                Ok(thread) => self.inputs.push(thread),
                Err(e) => shared.notice(Notice::Warning(format!(
                    "clipboard not shared: can't start a thread: {e}"
                ))),
            }
        }
        if let Some(notice) = shared.clipboard.send_copied(session) {
            shared.notice(notice);
        }
    }

    /// Announces the game pads to a host that accepts them.
    fn pads_taken(&mut self, session: &mut ClientSession) {
        let shared = &self.shared;
        let rumbler = shared.pads.announce(session, self.setup.pads.is_some());
        let (Some(rumbler), Some(database)) = (rumbler, self.setup.pads.clone()) else {
            return;
        };
        let panic_reporter = PanicReporter(shared.clone(), "pads");
        let scheduler = &self.setup.scheduler;
        let thread = scheduler.spawn(ThreadRole::Input, "ouvr-pads", move || {
            pads::run(&panic_reporter.0, database, rumbler);
        });
        match thread {
            Ok(thread) => self.inputs.push(thread),
            Err(e) => shared.notice(Notice::Warning(format!(
                "game pads are not read: can't start a thread: {e}"
            ))),
        }
    }

    fn link_event(&self, event: TransportEvent) -> Option<SessionEnd> {
        self.shared
            .transport_event(event)
            .map(SessionEnd::StopReason)
    }
}

/// Starts the thread that shares the clipboard.
fn start_clipboard(
    shared: &Arc<Shared>,
    scheduler: &Scheduler,
    open: &OpenClipboard,
) -> std::io::Result<JoinHandle<()>> {
    let panic_reporter = PanicReporter(shared.clone(), "clipboard");
    let open = Arc::clone(open);
    scheduler.spawn(ThreadRole::Background, "ouvr-clipboard", move || {
        clipboard::run(&panic_reporter.0, &open);
    })
}

/// Maps the host's goodbye to the session's end.
fn session_end(reason: Option<GoodbyeReason>) -> SessionEnd {
    match reason {
        // The host may be restarted.
        None | Some(GoodbyeReason::Quit | GoodbyeReason::Failed) => SessionEnd::Lost(reason),
        Some(reason) => SessionEnd::StopReason(StopReason::Host(reason)),
    }
}
