//! Role arbitration over all kinds of subscribers: grants, take-overs and succession of the player.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::control::negotiate::{ObserverReason, Refusal, Role};
use crate::id::SubscriberId;

/// The policy for a second player.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SecondPlayer {
    /// Refuse the second player.
    Refuse,
    /// Admit the second player as an observer.
    Observe,
    /// Give the second player the role if it requests a take-over; the earlier player becomes an observer, or is
    /// removed if the maximum number of observers is reached. Without a take-over request, admit the second player as
    /// an observer.
    TakeOver,
}

/// A granted role.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Grant {
    /// The role.
    pub role: Role,
    /// Why an observer does not play.
    pub observer_reason: Option<ObserverReason>,
}

/// A role change that the subscriber did not request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RoleChange {
    /// The new role.
    Granted(SubscriberId, Grant),
    /// The member was displaced by a take-over, and there was no room for another observer.
    Removed(SubscriberId),
}

/// An observer's claim to the player's role when the role becomes free.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Claim {
    /// No claim: it requested to observe.
    None,
    /// It requested to play. Displaced players take precedence.
    Requested,
    /// It was displaced by the n-th take-over. The member that was displaced last takes precedence.
    Displaced(u32),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Standing {
    /// The member succeeds a player but has not sent its request yet. Until then, another member becomes the player
    /// only by a take-over.
    Reserved,
    Player,
    Observer(Claim),
}

/// All members with a role or a reservation, in the order of joining. Requests are answered at once. Role changes that
/// a member did not request are polled with `Roles::poll_change`. After departures, the caller calls
/// [`Roles::promote`], which selects the next player.
#[derive(Debug)]
pub(crate) struct Roles {
    second_player: SecondPlayer,
    max_observers: usize,
    members: Vec<(SubscriberId, Standing)>,
    /// Number of take-overs.
    take_overs: u32,
    changes: VecDeque<RoleChange>,
}

impl Roles {
    pub(crate) fn new(second_player: SecondPlayer, max_observers: usize) -> Roles {
        Roles {
            second_player,
            max_observers,
            members: Vec::new(),
            take_overs: 0,
            changes: VecDeque::new(),
        }
    }

    pub(crate) fn player(&self) -> Option<SubscriberId> {
        let plays = |(_, standing): &&(_, Standing)| *standing == Standing::Player;
        self.members.iter().find(plays).map(|(id, _)| *id)
    }

    /// Whether there is a player or a reservation.
    fn is_held(&self) -> bool {
        let holds = |(_, standing): &(_, Standing)| !matches!(standing, Standing::Observer(_));
        self.members.iter().any(holds)
    }

    /// The role of a member; `None` before its request.
    pub(crate) fn role(&self, id: SubscriberId) -> Option<Role> {
        let found = self.members.iter().find(|(member, _)| *member == id)?;
        match found.1 {
            Standing::Reserved => None,
            Standing::Player => Some(Role::Player),
            Standing::Observer(_) => Some(Role::Observer),
        }
    }

    pub(crate) fn observers(&self) -> usize {
        let is_observer =
            |(_, standing): &&(_, Standing)| matches!(standing, Standing::Observer(_));
        self.members.iter().filter(is_observer).count()
    }

    /// Lets `id` succeed `before`: until `id` sends its request, it counts as the player. No observer is promoted, and
    /// another member that requests to play gets the role only by a take-over, which ends the reservation. Has no
    /// effect unless `before` is the player or has a reservation itself.
    pub(crate) fn succeed(&mut self, before: SubscriberId, id: SubscriberId) {
        let holds = |(member, standing): &(SubscriberId, Standing)| {
            *member == before && !matches!(standing, Standing::Observer(_))
        };
        if self.members.iter().any(holds) {
            self.members.push((id, Standing::Reserved));
        }
    }

    /// Handles a first or later role request. If it is refused, the member keeps its current role.
    pub(crate) fn request(
        &mut self,
        id: SubscriberId,
        wanted: Role,
        take_over: bool,
    ) -> Result<Grant, Refusal> {
        let known = self.members.iter().position(|(member, _)| *member == id);
        let was = known.map(|place| self.members.remove(place));
        let grant = match self.grant(wanted, take_over) {
            Ok(grant) => grant,
            Err(refusal) => {
                for (place, was) in known.into_iter().zip(was) {
                    self.members.insert(place, was);
                }
                return Err(refusal);
            }
        };
        let standing = match (grant.role, wanted, was) {
            (Role::Player, _, _) => {
                self.demote_player_to_observer();
                self.members
                    .retain(|(_, standing)| *standing != Standing::Reserved);
                Standing::Player
            }
            (Role::Observer, Role::Observer, _) => Standing::Observer(Claim::None),
            // A repeated request keeps an earlier claim.
            (Role::Observer, Role::Player, Some((_, Standing::Observer(claim)))) => {
                Standing::Observer(claim.max(Claim::Requested))
            }
            (Role::Observer, Role::Player, _) => Standing::Observer(Claim::Requested),
        };
        let place = known.map_or(self.members.len(), |place| place.min(self.members.len()));
        self.members.insert(place, (id, standing));
        Ok(grant)
    }

