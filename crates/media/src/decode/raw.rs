//! Bands of BGRX rows back into a picture. A lost band leaves the rows of the frame before.

use super::canvas::Canvas;
use super::{Backend, Chunk, Codec, DecodeError, Decoder};
use crate::picture::Picture;

/// The line in the table.
pub const BACKEND: Backend = Backend {
    name: "raw",
    about: "pixels as they are",
    codec: Codec::Raw,
    open: || Ok(Box::new(Raw::default())),
};

#[derive(Default)]
struct Raw(Canvas);

impl Decoder for Raw {
    fn feed(&mut self, chunk: &Chunk<'_>) -> Result<Option<Picture<'_>>, DecodeError> {
        self.0.feed(chunk, |rows, _, place| {
            if rows.len() != place.len() {
                return Err("a band of raw rows has other rows than its header says".into());
            }
            place.copy_from_slice(rows);
            Ok(())
        })
    }

    fn reset(&mut self) {
        *self = Raw::default();
    }
}
