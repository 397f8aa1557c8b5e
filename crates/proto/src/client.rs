//! The client's side of a session: a sans-I/O state machine over the control plane.
//!
//! The media thread passes media datagrams to [`MediaReceiver`](crate::recv::plane::MediaReceiver). All threads of a
//! client call this session under one lock. Methods may be called in any order; outputs are queued until they are
//! polled.

pub mod playout;
mod view;

use std::collections::VecDeque;
use std::time::Duration;

use crate::bytes::Reject;
use crate::control::clipboard::{ClipboardDirections, ClipboardText, ReceivedText, SentText};
use crate::control::clock::ClockMap;
use crate::control::handshake::Established;
use crate::control::negotiate::{Negotiation, ObserverReason, Offer, Refusal, Role};
use crate::control::no_session;
pub use crate::control::plane::Wakeup;
use crate::control::plane::{ControlPlane, PlaneEvent, SILENCE, earlier};
use crate::control::streams::Grant;
use crate::control::transport_probe::{Probe, ProbeResult, ProbeTarget};
use crate::control_event::ControlEvent;
use crate::controller::{self, Controllers, Haptic};
use crate::display::{Display, RefreshTiming};
use crate::id::{ConfigEpoch, FrameId, InputSeq, PathId, PoseId, SessionId, ViewId};
use crate::input::event::InputEvent;
use crate::input::keys::Keys;
use crate::input::outbox::Outbox;
use crate::input::pad::{MAX_PADS, PadId, Rumble};
use crate::pose::{self, Pose};
use crate::recv::plane::MAX_VIEWS;
use crate::recv::reassemble::PictureState;
use crate::seq;
use crate::time::{Instant, PeerInstant};
use crate::units::Size;
use crate::wire::control::{AudioReport, GoodbyeReason, Message, Report, RetransmissionRequest};
use crate::wire::media::StreamKind;
use crate::wire::seal::Direction;

use self::view::View;

/// Minimum retransmission timeout of unacknowledged input (guess). Within the limits, the timeout is one round trip.
const INPUT_RESEND_MIN: Duration = Duration::from_millis(5);

/// Maximum retransmission timeout of input (guess). It limits the effect of a round trip that was measured while a
/// machine was suspended.
const INPUT_RESEND_MAX: Duration = Duration::from_millis(250);

/// Maximum interval between datagrams while keys are pressed: a quarter of the host's timeout. If a client is silent
/// for longer than the host's timeout, the host stops key repeat, so that a key whose release was lost does not repeat.
const PRESSED_KEYS_INTERVAL: Duration = Duration::from_millis(25);

/// Silence of the host after which the client assumes that the host may have released the game pads: the host's limit
/// (`host::RELEASE_AFTER`, 1.5 s) less a margin for delay variation (guess).
const PADS_RELEASED_AFTER: Duration = Duration::from_millis(1250);

/// Interval of display messages. They are repeated, because a message may be lost, and because the display's phase
/// drifts against the host's clock.
const DISPLAY_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of sent poses whose sampling time is kept: half a second at the maximum rate.
const MAX_KEPT_POSES: usize = 1024;

/// Maximum number of pending path challenges. A host validates at most two paths at a time.
const MAX_CHALLENGES: usize = 4;

/// Minimum time from the first no-session reply to the end of the session. If four round trips are longer, the client
/// waits for four round trips. Within this time, a host that knows the session answers a ping, even if its machine is
/// busy (guess).
const NO_SESSION_TIMEOUT: Duration = Duration::from_millis(250);

/// Maximum age of the datagram to which a no-session reply refers.
const NO_SESSION_MAX_AGE: Duration = Duration::from_secs(2);

