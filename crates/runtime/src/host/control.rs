//! The control thread: handles all received datagrams, and forwards the player's input.

mod admit;
mod inputs;

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_media::capture::Waker;
use openuvr_media::capture::x11::Viewport;
use openuvr_media::input_sink::InputError;
use openuvr_media::input_sink::device::{Descriptor, Devices};
use openuvr_media::input_sink::pads::VirtualPads;
use openuvr_net::address::segmented;
use openuvr_net::{LinkError, RecvBatch};
use openuvr_proto::control::handshake::{DeviceStatus, HostHandshake, Paired};
use openuvr_proto::control::identity::{ClientId, PublicKey};
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::control::pairing::Pin;
use openuvr_proto::control::streams::HOST_AUDIO;
use openuvr_proto::control::transport_probe::TransportKind;
use openuvr_proto::host::figures::Figures;
use openuvr_proto::host::{Host, HostEvent, SubscribeRequest, SubscriberKind, WantedDisplay};
use openuvr_proto::id::{DeviceId, PathId, SessionId, SubscriberId};
use openuvr_proto::printable::printable;
use openuvr_proto::send::rendition::FrameOutcome;
use openuvr_proto::send::subscriber::Feedback;
use openuvr_proto::time::Instant;
use openuvr_proto::wire::Reject;
use openuvr_proto::wire::control::{GoodbyeReason, Report};
use openuvr_proto::wire::header::{Plane, plane_of};

use super::admit::{Admission, AdmissionCallback};
use super::audio::{self, AudioCommand};
use super::clipboard::Inbox;
use super::microphone::Microphone;
use super::pairing_words::{pairing_opened, pairing_text};
use super::trust::Trust;
use super::window_sizes::WindowSizes;
use super::{Attachment, ENDS, Encodings, Input, MediaCommand, Notice, Shared};
use crate::lock::lock;

/// How often the thread checks the device list for newly forbidden devices (one stat call), and checks whether
/// transports have changed.
const TRUST_INTERVAL: Duration = Duration::from_millis(250);

/// If an iteration takes this long, the thread counts as stalled, because the process or its virtual machine was
/// stopped. A normal iteration takes at most [`TRUST_INTERVAL`]. The clock stops while this machine sleeps.
const STALL: Duration = Duration::from_millis(500);

/// Number of batches that are sufficient to drain a full socket buffer. In Linux's accounting, the buffer has 8 MiB and
/// a small datagram takes 768 bytes. Without GRO, a batch has 16 datagrams.
const MAX_BACKLOG: usize = 700;

/// Commands from the application and from gateways.
pub(super) enum Command {
    OpenPairing(Pin, Duration),
    /// Requests admission of a gateway's device.
    Admit(Box<Admission>, AdmissionCallback),
    /// Maps a registered device to a descriptor; `None` maps it to the common input target.
    Map(DeviceId, Option<Descriptor>),
}

pub(super) struct Control {
    pub(super) shared: Arc<Shared>,
    pub(super) handshake: HostHandshake,
    /// Decides which devices are admitted.
    pub(super) trust: Trust,
    pub(super) input: Input,
    /// The player's registered devices.
    pub(super) input_devices: Devices,
    pub(super) viewport: Option<Viewport>,
    pub(super) media_commands: SyncSender<MediaCommand>,
    pub(super) media: Waker,
    /// Commands to the audio thread, if there is sound.
    pub(super) audio: Option<SyncSender<AudioCommand>>,
    /// Plays the player's microphone, if enabled.
    pub(super) microphone: Microphone,
    /// The inbox for text copied by the player, if enabled.
    pub(super) clipboard: Option<Inbox>,
    /// The player's game pads, if enabled.
    pub(super) pads: Option<VirtualPads>,
    pub(super) encodings: Arc<Encodings>,
    /// Frame outcomes of secondary renditions.
    pub(super) ends: Receiver<FrameOutcome>,
    pub(super) commands: Receiver<Command>,
    /// The path and transport of each session's video.
    pub(super) paths: HashMap<SessionId, (PathId, TransportKind)>,
    /// The player. Its reports control the media thread's rendition.
    pub(super) player: Option<SubscriberId>,
    pub(super) window_sizes: WindowSizes,
    /// Whether a loss of events of mapped devices has been reported.
    pub(super) loss_reported: bool,
    /// The last reported reason for withheld input.
    pub(super) withheld: Option<&'static str>,
}

