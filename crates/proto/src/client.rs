//! The client's session: what the control plane says and hears, as a value.
//!
//! Media do not pass through here; [`MediaReceiver`](crate::recv::plane::MediaReceiver) takes them, in
//! the media thread. Both threads of a client call this session under one lock.
//! Any order of calls is legal; outputs queue until they are polled.

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

/// Unacknowledged input is sent again after a round trip, but not before this (guess).
const INPUT_RESEND_MIN: Duration = Duration::from_millis(5);

/// … and after this at the latest: a round trip that was measured while a machine stood still says
/// nothing of now (guess).
const INPUT_RESEND_MAX: Duration = Duration::from_millis(250);

/// While keys are down the host hears of it this often, if nothing else is said: it lets no key of one who
/// is silent repeat, so that a tap whose release is lost is one press. A quarter of what it waits.
const PRESSED_KEYS_INTERVAL: Duration = Duration::from_millis(25);

/// What the display is like is said so often: it drifts against the host's clock, and one may be lost.
const DISPLAY_INTERVAL: Duration = Duration::from_secs(1);

/// Poses of which it is known when they were sampled: half a second of the most that leave.
const MAX_KEPT_POSES: usize = 1024;

/// Challenges that wait for their answer at most: a host asks about two ways at a time.
const MAX_CHALLENGES: usize = 4;

/// Somebody says that the host does not know this session: a host that does answers by then, or after
/// four round trips (guess: far more than a busy machine takes).
const NO_SESSION_TIMEOUT: Duration = Duration::from_millis(250);

/// What such a word may be about: a datagram that left within this time.
const NO_SESSION_MAX_AGE: Duration = Duration::from_secs(2);

/// Something for the runtime.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClientEvent {
    /// The host granted a role (at the start, and when it changes).
    Granted {
        /// The role.
        role: Role,
        /// The host's name.
        host: String,
        /// How its application reads keys, if the person says nothing else.
        keys: Keys,
        /// Why an observer does not play.
        observer_reason: Option<ObserverReason>,
    },
    /// The host granted these streams beside the first view of its video: hand them to the media receiver.
    Streams(Vec<Grant>),
    /// The host granted nothing; the session is over.
    Refused(Refusal),
    /// A view's newest frame at the host: hand it to the view's receiver.
    Announced(ViewId, FrameId),
    /// The pointer's new place.
    CursorMoved(Option<(u16, u16)>),
    /// The pointer's new shape.
    CursorShape {
        /// Pixels per row and rows.
        size: Size,
        /// Hot spot from the left and top.
        hot: (u16, u16),
        /// Premultiplied ARGB.
        argb: Vec<u32>,
    },
    /// Whether the host's application wants to hear how far the mouse moves, not where the pointer is.
    RelativeMouse(bool),
    /// Whether what is streamed is to be seen at the host: if not, no pictures come for now.
    SourceShown(bool),
    /// Clipboard text goes these ways until the next [`ClientEvent::Granted`].
    ClipboardDirections(ClipboardDirections),
    /// This was copied at the host.
    Clipboard(ClipboardText),
    /// The host takes this many pads of this player until the next [`ClientEvent::Granted`], and knows of none
    /// yet: say which there are.
    PadsTaken(u8),
    /// A pad's motors are to run like this, for so long unless something else is said.
    Rumble(PadId, Rumble, Duration),
    /// A hand is to feel this now, in place of what it feels.
    Haptic(Haptic),
    /// What the host's policy decided last.
    ControlEvent(ControlEvent),
    /// What came of [`ClientSession::probe`].
    Probed(ProbeResult),
    /// The session is over: the host said goodbye, or fell silent (`None`).
    Ended(Option<GoodbyeReason>),
}

/// The control side of a session with a host.
pub struct ClientSession {
    plane: ControlPlane,
    outbox: Outbox,
    epoch: ConfigEpoch,
    input_again: Option<Instant>,
    poses: pose::LatestSender<Pose>,
    /// The newest poses that left, and when they were sampled.
    sent_poses: VecDeque<(PoseId, Instant)>,
    controllers: pose::LatestSender<Controllers>,
    display: Option<Display>,
    display_number: u32,
    /// When that was said last.
    display_sent_at: Option<Instant>,
    /// What is said of each view; the first one is always there.
    views: Vec<View>,
    cursor_serial: Option<u32>,
    /// The window's size that the host was not told yet. It is when what was said before has arrived, so
    /// that a window that is dragged fills no queue: the latest wins.
    window_size_due: Option<Size>,
    /// Which ways clipboard text goes.
    clipboard_directions: ClipboardDirections,
    sent_text: SentText,
    received_text: ReceivedText,
    /// How many pads the host takes.
    pads_taken: u8,
    /// The newest that was heard of what each is to feel.
    rumbles: [Option<u32>; MAX_PADS as usize],
    /// The same of both hands.
    haptics: [Option<u32>; 2],
    /// When the host's application takes poses, and the message's number.
    pose_schedule: Option<(u32, RefreshTiming<PeerInstant>)>,
    probe: Option<Probe>,
    probe_token: u32,
    /// Where the host asked whether it is heard, and its tokens.
    challenges: VecDeque<(PathId, u64)>,
    session: SessionId,
    /// Since when it is in doubt whether the host knows this session.
    no_session_since: Option<Instant>,
    events: VecDeque<ClientEvent>,
    over: bool,
}

