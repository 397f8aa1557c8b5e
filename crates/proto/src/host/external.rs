//! External subscribers, such as browsers, video players and recorders. They have no OpenUVR session; a gateway owns
//! their connection.
//!
//! They share roles, input, poses and the ledger with sessions. The gateway delivers their messages once and
//! in order.

use std::collections::VecDeque;

use super::member::Member;
use super::request::SubscribeRequest;
use super::roles::Grant;
use super::{Ending, Host, HostEvent, RELEASE_AFTER};
use crate::control::clipboard::{ClipboardText, ReceivedText};
use crate::control::clock::ClockMap;
use crate::control::identity::PublicKey;
use crate::control::negotiate::{Refusal, Role};
use crate::control::plane::{Wakeup, earlier};
use crate::control_event::ControlEvent;
use crate::controller::{self, Controllers, Haptic};
use crate::display::Display;
use crate::id::{FrameId, InputSeq, PoseId, SubscriberId, ViewId};
use crate::input::event::InputEvent;
use crate::input::inbox::ReceivedInput;
use crate::input::pad::{MAX_PADS, PadId, Rumble};
use crate::pose::Pose;
use crate::send::rendition::FrameOutcome;
use crate::send::subscriber::{Departure, Feedback};
use crate::send::update::Update;
use crate::time::{Instant, PeerInstant};
use crate::trace::{DropCause, Stage};
use crate::wire::control::GoodbyeReason;

/// Maximum queued input events of external subscribers: one second of a 1000 Hz mouse.
const MAX_WAITING: usize = 1024;

/// Why an input event was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InputRefused {
    /// The subscriber is not, or no longer, the player.
    #[error("only the player's input is applied")]
    NotPlayer,
    /// The queue is full: retry the event later.
    #[error("input queue full: earlier events are not applied yet")]
    Busy,
}

/// Pending updates.
#[derive(Clone, Debug, Default)]
pub(super) struct Due {
    pub(super) role: Option<Grant>,
    pub(super) shown: bool,
    pub(super) mouse: bool,
    pub(super) shape: bool,
    pub(super) moved: bool,
    pub(super) control_event: Option<ControlEvent>,
    pub(super) directions: bool,
    pub(super) clipboard: Option<ClipboardText>,
    /// The rumble of each pad, and its duration in milliseconds.
    pub(super) rumbles: [Option<(Rumble, u16)>; MAX_PADS as usize],
    pub(super) haptics: [Option<Haptic>; 2],
    pub(super) ended: Option<GoodbyeReason>,
}

impl Due {
    fn rumble(&mut self) -> Option<Update> {
        let pad = PadId::all().find(|pad| self.rumbles[pad.index()].is_some())?;
        let (rumble, millis) = self.rumbles[pad.index()].take()?;
        Some(Update::Rumble {
            pad,
            rumble,
            millis,
        })
    }

    fn is_any(&self) -> bool {
        let state = self.shown || self.mouse || self.shape || self.moved || self.directions;
        let has_update =
            self.role.is_some() || self.control_event.is_some() || self.clipboard.is_some();
        let feels =
            self.rumbles.iter().any(Option::is_some) || self.haptics.iter().any(Option::is_some);
        state || has_update || feels || self.ended.is_some()
    }
}

/// An external subscriber.
pub(super) struct External {
    pub(super) member: Member,
    pub(super) due: Due,
    /// Its device, if known to the host.
    device: Option<PublicKey>,
    /// Whether the gateway was notified of pending updates.
    notified: bool,
    /// Maps the subscriber's clock to the host's.
    clock: ClockMap,
    input: InputSeq,
    heard: Instant,
    /// Incoming clipboard text.
    pub(super) received_text: ReceivedText,
}