impl Control {
    pub(super) fn run(mut self) {
        if let Err(e) = self.serve() {
            let why = format!("receiving failed: {e}");
            self.shared.finish(Notice::Failed(why));
        }
        self.say_goodbye();
    }

    fn serve(&mut self) -> Result<(), LinkError> {
        let shared = self.shared.clone();
        let mut batch = RecvBatch::default();
        let mut trust_at = clock::now();
        let mut last_turn = trust_at;
        while !shared.stopping() {
            // After a late wake-up or a stall, datagrams may wait in the socket buffer. Read all of them before
            // checking a peer's timeout.
            if batch.is_empty() || clock::now().since(last_turn) >= STALL {
                for _ in 0..MAX_BACKLOG {
                    self.receive(&mut batch, Duration::ZERO)?;
                    if batch.is_empty() {
                        break;
                    }
                }
            }
            let now = clock::now();
            last_turn = now;
            shared.heartbeat.control_answers();
            while let Ok(command) = self.commands.try_recv() {
                self.command(now, command);
            }
            let caught_up = self.input_devices.catch_up();
            self.report_error(caught_up);
            if now >= trust_at {
                self.end_forbidden_sessions();
                self.open_requested_window(now);
                self.check_transports();
                trust_at = now + TRUST_INTERVAL;
            }
            self.handshake.handle_timeout(now);
            self.post_pairing_events();
            let timeout = self.turn(|sessions| sessions.handle_timeout(now), trust_at);
            self.receive(&mut batch, timeout)?;
        }
        Ok(())
    }

    fn receive(&mut self, batch: &mut RecvBatch, timeout: Duration) -> Result<(), LinkError> {
        let until = clock::now() + timeout;
        self.shared.link.recv(batch, Some(timeout))?;
        self.shared.to_control.received();
        if batch.is_empty() && !timeout.is_zero() {
            self.shared.control_timer.woke(until);
        }
        let now = clock::now();
        for (from, datagram) in batch.iter() {
            self.datagram(now, from, datagram);
        }
        Ok(())
    }

    fn command(&mut self, now: Instant, command: Command) {
        match command {
            Command::OpenPairing(pin, span) => self.handshake.open_pairing(now, pin, span),
            Command::Admit(admission, answer) => answer(self.admit(now, *admission)),
            Command::Map(device, descriptor) => {
                let mapped = self.input_devices.map(device, descriptor);
                self.report_error(mapped);
            }
        }
    }

    fn report_error(&self, outcome: Result<(), InputError>) {
        if let Err(e) = outcome {
            self.shared.notice(Notice::Warning(e.to_string()));
        }
    }

    /// Updates the sessions, sends their datagrams and handles their events. Returns the time until the next timeout.
    fn turn(&mut self, with: impl FnOnce(&mut Host), at_the_latest: Instant) -> Duration {
        let shared = self.shared.clone();
        let mut sessions = shared.sessions();
        for end in self.ends.try_iter().take(ENDS) {
            sessions.record(clock::now(), &end);
        }
        with(&mut sessions);
        shared.flush(&mut sessions);
        loop {
            let Some(event) = sessions.poll_event() else {
                break;
            };
            drop(sessions);
            self.event(event);
            sessions = shared.sessions();
        }
        // Send the datagrams that event handling produced.
        shared.flush(&mut sessions);
        let next = sessions
            .next_timeout()
            .map_or(at_the_latest, |(at, _)| at.min(at_the_latest));
        let next = self
            .handshake
            .next_timeout()
            .map_or(next, |at| at.min(next));
        shared.control_sleeps_until.store(next.0, Ordering::Relaxed);
        next.since(clock::now())
    }

