//! Pictures in memory: borrowed planes with their stride and format.

use std::ops::Range;

use openuvr_proto::units::Size;

/// The pixel format of a picture.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PixelFormat {
    /// One plane, 4 bytes per pixel: blue, green, red, unused; sRGB, full range.
    Bgrx,
    /// Like [`PixelFormat::Bgrx`] with red first, as read by OpenGL ES.
    Rgbx,
    /// One plane, 3 bytes per pixel: blue, green, red; sRGB, full range.
    Bgr,
    /// Like [`PixelFormat::Bgr`] with red first.
    Rgb,
    /// Luma plane, then interleaved Cb Cr at half size; BT.709, limited range. For an odd width or height, the half is
    /// rounded up.
    Nv12,
    /// Luma, Cb and Cr planes, chroma at half size; BT.709, limited range. For an odd width or height, the half is
    /// rounded up.
    I420,
    /// Luma, Cb and Cr planes of the same size; BT.709, limited range.
    I444,
    /// Green, blue and red planes of the same size; sRGB, full range.
    Gbr,
}

impl PixelFormat {
    /// Bytes per pixel of a packed format.
    #[must_use]
    pub const fn packed(self) -> Option<usize> {
        match self {
            PixelFormat::Bgrx | PixelFormat::Rgbx => Some(4),
            PixelFormat::Bgr | PixelFormat::Rgb => Some(3),
            PixelFormat::Nv12 | PixelFormat::I420 | PixelFormat::I444 | PixelFormat::Gbr => None,
        }
    }
}

/// The order of rows in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum RowOrder {
    /// Top row first.
    #[default]
    TopDown,
    /// Bottom row first, as in OpenGL.
    BottomUp,
}

/// One plane: rows of bytes, `stride` apart.
#[derive(Clone, Copy, Debug)]
pub struct Plane<'a> {
    /// The bytes: at least `stride × (rows − 1) + row length`.
    pub data: &'a [u8],
    /// Bytes from the start of a row to the start of the next row.
    pub stride: usize,
}

/// A borrowed picture.
#[derive(Clone, Copy, Debug)]
pub struct Picture<'a> {
    /// Visible width and height in pixels.
    pub size: Size,
    /// The pixel format.
    pub format: PixelFormat,
    /// The row order of all planes.
    pub rows: RowOrder,
    /// One plane for [`PixelFormat::packed`] formats, two for `Nv12`, three for the others. Unused
    /// planes are empty.
    pub planes: [Plane<'a>; 3],
}

impl Plane<'_> {
    /// An unused plane.
    pub const EMPTY: Plane<'static> = Plane {
        data: &[],
        stride: 0,
    };
}

impl<'a> Picture<'a> {
    /// A BGRX picture over `data` with `stride` bytes per row.
    #[must_use]
    pub fn bgrx(size: Size, data: &'a [u8], stride: usize) -> Picture<'a> {
        Picture {
            size,
            format: PixelFormat::Bgrx,
            rows: RowOrder::TopDown,
            planes: [Plane { data, stride }, Plane::EMPTY, Plane::EMPTY],
        }
    }

    /// The upper left part of a top-down picture, of at most this size.
    #[must_use]
    pub fn cropped(self, size: Size) -> Picture<'a> {
        let size = Size::new(
            self.size.width.min(size.width),
            self.size.height.min(size.height),
        );
        Picture { size, ..self }
    }

    /// A range of rows of a top-down picture. `None` if the range is empty or outside of the picture, or if its first
    /// row is odd and chroma is vertically subsampled.
    #[must_use]
    pub fn band(&self, rows: Range<u32>) -> Option<Picture<'a>> {
        let halved =
            |plane| matches!(self.format, PixelFormat::Nv12 | PixelFormat::I420) && plane > 0;
        if rows.is_empty()
            || rows.end > self.size.height
            || self.rows != RowOrder::TopDown
            || (halved(1) && !rows.start.is_multiple_of(2))
        {
            return None;
        }
        let mut band = *self;
        band.size.height = rows.end - rows.start;
        for (i, plane) in band.planes.iter_mut().enumerate() {
            let first = if halved(i) {
                rows.start / 2
            } else {
                rows.start
            };
            plane.data = (plane.data).get((first as usize).checked_mul(plane.stride)?..)?;
        }
        Some(band)
    }
}