impl Host {
    /// Adds an external subscriber with a new, unique `id`. Its updates on the cursor and the source follow through
    /// [`Host::poll_update`].
    ///
    /// # Errors
    /// The reason for a refusal. In that case, nothing changes.
    pub fn subscribe(
        &mut self,
        now: Instant,
        id: SubscriberId,
        request: SubscribeRequest,
    ) -> Result<Grant, Refusal> {
        if request.codecs & self.policy.codecs == 0 {
            return Err(Refusal::NoCommonCodec);
        }
        let grant = self.roles.request(id, request.role, request.take_over)?;
        self.settle_roles();
        self.others.push(External {
            member: Member::new(id, request.reports),
            due: Due {
                shown: !self.source_shown,
                mouse: self.cursor.relative_mouse(),
                shape: self.cursor.shape().is_some(),
                moved: self.cursor.at().is_some(),
                directions: self.clipboard_directions.any(),
                ..Due::default()
            },
            device: request.device,
            notified: false,
            clock: ClockMap::default(),
            input: InputSeq::default(),
            heard: now,
            received_text: ReceivedText::default(),
        });
        self.events.push_back(HostEvent::OtherSubscribed {
            subscriber: id,
            role: grant.role,
            request: Box::new(request),
        });
        Ok(grant)
    }

    /// Handles an external subscriber's request for another role.
    ///
    /// # Errors
    /// The reason for a refusal. The subscriber then keeps its role. [`Refusal::Full`] is also returned for an unknown
    /// subscriber.
    pub fn request_role(
        &mut self,
        id: SubscriberId,
        role: Role,
        take_over: bool,
    ) -> Result<Grant, Refusal> {
        let before = self.roles.role(id).ok_or(Refusal::Full)?;
        let grant = self.roles.request(id, role, take_over)?;
        if grant.role != before {
            if before == Role::Player {
                self.on_demoted(id);
            }
            let changed = HostEvent::RoleChanged(id, grant.role);
            self.events.push_back(changed);
        }
        // Replaces a pending older update.
        if let Some(other) = self.other(id) {
            other.due.role = Some(grant);
        }
        self.settle_roles();
        Ok(grant)
    }

    /// Removes an external subscriber. An unknown one is ignored.
    pub fn unsubscribe(&mut self, id: SubscriberId, ending: Ending) {
        if let Some(place) = self.others.iter().position(|o| o.member.id == id) {
            self.leave(place, ending);
            self.others.remove(place);
            self.settle_roles();
        }
    }

    /// Ends a subscription with a reason. The caller must then call [`Host::settle_roles`], which may promote another
    /// subscriber to player.
    pub(super) fn dismiss(&mut self, id: SubscriberId, reason: GoodbyeReason) {
        if let Some(place) = self.others.iter().position(|o| o.member.id == id) {
            // Drops all other pending updates.
            self.others[place].due = Due {
                ended: Some(reason),
                ..Due::default()
            };
            self.leave(place, Ending::Closed);
        }
    }

    /// Ends all subscriptions of the devices that `which` selects.
    pub(super) fn dismiss_devices(
        &mut self,
        reason: GoodbyeReason,
        which: impl Fn(&[u8; 32]) -> bool,
    ) {
        let here = |other: &&External| !other.member.is_over();
        let of = |other: &External| other.device.is_some_and(|device| which(&device.0));
        let ends = self.others.iter().filter(here).filter(|other| of(other));
        let ends: Vec<SubscriberId> = ends.map(|other| other.member.id).collect();
        if ends.is_empty() {
            return;
        }
        for id in ends {
            self.dismiss(id, reason);
        }
        self.settle_roles();
    }

    /// Ends the subscriber's frames, frees its role and notifies the runtime.
    fn leave(&mut self, place: usize, ending: Ending) {
        let member = &mut self.others[place].member;
        if member.is_over() {
            return;
        }
        member.ending = Some(ending);
        member.end_frames();
        while let Some(record) = member.views.poll() {
            self.events.push_back(HostEvent::Record(Box::new(record)));
        }
        let id = member.id;
        if self.roles.leave(id) {
            member.release(&mut self.events);
            self.forget_vibrations();
        }
        self.events.push_back(HostEvent::Ended(id, ending));
    }

    pub(super) fn other(&mut self, id: SubscriberId) -> Option<&mut External> {
        let here = |other: &&mut External| other.member.id == id && !other.member.is_over();
        self.others.iter_mut().find(here)
    }

