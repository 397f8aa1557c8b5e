//! Decoders of pictures in independent bands. Each band is painted as it arrives. Where a band is lost, the rows of the
//! previous frame remain. The codec defines a band's content.

use openuvr_proto::units::Size;

use super::{Chunk, DecodeError, Decoded, Decoder, View};
use crate::band::Band;
use crate::picture::Picture;
use crate::present::Canvas;

/// Paints bands with `paint`, which decodes the bytes after a band's header to packed BGRX rows.
pub(super) struct Bands<P> {
    paint: P,
    /// Picture size in the newest band.
    size: Option<Size>,
    own: ScratchSurface,
}

/// Memory for [`Decoder::feed`], which gets no canvas.
#[derive(Default)]
struct ScratchSurface {
    size: Size,
    pixels: Vec<u8>,
}

impl<P> Bands<P>
where
    P: FnMut(&[u8], Band, &mut [u8]) -> Result<(), String> + Send,
{
    pub(super) fn new(paint: P) -> Bands<P> {
        Bands {
            paint,
            size: None,
            own: ScratchSurface::default(),
        }
    }
}

impl<P> Decoder for Bands<P>
where
    P: FnMut(&[u8], Band, &mut [u8]) -> Result<(), String> + Send,
{
    fn feed(&mut self, chunk: &Chunk<'_>) -> Result<Option<Picture<'_>>, DecodeError> {
        let own = &mut self.own;
        let size = paint(&mut self.paint, &mut self.size, chunk, |band| {
            Some(own.rows(band))
        })?;
        Ok(size.map(|size| Picture::bgrx(size, &self.own.pixels, size.width as usize * 4)))
    }

    fn paint(
        &mut self,
        chunk: &Chunk<'_>,
        // The view is not needed. Each band contains the size of its picture. All rows are painted, because later bands
        // do not necessarily replace them.
        _: Option<View>,
        canvas: &mut dyn Canvas,
    ) -> Result<Option<Decoded<'_>>, DecodeError> {
        let size = paint(&mut self.paint, &mut self.size, chunk, |band| {
            canvas.rows(band.size, band.first..band.first + band.rows)
        })?;
        Ok(size.map(Decoded::OnCanvas))
    }
}

impl ScratchSurface {
    fn rows(&mut self, band: Band) -> &mut [u8] {
        if band.size != self.size {
            self.size = band.size;
            self.pixels.clear();
            self.pixels.resize(band.size.pixels() * 4, 0);
        }
        let row = band.size.width as usize * 4;
        &mut self.pixels[band.first as usize * row..][..band.rows as usize * row]
    }
}

/// Paints the chunk's band on the rows provided by `rows`, if any. Returns the picture's size after
/// the last chunk of a frame.
fn paint<'r>(
    paint: &mut impl FnMut(&[u8], Band, &mut [u8]) -> Result<(), String>,
    size: &mut Option<Size>,
    chunk: &Chunk<'_>,
    rows: impl FnOnce(Band) -> Option<&'r mut [u8]>,
) -> Result<Option<Size>, DecodeError> {
    let wrong = |what: String| DecodeError(format!("frame {}: {what}", chunk.frame.0));
    if let Some(bytes) = chunk.bytes {
        let dropped = |what| wrong(format!("{what}; the band is dropped"));
        let (band, content) = Band::read(bytes).map_err(|what| dropped(what.into()))?;
        *size = Some(band.size);
        if let Some(place) = rows(band) {
            paint(content, band, place).map_err(dropped)?;
        }
    }
    let none = "all bands were lost, and there is no previous frame";
    match chunk.last {
        true => size.map(Some).ok_or_else(|| wrong(none.to_owned())),
        false => Ok(None),
    }
}
