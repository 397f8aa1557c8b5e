//! A host's subscribers: who plays and who watches, what each is told, what it says, and how each of its
//! frames ended, as a value.
//!
//! OpenUVR sessions speak through the control plane here; what takes frames in another way
//! ([`SubscribeRequest`]) speaks through its gateway. For roles, input and the
//! [ledger](crate::ledger) both are the same. Video does not pass through here: a new session's
//! [`MediaSender`](crate::send::plane::MediaSender) goes to the media thread, which tells the ledger
//! what it sent. Several threads call this under one lock. Any order of calls is legal; outputs queue
//! until they are polled.

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
pub use self::request::{SubscribeRequest, SubscriberKind};
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
    /// The streams that it can carry beside the first view of its video.
    pub streams: Vec<StreamOffer>,
}

/// A player who is silent for this long holds no key any more: three pings.
const RELEASE_AFTER: Duration = Duration::from_millis(1500);

/// … and no key of one who is silent for this long repeats. A window system repeats a key after 200 ms and
/// more; clients say what is down more often than this (`client::HELD_AGAIN`).
const REPEAT_WITHIN: Duration = Duration::from_millis(100);

/// Of those who speak of a session that is not here, so many are told within a second …
const ANSWERS_PER_SECOND: usize = 16;

/// … and so many of one network.
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
    rumbles: Rumbles,
    haptics: Haptics,
    pose_schedule: PoseSchedule,
    unknown_sessions: Budget<[u8; 16]>,
    events: VecDeque<HostEvent>,
    /// [`HostEvent::Input`]s among them.
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
            rumbles: Rumbles::default(),
            haptics: Haptics::default(),
            pose_schedule: PoseSchedule::default(),
            unknown_sessions: Budget::new(ANSWERS_PER_SECOND, ANSWERS_PER_NETWORK),
            events: VecDeque::new(),
            inputs_waiting: 0,
        }
    }

    /// Who plays.
    #[must_use]
    pub fn player(&self) -> Option<SubscriberId> {
        self.roles.player()
    }

    /// The role of a subscriber; `None` if it is not here, or has not asked for one.
    #[must_use]
    pub fn role(&self, id: SubscriberId) -> Option<Role> {
        self.roles.role(id)
    }

    fn members(&mut self) -> impl Iterator<Item = &mut Member> {
        let sessions = self.sessions.iter_mut().map(|s| &mut s.member);
        sessions.chain(self.others.iter_mut().map(|o| &mut o.member))
    }

    fn member(&mut self, id: SubscriberId) -> Option<&mut Member> {
        self.members().find(|member| member.id == id)
    }

    /// So many pads of a player are taken, in sessions that begin and for roles that change from now on; at
    /// first none.
    pub fn pads_taken(&mut self, most: u8) {
        self.pads_taken = most;
    }

    /// What a pad of the player is to feel from now on; its client is told.
    pub fn rumble(&mut self, now: Instant, pad: PadId, rumble: Rumble) {
        self.rumbles.set(now, pad, rumble);
    }

    /// A hand of the player's is to feel this now; its client is told.
    pub fn haptic(&mut self, now: Instant, haptic: Haptic) {
        self.haptics.set(now, haptic);
    }

    /// The application takes poses at these moments, of which the time that a pose is under way is taken off; whether
    /// the player's client is to hear it now.
    pub fn pose_schedule(&mut self, now: Instant, timing: RefreshTiming<Instant>) -> bool {
        let Some(player) = self.roles.player() else {
            return false;
        };
        let mut sessions = self.sessions.iter_mut();
        let session = sessions.find(|s| s.member.id == player && s.is_active());
        let said = session.and_then(|session| {
            let message = self.pose_schedule.update(now, player, timing)?;
            session.plane.queue(&message);
            Some(())
        });
        said.is_some()
    }

    /// The player lost its role: what it holds is released.
    fn displaced(&mut self, id: SubscriberId) {
        self.forget_vibrations();
        if let Some(member) = self.member(id) {
            member.displaced();
        }
        if let Some(other) = self.other(id) {
            other.due.clipboard = None;
            other.due.rumbles = Default::default();
            other.due.haptics = [None; 2];
            other.received_text.forget();
        }
        self.events.push_back(HostEvent::ReleaseInput);
    }

    /// Takes sessions that are over out of their roles, and tells everybody whose role has changed although
    /// they did not ask.
    fn settle_roles(&mut self) {
        for session in self.sessions.iter_mut().filter(|s| s.member.is_over()) {
            session.joined = false;
            session.member.end_frames();
            if self.roles.leave(session.member.id) {
                self.rumbles.forget();
                self.haptics.forget();
                self.events.push_back(HostEvent::ReleaseInput);
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
                    }
                    if let Some(other) = self.others.iter_mut().find(|o| o.member.id == id) {
                        other.due.role = Some(grant);
                    }
                    let changed = HostEvent::RoleChanged(id, grant.role);
                    self.events.push_back(changed);
                    if grant.role == Role::Observer {
                        self.displaced(id);
                    }
                }
                RoleChange::Removed(id) => {
                    let reason = GoodbyeReason::TakenOver;
                    let is = |session: &&mut Session| session.member.id == id;
                    if let Some(session) = self.sessions.iter_mut().find(is) {
                        session.end(reason, Ending::Closed);
                    }
                    self.dismiss(id, reason);
                    self.displaced(id);
                }
            }
        }
    }

    /// How a captured frame ended here for a subscriber. A client is told that there was one: what comes
    /// later may refer to it, or nothing may come for long.
    pub fn record(&mut self, now: Instant, end: &FrameOutcome) {
        let id = end.subscriber;
        if let Some(session) = self.sessions.iter_mut().find(|s| s.member.id == id) {
            // One that waits for its first key frame is sent one without asking; to one that was
            // held back nothing refers.
            let unheard = [DropCause::AwaitingKeyFrame, DropCause::CongestionSkipped];
            let told = match end.end {
                Ok(_) => !session.member.is_over(),
                Err((_, why)) => !unheard.contains(&why),
            };
            if told && let Some(view) = session.member.views.get(end.view) {
                view.announce(now, end.frame);
            }
            (session.member).record(now, end, false, &session.plane.clock);
        } else if let Some(other) = self.others.iter_mut().find(|o| o.member.id == id) {
            other.record(now, end);
        }
    }

    /// What is streamed is to be seen now, or not: a window that was minimised. Whether that is
    /// news.
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

    /// The policy decided something for the player, which its client may show.
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

    /// Ends everything, and tells all why.
    pub fn close(&mut self, reason: GoodbyeReason) {
        self.end(reason, |_| true);
        let others: Vec<SubscriberId> = self.others.iter().map(|o| o.member.id).collect();
        for id in others {
            self.dismiss(id, reason);
        }
        self.reap();
    }

    /// Time has passed: see [`Host::next_timeout`].
    pub fn handle_timeout(&mut self, now: Instant) {
        for member in self.members() {
            member.views.handle_timeout(now);
        }
        self.session_timeout(now);
        for other in &mut self.others {
            if other.release_at().is_some_and(|at| at <= now) {
                other.member.released();
                self.events.push_back(HostEvent::ReleaseInput);
            }
            other.push_key_repeat(now, &mut self.events);
        }
        self.reap();
    }

    /// What follows from who is over, and what the ledgers know.
    fn reap(&mut self) {
        self.settle_roles();
        let sessions = self.sessions.iter_mut().map(|s| &mut s.member);
        for member in sessions.chain(self.others.iter_mut().map(|o| &mut o.member)) {
            while let Some(record) = member.views.poll() {
                self.events.push_back(HostEvent::Record(Box::new(record)));
            }
        }
    }

    /// What happened.
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
            // One that has a role has given its media key away, and nobody else has.
            assert!(!s.joined || s.media.is_none());
            assert!(!s.is_active() || self.roles.role(s.member.id).is_some());
        }
        for other in &self.others {
            other.member.views.check_invariants();
            let here = self.roles.role(other.member.id).is_some();
            assert_eq!(here, !other.member.is_over());
        }
    }

    /// The newest pose of the current player; `None` before its first.
    #[must_use]
    pub fn pose(&self) -> Option<ReceivedPose> {
        self.playing()?.posed
    }

    /// What the current player holds; `None` before it said so.
    #[must_use]
    pub fn controllers(&self) -> Option<ReceivedControllers> {
        self.playing()?.controlled
    }

    /// What the current player's display is like; `None` before it said so.
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

    /// Who played is told nothing more of what it is to feel.
    fn forget_vibrations(&mut self) {
        self.rumbles.forget();
        self.haptics.forget();
    }

    /// When to call [`Host::handle_timeout`] and poll again, and why.
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
