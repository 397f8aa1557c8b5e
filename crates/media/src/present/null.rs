//! A surface that only counts pictures.

use openuvr_proto::id::FrameId;

use super::{PresentError, Presenter};
use crate::cursor::Cursor;
use crate::picture::Picture;

/// Discards all pictures.
#[derive(Clone, Copy, Debug, Default)]
pub struct Null {
    /// Number of pictures.
    pub pictures: u64,
    /// Number of pointer changes.
    pub cursors: u64,
}

impl Presenter for Null {
    fn present(&mut self, _: FrameId, _: &Picture<'_>) -> Result<(), PresentError> {
        self.pictures += 1;
        Ok(())
    }

    fn cursor(&mut self, _: &Cursor) -> Result<(), PresentError> {
        self.cursors += 1;
        Ok(())
    }
}
