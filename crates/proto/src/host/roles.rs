//! Who plays and who watches, whatever kind of subscriber it is: which role one gets, who loses it, and
//! who plays when the player leaves.

use std::collections::VecDeque;

use crate::control::negotiate::{ObserverReason, Refusal, Role};
use crate::id::SubscriberId;

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

/// The role that a subscriber has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    /// The role.
    pub role: Role,
    /// Why an observer does not play.
    pub observer_reason: Option<ObserverReason>,
}

/// What happened to a subscriber that did not ask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RoleChange {
    /// It has this role now.
    Granted(SubscriberId, Grant),
    /// Another took the role over, and there is no room for one more observer: it is out.
    Removed(SubscriberId),
}

/// What an observer gets when nobody plays.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Claim {
    /// Nothing: it asked to watch.
    None,
    /// The role, if nobody was displaced: it asked to play.
    Requested,
    /// The role, before those who never had it: it lost it by the n-th take-over, and the latest
    /// comes first.
    Displaced(u32),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Standing {
    /// The role waits for what it will ask for: it follows a player.
    Reserved,
    Player,
    Observer(Claim),
}

/// Everybody who has a role, who came first in front. What one asks for is answered at once; what follows
/// for others is polled. When all who go at once have gone, [`Roles::promote`] says who plays.
#[derive(Debug)]
pub(crate) struct Roles {
    second_player: SecondPlayer,
    max_observers: usize,
    members: Vec<(SubscriberId, Standing)>,
    /// How often the player's role was taken over.
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

    /// Who plays.
    pub(crate) fn player(&self) -> Option<SubscriberId> {
        let plays = |(_, standing): &&(_, Standing)| *standing == Standing::Player;
        self.members.iter().find(plays).map(|(id, _)| *id)
    }

    /// The role of one of them; `None` before it has asked.
    pub(crate) fn role(&self, id: SubscriberId) -> Option<Role> {
        let found = self.members.iter().find(|(member, _)| *member == id)?;
        match found.1 {
            Standing::Reserved => None,
            Standing::Player => Some(Role::Player),
            Standing::Observer(_) => Some(Role::Observer),
        }
    }

    pub(crate) fn observers(&self) -> usize {
        let watches = |(_, standing): &&(_, Standing)| matches!(standing, Standing::Observer(_));
        self.members.iter().filter(watches).count()
    }

    /// One that follows `before`, and will ask later: if that one plays, nobody who waits gets the role
    /// meanwhile.
    pub(crate) fn succeed(&mut self, before: SubscriberId, id: SubscriberId) {
        let holds = |(member, standing): &(SubscriberId, Standing)| {
            *member == before && !matches!(standing, Standing::Observer(_))
        };
        if self.members.iter().any(holds) {
            self.members.push((id, Standing::Reserved));
        }
    }

    /// One asks for a role, at first or later. If it is refused, what it had stays.
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
                self.displace();
                Standing::Player
            }
            (Role::Observer, Role::Observer, _) => Standing::Observer(Claim::None),
            // Who asks again keeps what it has of a claim.
            (Role::Observer, Role::Player, Some((_, Standing::Observer(claim)))) => {
                Standing::Observer(claim.max(Claim::Requested))
            }
            (Role::Observer, Role::Player, _) => Standing::Observer(Claim::Requested),
        };
        let place = known.map_or(self.members.len(), |place| place.min(self.members.len()));
        self.members.insert(place, (id, standing));
        Ok(grant)
    }

    /// One is gone; whether it was the player.
    pub(crate) fn leave(&mut self, id: SubscriberId) -> bool {
        let played = self.player() == Some(id);
        self.members.retain(|(member, _)| *member != id);
        played
    }

    /// What happened to others since the last call.
    pub(crate) fn poll_change(&mut self) -> Option<RoleChange> {
        self.changes.pop_front()
    }

    /// What one gets who is not among them.
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
            (Role::Player, _) if self.player().is_none() => Ok(player),
            (Role::Player, SecondPlayer::TakeOver) if take_over => Ok(player),
            (Role::Player, SecondPlayer::TakeOver) => observer(ObserverReason::PlayerPresent),
            (Role::Player, SecondPlayer::Observe) => observer(ObserverReason::TakeOverRefused),
            (Role::Player, SecondPlayer::Refuse) => Err(Refusal::PlayerPresent),
        }
    }

    /// Makes the player an observer, since another takes over; without room for one more it is out.
    fn displace(&mut self) {
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

    /// If nobody plays, whoever lost the role last gets it back; if nobody lost it, whoever waits longest.
    pub(crate) fn promote(&mut self) {
        let held = |(_, standing): &(_, Standing)| !matches!(standing, Standing::Observer(_));
        if self.members.iter().any(held) {
            return;
        }
        let waiting = self.members.iter_mut().filter_map(|member| match member.1 {
            Standing::Observer(claim) if claim != Claim::None => Some((claim, member)),
            _ => None,
        });
        // Of equals the last counts: who came first.
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
        // Nobody waits for a role that nobody has.
        assert!(players == 1 || reserved || !self.members.iter().any(waits));
        let twice = |(i, m): (usize, &(SubscriberId, Standing))| {
            self.members[..i].iter().any(|other| other.0 == m.0)
        };
        assert!(!self.members.iter().enumerate().any(twice));
    }
}

#[cfg(test)]
mod tests;
