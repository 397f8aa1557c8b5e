//! Converts BGRX to NV12 with libswscale, as most streaming programs do: the reference for OpenUVR's own conversion.
//! The library is LGPL, so it is opened at run time, and only on request.

mod sys;

use std::fmt;

use openuvr_media::convert::{ConvertError, ToNv12};
use openuvr_media::picture::{Picture, PixelFormat, Plane, RowOrder};
use openuvr_proto::units::Size;

/// A conversion to BT.709 limited range, like OpenUVR's own conversion.
pub(super) struct Swscale {
    library: sys::Library,
    scaler: Option<(Size, sys::Scaler)>,
    luma: Vec<u8>,
    chroma: Vec<u8>,
    /// The size of the picture in `luma` and `chroma`; `None` if they contain no picture.
    holds: Option<Size>,
    /// A padded copy of the picture's last two rows. The library reads beyond the end of a row.
    tail: Vec<u8>,
}

impl Swscale {
    /// Opens the library.
    ///
    /// # Errors
    /// Returns an error if the library is not installed, or not in a supported version.
    pub(super) fn open() -> Result<Swscale, ConvertError> {
        Ok(Swscale {
            library: sys::Library::open()?,
            scaler: None,
            luma: Vec::new(),
            chroma: Vec::new(),
            holds: None,
            tail: Vec::new(),
        })
    }

    /// Converts a checked picture into the planes.
    fn fill(&mut self, picture: &Picture<'_>) -> Result<(), ConvertError> {
        let size = picture.size;
        let (width, height) = (size.width as usize, size.height as usize);
        if self.scaler.as_ref().is_none_or(|(of, _)| *of != size) {
            self.scaler = Some((size, self.library.scaler(size)?));
            self.luma = with_room(size.pixels());
            self.chroma = with_room(size.pixels() / 2);
        }
        let Some((_, scaler)) = &mut self.scaler else {
            return Ok(());
        };
        let (luma, chroma) = (&mut self.luma, &mut self.chroma);
        let plane = picture.planes[0];
        let row = width * 4;
        // The last two rows serve as the bytes behind the first part. If they are too short, one part has all rows.
        let head = if 2 * row < sys::BEHIND { 0 } else { height - 2 };
        if head > 0 {
            scaler.rows(0, head, plane.data, plane.stride, luma, chroma)?;
        }
        self.tail.clear();
        for n in head..height {
            (self.tail).extend_from_slice(&plane.data[n * plane.stride..][..row]);
        }
        self.tail.reserve(sys::BEHIND);
        scaler.rows(head, height - head, &self.tail, row, luma, chroma)
    }

    fn picture(&self, size: Size) -> Picture<'_> {
        let stride = size.width as usize;
        let plane = |data| Plane { data, stride };
        Picture {
            size,
            format: PixelFormat::Nv12,
            rows: RowOrder::TopDown,
            planes: [plane(&self.luma), plane(&self.chroma), Plane::EMPTY],
        }
    }
}

/// A plane of `bytes` bytes, with [`sys::BEHIND`] bytes of capacity after it.
fn with_room(bytes: usize) -> Vec<u8> {
    let mut plane = Vec::with_capacity(bytes + sys::BEHIND);
    plane.resize(bytes, 0);
    plane
}

/// Returns an error unless `picture` has the format of a display capture, the only format supported here.
fn check(picture: &Picture<'_>) -> Result<(), ConvertError> {
    let (size, plane) = (picture.size, picture.planes[0]);
    if !size.is_valid() || size.width % 2 != 0 || size.height % 2 != 0 {
        return Err(ConvertError(format!(
            "libswscale is used here only for pictures with even sides, not {size}"
        )));
    }
    if (picture.format, picture.rows) != (PixelFormat::Bgrx, RowOrder::TopDown) {
        return Err(ConvertError(format!(
            "libswscale is used here only for BGRX with the top row first, not {:?} {:?}",
            picture.format, picture.rows
        )));
    }
    let row = size.width as usize * 4;
    let needed =
        (plane.stride.checked_mul(size.height as usize - 1)).and_then(|n| n.checked_add(row));
    if plane.stride < row || needed.is_none_or(|needed| needed > plane.data.len()) {
        return Err(ConvertError(format!(
            "a {size} picture does not fit in {} bytes with a stride of {}",
            plane.data.len(),
            plane.stride
        )));
    }
    Ok(())
}

impl ToNv12 for Swscale {
    fn convert(&mut self, picture: &Picture<'_>) -> Result<Picture<'_>, ConvertError> {
        self.holds = None;
        check(picture)?;
        self.fill(picture)?;
        self.holds = Some(picture.size);
        Ok(self.picture(picture.size))
    }

    fn converted(&self) -> Option<Picture<'_>> {
        self.holds.map(|size| self.picture(size))
    }

    fn forget(&mut self) {
        self.holds = None;
    }
}

impl fmt::Debug for Swscale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Swscale").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use openuvr_media::convert::Nv12Buffer;

    use super::*;

    fn opened() -> Option<Swscale> {
        match Swscale::open() {
            Ok(library) => Some(library),
            Err(why) => {
                println!("skipped: {why}");
                assert!(std::env::var("CI").as_deref() != Ok("true"), "{why}");
                None
            }
        }
    }

    #[test]
    fn it_agrees_with_our_own_conversion() {
        let Some(mut theirs) = opened() else { return };
        let mut ours = Nv12Buffer::new();
        // Use slow gradients, because libswscale filters chroma over more than two rows.
        for size in [Size::new(2, 2), Size::new(64, 48), Size::new(1282, 34)] {
            let (width, height) = (size.width as usize, size.height as usize);
            let stride = width * 4 + 12;
            let mut data = vec![0; stride * height];
            for y in 0..height {
                for x in 0..width {
                    let at = y * stride + x * 4;
                    let level = |n: usize| u8::try_from(n.min(255)).expect("a byte");
                    data[at] = level(40 + x / 8);
                    data[at + 1] = level(60 + y * 2);
                    data[at + 2] = level(200 - x / 16);
                }
            }
            let picture = Picture::bgrx(size, &data, stride);
            let theirs = theirs.convert(&picture).expect("converted");
            let ours = ours.convert(&picture).expect("converted");
            for plane in 0..2 {
                let (a, b) = (theirs.planes[plane].data, ours.planes[plane].data);
                assert_eq!(a.len(), b.len());
                let apart = a.iter().zip(b).map(|(a, b)| a.abs_diff(*b)).max();
                assert!(apart <= Some(4), "{size}, plane {plane}: {apart:?} apart");
            }
        }
    }

    #[test]
    fn unsupported_pictures_are_refused() {
        let Some(mut theirs) = opened() else { return };
        let data = vec![0; 4 * 2 * 4];
        let even = Picture::bgrx(Size::new(4, 2), &data, 16);
        assert!(theirs.convert(&even).is_ok() && theirs.converted().is_some());
        let mut refuse = |picture: Picture<'_>| theirs.convert(&picture).expect_err("refused").0;
        assert!(refuse(Picture::bgrx(Size::new(3, 2), &data, 12)).contains("even sides"));
        assert!(refuse(Picture::bgrx(Size::new(4, 4), &data, 16)).contains("32 bytes"));
        let mut other = even;
        other.format = PixelFormat::Rgbx;
        assert!(refuse(other).contains("Rgbx"));
        other = even;
        other.rows = RowOrder::BottomUp;
        assert!(refuse(other).contains("BottomUp"));
        assert!(theirs.converted().is_none(), "no stale picture");
    }
}
