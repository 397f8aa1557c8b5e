//! Bands of JPEG back into a picture with libjpeg-turbo, opened at run time, each as it arrives
//! (`encode/jpeg.rs` says what a band is). A lost band leaves the rows of the frame before.

use super::bands::Bands;
use super::{Backend, Codec, DecodeError, Decoder};
use crate::sys::turbojpeg::{Decompressor, Library};

/// The line in the table.
pub const BACKEND: Backend = Backend {
    name: "jpeg",
    about: "JPEG in bands by libjpeg-turbo on the processor, each as it arrives",
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
