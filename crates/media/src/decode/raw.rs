//! Bands of BGRX rows back into a picture (`encode/raw.rs` says what a band looks like).
//! A lost band leaves the rows of the frame before.

use openuvr_proto::units::Size;

use super::{Backend, Chunk, Codec, DecodeError, Decoder};
use crate::codec::MAX_PIXELS;
use crate::picture::Picture;

/// The line in the table.
pub const BACKEND: Backend = Backend {
    name: "raw",
    codec: Codec::Raw,
    open: || Ok(Box::new(Raw::default())),
};

/// Bytes in front of the rows: four 16-bit numbers.
const HEADER: usize = 8;

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
        let (header, rows) = (bytes.split_first_chunk::<HEADER>())
            .ok_or("a band of raw rows is shorter than its header")?;
        let number = |i: usize| u32::from(u16::from_le_bytes([header[i], header[i + 1]]));
        let size = Size::new(number(0), number(2));
        let (first, count) = (number(4) as usize, number(6) as usize);
        if !size.is_valid() || size.pixels() > MAX_PIXELS {
            return Err("a band of raw rows says an impossible size");
        }
        let row = size.width as usize * 4;
        if first + count > size.height as usize || rows.len() != count * row {
            return Err("a band of raw rows has other rows than its header says");
        }
        if size != self.size {
            self.size = size;
            self.pixels.clear();
            self.pixels.resize(size.pixels() * 4, 0);
        }
        self.pixels[first * row..][..rows.len()].copy_from_slice(rows);
        Ok(())
    }
}
