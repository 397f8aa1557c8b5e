//! Input sink: what the person did reaches the application.

use openuvr_proto::input::event::InputEvent;
use openuvr_proto::units::Size;

/// Injects events into a window system or device; owned by the host's control thread.
pub trait InputSink: Send {
    /// Applies one event.
    ///
    /// # Errors
    /// [`InputError`] if the display is gone or the event can't be expressed there.
    fn apply(&mut self, event: &InputEvent) -> Result<(), InputError>;

    /// Releases every key and button that this sink pressed.
    ///
    /// # Errors
    /// [`InputError`] if the display is gone.
    fn release_all(&mut self) -> Result<(), InputError>;

    /// Where the picture lies on the display: absolute pointer places are relative to it.
    fn set_viewport(&mut self, x: i32, y: i32, size: Size);
}

/// Why input could not be injected.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct InputError(pub String);
