//! The host's sessions: who subscribes, in which role, and what the control plane says and hears,
//! as a value.
//!
//! Video does not pass through here: a new subscriber's [`MediaSender`](crate::send::packetize::MediaSender) goes to the media thread,
//! which tells the ledger what it sent. Several threads call this under one lock. Any order of
//! calls is legal; outputs queue until they are polled.

mod event;
mod roles;
mod subscriber;

use std::collections::VecDeque;
use std::time::Duration;

pub use self::event::{Asked, Ending, HostEvent};
use self::roles::Claim;
use self::subscriber::Subscriber;
use crate::control::budget::Budget;
use crate::control::handshake::{Established, PublicKey};
use crate::control::ladder::{BURST, Rung};
use crate::control::negotiate::{Negotiation, Offer, Role};
use crate::control::no_session::{self, NO_SESSION};
pub use crate::control::plane::Wakeup;
use crate::control::plane::{Heard, SILENCE, earlier};
use crate::id::{FrameId, PathId, SessionId};
use crate::input::keys::Keys;
pub use crate::ledger::SentFrame;
use crate::pose::Posed;
use crate::send::loss::Loss;
use crate::seq;
use crate::time::Instant;
use crate::trace::{DropCause, Stage, Stamps};
use crate::wire::Reject;
use crate::wire::control::{GoodbyeReason, MAX_CONTROL_BODY, Message};
use crate::wire::header::{Header, Plane};

/// What a would-be player gets when there is a player already.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SecondPlayer {
    /// Nothing.
    Refuse,
    /// It may watch.
    Observe,
    /// The role; the player before it becomes an observer.
    TakeOver,
}

/// How a host treats its subscribers.
#[derive(Clone, Debug)]
pub struct HostPolicy {
    /// The host's name, for the clients' windows.
    pub name: String,
    /// The codecs that it encodes: bit n for codec number n.
    pub codecs: u32,
    /// What a second player gets, unless it asks to take over and may.
    pub second_player: SecondPlayer,
    /// How many observers it serves.
    pub max_observers: usize,
    /// How its application reads keys, if a client's person says nothing else.
    pub keys: Keys,
}

/// After a burst the newest frame's number is said again at these times, so that a lost last
/// frame is noticed although nothing moves (architecture, section 5).
const BEACONS: [Duration; 3] = [
    Duration::from_millis(5),
    Duration::from_millis(20),
    Duration::from_millis(100),
];

/// Then this often.
const BEACON_EVERY: Duration = Duration::from_millis(500);

/// A player who is silent for this long holds no key any more: three pings.
const RELEASE_AFTER: Duration = Duration::from_millis(1500);

/// A client that did not say what it wants by then is dropped.
const OFFER_PATIENCE: Duration = Duration::from_secs(5);

/// Of those who speak of a session that is not here, so many are told within a second …
const TOLD_A_SECOND: usize = 16;

/// … and so many of one network.
const TOLD_OF_ONE: usize = 4;

/// What makes the answer to a probe a full datagram: kind, length and six bytes are beside it.
#[expect(clippy::cast_possible_truncation, reason = "a datagram has 1400 bytes")]
const PROBED_PADDING: u16 = (MAX_CONTROL_BODY - 9) as u16;

/// What is known of the link to a client.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LinkState {
    /// The shortest round trip seen lately; 20 ms before the first.
    pub round_trip: Duration,
    /// What it loses.
    pub loss: Loss,
}

/// All sessions of a host.
pub struct Host {
    policy: HostPolicy,
    subscribers: Vec<Subscriber>,
    cursor_shape: Option<Negotiation>,
    source_shown: bool,
    cursor_at: Option<(u16, u16)>,
    cursor_serial: u32,
    relative_mouse: bool,
    strangers: Budget<[u8; 16]>,
    /// How often the player's role was taken over.
    take_overs: u32,
    events: VecDeque<HostEvent>,
}

impl Host {
    /// A host without subscribers.
    #[must_use]
    pub fn new(policy: HostPolicy) -> Host {
        Host {
            policy,
            subscribers: Vec::new(),
            cursor_shape: None,
            source_shown: true,
            cursor_at: None,
            cursor_serial: 0,
            relative_mouse: false,
            strangers: Budget::new(TOLD_A_SECOND, TOLD_OF_ONE),
            take_overs: 0,
            events: VecDeque::new(),
        }
    }

