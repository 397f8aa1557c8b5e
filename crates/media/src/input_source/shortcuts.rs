//! The shortcuts of the client's window: one table, which the help, the overlay and the documents
//! show.

use openuvr_proto::input::event::KeyCode;

use super::SoundCommand;
use crate::keyboard::keymap::{CONTROL, MOD1, SHIFT};

/// Modifiers of all shortcuts.
pub const HELD: u8 = CONTROL | MOD1 | SHIFT;

/// A shortcut's action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// End the client.
    Quit,
    /// Enter or leave full screen.
    FullScreen,
    /// Grab or release keyboard and pointer.
    Grab,
    /// Show or hide the statistics.
    Overlay,
    /// Show the next view of a stereo picture.
    Eyes,
    /// Make the head's current direction count as ahead.
    Recentre,
    /// Send symbols or positions of keys.
    Keys,
    /// Change the volume.
    Sound(SoundCommand),
}

/// A shortcut.
#[derive(Clone, Copy, Debug)]
pub struct Shortcut {
    /// The keys, as in a menu.
    pub keys: &'static str,
    /// Its effect.
    pub does: &'static str,
    /// The last key of the shortcut, by its position on a US keyboard.
    code: KeyCode,
    own: Action,
}

/// All shortcuts.
pub const SHORTCUTS: &[Shortcut] = &[
    Shortcut {
        keys: "Ctrl+Alt+Shift+G",
        does: "grab or release mouse and keyboard",
        code: KeyCode(34),
        own: Action::Grab,
    },
    Shortcut {
        keys: "Ctrl+Alt+Shift+F",
        does: "full screen",
        code: KeyCode(33),
        own: Action::FullScreen,
    },
    Shortcut {
        keys: "Ctrl+Alt+Shift+K",
        does: "map keys by position or by symbol",
        code: KeyCode(37),
        own: Action::Keys,
    },
    Shortcut {
        keys: "Ctrl+Alt+Shift+L",
        does: "statistics overlay",
        code: KeyCode(38),
        own: Action::Overlay,
    },
    Shortcut {
        keys: "Ctrl+Alt+Shift+E",
        does: "switch the stereo view: both eyes, left, right, anaglyph",
        code: KeyCode(18),
        own: Action::Eyes,
    },
    Shortcut {
        keys: "Ctrl+Alt+Shift+C",
        does: "recentre: set the head's current direction as straight ahead",
        code: KeyCode(46),
        own: Action::Recentre,
    },
    Shortcut {
        keys: "Ctrl+Alt+Shift+M",
        does: "mute",
        code: KeyCode(50),
        own: Action::Sound(SoundCommand::Mute),
    },
    Shortcut {
        keys: "Ctrl+Alt+Shift+Up",
        does: "volume up",
        code: KeyCode(103),
        own: Action::Sound(SoundCommand::Louder),
    },
    Shortcut {
        keys: "Ctrl+Alt+Shift+Down",
        does: "volume down",
        code: KeyCode(108),
        own: Action::Sound(SoundCommand::Quieter),
    },
    Shortcut {
        keys: "Ctrl+Alt+Shift+Q",
        does: "quit",
        code: KeyCode(16),
        own: Action::Quit,
    },
];

/// The action of a key while the shortcut modifiers are held.
pub fn own(code: KeyCode) -> Option<Action> {
    let found = SHORTCUTS.iter().find(|shortcut| shortcut.code == code);
    found.map(|shortcut| shortcut.own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyboard::codes;

    #[test]
    fn the_key_that_is_named_is_the_key_that_acts() {
        for shortcut in SHORTCUTS {
            let letter = shortcut
                .keys
                .strip_prefix("Ctrl+Alt+Shift+")
                .expect("all modifiers are held");
            let named = codes::by_name(&format!("KEY_{}", letter.to_uppercase()));
            assert_eq!(named, Some(shortcut.code), "{shortcut:?}");
            assert_eq!(own(shortcut.code), Some(shortcut.own), "each key once");
        }
    }
}
