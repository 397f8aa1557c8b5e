//! Bands of BGRX rows back into a picture. A lost band leaves the rows of the frame before.

use openuvr_proto::units::Size;

use super::{Backend, Chunk, Codec, DecodeError, Decoder};
use crate::band::Band;
use crate::picture::Picture;

/// The line in the table.
pub const BACKEND: Backend = Backend {
    name: "raw",
    about: "pixels as they are",
    codec: Codec::Raw,
    open: || Ok(Box::new(Raw::default())),
};

#[derive(Default)]
struct Raw {
    size: Size,
    pixels: Vec<u8>,
}

impl Decoder for Raw {
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
        *self = Raw::default();
    }
}

impl Raw {
    fn band(&mut self, bytes: &[u8]) -> Result<(), &'static str> {
        let (band, rows) = Band::read(bytes)?;
        let row = band.size.width as usize * 4;
        if rows.len() != band.rows as usize * row {
            return Err("a band of raw rows has other rows than its header says");
        }
        if band.size != self.size {
            self.size = band.size;
            self.pixels.clear();
            self.pixels.resize(band.size.pixels() * 4, 0);
        }
        self.pixels[band.first as usize * row..][..rows.len()].copy_from_slice(rows);
        Ok(())
    }
}
