//! Bands of BGRX rows back into a picture. A lost band leaves the rows of the frame before.

use super::bands::Bands;
use super::{Backend, Codec, DecodeError, Decoder};

/// The line in the table.
pub const BACKEND: Backend = Backend {
    name: "raw",
    about: "pixels as they are",
    codec: Codec::Raw,
    open,
};

fn open() -> Result<Box<dyn Decoder>, DecodeError> {
    Ok(Box::new(Bands::new(|rows, _, place| {
        if rows.len() != place.len() {
            return Err("a band of raw rows has other rows than its header says".into());
        }
        place.copy_from_slice(rows);
        Ok(())
    })))
}
