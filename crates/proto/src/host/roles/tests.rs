use proptest::prelude::*;

use super::*;
use crate::id::SessionId;

const DESK: SubscriberId = SubscriberId::Session(SessionId(1));
const SOFA: SubscriberId = SubscriberId::Session(SessionId(2));
const BROWSER: SubscriberId = SubscriberId::Other(1);

fn changes(roles: &mut Roles) -> Vec<RoleChange> {
    roles.promote();
    std::iter::from_fn(|| roles.poll_change()).collect()
}

fn plays(id: SubscriberId) -> RoleChange {
    let role = Role::Player;
    RoleChange::Granted(
        id,
        Grant {
            role,
            observer_reason: None,
        },
    )
}

fn watches(id: SubscriberId, reason: ObserverReason) -> RoleChange {
    RoleChange::Granted(id, observes(reason))
}

fn observes(reason: ObserverReason) -> Grant {
    Grant {
        role: Role::Observer,
        observer_reason: Some(reason),
    }
}

#[test]
fn a_browser_takes_over_and_gives_the_role_back_when_it_leaves() {
    let mut roles = Roles::new(SecondPlayer::TakeOver, 2);
    let play = |roles: &mut Roles, id, take_over| roles.request(id, Role::Player, take_over);
    assert_eq!(
        play(&mut roles, DESK, false).map(|g| g.role),
        Ok(Role::Player)
    );
    let waits = Ok(observes(ObserverReason::PlayerPresent));
    assert_eq!(play(&mut roles, SOFA, false), waits);
    assert_eq!(changes(&mut roles), []);
    assert_eq!(
        play(&mut roles, BROWSER, true).map(|g| g.role),
        Ok(Role::Player)
    );
    assert_eq!(
        changes(&mut roles),
        [watches(DESK, ObserverReason::TakenOver)]
    );
    assert_eq!(roles.player(), Some(BROWSER));
    // A displaced player takes precedence over a member that requested to play.
    assert!(roles.leave(BROWSER));
    assert_eq!(changes(&mut roles), [plays(DESK)]);
    assert!(roles.leave(DESK));
    assert_eq!(changes(&mut roles), [plays(SOFA)]);
}

#[test]
fn observers_may_request_to_play_and_players_to_watch() {
    let mut roles = Roles::new(SecondPlayer::TakeOver, 2);
    assert!(roles.request(DESK, Role::Player, false).is_ok());
    assert!(roles.request(BROWSER, Role::Observer, false).is_ok());
    let granted = roles.request(BROWSER, Role::Player, true);
    assert_eq!(granted.map(|g| g.role), Ok(Role::Player));
    assert_eq!(
        changes(&mut roles),
        [watches(DESK, ObserverReason::TakenOver)]
    );
    let granted = roles.request(BROWSER, Role::Observer, false);
    assert_eq!(granted, Ok(observes(ObserverReason::Requested)));
    assert_eq!(changes(&mut roles), [plays(DESK)]);
    // The remaining observer requested to observe, so it has no claim.
    assert!(roles.leave(DESK));
    assert_eq!(changes(&mut roles), []);
}

#[test]
fn a_displaced_player_leaves_if_observers_are_full() {
    let mut roles = Roles::new(SecondPlayer::TakeOver, 0);
    assert!(roles.request(BROWSER, Role::Player, false).is_ok());
    assert!(roles.request(DESK, Role::Player, true).is_ok());
    assert_eq!(changes(&mut roles), [RoleChange::Removed(BROWSER)]);
    assert_eq!(roles.role(BROWSER), None);
    let refused = roles.request(SOFA, Role::Player, false);
    assert_eq!(refused, Err(Refusal::Full));
}

#[test]
fn the_role_is_reserved_for_a_reconnecting_device() {
    let mut roles = Roles::new(SecondPlayer::TakeOver, 2);
    assert!(roles.request(DESK, Role::Player, false).is_ok());
    assert!(roles.request(BROWSER, Role::Player, false).is_ok());
    roles.succeed(DESK, SOFA);
    assert!(roles.leave(DESK));
    assert_eq!(changes(&mut roles), []);
    let granted = roles.request(SOFA, Role::Player, false);
    assert_eq!(granted.map(|g| g.role), Ok(Role::Player));
    // A successor that sends no request frees the role when it leaves.
    roles.succeed(SOFA, DESK);
    assert!(roles.leave(SOFA));
    assert!(!roles.leave(DESK));
    assert_eq!(changes(&mut roles), [plays(BROWSER)]);
}

