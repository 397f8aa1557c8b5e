//! Events of the window.

use openuvr_proto::units::Size;

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Event {
    /// A key or button was pressed. Repeats are not reported.
    Press,
    /// A movement key was pressed or released.
    Walk(Direction, bool),
    /// The pointer's position, as a fraction of the window.
    Look(f32, f32),
    /// The window has a new size.
    Resized(Size),
    /// The window manager requests to close the window.
    Close,
}

/// The direction of a movement key.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Direction {
    Forward,
    Back,
    Left,
    Right,
}

impl Direction {
    /// The direction of a key of linux/input-event-codes.h.
    pub(crate) fn of_key(code: u32) -> Option<Direction> {
        Some(match code {
            // KEY_W, KEY_UP, and so on.
            17 | 103 => Direction::Forward,
            31 | 108 => Direction::Back,
            30 | 105 => Direction::Left,
            32 | 106 => Direction::Right,
            _ => return None,
        })
    }
}
