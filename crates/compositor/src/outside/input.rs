//! The player's input, which is passed to the compositor's thread.

use openuvr_media::input_sink::{InputError, InputSink};
use openuvr_proto::input::event::InputEvent;
use openuvr_proto::units::Size;

use super::{Command, Commands};

/// Injects input into a display; owned by the host's control thread. It does not wait for the compositor: an event is
/// refused if the queue is full.
pub struct DisplayInput {
    commands: Commands,
}

impl DisplayInput {
    pub(crate) fn new(commands: Commands) -> DisplayInput {
        DisplayInput { commands }
    }

    fn send(&self, command: Command) -> Result<(), InputError> {
        use std::sync::mpsc::TrySendError;

        self.commands.try_send(command).map_err(|why| {
            InputError(match why {
                TrySendError::Full(_) => {
                    "the Wayland display does not take input fast enough".to_owned()
                }
                TrySendError::Disconnected(_) => "the Wayland display has ended".to_owned(),
            })
        })
    }
}

impl InputSink for DisplayInput {
    fn apply(&mut self, event: &InputEvent) -> Result<(), InputError> {
        self.send(Command::Input(*event))
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
