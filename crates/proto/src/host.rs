//! A host's subscribers: their roles, input, updates and the outcome of each of their frames.
//!
//! OpenUVR sessions use the control plane; other subscribers ([`SubscribeRequest`]) use a gateway. Both share roles,
//! input and the [ledger](crate::ledger). Video does not pass through this module: a new session's
//! [`MediaSender`](crate::send::plane::MediaSender) goes to the media thread, which reports sent frames to the ledger.
//! Several threads call this module under one lock. Any order of calls is legal. Outputs are queued until they are
//! polled.

mod clipboard;
mod cursor;
mod event;
mod external;
pub mod figures;
mod haptics;
mod member;
mod pose_schedule;
mod request;
mod roles;
mod rumble;
mod session;
mod sessions;
mod views;

use std::collections::VecDeque;
use std::time::Duration;

use self::cursor::Cursor;
pub use self::event::{Ending, HostEvent, ProbeRequest};
use self::external::External;
pub use self::external::InputRefused;
use self::haptics::Haptics;
use self::member::Member;
use self::pose_schedule::PoseSchedule;
pub use self::request::{SubscribeRequest, SubscriberKind, WantedDisplay};
pub use self::roles::{Grant, SecondPlayer};
use self::roles::{RoleChange, Roles};
use self::rumble::Rumbles;
use self::session::Session;
use crate::control::budget::Budget;
use crate::control::clipboard::ClipboardDirections;
use crate::control::negotiate::Role;
pub use crate::control::plane::Wakeup;
use crate::control::plane::earlier;
use crate::control::streams::StreamOffer;
use crate::control_event::ControlEvent;
use crate::controller::{Haptic, ReceivedControllers};
use crate::display::{PlayerDisplay, RefreshTiming};
use crate::id::SubscriberId;
use crate::input::keys::Keys;
use crate::input::pad::{PadId, Rumble};
pub use crate::ledger::SentFrame;
use crate::pose::ReceivedPose;
pub use crate::send::loss::LinkState;
use crate::send::rendition::FrameOutcome;
use crate::time::Instant;
use crate::trace::DropCause;
use crate::wire::control::{GoodbyeReason, Message};

/// A host's policy towards subscribers.
#[derive(Clone, Debug)]
pub struct HostPolicy {
    /// The host's name, for the clients' windows.
    pub name: String,
    /// The codecs that the host encodes: bit n for codec number n.
    pub codecs: u32,
    /// The treatment of a second player.
    pub second_player: SecondPlayer,
    /// The maximum number of observers.
    pub max_observers: usize,
    /// How the host's application reads keys. Clients use this mode unless their users have chosen another.
    pub keys: Keys,
    /// The streams that the host supports in addition to the first view of its video.
    pub streams: Vec<StreamOffer>,
}

/// Silence after which a player's keys are released: three ping intervals.
const RELEASE_AFTER: Duration = Duration::from_millis(1500);

/// Silence after which a player's keys stop repeating. A window system repeats a key after 200 ms or more. Clients send
/// their pressed keys at shorter intervals (`client::PRESSED_KEYS_INTERVAL`).
const REPEAT_WITHIN: Duration = Duration::from_millis(100);

/// Maximum number of replies per second to datagrams of unknown sessions.
const ANSWERS_PER_SECOND: usize = 16;

/// Maximum number of replies per second to datagrams of unknown sessions from one network.
const ANSWERS_PER_NETWORK: usize = 4;

/// All subscribers of a host.
pub struct Host {
    policy: HostPolicy,
    roles: Roles,
    sessions: Vec<Session>,
    others: Vec<External>,
    cursor: Cursor,
    source_shown: bool,
    clipboard_directions: ClipboardDirections,
    pads_taken: u8,
    ecn_feedback: bool,
    rumbles: Rumbles,
    haptics: Haptics,
    pose_schedule: PoseSchedule,
    unknown_sessions: Budget<[u8; 16]>,
    events: VecDeque<HostEvent>,
    /// Number of [`HostEvent::Input`]s among the queued events.
    inputs_waiting: usize,
}

impl Host {
    /// A host without subscribers.
    #[must_use]
    pub fn new(policy: HostPolicy) -> Host {
        Host {
            roles: Roles::new(policy.second_player, policy.max_observers),
            policy,
            sessions: Vec::new(),
            others: Vec::new(),
            cursor: Cursor::default(),
            source_shown: true,
            clipboard_directions: ClipboardDirections::default(),
            pads_taken: 0,
            ecn_feedback: false,
            rumbles: Rumbles::default(),
            haptics: Haptics::default(),
            pose_schedule: PoseSchedule::default(),
            unknown_sessions: Budget::new(ANSWERS_PER_SECOND, ANSWERS_PER_NETWORK),
            events: VecDeque::new(),
            inputs_waiting: 0,
        }
    }

    /// The current player.
    #[must_use]
    pub fn player(&self) -> Option<SubscriberId> {
        self.roles.player()
    }

