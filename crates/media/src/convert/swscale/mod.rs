//! BGRX to NV12 by libswscale, as most streaming programs do it: for measuring what our own
//! conversion is worth. LGPL, so opened at run time, and only when it is asked for.

mod sys;

use std::fmt;

use openuvr_proto::units::Size;

use super::ConvertError;
use crate::picture::Picture;

/// A conversion of pictures of one size, BT.709 limited range like our own.
pub(super) struct Swscale {
    library: sys::Library,
    scaler: Option<(Size, sys::Scaler)>,
    /// The last two rows with room behind them: the library reads beyond a row's end.
    tail: Vec<u8>,
}

impl Swscale {
    /// Opens the library.
    pub(super) fn open() -> Result<Swscale, ConvertError> {
        Ok(Swscale {
            library: sys::Library::open()?,
            scaler: None,
            tail: Vec::new(),
        })
    }

    /// Converts a checked picture with even sides into planes of exactly its size, each with
    /// [`sys::BEHIND`] bytes of capacity behind it.
    pub(super) fn convert(
        &mut self,
        picture: &Picture<'_>,
        luma: &mut Vec<u8>,
        chroma: &mut Vec<u8>,
    ) -> Result<(), ConvertError> {
        let size = picture.size;
        let (width, height) = (size.width as usize, size.height as usize);
        if width % 2 != 0 || height % 2 != 0 {
            return Err(ConvertError(format!(
                "libswscale is only asked for pictures with even sides here, not {size}"
            )));
        }
        if self.scaler.as_ref().is_none_or(|(of, _)| *of != size) {
            self.scaler = Some((size, self.library.scaler(size)?));
        }
        let Some((_, scaler)) = &mut self.scaler else {
            return Ok(());
        };
        luma.reserve_exact(sys::BEHIND);
        chroma.reserve_exact(sys::BEHIND);
        let plane = picture.planes[0];
        let head = height - 2;
        if head > 0 {
            scaler.rows(0, head, plane.data, plane.stride, luma, chroma)?;
        }
        let row = width * 4;
        self.tail.clear();
        for n in head..height {
            (self.tail).extend_from_slice(&plane.data[n * plane.stride..][..row]);
        }
        self.tail.reserve(sys::BEHIND);
        scaler.rows(head, 2, &self.tail, row, luma, chroma)
    }
}

impl fmt::Debug for Swscale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Swscale").finish_non_exhaustive()
    }
}