impl ClientSession {
    /// A session that begins now and asks for what `offer` says.
    #[must_use]
    pub fn new(now: Instant, established: &Established, offer: Offer) -> ClientSession {
        let mut plane = ControlPlane::new(now, established, Direction::ClientToHost);
        // The stream is empty: an offer, at most 0.5 kB, has room.
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

    /// Takes a datagram of the control plane in, which came from `from`.
    ///
    /// # Errors
    /// [`Reject`] if it is not authentic, was seen before, or is absurd.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        from: PathId,
        datagram: &[u8],
    ) -> Result<(), Reject> {
        self.detect_own_silence(now);
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
        Ok(())
    }

    /// Takes a datagram in that is not sealed: the host may say that it does not know this session,
    /// and so may anybody else. Then the host is asked, and the session is over if it does not answer
    /// within a fraction of a second.
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

    /// When the doubt becomes certainty.
    fn no_session_deadline(&self) -> Option<Instant> {
        Some(self.no_session_since? + NO_SESSION_TIMEOUT.max(self.plane.round_trip() * 4))
    }

    /// A host that has not heard of us for so long has ended the session: we slept, or were stopped.
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
                // The host says anew which ways a player's clipboard goes.
                self.clipboard_directions = ClipboardDirections::default();
                self.sent_text.forget();
                self.received_text.forget();
                // As it does of pads.
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
            Negotiation::ClipboardDirections(ways) => {
                self.clipboard_directions = ways;
                ClientEvent::ClipboardDirections(ways)
            }
            Negotiation::PadsTaken(most) => {
                self.pads_taken = most;
                ClientEvent::PadsTaken(most)
            }
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
                self.outbox.seen(through);
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
                // Of what was not asked for yet the latest counts.
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
                // Of what was not asked for yet the latest counts.
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

    /// The person did something; it leaves with the next datagram. Its number comes back in the
    /// frames that follow it. What is done on a pad that the host does not take is not sent.
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

    /// When to say again which keys are down.
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

    /// The person's head is here, at `sampled`; it leaves with the next datagram, or
    /// [`POSE_INTERVAL`](pose::POSE_INTERVAL) after the one before unless a newer one takes its
    /// place. Its number.
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

    /// At which moments of our clock a pose is to be sampled, so that it is there when the host's application takes
    /// one; `None` of a host that has not said it, and while the clocks are not known well enough.
    #[must_use]
    pub fn pose_schedule(&self, now: Instant) -> Option<RefreshTiming<Instant>> {
        let (_, RefreshTiming { phase, period }) = self.pose_schedule?;
        let phase = self.plane.clock.to_mine(phase, now)?;
        (phase.bound <= period / 2).then_some(RefreshTiming {
            phase: phase.at,
            period,
        })
    }

    /// The display that shows the pictures is like this. The host hears the latest, once a second.
    pub fn display(&mut self, now: Instant, display: Display) {
        self.display = Some(display.sane());
        self.send_display(now);
    }

    fn send_display(&mut self, now: Instant) {
        let Some(display) = self.display else { return };
        if self
            .display_sent_at
            .is_none_or(|said| now >= said + DISPLAY_INTERVAL)
        {
            self.display_sent_at = Some(now);
            self.display_number = self.display_number.wrapping_add(1);
            let number = self.display_number;
            self.plane.queue(&Message::Display { number, display });
        }
    }

    /// When a pose was sampled that left not long ago.
    #[must_use]
    pub fn pose_sampled(&self, pose: PoseId) -> Option<Instant> {
        let mut newest = self.sent_poses.iter().rev();
        newest.find(|(id, _)| *id == pose).map(|(_, at)| *at)
    }

    /// The person holds these, at `sampled`; they leave as poses do. Their number.
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

    /// The window that shows the pictures has this size now, in pixels. The host is told the latest.
    pub fn window_size(&mut self, size: Size) {
        self.window_size_due = Some(size);
    }

    /// When an input event was sampled.
    #[must_use]
    pub fn sampled(&self, seq: InputSeq) -> Option<Instant> {
        self.outbox.sampled(seq)
    }

    /// What became of a frame of a view that was granted. Report a view's frames in their order, each
    /// once: when the host hears of a frame, it takes those before it of which it never heard for lost.
    pub fn report(&mut self, now: Instant, report: Report) {
        if let Some(view) = self.views.iter_mut().find(|v| v.id == report.view) {
            view.report(now, report, &mut self.plane);
        }
    }