    /// The role of a subscriber; `None` if it is unknown or has no role yet.
    #[must_use]
    pub fn role(&self, id: SubscriberId) -> Option<Role> {
        self.roles.role(id)
    }

    fn members(&mut self) -> impl Iterator<Item = &mut Member> {
        let sessions = self.sessions.iter_mut().map(|s| &mut s.member);
        sessions.chain(self.others.iter_mut().map(|o| &mut o.member))
    }

    /// Sets the number of pads that the host accepts from a player; initially none. The number applies to sessions that
    /// start after this call, and to role changes after it.
    pub fn pads_taken(&mut self, most: u8) {
        self.pads_taken = most;
    }

    /// Requests ECN counts from each client that becomes the player after this call. Without this call, the host
    /// requests none.
    pub fn request_ecn_feedback(&mut self) {
        self.ecn_feedback = true;
    }

    /// Sets the rumble of one of the player's pads and notifies the player's client.
    pub fn rumble(&mut self, now: Instant, pad: PadId, rumble: Rumble) {
        self.rumbles.set(now, pad, rumble);
    }

    /// Starts a vibration of one of the player's controllers and notifies the player's client.
    pub fn haptic(&mut self, now: Instant, haptic: Haptic) {
        self.haptics.set(now, haptic);
    }

    /// Sets when the player's client should sample poses: `timing` describes the times at which the application reads
    /// poses, each minus the transit time of a pose from client to host. Returns whether a message for the player's
    /// client is due.
    pub fn pose_schedule(&mut self, now: Instant, timing: RefreshTiming<Instant>) -> bool {
        let Some(player) = self.roles.player() else {
            return false;
        };
        let mut sessions = self.sessions.iter_mut();
        let session = sessions.find(|s| s.member.id == player && s.is_active());
        let queued = session.and_then(|session| {
            let message = self.pose_schedule.update(now, player, timing)?;
            session.plane.queue(&message);
            Some(())
        });
        queued.is_some()
    }

    /// Releases the input of a player that has lost its role.
    fn on_demoted(&mut self, id: SubscriberId) {
        self.forget_vibrations();
        if let Some(other) = self.other(id) {
            other.due.clipboard = None;
            other.due.rumbles = Default::default();
            other.due.haptics = [None; 2];
            other.received_text.forget();
        }
        let sessions = self.sessions.iter_mut().map(|s| &mut s.member);
        let mut members = sessions.chain(self.others.iter_mut().map(|o| &mut o.member));
        if let Some(member) = members.find(|member| member.id == id) {
            member.on_demoted(&mut self.events);
        }
    }

    /// Removes ended sessions from the roles, and notifies subscribers of role changes that they did not request.
    fn settle_roles(&mut self) {
        for session in self.sessions.iter_mut().filter(|s| s.member.is_over()) {
            session.joined = false;
            session.member.end_frames();
            if self.roles.leave(session.member.id) {
                self.rumbles.forget();
                self.haptics.forget();
                session.member.release(&mut self.events);
            }
        }
        self.roles.promote();
        while let Some(change) = self.roles.poll_change() {
            match change {
                RoleChange::Granted(id, grant) => {
                    let granted = self.granted(grant);
                    let is = |session: &&mut Session| session.member.id == id;
                    if let Some(session) = self.sessions.iter_mut().find(is) {
                        let _ = session.plane.negotiate(&granted);
                        session.send_clipboard_directions(grant.role, self.clipboard_directions);
                        session.send_pads_taken(grant.role, self.pads_taken);
                        session.send_ecn_feedback(grant.role, self.ecn_feedback);
                    }
                    if let Some(other) = self.others.iter_mut().find(|o| o.member.id == id) {
                        other.due.role = Some(grant);
                    }
                    let changed = HostEvent::RoleChanged(id, grant.role);
                    self.events.push_back(changed);
                    if grant.role == Role::Observer {
                        self.on_demoted(id);
                    }
                }
                RoleChange::Removed(id) => {
                    let reason = GoodbyeReason::TakenOver;
                    let is = |session: &&mut Session| session.member.id == id;
                    if let Some(session) = self.sessions.iter_mut().find(is) {
                        session.end(reason, Ending::Closed);
                    }
                    self.dismiss(id, reason);
                    self.on_demoted(id);
                }
            }
        }
    }

    /// Records the outcome of a captured frame at the host, and announces the frame to the client. The client must know
    /// of the frame because a later frame may refer to it, and because it may be the last frame for a long time.
    pub fn record(&mut self, now: Instant, end: &FrameOutcome) {
        let id = end.subscriber;
        if let Some(session) = self.sessions.iter_mut().find(|s| s.member.id == id) {
            // Frames dropped for these causes are not announced. A subscriber that waits for its first key frame gets
            // it without a request, and no later frame refers to a skipped frame.
            let unsent = [DropCause::AwaitingKeyFrame, DropCause::CongestionSkipped];
            let is_announced = match end.end {
                Ok(_) => !session.member.is_over(),
                Err((_, why)) => !unsent.contains(&why),
            };
            if is_announced && let Some(view) = session.member.views.get(end.view) {
                view.announce(now, end.frame);
            }
            (session.member).record(now, end, false, &session.plane.clock);
        } else if let Some(other) = self.others.iter_mut().find(|o| o.member.id == id) {
            other.record(now, end);
        }
    }

