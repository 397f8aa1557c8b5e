//! Input events in the portal's units, in the order in which they are performed.

use std::sync::mpsc::SyncSender;

/// A rotation of the wheel.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Wheel {
    /// Whole notches to the right and down.
    Notches(i32, i32),
    /// A distance to the right and down (in KDE, to the right and up), as libinput reports it: 15 for a notch.
    Smooth(f64, f64),
}

/// An input event.
#[derive(Debug)]
pub(crate) enum Command {
    /// A key by its Linux code.
    Key(i32, bool),
    /// A key by its X symbol (keysym).
    Symbol(i32, bool),
    /// A pointer button by its Linux code.
    Button(i32, bool),
    /// A motion in pixels.
    Move(f64, f64),
    /// A position in the stream of this node.
    MoveTo(u32, f64, f64),
    /// A rotation of the wheel.
    Wheel(Wheel),
    /// Reports that all events before it have been performed.
    Flush(SyncSender<()>),
}

/// The kinds of input that the desktop's user has allowed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Permitted {
    /// Keys.
    pub(crate) keyboard: bool,
    /// Pointer motion, buttons and the wheel.
    pub(crate) pointer: bool,
}

impl Command {
    /// Whether the portal accepts this command.
    pub(crate) fn is_permitted(&self, permitted: Permitted) -> bool {
        match self {
            Command::Key(..) | Command::Symbol(..) => permitted.keyboard,
            Command::Button(..) | Command::Move(..) | Command::MoveTo(..) | Command::Wheel(_) => {
                permitted.pointer
            }
            Command::Flush(_) => true,
        }
    }

    /// Whether the event releases a key or a button, or reports that the releases have been performed.
    pub(super) fn is_release(&self) -> bool {
        matches!(
            self,
            Command::Key(_, false)
                | Command::Symbol(_, false)
                | Command::Button(_, false)
                | Command::Flush(_)
        )
    }

    /// Merges this command with `next` if both are relative motions or both are positions. Returns the command to
    /// perform now, and the one after it.
    pub(super) fn merged(self, next: Option<Command>) -> (Command, Option<Command>) {
        match (self, next) {
            (Command::Move(dx, dy), Some(Command::Move(x, y))) => {
                (Command::Move(dx + x, dy + y), None)
            }
            (Command::MoveTo(..), Some(to @ Command::MoveTo(..))) => (to, None),
            (now, next) => (now, next),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_permitted_kinds_of_input_are_sent() {
        for (keyboard, pointer) in [(true, false), (false, true)] {
            let permitted = Permitted { keyboard, pointer };
            for command in [Command::Key(30, true), Command::Symbol(0x61, false)] {
                assert_eq!(command.is_permitted(permitted), keyboard);
            }
            for command in [
                Command::Button(0x110, true),
                Command::Move(1.0, 0.0),
                Command::MoveTo(7, 1.0, 2.0),
                Command::Wheel(Wheel::Notches(0, 1)),
            ] {
                assert_eq!(command.is_permitted(permitted), pointer);
            }
        }
    }

    #[test]
    fn motions_merge_and_nothing_else_is_lost() {
        let (now, next) = Command::Move(1.0, 2.0).merged(Some(Command::Move(3.0, -1.0)));
        assert!(matches!(now, Command::Move(4.0, 1.0)) && next.is_none());
        let (now, next) = Command::MoveTo(7, 1.0, 2.0).merged(Some(Command::MoveTo(7, 3.0, 4.0)));
        assert!(matches!(now, Command::MoveTo(7, 3.0, 4.0)) && next.is_none());
        let (now, next) = Command::Move(1.0, 0.0).merged(Some(Command::Button(0x110, true)));
        assert!(matches!(now, Command::Move(..)) && matches!(next, Some(Command::Button(..))));
        let (now, next) = Command::Key(30, true).merged(Some(Command::Key(30, false)));
        assert!(matches!(
            (now, next),
            (Command::Key(_, true), Some(Command::Key(_, false)))
        ));
    }
}