    /// Takes an input event of an external subscriber; events are applied in order. Returns the event's number. A frame
    /// that may show the event echoes this number, or a later one, in its header.
    ///
    /// # Errors
    /// [`InputRefused`] if the event is not accepted.
    pub fn input(
        &mut self,
        now: Instant,
        id: SubscriberId,
        event: InputEvent,
        sampled: PeerInstant,
    ) -> Result<InputSeq, InputRefused> {
        let plays = self.roles.player() == Some(id);
        let busy = self.inputs_waiting >= MAX_WAITING;
        if plays && busy {
            self.on_activity(now, id);
            return Err(InputRefused::Busy);
        }
        let Some(other) = self.other(id) else {
            return Err(InputRefused::NotPlayer);
        };
        // An event from a subscriber that is not the player is numbered too. A gateway in another process counts the
        // events itself, and learns of a role change only later.
        other.input = InputSeq(other.input.0.wrapping_add(1).max(1));
        if !plays {
            return Err(InputRefused::NotPlayer);
        }
        other.member.did(&event);
        let arrived = ReceivedInput {
            seq: other.input,
            event,
            sampled,
        };
        self.inputs_waiting += 1;
        self.events.push_back(HostEvent::Input {
            from: id,
            arrived,
            received: now,
        });
        self.on_activity(now, id);
        Ok(arrived.seq)
    }

    /// Sets the head pose of an external subscriber. Frames drawn with it carry its number. Poses with older numbers, and
    /// those of observers, are ignored.
    pub fn posed(
        &mut self,
        now: Instant,
        id: SubscriberId,
        pose: (PoseId, Pose),
        sampled: PeerInstant,
    ) {
        let plays = self.roles.player() == Some(id);
        self.on_activity(now, id);
        if let Some(other) = self.other(id).filter(|_| plays) {
            other.member.pose(now, pose, sampled, &other.clock);
        }
    }

    /// Sets the controllers of an external subscriber. Ignored unless the subscriber is the player.
    pub fn controlled(
        &mut self,
        now: Instant,
        id: SubscriberId,
        states: Controllers,
        sampled: PeerInstant,
    ) {
        let plays = self.roles.player() == Some(id);
        self.on_activity(now, id);
        if let Some(other) = self.other(id).filter(|_| plays) {
            let before = other.member.controlled.map_or(0, |before| before.number);
            let held = (before.wrapping_add(1), controller::in_place(states));
            other.member.controls(now, held, sampled, &other.clock);
        }
    }

    /// Sets the display of an external subscriber. A display with an older number is ignored.
    pub fn set_display(&mut self, now: Instant, id: SubscriberId, display: (u32, Display)) {
        self.on_activity(now, id);
        if let Some(other) = self.other(id) {
            other.member.set_display(now, display, &other.clock);
        }
    }

    /// Records activity of the subscriber's client. A player's keys stop repeating after 100 ms of silence and are
    /// released after 1.5 s. Input, poses, controller states, display messages and feedback imply activity, except for
    /// [`Feedback::Estimate`]. Returns whether an event is due because the keys may repeat again.
    pub fn on_activity(&mut self, now: Instant, id: SubscriberId) -> bool {
        let here = |other: &&mut External| other.member.id == id && !other.member.is_over();
        let Some(other) = self.others.iter_mut().find(here) else {
            return false;
        };
        let events = self.events.len();
        other.heard = now;
        other.push_key_repeat(now, &mut self.events);
        self.events.len() > events
    }

    /// Handles the subscriber's feedback on frames and clocks. Other feedback is for the rendition.
    pub fn feedback(&mut self, now: Instant, id: SubscriberId, feedback: &Feedback) {
        // An estimate does not show that the client is active, because a gateway repeats the newest estimate even if
        // its client is silent.
        if !matches!(feedback, Feedback::Estimate(_)) {
            self.on_activity(now, id);
        }
        let Some(other) = self.other(id) else { return };
        match *feedback {
            Feedback::Frame(report) => {
                other.member.reported(now, &report, &other.clock);
            }
            Feedback::Clock {
                asked,
                received,
                answered,
                heard,
            } => other.clock.note(asked, received, answered, heard),
            Feedback::Link(_) | Feedback::Estimate(_) | Feedback::KeyFrame { .. } => {}
        }
    }

