//! A sink that only counts events.

use openuvr_proto::input::event::InputEvent;
use openuvr_proto::units::Size;

use super::{InputError, InputSink};

/// Discards all events.
#[derive(Clone, Copy, Debug, Default)]
pub struct Null {
    /// Events applied.
    pub events: u64,
    /// Number of calls that release everything.
    pub releases: u64,
}

impl InputSink for Null {
    fn apply(&mut self, event: &InputEvent) -> Result<(), InputError> {
        self.events += 1;
        match event {
            InputEvent::ReleaseAll => self.release_all(),
            _ => Ok(()),
        }
    }

    fn release_all(&mut self) -> Result<(), InputError> {
        self.releases += 1;
        Ok(())
    }

    fn set_viewport(&mut self, _: i32, _: i32, _: Size) {}
}
