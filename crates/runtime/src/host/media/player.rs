//! The player, as the media thread knows it from its commands.

use openuvr_proto::id::SubscriberId;

/// The player, and for a moment its predecessor.
///
/// When a player leaves, the control thread first announces the successor, and then removes the player. When a player
/// is displaced, the control thread announces the successor before or after the player's new role. Between the two
/// commands, the media thread must not exchange the renditions of the two players: it would reopen the encoder of the
/// predecessor's rendition, which may end with the next command.
#[derive(Default)]
pub(super) struct PlayerRole {
    player: Option<SubscriberId>,
    /// The previous player, until it has left or become an observer.
    predecessor: Option<SubscriberId>,
}

impl PlayerRole {
    pub(super) fn player(&self) -> Option<SubscriberId> {
        self.player
    }

    /// Whether the previous player has left or become an observer.
    pub(super) fn is_settled(&self) -> bool {
        self.predecessor.is_none()
    }

    /// Handles the command that makes a subscriber the player.
    pub(super) fn begins(&mut self, id: SubscriberId) {
        let before = self.player.replace(id);
        self.predecessor = before.filter(|before| *before != id).or(self.predecessor);
        self.predecessor.take_if(|predecessor| *predecessor == id);
    }

    /// Handles the command that makes a subscriber an observer or removes it.
    pub(super) fn ends(&mut self, id: SubscriberId) {
        self.player.take_if(|player| *player == id);
        self.predecessor.take_if(|predecessor| *predecessor == id);
    }
}

#[cfg(test)]
mod tests {
    use openuvr_proto::id::SessionId;

    use super::*;

    fn id(number: u32) -> SubscriberId {
        SessionId(number).into()
    }

    #[test]
    fn a_successor_waits_until_its_predecessor_has_left() {
        let mut role = PlayerRole::default();
        role.begins(id(1));
        assert!(role.is_settled());
        role.begins(id(2));
        assert_eq!(role.player(), Some(id(2)));
        assert!(!role.is_settled());
        role.ends(id(3));
        assert!(!role.is_settled(), "an observer has left");
        role.ends(id(1));
        assert_eq!(role.player(), Some(id(2)));
        assert!(role.is_settled());
    }

    #[test]
    fn a_successor_of_an_observer_does_not_wait() {
        let mut role = PlayerRole::default();
        role.begins(id(1));
        role.ends(id(1));
        assert_eq!(role.player(), None);
        role.begins(id(2));
        assert!(role.is_settled());
    }

    #[test]
    fn a_role_that_returns_to_its_predecessor_waits_for_the_other() {
        let mut role = PlayerRole::default();
        role.begins(id(1));
        role.begins(id(2));
        role.begins(id(1));
        assert!(!role.is_settled());
        role.ends(id(2));
        assert_eq!((role.player(), role.is_settled()), (Some(id(1)), true));
        role.begins(id(1));
        assert!(role.is_settled(), "the same player");
    }
}