    /// Records that the subscriber transmitted a frame, or why it could not.
    pub fn departed(
        &mut self,
        now: Instant,
        id: SubscriberId,
        frame: FrameId,
        end: Result<Departure, (Stage, DropCause)>,
    ) {
        let Some(other) = self.other(id) else { return };
        // An external subscriber has only the first view.
        let Some(view) = other.member.views.get(ViewId::FIRST) else {
            return;
        };
        let (ledger, loss) = (&mut view.ledger, &mut other.member.loss);
        match end {
            Ok(left) => ledger.departed(now, frame, left, &other.clock, loss),
            Err(why) => ledger.missed(now, frame, why, &other.clock, loss),
        }
    }

    /// A subscriber with pending updates: call [`Host::poll_update`].
    pub fn poll_updated(&mut self) -> Option<SubscriberId> {
        let due = |other: &&mut External| !other.notified && other.due.is_any();
        let other = self.others.iter_mut().find(due)?;
        other.notified = true;
        Some(other.member.id)
    }

    /// The next update of this subscriber.
    pub fn poll_update(&mut self, id: SubscriberId) -> Option<Update> {
        let place = self.others.iter().position(|o| o.member.id == id)?;
        let due = &mut self.others[place].due;
        let take = |flag: &mut bool| std::mem::take(flag);
        let update = if let Some(Grant {
            role,
            observer_reason,
        }) = due.role.take()
        {
            Update::Role {
                role,
                observer_reason,
            }
        } else if take(&mut due.shown) {
            Update::SourceShown(self.source_shown)
        } else if take(&mut due.mouse) {
            Update::RelativeMouse(self.cursor.relative_mouse())
        } else if let Some(shape) = self.cursor.shape().filter(|_| take(&mut due.shape)) {
            Update::CursorShape(shape.clone())
        } else if take(&mut due.moved) {
            Update::CursorMoved(self.cursor.at())
        } else if let Some(control_event) = due.control_event.take() {
            Update::ControlEvent(control_event)
        } else if take(&mut due.directions) {
            Update::ClipboardDirections(self.clipboard_directions)
        } else if let Some(rumble) = due.rumble() {
            rumble
        } else if let Some(haptic) = due.haptics.iter_mut().find_map(Option::take) {
            Update::Haptic(haptic)
        } else if let Some(text) = due.clipboard.take() {
            Update::Clipboard(text)
        } else if let Some(reason) = due.ended {
            self.others.remove(place);
            return Some(Update::Ended(reason));
        } else {
            self.others[place].notified = false;
            return None;
        };
        Some(update)
    }
}

impl External {
    /// When the subscriber's silence releases its input.
    pub(super) fn release_at(&self) -> Option<Instant> {
        let holds = self.member.holds_input && !self.member.is_over();
        holds.then(|| self.heard + RELEASE_AFTER)
    }

    /// Emits a change of key repeat, after the events that caused it.
    pub(super) fn push_key_repeat(&mut self, now: Instant, events: &mut VecDeque<HostEvent>) {
        let repeats = self.member.poll_repeats(now, self.heard);
        events.extend(repeats.map(HostEvent::KeyRepeat));
    }

    pub(super) fn next_timeout(&self) -> Option<(Instant, Wakeup)> {
        let release = self.release_at().map(|at| (at, Wakeup::ReleaseInput));
        let repeat = self.member.repeats_until(self.heard);
        let release = earlier(release, repeat.map(|at| (at, Wakeup::StopRepeat)));
        let unreported = self.member.views.next_timeout();
        let unreported = unreported.map(|at| (at, Wakeup::Unreported));
        earlier(release, unreported)
    }

    /// Records the outcome of a frame at the host. Here, "sent" only means that the frame was handed to the subscriber;
    /// [`Host::departed`] records its transmission.
    pub(super) fn record(&mut self, now: Instant, end: &FrameOutcome) {
        let mut end = *end;
        end.stamps.clear(Stage::FirstSent);
        end.stamps.clear(Stage::LastSent);
        self.member.record(now, &end, true, &self.clock);
    }
}
