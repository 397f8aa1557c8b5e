//! Present: the newest picture goes to the person's eyes at once.

use openuvr_proto::id::FrameId;

use crate::cursor::Cursor;
use crate::picture::Picture;

/// A surface that shows pictures, owned by the client's media thread.
pub trait Presenter: Send {
    /// Hands a picture to the display and returns as soon as the display has taken it; never
    /// waits for a refresh. Scales if the sizes differ.
    ///
    /// # Errors
    /// [`PresentError`] if the surface is gone.
    fn present(&mut self, frame: FrameId, picture: &Picture<'_>) -> Result<(), PresentError>;

    /// The pointer's shape and place, drawn over the picture without waiting for a frame.
    ///
    /// # Errors
    /// [`PresentError`] if the surface is gone.
    fn cursor(&mut self, cursor: &Cursor) -> Result<(), PresentError>;
}

/// Why a surface could not be opened, or is gone.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct PresentError(pub String);
