//! The clients' window sizes. The player's window size may determine the size of the display.

use std::collections::HashMap;

use openuvr_proto::host::WantedDisplay;
use openuvr_proto::id::SubscriberId;

/// The reported window sizes of connected clients.
#[derive(Default)]
pub(super) struct WindowSizes {
    sizes: HashMap<SubscriberId, WantedDisplay>,
    /// The value that [`WindowSizes::changed`] last compared: the player's size.
    reported: Option<WantedDisplay>,
}

impl WindowSizes {
    /// Sets a client's window size.
    pub(super) fn set(&mut self, subscriber: SubscriberId, window: WantedDisplay) {
        self.sizes.insert(subscriber, window);
    }

    /// Removes a client.
    pub(super) fn remove(&mut self, subscriber: SubscriberId) {
        self.sizes.remove(&subscriber);
    }

    /// The player's window size, if it has changed since the last call.
    pub(super) fn changed(
        &mut self,
        player: Option<SubscriberId>,
    ) -> Option<Option<WantedDisplay>> {
        let now = player.and_then(|player| self.sizes.get(&player).copied());
        let before = std::mem::replace(&mut self.reported, now);
        (before != now).then_some(now)
    }
}

#[cfg(test)]
mod tests {
    use openuvr_proto::units::Size;

    use super::*;

    #[test]
    fn only_the_players_window_size_is_reported() {
        let mut windows = WindowSizes::default();
        let [one, other] = [1, 2].map(SubscriberId::Other);
        let [small, large] = [(640, 360), (1280, 720)].map(|(width, height)| WantedDisplay {
            size: Size::new(width, height),
            rate: None,
        });
        assert_eq!(windows.changed(None), None);
        windows.set(other, large);
        assert_eq!(windows.changed(Some(one)), None);
        windows.set(one, small);
        assert_eq!(windows.changed(Some(one)), Some(Some(small)));
        assert_eq!(windows.changed(Some(one)), None);
        // A new player's size counts even if the client reported it before it became the player.
        assert_eq!(windows.changed(Some(other)), Some(Some(large)));
        windows.remove(other);
        assert_eq!(windows.changed(None), Some(None));
        assert_eq!(windows.changed(None), None);
    }
}
