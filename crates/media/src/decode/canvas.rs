//! A picture made of bands that know nothing of each other: a lost one leaves the rows of the frame
//! before. Not what is in a band: its codec's.

use openuvr_proto::units::Size;

use super::{Chunk, DecodeError};
use crate::band::Band;
use crate::picture::Picture;

/// BGRX pixels that bands are painted on.
#[derive(Default)]
pub(super) struct Canvas {
    size: Size,
    pixels: Vec<u8>,
}

impl Canvas {
    /// Lets `paint` turn a chunk's bytes into the rows of its band; the picture, behind the last
    /// chunk of a frame.
    pub(super) fn feed(
        &mut self,
        chunk: &Chunk<'_>,
        paint: impl FnOnce(&[u8], Band, &mut [u8]) -> Result<(), String>,
    ) -> Result<Option<Picture<'_>>, DecodeError> {
        let wrong = |what: String| DecodeError(format!("frame {}: {what}", chunk.frame.0));
        if let Some(bytes) = chunk.bytes {
            self.band(bytes, paint)
                .map_err(|what| wrong(format!("{what}, the band is dropped")))?;
        }
        if !chunk.last {
            return Ok(None);
        }
        if self.pixels.is_empty() {
            return Err(wrong(
                "all its bands were lost, and there was no frame before it".into(),
            ));
        }
        let stride = self.size.width as usize * 4;
        Ok(Some(Picture::bgrx(self.size, &self.pixels, stride)))
    }

    fn band(
        &mut self,
        bytes: &[u8],
        paint: impl FnOnce(&[u8], Band, &mut [u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        let (band, content) = Band::read(bytes)?;
        if band.size != self.size {
            self.size = band.size;
            self.pixels.clear();
            self.pixels.resize(band.size.pixels() * 4, 0);
        }
        let row = band.size.width as usize * 4;
        let place = &mut self.pixels[band.first as usize * row..][..band.rows as usize * row];
        paint(content, band, place)
    }
}