    fn datagram(&mut self, now: Instant, from: PathId, datagram: &[u8]) {
        match plane_of(datagram) {
            Ok(Plane::Handshake) => self.handshake_datagram(now, from, datagram),
            Ok(Plane::Control) => {
                let shared = self.shared.clone();
                let mut sessions = shared.sessions();
                let accepted = sessions.handle_datagram(now, from, datagram);
                let unknown = accepted == Err(Reject::Session);
                let answer = unknown.then(|| sessions.answer_unknown_session(now, from, datagram));
                drop(sessions);
                if let Some(answer) = answer.flatten() {
                    // Ignore errors, because the peer retransmits.
                    let _ = shared.link.send(from, &answer, answer.len());
                }
                // A rejected datagram changes nothing, so skip the update. A flood of such datagrams is then cheap.
                if accepted.is_ok() {
                    self.turn(|_| (), now);
                }
            }
            Ok(Plane::Media) => self.microphone.datagram(now, datagram, self.player),
            Err(_) => {}
        }
    }

    fn handshake_datagram(&mut self, now: Instant, from: PathId, datagram: &[u8]) {
        // The handshake reads the device list only for a client whose address has been validated, so datagrams of
        // unauthenticated senders cost no disk access. The list must be up to date, so that a newly forbidden device is
        // refused.
        self.update_time_of_day();
        let trust = RefCell::new(&mut self.trust);
        let reaction = self
            .handshake
            .handle_datagram(now, from, datagram, &|id| trust.borrow_mut().statuses()(id));
        if let Some(reply) = reaction.reply {
            // Ignore errors, because the peer repeats its request if the reply is lost.
            let _ = self.shared.link.send(from, &reply, reply.len());
        }
        self.post_pairing_events();
        let Some((path, established, paired)) = reaction.established else {
            return;
        };
        match paired {
            Paired::New { name } => {
                self.shared.notice(Notice::Paired {
                    name: name.as_str().to_owned(),
                    fingerprint: established.peer.fingerprint(),
                });
                self.trust.paired(established.peer, name);
            }
            // A ticket does not add its holder to the device list, so nothing is stored.
            Paired::Ticket { .. } => {}
            Paired::Known => {
                if self.handshake.admitted(&established.peer).is_none() {
                    self.trust.session_started(established.peer);
                }
            }
        }
        let max_role = self.max_role(&established.peer);
        let begin = |sessions: &mut Host| {
            sessions.established(now, path, &established);
            if max_role == Role::Observer {
                sessions.observe_only(established.session);
            }
        };
        self.turn(begin, now);
    }

    fn post_pairing_events(&mut self) {
        while let Some(event) = self.handshake.poll_event() {
            self.shared.notice(Notice::Pairing(pairing_text(event)));
        }
    }

    /// Opens a pairing window requested by `openuvr devices pair`.
    fn open_requested_window(&mut self, now: Instant) {
        let Some(window) = self.trust.requested_window() else {
            return;
        };
        let words = pairing_opened(window.span);
        (self.handshake).open_pairing(now, window.pin, window.span);
        self.shared.notice(Notice::Pairing(words));
    }

    /// Ends the sessions of devices that are no longer allowed.
    fn end_forbidden_sessions(&mut self) {
        let status = self.trust.statuses();
        let mut sessions = self.shared.sessions();
        sessions.end(GoodbyeReason::Forbidden, |key| {
            let key = PublicKey(*key);
            match status(&ClientId::of(&key)) {
                DeviceStatus::Allowed(known) => known != key,
                DeviceStatus::Forbidden(_) => true,
                DeviceStatus::Unknown => self.handshake.admitted(&key).is_none(),
            }
        });
    }

