//! Who plays and who watches: which role a client gets, and who plays when the player leaves.

use super::{Ending, Host, HostEvent, Message, SecondPlayer, Subscriber};
use crate::control::negotiate::{Negotiation, Offer, Refusal, Role, WatchReason};
use crate::wire::control::GoodbyeReason;

/// What an observer gets when nobody plays.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Claim {
    /// Nothing: it asked to watch.
    None,
    /// The role, if nobody was displaced: it asked to play.
    Requested,
    /// The role, before those who never had it: it lost it by the n-th take-over, and the latest
    /// comes first.
    Displaced(u32),
}

impl Host {
    /// The role that a client gets, and why it watches if it does.
    pub(super) fn role_for(&self, offer: &Offer) -> Result<(Role, Option<WatchReason>), Refusal> {
        if offer.codecs & self.policy.codecs == 0 {
            return Err(Refusal::NoCommonCodec);
        }
        let observer = |reason| {
            if self.active(Role::Observer) < self.policy.max_observers {
                Ok((Role::Observer, Some(reason)))
            } else {
                Err(Refusal::Full)
            }
        };
        let player = self.active(Role::Player) > 0;
        match (offer.role, self.policy.second_player) {
            (Role::Observer, _) => observer(WatchReason::Requested),
            (Role::Player, _) if !player => Ok((Role::Player, None)),
            (Role::Player, SecondPlayer::TakeOver) if offer.take_over => Ok((Role::Player, None)),
            (Role::Player, SecondPlayer::TakeOver) => observer(WatchReason::PlayerPresent),
            (Role::Player, SecondPlayer::Observe) => observer(WatchReason::TakeOverRefused),
            (Role::Player, SecondPlayer::Refuse) => Err(Refusal::PlayerPresent),
        }
    }

    /// What a client is told of its role.
    pub(super) fn granted(&self, role: Role, watching: Option<WatchReason>) -> Negotiation {
        Negotiation::Granted {
            role,
            host: self.policy.name.clone(),
            keys: self.policy.keys,
            watching,
        }
    }

    /// How many have this role.
    pub(super) fn active(&self, role: Role) -> usize {
        let with_role = |s: &&Subscriber| s.role == Some(role) && s.ending.is_none();
        self.subscribers.iter().filter(with_role).count()
    }

    /// Makes the player an observer, since another takes over; without room for one more observer
    /// its session ends.
    pub(super) fn demote_player(&mut self) {
        let room = self.active(Role::Observer) < self.policy.max_observers;
        let granted = self.granted(Role::Observer, Some(WatchReason::TakenOver));
        let plays = |s: &Subscriber| s.role == Some(Role::Player) && s.ending.is_none();
        let Some(s) = self.subscribers.iter_mut().find(|s| plays(s)) else {
            return;
        };
        if !room {
            s.plane.say_thrice(&Message::Goodbye {
                reason: GoodbyeReason::TakenOver,
            });
            s.ending = Some(Ending::Closed);
            return;
        }
        self.take_overs = self.take_overs.wrapping_add(1);
        s.role = Some(Role::Observer);
        s.claim = Claim::Displaced(self.take_overs);
        let _ = s.plane.negotiate(&granted);
        s.holds_input = false;
        s.posed = None;
        let session = s.id;
        self.events
            .push_back(HostEvent::RoleChanged(session, Role::Observer));
        self.events.push_back(HostEvent::ReleaseInput);
    }

    /// If nobody plays, whoever lost the role last gets it back; if nobody lost it, whoever waits
    /// longest.
    pub(super) fn promote_observer(&mut self) {
        if (self.subscribers.iter()).any(|s| s.ending.is_none() && s.is_players()) {
            return;
        }
        let granted = self.granted(Role::Player, None);
        let waits = |s: &&mut Subscriber| {
            s.role == Some(Role::Observer) && s.ending.is_none() && s.claim != Claim::None
        };
        // Of equals the last counts: the oldest session.
        let waiting = self.subscribers.iter_mut().rev().filter(waits);
        let Some(s) = waiting.max_by_key(|s| s.claim) else {
            return;
        };
        s.role = Some(Role::Player);
        s.claim = Claim::Requested;
        let _ = s.plane.negotiate(&granted);
        let session = s.id;
        self.events
            .push_back(HostEvent::RoleChanged(session, Role::Player));
    }
}
