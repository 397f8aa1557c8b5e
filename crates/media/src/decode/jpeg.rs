//! Bands of JPEG back into a picture with libjpeg-turbo, opened at run time, each as it arrives
//! (`encode/jpeg.rs` says what a band is). A lost band leaves the rows of the frame before.

use super::canvas::Canvas;
use super::{Backend, Chunk, Codec, DecodeError, Decoder};
use crate::picture::Picture;
use crate::sys::turbojpeg::{Decompressor, Library};

/// The line in the table.
pub const BACKEND: Backend = Backend {
    name: "jpeg",
    about: "JPEG in bands by libjpeg-turbo on the processor, each as it arrives",
    codec: Codec::Jpeg,
    open,
};

struct Jpeg {
    decompressor: Decompressor,
    canvas: Canvas,
}

fn open() -> Result<Box<dyn Decoder>, DecodeError> {
    let opened = Library::open(std::env::var_os("OPENUVR_TURBOJPEG"))
        .and_then(|library| Decompressor::new(&library));
    Ok(Box::new(Jpeg {
        decompressor: opened.map_err(DecodeError)?,
        canvas: Canvas::default(),
    }))
}

impl Decoder for Jpeg {
    fn feed(&mut self, chunk: &Chunk<'_>) -> Result<Option<Picture<'_>>, DecodeError> {
        self.canvas.feed(chunk, |jpeg, band, place| {
            let size = (band.size.width as usize, band.rows as usize);
            self.decompressor.decompress(jpeg, size, place)
        })
    }

    fn reset(&mut self) {
        self.canvas = Canvas::default();
    }
}