    fn event(&mut self, event: HostEvent) {
        match event {
            HostEvent::Subscribed {
                session,
                path,
                segmented: may,
                peer,
                role,
                offer,
                streams,
                media,
                uplink,
            } => {
                let path = segmented(path, may);
                if audio::is_granted(&streams) {
                    let sender = media.timed(HOST_AUDIO.stream);
                    self.command_audio(AudioCommand::Add {
                        session,
                        path,
                        sender,
                    });
                }
                self.microphone.add(session, uplink);
                if role == Role::Player {
                    self.set_player(session.into());
                }
                let assigned = self.encodings.assign(offer.codecs);
                self.command_media(MediaCommand::Add {
                    id: session.into(),
                    role,
                    assigned,
                    attachment: Attachment::Session {
                        path,
                        constraints: offer.constraints,
                        media,
                    },
                });
                self.figures()
                    .joined(session.into(), SubscriberKind::Client, role);
                self.shared.notice(Notice::Subscribed {
                    subscriber: session.into(),
                    role,
                    name: self.trust.display_name(peer, &offer.name),
                    software: offer.software,
                    constraints: offer.constraints,
                    rendition: assigned.rendition,
                });
                self.set_path(session, path);
            }
            HostEvent::OtherSubscribed {
                subscriber,
                role,
                request,
            } => self.on_other_subscribed(subscriber, role, *request),
            HostEvent::RoleChanged(subscriber, role) => {
                match role {
                    Role::Player => self.set_player(subscriber),
                    Role::Observer => self.clear_player(subscriber),
                }
                self.command_media(MediaCommand::Role(subscriber, role));
                self.figures().role_changed(subscriber, role);
                self.shared.notice(Notice::RoleChanged(subscriber, role));
                self.post_window_size();
            }
            HostEvent::PathChanged {
                session,
                path,
                segmented: may,
            } => {
                if self.paths.contains_key(&session) {
                    let path = segmented(path, may);
                    self.command_media(MediaCommand::Path(session.into(), path));
                    self.command_audio(AudioCommand::Path(session, path));
                    self.set_path(session, path);
                }
            }
            HostEvent::Ended(subscriber, ending) => {
                if let Some(session) = subscriber.session() {
                    self.paths.remove(&session);
                    self.command_audio(AudioCommand::Remove(session));
                    self.microphone.remove(session);
                }
                self.shared.detached.remove(subscriber);
                self.clear_player(subscriber);
                self.command_media(MediaCommand::Remove(subscriber));
                self.figures().left(subscriber);
                self.shared.notice(Notice::Ended(subscriber, ending));
                self.window_sizes.remove(subscriber);
                self.post_window_size();
            }
            HostEvent::Clipboard(_, text) => {
                if let Some(clipboard) = &self.clipboard {
                    clipboard.put(text);
                }
            }
            HostEvent::WindowSize(session, size) => {
                let window = WantedDisplay { size, rate: None };
                self.window_sizes.set(session.into(), window);
                self.post_window_size();
            }
            HostEvent::Input {
                from,
                arrived,
                received,
            } => self.inject(from, &arrived, received),
            HostEvent::ReleaseInput => self.release_all(),
            HostEvent::KeyRepeat(may) => self.allow_key_repeat(may),
            HostEvent::KeyFrameRequested {
                session,
                last_good,
                newest,
                ..
            } => {
                let request = Feedback::KeyFrame { last_good, newest };
                self.command_media(MediaCommand::Feedback(session.into(), request));
            }
            HostEvent::Record(record) => {
                // The media thread does not use reports of the rendition's other subscribers, so do not wake it for
                // them.
                if self.encodings.encoder_per_client() || self.player == Some(record.subscriber) {
                    let report = Feedback::Frame(Report::from(&*record));
                    self.command_media(MediaCommand::Feedback(record.subscriber, report));
                }
                self.figures().note(clock::now(), &record);
                self.shared.notice(Notice::Record(record));
            }
            HostEvent::AudioReport(session, report) => {
                self.shared.notice(Notice::Audio(session, report));
            }
            HostEvent::RetransmissionRequested(session, request) => {
                self.command_media(MediaCommand::Resend(session.into(), request));
            }
        }
    }

