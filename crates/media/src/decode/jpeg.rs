//! Bands of JPEG back into a picture with libjpeg-turbo, opened at run time, each as it arrives
//! (`encode/jpeg.rs` says what a band is). A lost band leaves the rows of the frame before.

use openuvr_proto::units::Size;

use super::{Backend, Chunk, Codec, DecodeError, Decoder};
use crate::band::Band;
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
    size: Size,
    pixels: Vec<u8>,
}

fn open() -> Result<Box<dyn Decoder>, DecodeError> {
    let opened = Library::open(std::env::var_os("OPENUVR_TURBOJPEG"))
        .and_then(|library| Decompressor::new(&library));
    Ok(Box::new(Jpeg {
        decompressor: opened.map_err(DecodeError)?,
        size: Size::default(),
        pixels: Vec::new(),
    }))
}

impl Jpeg {
    fn band(&mut self, bytes: &[u8]) -> Result<(), String> {
        let (band, jpeg) = Band::read(bytes)?;
        if band.size != self.size {
            self.size = band.size;
            self.pixels.clear();
            self.pixels.resize(band.size.pixels() * 4, 0);
        }
        let (width, rows) = (band.size.width as usize, band.rows as usize);
        let place = &mut self.pixels[band.first as usize * width * 4..][..rows * width * 4];
        self.decompressor.decompress(jpeg, (width, rows), place)
    }
}

impl Decoder for Jpeg {
    fn feed(&mut self, chunk: &Chunk<'_>) -> Result<Option<Picture<'_>>, DecodeError> {
        if let Some(bytes) = chunk.bytes {
            self.band(bytes).map_err(|what| {
                DecodeError(format!(
                    "frame {}: {what}, the band is dropped",
                    chunk.frame.0
                ))
            })?;
        }
        if !chunk.last {
            return Ok(None);
        }
        if self.pixels.is_empty() {
            return Err(DecodeError(format!(
                "frame {} lost all its bands, and there was none before it",
                chunk.frame.0
            )));
        }
        let stride = self.size.width as usize * 4;
        Ok(Some(Picture::bgrx(self.size, &self.pixels, stride)))
    }

    fn reset(&mut self) {
        self.size = Size::default();
        self.pixels = Vec::new();
    }
}
