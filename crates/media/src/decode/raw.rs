//! Decodes bands of BGRX rows. Where a band is lost, the rows of the previous frame remain.

use super::bands::Bands;
use super::{Backend, Codec, DecodeError, Decoder};

/// The table entry.
pub const BACKEND: Backend = Backend {
    name: "raw",
    about: "uncompressed pixels",
    codec: Codec::Raw,
    open,
};

fn open() -> Result<Box<dyn Decoder>, DecodeError> {
    Ok(Box::new(Bands::new(|rows, _, place| {
        if rows.len() != place.len() {
            return Err("a raw band's length does not match its header".into());
        }
        place.copy_from_slice(rows);
        Ok(())
    })))
}