    fn figures(&self) -> MutexGuard<'_, Figures> {
        lock(&self.shared.figures)
    }

    /// Posts a notice of the player's window size, if it changed.
    fn post_window_size(&mut self) {
        if let Some(size) = self.window_sizes.changed(self.player) {
            self.shared.notice(Notice::PlayerWindow(size));
        }
    }

    /// Registers a subscriber that has its own thread.
    fn on_other_subscribed(&mut self, id: SubscriberId, role: Role, request: SubscribeRequest) {
        // The handle is gone if the subscriber's thread has already ended.
        let Some(detached) = self.shared.detached.take(id) else {
            return;
        };
        if role == Role::Player {
            self.set_player(id);
        }
        let attachment = Attachment::Other {
            constraints: request.constraints,
            detached,
        };
        let assigned = self.encodings.assign(request.codecs);
        self.command_media(MediaCommand::Add {
            id,
            role,
            assigned,
            attachment,
        });
        self.figures().joined(id, request.kind, role);
        self.shared.notice(Notice::Subscribed {
            subscriber: id,
            role,
            name: printable(&request.name),
            software: printable(&request.software),
            constraints: request.constraints,
            rendition: assigned.rendition,
        });
        if let Some(size) = request.display {
            let rate = request.constraints.chosen_fps;
            let window = WantedDisplay { size, rate };
            self.window_sizes.set(id, window);
            self.post_window_size();
        }
    }

    /// Stores the path of a session's video, and posts a notice if its transport changed.
    fn set_path(&mut self, session: SessionId, path: PathId) {
        let transport = self.shared.link.transport(path);
        let before = self.paths.insert(session, (path, transport));
        if before.is_none_or(|(_, before)| before != transport) {
            self.shared.notice(Notice::Link(session, transport));
        }
    }

    /// Posts notices of transports that changed during sending (GSO became unavailable).
    fn check_transports(&mut self) {
        for (session, (path, transport)) in &mut self.paths {
            let now = self.shared.link.transport(*path);
            if std::mem::replace(transport, now) != now {
                self.shared.notice(Notice::Link(*session, now));
            }
        }
    }

    /// Sends a command to the media thread. If the queue is full, requests and reports are dropped: the client repeats
    /// a request, and the next report follows soon. Other commands, such as joining and leaving, wait until the queue
    /// has room.
    fn command_media(&mut self, command: MediaCommand) {
        match command {
            // A report of a complete frame does not require a wake-up.
            MediaCommand::Feedback(_, Feedback::Frame(arrival))
                if arrival.outcome.is_complete() =>
            {
                let _ = self.media_commands.try_send(command);
                return;
            }
            MediaCommand::Feedback(..) | MediaCommand::Resend(..) => {
                let _ = self.media_commands.try_send(command);
            }
            command => {
                if let Err(TrySendError::Full(command)) = self.media_commands.try_send(command) {
                    // The media thread may be asleep although its queue is full, because reports of complete frames do
                    // not wake it.
                    self.shared.wake_media(&self.media);
                    // This fails only if the media thread has ended, in which case the host stops.
                    let _ = self.media_commands.send(command);
                }
            }
        }
        self.shared.wake_media(&self.media);
    }

    /// Sends a command to the audio thread, if there is one. The audio thread takes commands once per payload. Blocks
    /// while its queue is full.
    fn command_audio(&self, command: AudioCommand) {
        if let Some(audio) = &self.audio {
            // This fails only if the audio thread has ended, which has already been reported.
            let _ = audio.send(command);
        }
    }

    fn say_goodbye(&mut self) {
        let shared = self.shared.clone();
        let now = clock::now();
        let why = *shared
            .goodbye_reason
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.turn(|sessions| sessions.close(why), now);
        self.release_all();
    }
}
