//! Decodes JPEG bands with libjpeg-turbo, loaded at run time. Each band is decoded as it arrives
//! (see `encode/jpeg.rs` for bands). Where a band is lost, the rows of the previous frame remain.

use super::bands::Bands;
use super::{Backend, Codec, DecodeError, Decoder};
use crate::sys::turbojpeg::{Decompressor, Library};

/// The table entry.
pub const BACKEND: Backend = Backend {
    name: "jpeg",
    about: "JPEG in bands by libjpeg-turbo on the processor, band by band",
    codec: Codec::Jpeg,
    open,
};

fn open() -> Result<Box<dyn Decoder>, DecodeError> {
    let mut decompressor = Library::open(std::env::var_os("OPENUVR_TURBOJPEG"))
        .and_then(|library| Decompressor::new(&library))
        .map_err(DecodeError)?;
    Ok(Box::new(Bands::new(move |jpeg, band, place| {
        let size = (band.size.width as usize, band.rows as usize);
        decompressor.decompress(jpeg, size, place)
    })))
}
