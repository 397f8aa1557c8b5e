//! What a key press says to an application: which key it is, or what it types.

/// How a client tells keys.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum Keys {
    /// With the character that the client's layout makes of them: for text.
    #[default]
    Symbol = 0,
    /// By their place on the keyboard alone: for games.
    Position = 1,
    /// All keys, and beside them the characters that they typed: for an application that takes both
    /// apart.
    Both = 2,
}

impl Keys {
    /// Its word in options and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Keys::Symbol => "symbol",
            Keys::Position => "position",
            Keys::Both => "both",
        }
    }
}
