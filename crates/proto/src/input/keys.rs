//! How key presses are delivered to an application: as keys or as characters.

use serde::{Deserialize, Serialize};

/// The interpretation of keys at the client.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Keys {
    /// By the character in the client's layout: for text.
    #[default]
    Symbol = 0,
    /// Only by their position on the keyboard: for games.
    Position = 1,
    /// As keys, together with the characters that they typed: for an application that reads both.
    Both = 2,
}

impl Keys {
    /// Its name in options and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Keys::Symbol => "symbol",
            Keys::Position => "position",
            Keys::Both => "both",
        }
    }
}