    /// A handshake succeeded: the peer at `path` is to say what it wants. A session that the same
    /// device had before ends.
    pub fn established(&mut self, now: Instant, path: PathId, established: &Established) {
        let peer = established.peer.0;
        let plays = |s: &Subscriber| s.peer == peer && s.ending.is_none() && s.is_players();
        let succeeds_player = self.subscribers.iter().any(plays);
        for old in &mut self.subscribers {
            if old.peer == peer && old.ending.is_none() {
                // One that lost its link has other keys by now and can't hear this; a second
                // program of the same device must not come back and replace the first in turn.
                old.plane.say_thrice(&Message::Goodbye {
                    reason: GoodbyeReason::TakenOver,
                });
                old.ending = Some(Ending::Replaced);
            }
        }
        let subscriber = Subscriber::new(now, path, established, succeeds_player);
        self.subscribers.push(subscriber);
        self.bury();
    }

    /// Takes a sealed datagram in.
    ///
    /// # Errors
    /// [`Reject`] if it belongs to no session, is not authentic, was seen before, or is absurd.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        from: PathId,
        datagram: &[u8],
    ) -> Result<(), Reject> {
        let (header, plane) = Header::parse(datagram)?;
        if plane != Plane::Control {
            return Err(Reject::Kind(plane as u8));
        }
        let id = header.session();
        let i = self
            .subscribers
            .iter()
            .position(|s| s.id == id)
            .ok_or(Reject::Session)?;
        let heard = self.subscribers[i].plane.handle(now, datagram)?;
        let subscriber = &mut self.subscribers[i];
        if subscriber.follow(now, from, datagram.len(), &heard) {
            self.events.push_back(HostEvent::PathChanged {
                session: id,
                path: subscriber.paths.now(),
                segmented: subscriber.segmented,
            });
        }
        let reports = |heard: &Heard| matches!(heard, Heard::Message(Message::Report(_)));
        let reports = heard.iter().any(reports);
        let mut after = FrameId::NONE;
        for heard in heard {
            match heard {
                Heard::Negotiation(Negotiation::Offer(offer)) => self.offered(i, offer),
                Heard::Negotiation(_) => {}
                Heard::Message(Message::ReportsAfter { frame }) => after = frame,
                Heard::Message(message) => {
                    if let Message::Report(report) = &message {
                        self.subscribers[i].ledger.followed(after, report.frame);
                    }
                    self.heard(now, i, &message);
                }
            }
        }
        if reports && self.subscribers[i].role.is_some() {
            let s = &mut self.subscribers[i];
            s.ledger.close_lost();
            let through = s.ledger.reported_through();
            s.plane.say(&Message::ReportsSeen { through });
        }
        self.bury();
        Ok(())
    }

    /// What to send back to `from`, whose datagram was rejected with [`Reject::Session`].
    pub fn answer_stranger(
        &mut self,
        now: Instant,
        from: PathId,
        datagram: &[u8],
    ) -> Option<[u8; NO_SESSION]> {
        let answer = no_session::answer_to(datagram)?;
        self.strangers.may(now, from.network()).then_some(answer)
    }

    fn offered(&mut self, i: usize, offer: Offer) {
        if self.subscribers[i].role.is_some() || self.subscribers[i].ending.is_some() {
            return;
        }
        let (role, watching) = match self.role_for(&offer) {
            Ok(granted) => granted,
            Err(refusal) => {
                let subscriber = &mut self.subscribers[i];
                // The stream is empty: there is room.
                let _ = subscriber.plane.negotiate(&Negotiation::Refused(refusal));
                subscriber.ending = Some(Ending::Refused(refusal));
                return;
            }
        };
        if role == Role::Player {
            self.demote_player();
        }
        let granted = self.granted(role, watching);
        let cursor = Message::CursorMoved {
            serial: self.cursor_serial,
            at: self.cursor_at,
        };
        let subscriber = &mut self.subscribers[i];
        subscriber.role = Some(role);
        if offer.role == Role::Player {
            subscriber.claim = Claim::Requested;
        }
        let _ = subscriber.plane.negotiate(&granted);
        subscriber.shape_due = self.cursor_shape.is_some();
        subscriber.mouse_due = self.relative_mouse;
        subscriber.shown_due = !self.source_shown;
        subscriber.plane.say(&cursor);
        if let Some(media) = subscriber.media.take() {
            let (session, path) = (subscriber.id, subscriber.paths.now());
            let segmented = subscriber.segmented;
            let peer = PublicKey(subscriber.peer);
            let offer = Box::new(offer);
            self.events.push_back(HostEvent::Subscribed {
                session,
                path,
                segmented,
                peer,
                role,
                offer,
                media,
            });
        }
    }

    /// Whether somebody plays.
    #[must_use]
    pub fn has_player(&self) -> bool {
        self.active(Role::Player) > 0
    }

    fn heard(&mut self, now: Instant, i: usize, message: &Message<'_>) {
        let s = &mut self.subscribers[i];
        if let (Message::Goodbye { reason }, None) = (message, s.ending) {
            s.ending = Some(Ending::Goodbye(*reason));
        }
        let Some(role) = s.role else { return };
        match message {
            Message::Input(batch) if role == Role::Player => {
                for arrived in s.inbox.take(batch) {
                    s.holds_input = true;
                    self.events.push_back(HostEvent::Input(arrived));
                }
                s.plane.say(&Message::InputSeen {
                    through: s.inbox.through(),
                });
            }
            // An observer's input goes nowhere, but need not be sent again.
            Message::Input(batch) => {
                s.inbox.skip(batch);
                s.plane.say(&Message::InputSeen {
                    through: s.inbox.through(),
                });
            }
            Message::Pose { id, sampled, pose }
                if role == Role::Player
                    && s.posed.is_none_or(|before| seq::newer(id.0, before.id.0)) =>
            {
                s.posed = Some(Posed {
                    session: s.id,
                    id: *id,
                    pose: *pose,
                    sampled: *sampled,
                    sampled_here: s.plane.clock.to_mine(*sampled, now),
                    received: now,
                });
            }
            Message::Report(report) => {
                s.ledger.reported(now, report, &s.plane.clock);
            }
            Message::KeyFrameWanted { last_good, newest } if s.wishes.take(now) => {
                self.events.push_back(HostEvent::KeyFrameWanted {
                    session: s.id,
                    last_good: *last_good,
                    newest: *newest,
                });
            }
            Message::Resend(request) if s.wishes.take(now) => {
                self.events
                    .push_back(HostEvent::ResendWanted(s.id, request.clone()));
            }
            _ => {}
        }
    }

    /// The media thread handed a frame to the link for this session.
    pub fn frame_sent(&mut self, now: Instant, session: SessionId, frame: SentFrame) {
        if let Some(s) = self.subscribers.iter_mut().find(|s| s.id == session) {
            if s.ending.is_some() {
                // Its ledger is closed: nobody will report on this frame.
                let (stage, why) = (Stage::FirstReceived, DropCause::SessionEnded);
                s.ledger.dropped(frame.frame, frame.stamps, stage, why);
                return;
            }
            s.announce(now, frame.frame);
            s.ledger.sent(now, frame, &s.plane.clock);
        }
    }

    /// A captured frame ended at the host for this session. The client is told that there was
    /// one: what comes later may refer to it, or nothing may come for long.
    pub fn frame_dropped(
        &mut self,
        now: Instant,
        session: SessionId,
        frame: FrameId,
        stamps: Stamps,
        stage: Stage,
        why: DropCause,
    ) {
        if let Some(s) = self.subscribers.iter_mut().find(|s| s.id == session) {
            // One that waits for its first key frame is sent one without asking; to one that was
            // held back nothing refers.
            if !matches!(why, DropCause::AwaitingKeyFrame | DropCause::HeldBack) {
                s.announce(now, frame);
            }
            s.ledger.dropped(frame, stamps, stage, why);
        }
    }

    /// The pointer has a new shape ([`Negotiation::CursorShape`]).
    pub fn cursor_shape(&mut self, shape: Negotiation) {
        for s in &mut self.subscribers {
            s.shape_due = true;
        }
        self.cursor_shape = Some(shape);
    }

    /// The pointer is elsewhere.
    pub fn cursor_moved(&mut self, at: Option<(u16, u16)>) {
        self.cursor_serial = self.cursor_serial.wrapping_add(1);
        self.cursor_at = at;
        for s in self
            .subscribers
            .iter_mut()
            .filter(|s| s.role.is_some() && s.ending.is_none())
        {
            s.plane.say(&Message::CursorMoved {
                serial: self.cursor_serial,
                at,
            });
        }
    }

    /// The application wants to hear how far the mouse moves, or (at first) where the pointer is.
    pub fn relative_mouse(&mut self, wanted: bool) {
        if std::mem::replace(&mut self.relative_mouse, wanted) != wanted {
            for s in &mut self.subscribers {
                s.mouse_due = true;
            }
        }
    }

    /// What is streamed is to be seen now, or not: a window that was minimised. Whether that is
    /// news.
    pub fn source_shown(&mut self, shown: bool) -> bool {
        let news = std::mem::replace(&mut self.source_shown, shown) != shown;
        for s in self.subscribers.iter_mut().filter(|_| news) {
            s.shown_due = true;
        }
        news
    }

    /// The policy decided something for the player, which its client may show.
    pub fn decided(&mut self, words: &str) {
        let words = words.to_owned();
        let message = Message::Decision { words };
        let player = |s: &&mut Subscriber| s.role == Some(Role::Player) && s.ending.is_none();
        if let Some(s) = self.subscribers.iter_mut().find(player) {
            s.plane.say(&message);
        }
    }

    /// Ends the sessions that `which` picks by the device's public key, saying why.
    pub fn end(&mut self, reason: GoodbyeReason, which: impl Fn(&[u8; 32]) -> bool) {
        for s in &mut self.subscribers {
            if s.ending.is_none() && which(&s.peer) {
                s.plane.say_thrice(&Message::Goodbye { reason });
                s.ending = Some(Ending::Closed);
            }
        }
    }

    /// Time has passed: see [`Host::next_timeout`].
    pub fn handle_timeout(&mut self, now: Instant) {
        for s in &mut self.subscribers {
            s.ledger.handle_timeout(now);
            if s.ending.is_some() {
                continue;
            }
            let silence = s.plane.silence(now);
            if silence >= SILENCE {
                s.ending = Some(Ending::Silent);
            } else if s.role.is_none() && now.since(s.began) >= OFFER_PATIENCE {
                s.ending = Some(Ending::Closed);
            }
            if s.holds_input && silence >= RELEASE_AFTER {
                s.holds_input = false;
                self.events.push_back(HostEvent::ReleaseInput);
            }
            if let Some((at, step)) = s.beacon
                && at <= now
            {
                s.plane.say(&Message::Beacon {
                    newest: s.newest_sent,
                });
                // Its last move may be lost like a last frame.
                s.plane.say(&Message::CursorMoved {
                    serial: self.cursor_serial,
                    at: self.cursor_at,
                });
                let wait = match BEACONS.get(step + 1) {
                    Some(next) => *next - BEACONS[step],
                    None => BEACON_EVERY,
                };
                s.beacon = Some((now + wait, step + 1));
            }
        }
        self.bury();
    }

    /// Reports what is over and was not reported yet; forgets what is over and sent.
    fn bury(&mut self) {
        for s in &mut self.subscribers {
            if s.ending.is_some() && s.role.take() == Some(Role::Player) {
                self.events.push_back(HostEvent::ReleaseInput);
            }
            if s.ending.is_some() {
                s.ledger.end();
            }
        }
        self.promote_observer();
        for s in &mut self.subscribers {
            while let Some(record) = s.ledger.poll() {
                self.events.push_back(HostEvent::Record(Box::new(record)));
            }
        }
    }

    /// Replaces what is in `out` by the next datagram to send; where to, if there was one.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<PathId> {
        let mut i = 0;
        while let Some(s) = self.subscribers.get_mut(i) {
            if s.can_say_state() {
                if let Some(shape) = self.cursor_shape.as_ref().filter(|_| s.shape_due) {
                    s.shape_due = !s.plane.negotiate(shape);
                }
                if s.shown_due {
                    let shown = Negotiation::SourceShown(self.source_shown);
                    s.shown_due = !s.plane.negotiate(&shown);
                }
            }
            if s.can_say_mouse() {
                let mouse = Negotiation::RelativeMouse(self.relative_mouse);
                s.mouse_due = !s.plane.negotiate(&mouse);
            }
            if s.plane.poll_transmit(now, out) {
                return Some(s.paths.now());
            }
            if s.ending.is_none()
                && let Some((path, token)) = s.paths.poll(now)
            {
                out.clear();
                (s.plane).seal_alone(now, &Message::PathChallenge { token }, out);
                return Some(path);
            }
            if let Some(ending) = s.ending.filter(|_| !s.lingers(now)) {
                s.ledger.end();
                while let Some(record) = s.ledger.poll() {
                    self.events.push_back(HostEvent::Record(Box::new(record)));
                }
                self.events.push_back(HostEvent::Ended(s.id, ending));
                self.subscribers.remove(i);
            } else {
                i += 1;
            }
        }
        None
    }

    /// A way that a client asks about: one at which it has shown that it receives.
    pub fn poll_probe(&mut self) -> Option<Asked> {
        self.subscribers.iter_mut().find_map(Subscriber::poll_asked)
    }

    /// Replaces what is in `out` by the answer: [`BURST`] datagrams of the length returned, one
    /// behind the other, to be sent with `rung` in one call. Zero if the session is gone.
    pub fn answer_probe(
        &mut self,
        now: Instant,
        asked: &Asked,
        rung: Rung,
        out: &mut Vec<u8>,
    ) -> usize {
        out.clear();
        let Some(s) = self.subscribers.iter_mut().find(|s| s.id == asked.session) else {
            return 0;
        };
        for piece in 0..BURST {
            let message = Message::Probed {
                token: asked.token,
                piece,
                rung: Some(rung),
                padding: PROBED_PADDING,
            };
            s.plane.seal_alone(now, &message, out);
        }
        out.len() / usize::from(BURST)
    }

    /// What happened.
    pub fn poll_event(&mut self) -> Option<HostEvent> {
        self.bury();
        self.events.pop_front()
    }

    /// Panics if something that always holds does not: for tests and fuzzing.
    pub fn check_invariants(&self) {
        assert!(self.active(Role::Player) <= 1);
        assert!(self.active(Role::Observer) <= self.policy.max_observers);
        for s in &self.subscribers {
            s.plane.check_invariants();
            s.ledger.check_invariants();
            s.paths.check_invariants();
            // One that has a role has given its media key away, and nobody else has.
            assert!(s.role.is_none() || s.media.is_none());
        }
    }

    /// The shortest round trip to the player, or to anybody; `None` without a subscriber.
    #[must_use]
    pub fn round_trip(&self) -> Option<Duration> {
        let player = self
            .subscribers
            .iter()
            .find(|s| s.role == Some(Role::Player));
        player
            .or(self.subscribers.first())
            .map(|s| s.plane.round_trip())
    }

    /// The newest pose of the player of now; `None` before its first.
    #[must_use]
    pub fn pose(&self) -> Option<Posed> {
        let plays = |s: &&Subscriber| s.role == Some(Role::Player) && s.ending.is_none();
        self.subscribers.iter().find(plays)?.posed
    }

    /// What is known of the link to a client; `None` if it is not here.
    #[must_use]
    pub fn link(&self, now: Instant, session: SessionId) -> Option<LinkState> {
        let s = self.subscribers.iter().find(|s| s.id == session)?;
        Some(LinkState {
            round_trip: s.plane.round_trip(),
            loss: s.ledger.loss.loss(now),
        })
    }

    /// When to call [`Host::handle_timeout`] and poll again, and why.
    #[must_use]
    pub fn next_timeout(&self) -> Option<(Instant, Wakeup)> {
        self.subscribers.iter().fold(None, |soonest, s| {
            let over = s.ending.is_some() && !s.lingers_at_all();
            if over || s.can_say_state() {
                return earlier(soonest, Some((Instant(i64::MIN), Wakeup::Transmit)));
            }
            let beacon = s.beacon.map(|(at, _)| (at, Wakeup::Beacon));
            let release = s
                .holds_input
                .then(|| (s.plane.last_heard() + RELEASE_AFTER, Wakeup::ReleaseInput));
            let unreported = s.ledger.next_timeout().map(|at| (at, Wakeup::Unreported));
            let patience =
                (s.role.is_none()).then_some((s.began + OFFER_PATIENCE, Wakeup::Silence));
            // Who is over is followed nowhere.
            let path = s.paths.next_timeout().filter(|_| s.ending.is_none());
            let path = path.map(|at| (at, Wakeup::Path));
            let own = earlier(earlier(beacon, release), earlier(unreported, patience));
            let own = earlier(own, path);
            earlier(soonest, earlier(own, s.plane.next_timeout()))
        })
    }
}
