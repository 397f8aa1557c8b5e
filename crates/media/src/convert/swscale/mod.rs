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

#[cfg(test)]
mod tests {
    use openuvr_proto::units::Size;

    use crate::convert::Nv12Buffer;
    use crate::picture::Picture;

    #[test]
    fn it_agrees_with_our_own_conversion() {
        let mut theirs = match Nv12Buffer::with_swscale() {
            Ok(buffer) => buffer,
            Err(why) => {
                println!("skipped: {why}");
                assert!(std::env::var("CI").as_deref() != Ok("true"), "{why}");
                return;
            }
        };
        let mut ours = Nv12Buffer::new();
        // Slow changes: libswscale takes more than two rows for a row of colour.
        for size in [Size::new(2, 2), Size::new(64, 48), Size::new(1282, 34)] {
            let (width, height) = (size.width as usize, size.height as usize);
            let stride = width * 4 + 12;
            let mut data = vec![0; stride * height];
            for y in 0..height {
                for x in 0..width {
                    let at = y * stride + x * 4;
                    let level = |n: usize| u8::try_from(n.min(255)).unwrap();
                    data[at] = level(40 + x / 8);
                    data[at + 1] = level(60 + y * 2);
                    data[at + 2] = level(200 - x / 16);
                }
            }
            let picture = Picture::bgrx(size, &data, stride);
            let theirs = theirs.convert(&picture).unwrap();
            let ours = ours.convert(&picture).unwrap();
            for plane in 0..2 {
                let (a, b) = (theirs.planes[plane].data, ours.planes[plane].data);
                assert_eq!(a.len(), b.len());
                let apart = a.iter().zip(b).map(|(a, b)| a.abs_diff(*b)).max();
                assert!(apart <= Some(4), "{size}, plane {plane}: {apart:?} apart");
            }
        }
    }

    #[test]
    fn odd_sides_are_refused() {
        if let Ok(mut buffer) = Nv12Buffer::with_swscale() {
            let data = vec![0; 3 * 2 * 4];
            let odd = Picture::bgrx(Size::new(3, 2), &data, 12);
            assert!(buffer.convert(&odd).is_err());
        }
    }
}