#[test]
fn a_reserved_role_is_given_to_others_only_by_a_take_over() {
    for second in [SecondPlayer::Refuse, SecondPlayer::Observe] {
        let mut roles = Roles::new(second, 2);
        assert!(roles.request(DESK, Role::Player, false).is_ok());
        roles.succeed(DESK, SOFA);
        assert!(roles.leave(DESK));
        let other = roles.request(BROWSER, Role::Player, true);
        assert!(
            other.is_err() || other == Ok(observes(ObserverReason::TakeOverRefused)),
            "{other:?}"
        );
        assert_eq!(changes(&mut roles), []);
        let granted = roles.request(SOFA, Role::Player, false);
        assert_eq!(granted.map(|g| g.role), Ok(Role::Player));
    }
    let mut roles = Roles::new(SecondPlayer::TakeOver, 2);
    assert!(roles.request(DESK, Role::Player, false).is_ok());
    roles.succeed(DESK, SOFA);
    assert!(roles.leave(DESK));
    let waits = Ok(observes(ObserverReason::PlayerPresent));
    assert_eq!(roles.request(BROWSER, Role::Player, false), waits);
    let granted = roles.request(BROWSER, Role::Player, true);
    assert_eq!(granted.map(|g| g.role), Ok(Role::Player));
    assert_eq!(roles.request(SOFA, Role::Player, false), waits);
    // The take-over ended the reservation, so the reservation no longer prevents a promotion.
    assert!(roles.leave(BROWSER));
    assert_eq!(changes(&mut roles), [plays(SOFA)]);
}

/// An action of a subscriber.
#[derive(Clone, Copy, Debug)]
enum Act {
    FrameRequest(SubscriberId, Role, bool),
    Leave(SubscriberId),
    Succeed(SubscriberId, SubscriberId),
}

fn act() -> impl Strategy<Value = Act> {
    let id = || {
        (0_u32..6, any::<bool>()).prop_map(|(n, session)| match session {
            true => SubscriberId::Session(SessionId(n)),
            false => SubscriberId::Other(n),
        })
    };
    let role = any::<bool>().prop_map(|plays| match plays {
        true => Role::Player,
        false => Role::Observer,
    });
    prop_oneof![
        4 => (id(), role, any::<bool>()).prop_map(|(id, role, over)| Act::FrameRequest(id, role, over)),
        2 => id().prop_map(Act::Leave),
        1 => (id(), id()).prop_map(|(before, id)| Act::Succeed(before, id)),
    ]
}

/// The roles that the subscribers know from grants and changes.
#[derive(Default)]
struct KnownRoles(std::collections::HashMap<SubscriberId, Role>);

impl KnownRoles {
    fn follow(&mut self, roles: &mut Roles) {
        for change in changes(roles) {
            match change {
                RoleChange::Granted(id, grant) => {
                    let before = self.0.insert(id, grant.role);
                    assert_ne!(before, None, "{id} is notified after it left");
                    assert_ne!(
                        before,
                        Some(grant.role),
                        "{id} is notified of its known role"
                    );
                }
                RoleChange::Removed(id) => assert_eq!(self.0.remove(&id), Some(Role::Player)),
            }
        }
    }
}

proptest! {
    /// After any sequence of actions, there is at most one player, every member knows its role, and no claim is left while
    /// the role is free ([`Roles::check_invariants`]).
    #[test]
    fn any_order_leaves_one_player_and_no_open_claim(
        second in prop::sample::select(vec![
            SecondPlayer::Refuse,
            SecondPlayer::Observe,
            SecondPlayer::TakeOver,
        ]),
        room in 0_usize..4,
        acts in prop::collection::vec(act(), 0..60),
    ) {
        let mut roles = Roles::new(second, room);
        let mut known = KnownRoles::default();
        for act in acts {
            match act {
                Act::FrameRequest(id, wanted, take_over) => {
                    let before = roles.members.clone();
                    let player = roles.player();
                    match roles.request(id, wanted, take_over) {
                        Ok(grant) => {
                            known.0.insert(id, grant.role);
                            let taken = player.is_some_and(|player| player != id)
                                && grant.role == Role::Player;
                            prop_assert!(!taken || take_over && second == SecondPlayer::TakeOver);
                        }
                        Err(_) => prop_assert_eq!(&roles.members, &before),
                    }
                }
                Act::Leave(id) => {
                    let played = known.0.remove(&id) == Some(Role::Player);
                    prop_assert_eq!(roles.leave(id), played);
                }
                Act::Succeed(before, id) => {
                    // Session numbers are unique.
                    if !roles.members.iter().any(|(member, _)| *member == id) {
                        roles.succeed(before, id);
                    }
                }
            }
            known.follow(&mut roles);
            roles.check_invariants();
            for (id, role) in &known.0 {
                prop_assert_eq!(roles.role(*id), Some(*role));
            }
        }
    }
}