    /// Sets whether the source is visible (a minimised window is not). Returns whether the visibility changed.
    pub fn source_shown(&mut self, shown: bool) -> bool {
        let news = std::mem::replace(&mut self.source_shown, shown) != shown;
        if news {
            for session in &mut self.sessions {
                session.shown_due = true;
            }
            for other in &mut self.others {
                other.due.shown = true;
            }
        }
        news
    }

    /// Sends a rate-control event to the player's client.
    pub fn control_event(&mut self, control_event: ControlEvent) {
        let Some(player) = self.roles.player() else {
            return;
        };
        if let Some(session) = self.sessions.iter_mut().find(|s| s.member.id == player) {
            session.plane.queue(&Message::ControlEvent(control_event));
        }
        if let Some(other) = self.others.iter_mut().find(|o| o.member.id == player) {
            other.due.control_event = Some(control_event);
        }
    }

    /// Ends all sessions and subscriptions with this reason.
    pub fn close(&mut self, reason: GoodbyeReason) {
        self.end_sessions(reason, |_| true);
        let others: Vec<SubscriberId> = self.others.iter().map(|o| o.member.id).collect();
        for id in others {
            self.dismiss(id, reason);
        }
        self.reap();
    }

    /// Handles a timeout: see [`Host::next_timeout`].
    pub fn handle_timeout(&mut self, now: Instant) {
        for member in self.members() {
            member.views.handle_timeout(now);
        }
        self.session_timeout(now);
        for other in &mut self.others {
            if other.release_at().is_some_and(|at| at <= now) {
                other.member.release(&mut self.events);
            }
            other.push_key_repeat(now, &mut self.events);
        }
        self.reap();
    }

    /// Removes ended sessions from the roles, and queues the ledgers' records as events.
    fn reap(&mut self) {
        self.settle_roles();
        let sessions = self.sessions.iter_mut().map(|s| &mut s.member);
        for member in sessions.chain(self.others.iter_mut().map(|o| &mut o.member)) {
            while let Some(record) = member.views.poll() {
                self.events.push_back(HostEvent::Record(Box::new(record)));
            }
        }
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<HostEvent> {
        self.reap();
        let event = self.events.pop_front();
        if let Some(HostEvent::Input { .. }) = event {
            self.inputs_waiting -= 1;
        }
        event
    }

    /// Panics if an invariant does not hold: for tests and fuzzing.
    pub fn check_invariants(&self) {
        self.roles.check_invariants();
        let inputs = |event: &&HostEvent| matches!(event, HostEvent::Input { .. });
        assert_eq!(
            self.inputs_waiting,
            self.events.iter().filter(inputs).count()
        );
        for s in &self.sessions {
            s.plane.check_invariants();
            s.member.views.check_invariants();
            s.paths.check_invariants();
            // When a session gets a role, it hands its media key to the runtime.
            assert!(!s.joined || s.media.is_none());
            assert!(!s.is_active() || self.roles.role(s.member.id).is_some());
        }
        for other in &self.others {
            other.member.views.check_invariants();
            let here = self.roles.role(other.member.id).is_some();
            assert_eq!(here, !other.member.is_over());
        }
    }

    /// The player's newest pose; `None` before its first.
    #[must_use]
    pub fn pose(&self) -> Option<ReceivedPose> {
        self.playing()?.posed
    }

    /// The player's controllers; `None` before the first state.
    #[must_use]
    pub fn controllers(&self) -> Option<ReceivedControllers> {
        self.playing()?.controlled
    }

    /// The player's display; `None` before the first message.
    #[must_use]
    pub fn display(&self) -> Option<PlayerDisplay> {
        self.playing()?.display()
    }

    fn playing(&self) -> Option<&Member> {
        let player = self.roles.player()?;
        let sessions = self.sessions.iter().map(|s| &s.member);
        let mut members = sessions.chain(self.others.iter().map(|o| &o.member));
        members.find(|member| member.id == player)
    }

    /// Cancels the pending vibrations of the previous player.
    fn forget_vibrations(&mut self) {
        self.rumbles.forget();
        self.haptics.forget();
    }

    /// When to call [`Host::handle_timeout`] and poll again, and the reason.
    #[must_use]
    pub fn next_timeout(&self) -> Option<(Instant, Wakeup)> {
        let sessions = self.sessions.iter().map(Session::next_timeout);
        let others = self.others.iter().map(External::next_timeout);
        let feels = [self.rumbles.next_timeout(), self.haptics.next_timeout()];
        let feels = feels.into_iter().flatten().min();
        let feels = feels.map(|at| (at, Wakeup::Rumble));
        sessions.chain(others).fold(feels, earlier)
    }
}