/// An event for the program that runs the session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClientEvent {
    /// The host granted a role, at the start or after a change.
    Granted {
        /// The role.
        role: Role,
        /// The host's name.
        host: String,
        /// How the host's application reads keys. The client uses this mode unless its user has chosen one.
        keys: Keys,
        /// Why the client observes instead of playing.
        observer_reason: Option<ObserverReason>,
    },
    /// The streams that the host granted in addition to the first view of the video. Pass them to the media receiver.
    Streams(Vec<Grant>),
    /// The host refused the offer; the session is over.
    Refused(Refusal),
    /// The newest frame that the host has sent for a view. Pass it to the view's receiver.
    Announced(ViewId, FrameId),
    /// The cursor's new position; `None` while it is outside the picture.
    CursorMoved(Option<(u16, u16)>),
    /// The cursor's new shape.
    CursorShape {
        /// Width and height in pixels.
        size: Size,
        /// Hot spot: its distances from the left and top edges.
        hot: (u16, u16),
        /// Premultiplied ARGB.
        argb: Vec<u32>,
    },
    /// Whether the host's application wants relative mouse motion; otherwise, it wants absolute positions.
    RelativeMouse(bool),
    /// Whether the streamed source is visible. No pictures are sent while it is hidden.
    SourceShown(bool),
    /// The enabled clipboard directions. They apply until the next [`ClientEvent::Granted`].
    ClipboardDirections(ClipboardDirections),
    /// Text copied at the host.
    Clipboard(ClipboardText),
    /// The number of game pads that the host accepts until the next [`ClientEvent::Granted`]. The host does not know
    /// the client's pads yet, so announce the connected ones.
    PadsTaken(u8),
    /// The host requests counts of the ECN fields of received video datagrams. Enable the reading of the fields at the
    /// link. If the link supports it, call
    /// [`MediaReceiver::report_ecn`](crate::recv::plane::MediaReceiver::report_ecn).
    EcnFeedback,
    /// Run a pad's motors for this duration. A later event for the pad replaces this one.
    Rumble(PadId, Rumble, Duration),
    /// Start a vibration of a controller. It replaces the previous vibration of the same hand.
    Haptic(Haptic),
    /// An event of the host's rate control.
    ControlEvent(ControlEvent),
    /// The result of [`ClientSession::probe`].
    Probed(ProbeResult),
    /// The session is over. Contains the host's reason. `None` if the host was silent or no longer knows the session,
    /// or if this client was suspended for so long that the host has ended the session.
    Ended(Option<GoodbyeReason>),
}

/// The control plane of a session with a host.
pub struct ClientSession {
    plane: ControlPlane,
    outbox: Outbox,
    epoch: ConfigEpoch,
    input_again: Option<Instant>,
    poses: pose::LatestSender<Pose>,
    /// The newest sent poses and their sampling times.
    sent_poses: VecDeque<(PoseId, Instant)>,
    controllers: pose::LatestSender<Controllers>,
    display: Option<Display>,
    display_number: u32,
    /// When the last display message was sent.
    display_sent_at: Option<Instant>,
    /// The feedback state of each view. The first view always exists.
    views: Vec<View>,
    cursor_serial: Option<u32>,
    /// The latest window size that has not been sent. It is sent when all previous messages have been acknowledged, so
    /// that resizing does not fill a queue.
    window_size_due: Option<Size>,
    clipboard_directions: ClipboardDirections,
    sent_text: SentText,
    received_text: ReceivedText,
    /// The number of pads that the host accepts.
    pads_taken: u8,
    /// Serial number of the newest rumble message for each pad.
    rumbles: [Option<u32>; MAX_PADS as usize],
    /// Serial number of the newest haptic message for each hand.
    haptics: [Option<u32>; 2],
    /// The number of the newest pose schedule message, and its times (host clock) at which to sample poses.
    pose_schedule: Option<(u32, RefreshTiming<PeerInstant>)>,
    probe: Option<Probe>,
    probe_token: u32,
    /// Pending path challenges: path and token.
    challenges: VecDeque<(PathId, u64)>,
    session: SessionId,
    /// When the first reply arrived that rejected this session as unknown.
    no_session_since: Option<Instant>,
    events: VecDeque<ClientEvent>,
    over: bool,
}

