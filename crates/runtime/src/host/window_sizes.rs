//! How large the clients' windows are, and with that the player's: what the display may be given.

use std::collections::HashMap;

use openuvr_proto::id::SubscriberId;
use openuvr_proto::units::Size;

/// The windows' sizes, of those that are here and have said one.
#[derive(Default)]
pub(super) struct WindowSizes {
    sizes: HashMap<SubscriberId, Size>,
    /// That of the player, as it was told last.
    reported: Option<Size>,
}

impl WindowSizes {
    /// Somebody's window has this size now.
    pub(super) fn set(&mut self, subscriber: SubscriberId, size: Size) {
        self.sizes.insert(subscriber, size);
    }

    /// Somebody is gone.
    pub(super) fn remove(&mut self, subscriber: SubscriberId) {
        self.sizes.remove(&subscriber);
    }

    /// The size of the player's window, if it is another than last time.
    pub(super) fn changed(&mut self, player: Option<SubscriberId>) -> Option<Option<Size>> {
        let now = player.and_then(|player| self.sizes.get(&player).copied());
        let before = std::mem::replace(&mut self.reported, now);
        (before != now).then_some(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_players_window_size_is_reported() {
        let mut windows = WindowSizes::default();
        let [one, other] = [1, 2].map(SubscriberId::Other);
        let [small, large] = [Size::new(640, 360), Size::new(1280, 720)];
        assert_eq!(windows.changed(None), None);
        windows.set(other, large);
        assert_eq!(windows.changed(Some(one)), None);
        windows.set(one, small);
        assert_eq!(windows.changed(Some(one)), Some(Some(small)));
        assert_eq!(windows.changed(Some(one)), None);
        // Who takes over brings the size that it said before.
        assert_eq!(windows.changed(Some(other)), Some(Some(large)));
        windows.remove(other);
        assert_eq!(windows.changed(None), Some(None));
        assert_eq!(windows.changed(None), None);
    }
}