    /// Removes a member; returns whether it was the player.
    pub(crate) fn leave(&mut self, id: SubscriberId) -> bool {
        let played = self.player() == Some(id);
        self.members.retain(|(member, _)| *member != id);
        played
    }

    /// The next role change that the member did not request.
    pub(crate) fn poll_change(&mut self) -> Option<RoleChange> {
        self.changes.pop_front()
    }

    /// The grant for a role request.
    fn grant(&self, wanted: Role, take_over: bool) -> Result<Grant, Refusal> {
        let player = Grant {
            role: Role::Player,
            observer_reason: None,
        };
        let observer = |reason| match self.observers() < self.max_observers {
            true => Ok(Grant {
                role: Role::Observer,
                observer_reason: Some(reason),
            }),
            false => Err(Refusal::Full),
        };
        match (wanted, self.second_player) {
            (Role::Observer, _) => observer(ObserverReason::Requested),
            (Role::Player, _) if !self.is_held() => Ok(player),
            (Role::Player, SecondPlayer::TakeOver) if take_over => Ok(player),
            (Role::Player, SecondPlayer::TakeOver) => observer(ObserverReason::PlayerPresent),
            (Role::Player, SecondPlayer::Observe) => observer(ObserverReason::TakeOverRefused),
            (Role::Player, SecondPlayer::Refuse) => Err(Refusal::PlayerPresent),
        }
    }

    /// Makes the player an observer for a take-over, or removes it if there is no room for another observer.
    fn demote_player_to_observer(&mut self) {
        let room = self.observers() < self.max_observers;
        let plays = |(_, standing): &(_, Standing)| *standing == Standing::Player;
        let Some(place) = self.members.iter().position(plays) else {
            return;
        };
        let (id, standing) = &mut self.members[place];
        self.changes.push_back(match room {
            true => RoleChange::Granted(
                *id,
                Grant {
                    role: Role::Observer,
                    observer_reason: Some(ObserverReason::TakenOver),
                },
            ),
            false => RoleChange::Removed(*id),
        });
        self.take_overs = self.take_overs.wrapping_add(1);
        *standing = Standing::Observer(Claim::Displaced(self.take_overs));
        if !room {
            self.members.remove(place);
        }
    }

    /// Without a player, promotes the member that was displaced last. If none was displaced, promotes the member that
    /// joined first among the members that requested to play.
    pub(crate) fn promote(&mut self) {
        if self.is_held() {
            return;
        }
        let waiting = self.members.iter_mut().filter_map(|member| match member.1 {
            Standing::Observer(claim) if claim != Claim::None => Some((claim, member)),
            _ => None,
        });
        // Of equal claims, `max_by_key` returns the last. In reverse order, this is the member that joined first.
        let Some((_, (id, standing))) = waiting.rev().max_by_key(|(claim, _)| *claim) else {
            return;
        };
        *standing = Standing::Player;
        let grant = Grant {
            role: Role::Player,
            observer_reason: None,
        };
        self.changes.push_back(RoleChange::Granted(*id, grant));
    }

    pub(crate) fn check_invariants(&self) {
        let players = self.members.iter().filter(|m| m.1 == Standing::Player);
        let players = players.count();
        assert!(players <= 1);
        assert!(self.observers() <= self.max_observers);
        let waits = |(_, standing): &(_, Standing)| matches!(standing, Standing::Observer(claim) if *claim != Claim::None);
        let reserved = self.members.iter().any(|m| m.1 == Standing::Reserved);
        // No member waits while the role is free.
        assert!(players == 1 || reserved || !self.members.iter().any(waits));
        let twice = |(i, m): (usize, &(SubscriberId, Standing))| {
            self.members[..i].iter().any(|other| other.0 == m.0)
        };
        assert!(!self.members.iter().enumerate().any(twice));
    }
}

#[cfg(test)]
mod tests;