impl ClientSession {
    /// Starts a session and queues this offer.
    #[must_use]
    pub fn new(now: Instant, established: &Established, offer: Offer) -> ClientSession {
        let mut plane = ControlPlane::new(now, established, Direction::ClientToHost);
        // Queueing cannot fail: the stream is empty, and an offer has less than 1 kB.
        let _ = plane.negotiate(&Negotiation::Offer(offer));
        ClientSession {
            plane,
            outbox: Outbox::default(),
            epoch: ConfigEpoch(0),
            input_again: None,
            poses: pose::LatestSender::default(),
            sent_poses: VecDeque::new(),
            controllers: pose::LatestSender::default(),
            display: None,
            display_number: 0,
            display_sent_at: None,
            views: vec![View::new(ViewId::FIRST)],
            cursor_serial: None,
            window_size_due: None,
            clipboard_directions: ClipboardDirections::default(),
            sent_text: SentText::default(),
            received_text: ReceivedText::default(),
            pads_taken: 0,
            rumbles: Default::default(),
            haptics: [None; 2],
            pose_schedule: None,
            probe: None,
            probe_token: 0,
            challenges: VecDeque::new(),
            session: established.session,
            no_session_since: None,
            events: VecDeque::new(),
            over: false,
        }
    }

    /// Handles a datagram of the control plane that arrived on the path `from`.
    ///
    /// # Errors
    /// [`Reject`] if the datagram is not authentic, is a duplicate, or is invalid.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        from: PathId,
        datagram: &[u8],
    ) -> Result<(), Reject> {
        self.detect_own_silence(now);
        let was_interrupted = self.is_interrupted(now);
        let heard = self.plane.handle(now, datagram)?;
        self.no_session_since = None;
        for heard in heard {
            match heard {
                PlaneEvent::Negotiation(negotiation) => self.negotiated(negotiation),
                PlaneEvent::Message(Message::PathChallenge { token }) => {
                    self.challenges.truncate(MAX_CHALLENGES - 1);
                    self.challenges.push_front((from, token));
                }
                PlaneEvent::Message(message) => self.handle_message(message),
            }
        }
        if was_interrupted && !self.is_interrupted(now) && !self.over {
            self.restore_pads(now);
        }
        Ok(())
    }

    /// Whether the host may have heard nothing for so long that it has released the game pads.
    fn is_interrupted(&self, now: Instant) -> bool {
        self.plane.silence(now).max(self.plane.unanswered(now)) >= PADS_RELEASED_AFTER
    }

    /// Sends the states of the game pads again, unless they are neutral. Otherwise, a held stick would have no effect
    /// until it is moved.
    fn restore_pads(&mut self, now: Instant) {
        let held: Vec<_> = self.outbox.held_pads().collect();
        for event in held {
            self.input(now, event, now);
        }
    }

    /// Handles an unsealed datagram: the host's reply to a datagram of an unknown session. Anyone can forge this reply.
    /// Therefore, the client pings the host, and ends the session only if no answer arrives within a fraction of a
    /// second.
    pub fn handle_unsealed(&mut self, now: Instant, datagram: &[u8]) {
        let Some((session, left)) = no_session::parse(datagram) else {
            return;
        };
        let left = Instant(left);
        let fresh = left <= now && now.since(left) <= NO_SESSION_MAX_AGE;
        if session == self.session.0 && fresh && self.no_session_since.is_none() {
            self.no_session_since = Some(now);
            self.plane.ping_burst(now);
        }
    }

    /// When the session ends if the host does not contradict its no-session reply.
    fn no_session_deadline(&self) -> Option<Instant> {
        Some(self.no_session_since? + NO_SESSION_TIMEOUT.max(self.plane.round_trip() * 4))
    }

    /// Ends the session if this client itself has been silent for long, for example because its process was suspended.
    /// The host has then already ended the session.
    fn detect_own_silence(&mut self, now: Instant) {
        if self.plane.own_silence(now) >= SILENCE {
            self.end(None);
        }
    }

    fn negotiated(&mut self, negotiation: Negotiation) {
        let event = match negotiation {
            Negotiation::Granted {
                role,
                host,
                keys,
                observer_reason,
            } => {
                // After each grant, the host sends the enabled clipboard directions again, if any.
                self.clipboard_directions = ClipboardDirections::default();
                self.sent_text.forget();
                self.received_text.forget();
                // The host also sends the number of accepted pads again, unless it accepts none.
                self.pads_taken = 0;
                ClientEvent::Granted {
                    role,
                    host,
                    keys,
                    observer_reason,
                }
            }
            Negotiation::Refused(why) => {
                self.over = true;
                ClientEvent::Refused(why)
            }
            Negotiation::CursorShape { size, hot, argb } => {
                ClientEvent::CursorShape { size, hot, argb }
            }
            Negotiation::RelativeMouse(wanted) => ClientEvent::RelativeMouse(wanted),
            Negotiation::SourceShown(shown) => ClientEvent::SourceShown(shown),
            Negotiation::Streams(grants) => {
                self.add_views(&grants);
                ClientEvent::Streams(grants)
            }
            Negotiation::ClipboardDirections(directions) => {
                self.clipboard_directions = directions;
                ClientEvent::ClipboardDirections(directions)
            }
            Negotiation::PadsTaken(most) => {
                self.pads_taken = most;
                ClientEvent::PadsTaken(most)
            }
            Negotiation::EcnFeedback => ClientEvent::EcnFeedback,
            Negotiation::ClipboardPiece(piece) => {
                let wanted = self.clipboard_directions.to_client;
                match wanted.then(|| self.received_text.take(&piece)).flatten() {
                    Some(text) => ClientEvent::Clipboard(text),
                    None => return,
                }
            }
            Negotiation::Offer(_) | Negotiation::WindowSize(_) => return,
        };
        self.events.push_back(event);
    }

    fn handle_message(&mut self, message: Message<'static>) {
        match message {
            Message::ReportsAcked { view, through } => {
                if let Some(view) = self.views.iter_mut().find(|v| v.id == view) {
                    view.reports_seen(through, &self.plane);
                }
            }
            Message::InputAcked { through } => {
                self.outbox.acknowledge(through);
                if self.outbox.is_empty() {
                    self.input_again = None;
                }
            }
            Message::Beacon { view, newest } => {
                self.events.push_back(ClientEvent::Announced(view, newest));
            }
            Message::CursorMoved { serial, at }
                if self.cursor_serial.is_none_or(|s| seq::newer(serial, s)) =>
            {
                self.cursor_serial = Some(serial);
                self.events.push_back(ClientEvent::CursorMoved(at));
            }
            Message::Rumble {
                serial,
                pad,
                rumble,
                millis,
            } if self.rumbles[pad.index()].is_none_or(|s| seq::newer(serial, s)) => {
                self.rumbles[pad.index()] = Some(serial);
                let lasts = Duration::from_millis(millis.into());
                let event = ClientEvent::Rumble(pad, rumble, lasts);
                // A newer event replaces an unpolled one for the same pad.
                self.events.retain(
                    |event| !matches!(event, ClientEvent::Rumble(other, ..) if *other == pad),
                );
                self.events.push_back(event);
            }
            Message::Haptic { serial, haptic }
                if self.haptics[haptic.hand.index()].is_none_or(|s| seq::newer(serial, s)) =>
            {
                self.haptics[haptic.hand.index()] = Some(serial);
                let same = |event: &ClientEvent| matches!(event, ClientEvent::Haptic(other) if other.hand == haptic.hand);
                // A newer event replaces an unpolled one for the same hand.
                self.events.retain(|event| !same(event));
                self.events.push_back(ClientEvent::Haptic(haptic));
            }
            Message::PoseSchedule { number, at }
                if (self.pose_schedule).is_none_or(|(known, _)| seq::newer(number, known)) =>
            {
                self.pose_schedule = Some((number, at));
            }
            Message::Probed {
                token,
                piece,
                transport,
                ..
            } => {
                let result = self
                    .probe
                    .as_mut()
                    .and_then(|p| p.answered(token, piece, transport));
                if let Some(result) = result {
                    self.probe = None;
                    self.events.push_back(ClientEvent::Probed(result));
                }
            }
            Message::ControlEvent(decision) => {
                self.events.push_back(ClientEvent::ControlEvent(decision))
            }
            Message::Goodbye { reason } => self.end(Some(reason)),
            _ => {}
        }
    }

    fn end(&mut self, reason: Option<GoodbyeReason>) {
        if !self.over {
            self.over = true;
            self.events.push_back(ClientEvent::Ended(reason));
        }
    }

    /// Queues an input event for the next datagram, and returns its number. Frames that show the event's effect echo
    /// this number or a later one. An event of a pad that the host does not accept is dropped; the result is then the
    /// number of the previous event.
    pub fn input(&mut self, now: Instant, event: InputEvent, sampled: Instant) -> InputSeq {
        if event
            .pad()
            .is_some_and(|pad| pad.number() >= self.pads_taken)
        {
            return self.outbox.newest();
        }
        let seq = self.outbox.push(event, sampled);
        self.send_input(now);
        seq
    }

    /// When to send the pressed keys again; `None` if no key is pressed or if input is unacknowledged.
    fn next_pressed_keys(&self) -> Option<Instant> {
        let holds = self.outbox.is_empty() && self.outbox.holds_keys();
        holds.then(|| self.plane.last_sent() + PRESSED_KEYS_INTERVAL)
    }

    fn send_input(&mut self, now: Instant) {
        self.plane
            .queue(&Message::Input(self.outbox.batch(self.epoch)));
        let wait = self
            .plane
            .round_trip()
            .clamp(INPUT_RESEND_MIN, INPUT_RESEND_MAX);
        self.input_again = Some(now + wait);
    }

    /// Queues the head pose that was sampled at `sampled`, and returns its number. A pose is sent at least
    /// [`POSE_INTERVAL`](pose::POSE_INTERVAL) after the previous one. A newer pose replaces a queued one.
    pub fn pose(&mut self, now: Instant, pose: Pose, sampled: Instant) -> PoseId {
        let id = self.poses.push(sampled, pose);
        self.send_pose(now);
        id
    }

    fn send_pose(&mut self, now: Instant) {
        if let Some((id, sampled, pose)) = self.poses.poll(now) {
            if self.sent_poses.len() == MAX_KEPT_POSES {
                self.sent_poses.pop_front();
            }
            self.sent_poses.push_back((id, sampled));
            let sampled = PeerInstant(sampled.0);
            self.plane.queue(&Message::Pose { id, sampled, pose });
        }
    }

    /// The times on the local clock at which to sample poses, so that a pose arrives when the host's application reads
    /// it. `None` if the host has not sent its times, or if the clock offset is not known precisely enough.
    #[must_use]
    pub fn pose_schedule(&self, now: Instant) -> Option<RefreshTiming<Instant>> {
        let (_, RefreshTiming { phase, period }) = self.pose_schedule?;
        let phase = self.plane.clock.to_mine(phase, now)?;
        (phase.bound <= period / 2).then_some(RefreshTiming {
            phase: phase.at,
            period,
        })
    }

    /// Sets the state of the client's display. The latest state is sent once a second.
    pub fn display(&mut self, now: Instant, display: Display) {
        self.display = Some(display.valid_only());
        self.send_display(now);
    }

    fn send_display(&mut self, now: Instant) {
        let Some(display) = self.display else { return };
        if self
            .display_sent_at
            .is_none_or(|sent| now >= sent + DISPLAY_INTERVAL)
        {
            self.display_sent_at = Some(now);
            self.display_number = self.display_number.wrapping_add(1);
            let number = self.display_number;
            self.plane.queue(&Message::Display { number, display });
        }
    }

    /// The sampling time of a pose; `None` if the pose was not sent recently.
    #[must_use]
    pub fn pose_sampled(&self, pose: PoseId) -> Option<Instant> {
        let mut newest = self.sent_poses.iter().rev();
        newest.find(|(id, _)| *id == pose).map(|(_, at)| *at)
    }

    /// Queues the controller states that were sampled at `sampled`, and returns their number. They are sent at the same
    /// intervals as poses.
    pub fn controllers(&mut self, now: Instant, states: Controllers, sampled: Instant) -> u32 {
        let id = self.controllers.push(sampled, controller::in_place(states));
        self.send_controllers(now);
        id.0
    }

    fn send_controllers(&mut self, now: Instant) {
        if let Some((id, sampled, states)) = self.controllers.poll(now) {
            self.plane.queue(&Message::Controllers {
                number: id.0,
                sampled: PeerInstant(sampled.0),
                states,
            });
        }
    }

    /// Sets the window's size in pixels. The latest size is sent to the host.
    pub fn window_size(&mut self, size: Size) {
        self.window_size_due = Some(size);
    }

    /// The sampling time of an input event.
    #[must_use]
    pub fn sampled(&self, seq: InputSeq) -> Option<Instant> {
        self.outbox.sampled(seq)
    }

    /// Queues the report of a frame. Report each frame of a view exactly once and in order, because the host treats a
    /// skipped frame as lost.
    pub fn report(&mut self, now: Instant, report: Report) {
        if let Some(view) = self.views.iter_mut().find(|v| v.id == report.view) {
            view.report(now, report, &mut self.plane);
        }
    }

    /// Queues a report about an audio stream. The report is not retransmitted.
    pub fn report_audio(&mut self, report: AudioReport) {
        self.plane.queue(&Message::AudioReport(report));
    }

    /// Sets the state of a view's picture, and the epoch of its configuration. While the picture is broken, key-frame
    /// requests are repeated.
    pub fn picture(&mut self, now: Instant, view: ViewId, state: PictureState, epoch: ConfigEpoch) {
        if view == ViewId::FIRST {
            self.epoch = epoch;
        }
        if let Some(view) = self.views.iter_mut().find(|v| v.id == view) {
            view.picture(now, state, &mut self.plane);
        }
    }

    /// Adds the feedback state of the views that the host granted.
    fn add_views(&mut self, grants: &[Grant]) {
        let video = grants.iter().filter(|g| g.stream.kind == StreamKind::Video);
        for grant in video {
            for view in 0..grant.views {
                let stream = grant.stream.number;
                let id = ViewId { stream, view };
                if self.views.len() < MAX_VIEWS && self.views.iter().all(|v| v.id != id) {
                    self.views.push(View::new(id));
                }
            }
        }
    }

    /// Requests the retransmission of datagrams of a frame.
    pub fn resend(&mut self, request: RetransmissionRequest) {
        self.plane.queue(&Message::RetransmissionRequest(request));
    }

    /// The shortest recent round trip; `None` before the first measurement.
    #[must_use]
    pub fn round_trip(&self) -> Option<Duration> {
        self.plane.clock.round_trip()
    }

    /// Starts to probe a path, and cancels a running probe. [`ClientSession::poll_on_path`] returns the probe's
    /// datagrams, and [`ClientEvent::Probed`] reports its result.
    pub fn probe(&mut self, now: Instant, step: ProbeTarget) {
        // The new tokens differ from those of the previous probe.
        self.probe_token = self.probe_token.wrapping_add(1 << 8);
        self.probe = Some(Probe::new(now, step, self.probe_token));
    }

    /// Replaces `out` by the next datagram that must be sent on a specific path, and returns the path. The datagram is
    /// the response to a path challenge, or part of a probe.
    pub fn poll_on_path(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<PathId> {
        if let Some((path, token)) = self.challenges.pop_front() {
            out.clear();
            self.plane
                .seal_alone(now, &Message::PathResponse { token }, out);
            return Some(path);
        }
        match self.probe.as_mut()?.poll(now) {
            Ok(question) => {
                let (token, step) = question?;
                let segmented = step.segmented;
                out.clear();
                self.plane
                    .seal_alone(now, &Message::Probe { token, segmented }, out);
                Some(step.path)
            }
            Err(result) => {
                self.probe = None;
                self.events.push_back(ClientEvent::Probed(result));
                None
            }
        }
    }

    /// Sends text that was copied at the client. The new text replaces a text that has not been sent completely.
    /// Returns `false` if the text is not sent, because the direction is disabled or the text is empty or longer than
    /// [`MAX_TEXT`](crate::control::clipboard::MAX_TEXT).
    pub fn clipboard(&mut self, text: ClipboardText) -> bool {
        self.clipboard_directions.to_host && self.sent_text.start(text)
    }

    /// Queues a goodbye message. Send the datagrams that are polled afterwards, then drop the session.
    pub fn goodbye(&mut self, reason: GoodbyeReason) {
        self.plane.queue_thrice(&Message::Goodbye { reason });
        self.over = true;
    }

    /// Handles a timeout: see [`ClientSession::next_timeout`].
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.over {
            return;
        }
        self.detect_own_silence(now);
        let is_unknown = self.no_session_deadline().is_some_and(|until| until <= now);
        if is_unknown || self.plane.silence(now) >= SILENCE {
            self.end(None);
        }
        if self.input_again.is_some_and(|at| at <= now) {
            self.send_input(now);
        } else if self.next_pressed_keys().is_some_and(|at| at <= now) {
            // This message contains only the pressed keys and no event.
            let held = self.outbox.batch(self.epoch);
            self.plane.queue(&Message::Input(held));
        }
        self.send_pose(now);
        self.send_controllers(now);
        self.send_display(now);
        for view in &mut self.views {
            view.handle_timeout(now, &mut self.plane);
        }
    }

    /// Replaces `out` by the next datagram. Returns whether there is one.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        if !self.over {
            self.detect_own_silence(now);
            if let Some(size) = self.window_size_due.filter(|_| self.plane.is_settled()) {
                let queued = self.plane.negotiate(&Negotiation::WindowSize(size));
                self.window_size_due.take_if(|_| queued);
            }
            if self.plane.is_settled()
                && let Some(piece) = self.sent_text.piece()
                && self.plane.negotiate(&Negotiation::ClipboardPiece(piece))
            {
                self.sent_text.mark_sent();
            }
        }
        self.plane.poll_transmit(now, out)
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<ClientEvent> {
        self.events.pop_front()
    }

    /// The map between the host's clock and the local one.
    #[must_use]
    pub fn clock(&self) -> &ClockMap {
        &self.plane.clock
    }

    /// Notifies the host at once that the session uses another path.
    pub fn moved(&mut self, now: Instant) {
        self.plane.ping_now(now);
    }

    /// Time since the last answer to a ping, or since [`ClientSession::moved`] if that was later.
    #[must_use]
    pub fn unanswered(&self, now: Instant) -> Duration {
        self.plane.unanswered(now)
    }

    /// Time since the host's last datagram.
    #[must_use]
    pub fn silence(&self, now: Instant) -> Duration {
        self.plane.silence(now)
    }

    /// Panics if an invariant does not hold. For tests and fuzzing.
    pub fn check_invariants(&self) {
        self.plane.check_invariants();
        assert!((1..=MAX_VIEWS).contains(&self.views.len()));
        self.views.iter().for_each(View::check_invariants);
        assert!(self.challenges.len() <= MAX_CHALLENGES);
    }

    /// When to call [`ClientSession::handle_timeout`] and to poll again, and the reason.
    #[must_use]
    pub fn next_timeout(&self) -> Option<(Instant, Wakeup)> {
        if self.over {
            return None;
        }
        let input = self.input_again.map(|at| (at, Wakeup::InputAgain));
        let held = self.next_pressed_keys().map(|at| (at, Wakeup::PressedKeys));
        let input = earlier(input, held);
        let display = self.display.and(self.display_sent_at);
        let display = display.map(|sent| sent + DISPLAY_INTERVAL);
        let states = [
            self.poses.next_timeout(),
            self.controllers.next_timeout(),
            display,
        ];
        let pose = states.into_iter().flatten().min();
        let pose = pose.map(|at| (at, Wakeup::Pose));
        let input = earlier(input, pose);
        let report = self.views.iter().filter_map(View::next_report).min();
        let report = report.map(|at| (at, Wakeup::ReportAgain));
        let key = self.views.iter().filter_map(View::next_key_frame).min();
        let key = key.map(|at| (at, Wakeup::KeyFrameRequest));
        let probe = self.probe.as_ref();
        let probe = probe.map(|p| (p.next_timeout(), Wakeup::Probe));
        let no_session_since = self.no_session_deadline().map(|at| (at, Wakeup::Silence));
        let piece = self.sent_text.is_due() && self.plane.is_settled();
        let waits = !self.challenges.is_empty() || piece;
        let answer = waits.then_some((Instant(i64::MIN), Wakeup::Transmit));
        let probe = earlier(probe, earlier(no_session_since, answer));
        earlier(
            earlier(earlier(self.plane.next_timeout(), probe), input),
            earlier(report, key),
        )
    }
}
