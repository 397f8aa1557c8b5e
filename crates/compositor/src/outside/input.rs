//! The player's input, which is passed to the compositor's thread.

use std::sync::Arc;

use openuvr_media::input_sink::{InputError, InputSink};
use openuvr_proto::input::event::InputEvent;
use openuvr_proto::units::Size;

use super::{COMMANDS, Command, Commands};

/// The maximum number of input events that wait for the compositor. The other 64 entries of the queue are for other
/// commands (guess: at most as many wait at once), so that keys are released even if too much input is waiting. A
/// refused release would leave its key pressed.
const INPUTS: usize = COMMANDS - 64;

const SLOW: &str = "the Wayland display does not take input fast enough";

/// Injects input into a display; owned by the host's control thread. It does not wait for the compositor: an event is
/// refused if too many events are waiting.
pub struct DisplayInput {
    commands: Commands,
    /// Each waiting event holds a clone of this `Arc`, so the reference count shows how many events are waiting.
    waiting: Arc<()>,
}

impl DisplayInput {
    pub(crate) fn new(commands: Commands) -> DisplayInput {
        DisplayInput {
            commands,
            waiting: Arc::default(),
        }
    }

    fn send(&self, command: Command) -> Result<(), InputError> {
        use std::sync::mpsc::TrySendError;

        self.commands.try_send(command).map_err(|why| {
            InputError(match why {
                TrySendError::Full(_) => SLOW.to_owned(),
                TrySendError::Disconnected(_) => "the Wayland display has ended".to_owned(),
            })
        })
    }
}

impl InputSink for DisplayInput {
    fn apply(&mut self, event: &InputEvent) -> Result<(), InputError> {
        let releases = matches!(
            event,
            InputEvent::ReleaseAll
                | InputEvent::Key { pressed: false, .. }
                | InputEvent::Button { pressed: false, .. }
        );
        if !releases && Arc::strong_count(&self.waiting) > INPUTS {
            return Err(InputError(SLOW.to_owned()));
        }
        self.send(Command::Input {
            event: *event,
            _waiting: self.waiting.clone(),
        })
    }

    fn release_all(&mut self) -> Result<(), InputError> {
        self.send(Command::ReleaseAll)
    }

    fn allow_repeat(&mut self, may: bool) -> Result<(), InputError> {
        self.send(Command::Repeat(may))
    }

    /// Does nothing, because the picture is always the whole display.
    fn set_viewport(&mut self, _: i32, _: i32, _: Size) {}
}

#[cfg(test)]
mod tests {
    use openuvr_proto::input::event::{Button, KeyCode};
    use smithay::reexports::calloop::channel::sync_channel;

    use super::*;

    #[test]
    fn keys_are_released_even_if_too_much_input_waits() {
        let (commands, inbox) = sync_channel(COMMANDS);
        let mut input = DisplayInput::new(commands);
        let moved = InputEvent::PointerRelative { dx: 1, dy: 0 };
        let mut taken = 0;
        while input.apply(&moved).is_ok() {
            taken += 1;
        }
        assert_eq!(taken, INPUTS);
        let key = |pressed| InputEvent::Key {
            code: KeyCode(30),
            text: None,
            pressed,
        };
        let button = |pressed| InputEvent::Button {
            button: Button::LEFT,
            pressed,
        };
        assert!(input.apply(&key(true)).is_err() && input.apply(&button(true)).is_err());
        assert!(input.release_all().is_ok());
        let releases = [InputEvent::ReleaseAll, key(false), button(false)];
        for release in releases {
            assert!(input.apply(&release).is_ok(), "{release:?}");
        }
        // The compositor takes four of the events, so there is space for one.
        for _ in 0..4 {
            assert!(inbox.try_recv().is_ok());
        }
        assert!(input.apply(&moved).is_ok());
        assert!(input.apply(&moved).is_err());
    }
}
