//! A surface that shows nothing and counts.

use openuvr_proto::id::FrameId;

use super::{PresentError, Presenter};
use crate::cursor::Cursor;
use crate::picture::Picture;

/// Takes every picture and forgets it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Null {
    /// Pictures taken.
    pub pictures: u64,
    /// Pointer changes taken.
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