    /// How a stream of sound is played: leaves with the next datagram, and only once.
    pub fn report_audio(&mut self, report: AudioReport) {
        self.plane.queue(&Message::AudioReport(report));
    }

    /// The state of a view's picture and the configuration that is shown. While it is broken, a key
    /// frame is asked for now and again.
    pub fn picture(&mut self, now: Instant, view: ViewId, state: PictureState, epoch: ConfigEpoch) {
        if view == ViewId::FIRST {
            self.epoch = epoch;
        }
        if let Some(view) = self.views.iter_mut().find(|v| v.id == view) {
            view.picture(now, state, &mut self.plane);
        }
    }

    /// The host granted more views.
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

    /// Parts of a frame are missing: the host is asked to send them again.
    pub fn resend(&mut self, request: RetransmissionRequest) {
        self.plane.queue(&Message::RetransmissionRequest(request));
    }

    /// The shortest round trip seen lately; `None` before the first.
    #[must_use]
    pub fn round_trip(&self) -> Option<Duration> {
        self.plane.clock.round_trip()
    }

    /// Tries whether a way carries a stream: [`ClientSession::poll_on_path`] says what to send there,
    /// [`ClientEvent::Probed`] what came of it. A try that is under way is forgotten.
    pub fn probe(&mut self, now: Instant, step: ProbeTarget) {
        // Far from the tokens of the try before.
        self.probe_token = self.probe_token.wrapping_add(1 << 8);
        self.probe = Some(Probe::new(now, step, self.probe_token));
    }

    /// Replaces what is in `out` by the next datagram that has a way of its own, which is returned:
    /// an answer to a challenge, or part of a try.
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

    /// This was copied here: the host hears it, in place of what it has not heard to its end. `false` if
    /// it is not to hear it: it wants none of this client, or the text is empty or longer than
    /// [`MAX_TEXT`](crate::control::clipboard::MAX_TEXT).
    pub fn clipboard(&mut self, text: ClipboardText) -> bool {
        self.clipboard_directions.to_host && self.sent_text.start(text)
    }

    /// Says goodbye. Send what is polled afterwards, then forget the session.
    pub fn goodbye(&mut self, reason: GoodbyeReason) {
        self.plane.queue_thrice(&Message::Goodbye { reason });
        self.over = true;
    }

    /// Time has passed: see [`ClientSession::next_timeout`].
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.over {
            return;
        }
        self.detect_own_silence(now);
        let doubted = self.no_session_deadline().is_some_and(|until| until <= now);
        if doubted || self.plane.silence(now) >= SILENCE {
            self.end(None);
        }
        if self.input_again.is_some_and(|at| at <= now) {
            self.send_input(now);
        } else if self.next_pressed_keys().is_some_and(|at| at <= now) {
            // Which keys are down, without an event.
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

    /// Replaces what is in `out` by the next datagram to send; whether there was one.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        if !self.over {
            self.detect_own_silence(now);
            if let Some(size) = self.window_size_due.filter(|_| self.plane.is_settled()) {
                let said = self.plane.negotiate(&Negotiation::WindowSize(size));
                self.window_size_due.take_if(|_| said);
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

    /// What happened.
    pub fn poll_event(&mut self) -> Option<ClientEvent> {
        self.events.pop_front()
    }

    /// The host's clock.
    #[must_use]
    pub fn clock(&self) -> &ClockMap {
        &self.plane.clock
    }

    /// The session goes another way from now on: the host is to hear of it at once.
    pub fn moved(&mut self, now: Instant) {
        self.plane.ping_now(now);
    }

    /// How long none of our pings has been answered.
    #[must_use]
    pub fn unanswered(&self, now: Instant) -> Duration {
        self.plane.unanswered(now)
    }

    /// How long the host has been silent.
    #[must_use]
    pub fn silence(&self, now: Instant) -> Duration {
        self.plane.silence(now)
    }

    /// Panics if an invariant does not hold: for tests and fuzzing.
    pub fn check_invariants(&self) {
        self.plane.check_invariants();
        assert!((1..=MAX_VIEWS).contains(&self.views.len()));
        self.views.iter().for_each(View::check_invariants);
        assert!(self.challenges.len() <= MAX_CHALLENGES);
    }

    /// When to call [`ClientSession::handle_timeout`] and poll again, and why.
    #[must_use]
    pub fn next_timeout(&self) -> Option<(Instant, Wakeup)> {
        if self.over {
            return None;
        }
        let input = self.input_again.map(|at| (at, Wakeup::InputAgain));
        let held = self.next_pressed_keys().map(|at| (at, Wakeup::PressedKeys));
        let input = earlier(input, held);
        let display = self.display.and(self.display_sent_at);
        let display = display.map(|said| said + DISPLAY_INTERVAL);
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
