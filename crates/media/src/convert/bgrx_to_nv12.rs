//! Converts packed pixels to NV12: ITU-T BT.709 (clause 3, `Kr` 0.2126, `Kb` 0.0722), limited range
//! (luma 16–235, chroma 16–240), with chroma as the mean of 2×2 pixels.
//!
//! Odd sides are made even, as 4:2:0 codecs require, by repeating the last column and row. The true size is in the
//! decoder's crop rectangle or the stream's configuration.

use std::ops::Range;

use openuvr_proto::units::Size;
use yuv::{
    BufferStoreMut, YuvBiPlanarImageMut, YuvRange, YuvStandardMatrix, bgr_to_yuv_nv12,
    bgra_to_yuv_nv12, rgb_to_yuv_nv12, rgba_to_yuv_nv12,
};

use super::{ConvertError, MODE, ToNv12, check, upright, whole_rows};
use crate::damage::{Block, Damage};
use crate::halves::halves;
use crate::picture::{Picture, PixelFormat, Plane, RowOrder};

/// Blocks are widened to multiples of this number of pixels, so that each pixel is processed by the same instructions
/// as in a complete row. The crate `yuv` processes up to 64 pixels at once, and rounds differently in the remainder of
/// a row.
const ALIGNMENT: u32 = 64;

/// The converted picture's memory, reused from frame to frame.
#[derive(Debug, Default)]
pub struct Nv12Buffer {
    luma: Vec<u8>,
    chroma: Vec<u8>,
    size: Size,
    rows: RowOrder,
    /// Format and size of the source picture; `None` if the buffer holds no conversion.
    holds: Option<(PixelFormat, Size)>,
    /// The picture in top-down order, if it had to be reordered first.
    turned: Vec<u8>,
    /// Copy of rows that could not be converted in place.
    copy: Vec<u8>,
}

impl Nv12Buffer {
    /// An empty buffer, resized as needed.
    #[must_use]
    pub fn new() -> Nv12Buffer {
        Nv12Buffer::default()
    }

    /// The size of an NV12 picture that contains `size`: both sides even.
    #[must_use]
    pub const fn padded(size: Size) -> Size {
        Size::new(
            size.width.next_multiple_of(2),
            size.height.next_multiple_of(2),
        )
    }

    /// Converts `picture` and lends the result, which has the size [`Nv12Buffer::padded`] and is valid until the next
    /// call. The result has the row order of `picture`. A picture with an odd number of rows is an exception: it
    /// becomes top-down, so that the repeated row is the lowest row. Allocates only when the size has changed.
    ///
    /// # Errors
    /// [`ConvertError`] if `picture` is not packed, has an invalid size or too few bytes.
    pub fn convert(&mut self, picture: &Picture<'_>) -> Result<Picture<'_>, ConvertError> {
        let row = check(picture)?;
        self.holds = None;
        if picture.rows == RowOrder::BottomUp && picture.size.height % 2 == 1 {
            let mut memory = std::mem::take(&mut self.turned);
            let converted = self.fill(&upright(picture, row, &mut memory), row);
            self.turned = memory;
            converted?;
        } else {
            self.fill(picture, row)?;
        }
        self.holds = Some((picture.format, picture.size));
        Ok(self.picture())
    }

    /// Like [`Nv12Buffer::convert`], with bit-exact results, for a picture that differs from the last converted picture
    /// only in `damage`.
    ///
    /// # Errors
    /// As [`Nv12Buffer::convert`].
    pub fn convert_changed(
        &mut self,
        picture: &Picture<'_>,
        damage: &Damage,
    ) -> Result<Picture<'_>, ConvertError> {
        let row = check(picture)?;
        let known = self.holds == Some((picture.format, picture.size));
        let upright = (picture.rows, self.rows) == (RowOrder::TopDown, RowOrder::TopDown);
        let much = damage.pixels() * 2 > picture.size.pixels();
        if !known || !upright || much {
            return self.convert(picture);
        }
        self.holds = None;
        for block in damage.blocks() {
            self.convert_block(picture, row, &block)?;
        }
        self.holds = Some((picture.format, picture.size));
        Ok(self.picture())
    }

    /// Converts a block, which must start at an even row. The block is first widened to multiples of [`ALIGNMENT`].
    fn convert_block(
        &mut self,
        picture: &Picture<'_>,
        row: usize,
        block: &Block,
    ) -> Result<(), ConvertError> {
        let (size, plane) = (picture.size, picture.planes[0]);
        let even = self.size.width as usize;
        let pixel = row / size.width as usize;
        // The last rows may lack padding, so they are converted at full width.
        let last = (size.height - 1) / 2 * 2;
        let narrow = block.rows.start as usize..block.rows.end.min(last) as usize;
        let whole = block.rows.start.max(last) as usize..block.rows.end as usize;
        if !narrow.is_empty() {
            let left = block.columns.start / ALIGNMENT * ALIGNMENT;
            let right = (block.columns.end.next_multiple_of(ALIGNMENT)).min(size.width);
            let (left, rows) = (left as usize, narrow.len());
            let first = narrow.start * plane.stride + left * pixel;
            let data = &plane.data[first..][..rows * plane.stride];
            let luma = &mut self.luma[narrow.start * even + left..][..rows * even];
            let chroma = &mut self.chroma[narrow.start / 2 * even + left..][..rows / 2 * even];
            let width = right - u32::try_from(left).unwrap_or(right);
            let planes = [luma, chroma];
            let even = self.size.width;
            convert_band(picture.format, planes, even, width, data, plane.stride)?;
        }
        if !whole.is_empty() {
            let tail = Size::new(size.width, u32::try_from(whole.len()).unwrap_or(u32::MAX));
            let rest = Plane {
                data: &plane.data[whole.start * plane.stride..],
                stride: plane.stride,
            };
            let mut copy = std::mem::take(&mut self.copy);
            let converted = whole_rows(tail, row, rest, &mut copy, |rows, data, stride| {
                let rows = whole.start + rows.start..whole.start + rows.end;
                self.convert_rows(picture.format, size.width, rows, data, stride)
            });
            self.copy = copy;
            converted?;
        }
        self.pad(size);
        Ok(())
    }

    fn fill(&mut self, picture: &Picture<'_>, row: usize) -> Result<(), ConvertError> {
        let (size, format) = (picture.size, picture.format);
        let plane = picture.planes[0];
        self.rows = picture.rows;
        let even = Nv12Buffer::padded(size);
        let (width, height) = (even.width as usize, even.height as usize);
        if self.size != even {
            self.luma.resize(width * height, 0);
            self.chroma.resize(width * height / 2, 0);
            self.size = even;
        }
        let mut copy = std::mem::take(&mut self.copy);
        let converted = whole_rows(size, row, plane, &mut copy, |rows, data, stride| {
            self.convert_rows(format, size.width, rows, data, stride)
        });
        self.copy = copy;
        converted?;
        self.pad(size);
        Ok(())
    }

    /// Converts `rows`, whose pixels start at `data`. The first row must be even.
    fn convert_rows(
        &mut self,
        format: PixelFormat,
        width: u32,
        rows: Range<usize>,
        data: &[u8],
        stride: usize,
    ) -> Result<(), ConvertError> {
        if rows.is_empty() {
            return Ok(());
        }
        let even = self.size.width as usize;
        // Neither source nor target may have an additional row: `yuv` detects an odd last row by the remainder after
        // all pairs of rows.
        let luma = &mut self.luma[even * rows.start..even * rows.end];
        let chroma = &mut self.chroma[even * (rows.start / 2)..even * rows.end.div_ceil(2)];
        let data = &data[..stride * rows.len()];
        let Some(half) = halves(width, rows.len()) else {
            return convert_band(format, [luma, chroma], self.size.width, width, data, stride);
        };
        let (upper_luma, lower_luma) = luma.split_at_mut(even * half);
        let (upper_chroma, lower_chroma) = chroma.split_at_mut(even * half / 2);
        let (upper, lower) = data.split_at(stride * half);
        let even = self.size.width;
        std::thread::scope(|scope| {
            let lower = scope.spawn(move || {
                convert_band(
                    format,
                    [lower_luma, lower_chroma],
                    even,
                    width,
                    lower,
                    stride,
                )
            });
            let upper = convert_band(
                format,
                [upper_luma, upper_chroma],
                even,
                width,
                upper,
                stride,
            );
            upper.and(
                lower
                    .join()
                    .unwrap_or_else(|e| std::panic::resume_unwind(e)),
            )
        })
    }

    /// Repeats the last column and row of luma. Chroma is complete.
    fn pad(&mut self, size: Size) {
        let width = self.size.width as usize;
        if size.width % 2 == 1 {
            for row in self.luma.chunks_exact_mut(width) {
                row[width - 1] = row[width - 2];
            }
        }
        if size.height % 2 == 1 {
            let last = self.luma.len() - width;
            self.luma.copy_within(last - width..last, last);
        }
    }

    fn picture(&self) -> Picture<'_> {
        let stride = self.size.width as usize;
        Picture {
            size: self.size,
            format: PixelFormat::Nv12,
            rows: self.rows,
            planes: [
                Plane {
                    data: &self.luma,
                    stride,
                },
                Plane {
                    data: &self.chroma,
                    stride,
                },
                Plane::EMPTY,
            ],
        }
    }
}

impl ToNv12 for Nv12Buffer {
    fn convert(&mut self, picture: &Picture<'_>) -> Result<Picture<'_>, ConvertError> {
        Nv12Buffer::convert(self, picture)
    }

    fn convert_changed(
        &mut self,
        picture: &Picture<'_>,
        damage: &Damage,
    ) -> Result<Picture<'_>, ConvertError> {
        Nv12Buffer::convert_changed(self, picture, damage)
    }

    fn converted(&self) -> Option<Picture<'_>> {
        self.holds.map(|_| self.picture())
    }

    /// Makes the next call convert the picture completely.
    fn forget(&mut self) {
        self.holds = None;
    }
}

/// Converts rows into `planes`, whose rows have `even` bytes.
fn convert_band(
    format: PixelFormat,
    [luma, chroma]: [&mut [u8]; 2],
    even: u32,
    width: u32,
    data: &[u8],
    stride: usize,
) -> Result<(), ConvertError> {
    let count = luma.len() / even as usize;
    let bad = |e: &dyn std::fmt::Display| {
        ConvertError(format!("can't convert {count} rows of {width} pixels: {e}"))
    };
    let mut nv12 = YuvBiPlanarImageMut {
        y_plane: BufferStoreMut::Borrowed(luma),
        y_stride: even,
        uv_plane: BufferStoreMut::Borrowed(chroma),
        uv_stride: even,
        width,
        height: u32::try_from(count).map_err(|e| bad(&e))?,
    };
    let convert = match format {
        PixelFormat::Rgbx => rgba_to_yuv_nv12,
        PixelFormat::Bgr => bgr_to_yuv_nv12,
        PixelFormat::Rgb => rgb_to_yuv_nv12,
        _ => bgra_to_yuv_nv12,
    };
    convert(
        &mut nv12,
        data,
        u32::try_from(stride).map_err(|e| bad(&e))?,
        YuvRange::Limited,
        YuvStandardMatrix::Bt709,
        MODE,
    )
    .map_err(|e| bad(&e))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// BT.709 limited range in plain floating-point arithmetic: luma and chroma planes.
    fn reference(size: Size, data: &[u8], stride: usize) -> (Vec<f64>, Vec<f64>) {
        let even = Nv12Buffer::padded(size);
        let (width, height) = (even.width as usize, even.height as usize);
        let pixel = |x: usize, y: usize| -> [f64; 3] {
            let x = x.min(size.width as usize - 1);
            let y = y.min(size.height as usize - 1);
            let at = y * stride + x * 4;
            [data[at + 2], data[at + 1], data[at]].map(|c| f64::from(c) / 255.0)
        };
        let y_of = |[r, g, b]: [f64; 3]| 0.2126 * r + 0.7152 * g + 0.0722 * b;
        let mut luma = Vec::new();
        for y in 0..height {
            for x in 0..width {
                luma.push(16.0 + 219.0 * y_of(pixel(x, y)));
            }
        }
        let mut chroma = Vec::new();
        for y in (0..height).step_by(2) {
            for x in (0..width).step_by(2) {
                let four = [(x, y), (x + 1, y), (x, y + 1), (x + 1, y + 1)];
                let mut mean = [0.0; 3];
                for (x, y) in four {
                    for (sum, c) in mean.iter_mut().zip(pixel(x, y)) {
                        *sum += c / 4.0;
                    }
                }
                let luma = y_of(mean);
                chroma.push(128.0 + 224.0 * (mean[2] - luma) / (2.0 * (1.0 - 0.0722)));
                chroma.push(128.0 + 224.0 * (mean[0] - luma) / (2.0 * (1.0 - 0.2126)));
            }
        }
        (luma, chroma)
    }

    fn assert_close(plane: &[u8], exact: &[f64], what: &str) {
        assert_eq!(plane.len(), exact.len(), "{what}");
        for (n, (have, want)) in plane.iter().zip(exact).enumerate() {
            assert!(
                (f64::from(*have) - want).abs() <= 2.0,
                "{what}[{n}]: {have}, not {want}"
            );
        }
    }

    fn assert_converts(buffer: &mut Nv12Buffer, size: Size, data: &[u8], stride: usize) {
        let out = buffer.convert(&Picture::bgrx(size, data, stride)).unwrap();
        assert_eq!(out.size, Nv12Buffer::padded(size));
        assert_eq!(out.format, PixelFormat::Nv12);
        assert_eq!(out.planes[0].stride, out.size.width as usize);
        let (luma, chroma) = reference(size, data, stride);
        assert_close(out.planes[0].data, &luma, "luma");
        assert_close(out.planes[1].data, &chroma, "chroma");
    }

    fn noise(len: usize, mut seed: u64) -> Vec<u8> {
        std::iter::repeat_with(|| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed.to_le_bytes()[3]
        })
        .take(len)
        .collect()
    }

    proptest! {
        #[test]
        fn agrees_with_plain_arithmetic(
            width in 1u32..150,
            height in 1u32..40,
            gap in prop_oneof![Just(0usize), 1usize..40],
            seed in 1u64..,
            tail in any::<bool>(),
            extra in 0usize..2000,
        ) {
            let size = Size::new(width, height);
            let row = width as usize * 4;
            let stride = row + gap;
            let len = stride * (height as usize - 1) + row + if tail { gap + extra } else { 0 };
            assert_converts(&mut Nv12Buffer::new(), size, &noise(len, seed), stride);
        }
    }

    #[test]
    fn the_corners_of_the_colour_cube_are_exact() {
        let mut buffer = Nv12Buffer::new();
        for (bgr, want) in [
            ([0, 0, 0], [16, 128, 128]),
            ([255, 255, 255], [235, 128, 128]),
            ([0, 0, 255], [63, 102, 240]),
            ([0, 255, 0], [173, 42, 26]),
            ([255, 0, 0], [32, 240, 118]),
        ] {
            let data: Vec<u8> = [bgr[0], bgr[1], bgr[2], 77].repeat(64 * 4);
            let out = buffer
                .convert(&Picture::bgrx(Size::new(64, 4), &data, 256))
                .unwrap();
            let have = [
                out.planes[0].data[5],
                out.planes[1].data[0],
                out.planes[1].data[1],
            ];
            for (have, want) in have.iter().zip(want) {
                assert!(have.abs_diff(want) <= 1, "{bgr:?}: {have}, not {want}");
            }
        }
    }

    #[test]
    fn the_buffer_is_reused_and_follows_the_size() {
        let mut buffer = Nv12Buffer::new();
        let size = Size::new(641, 361);
        assert_converts(&mut buffer, size, &noise(641 * 4 * 361, 1), 641 * 4);
        let before = buffer.luma.as_ptr();
        assert_converts(&mut buffer, size, &noise(641 * 4 * 361, 2), 641 * 4);
        assert_eq!(before, buffer.luma.as_ptr());
        assert_converts(&mut buffer, Size::new(5, 3), &noise(60, 3), 20);
        assert_converts(&mut buffer, Size::new(1, 1), &noise(4, 4), 4);
    }

    #[test]
    fn invalid_pictures_are_refused() {
        let mut buffer = Nv12Buffer::new();
        let data = noise(400, 1);
        let mut refuse = |picture: Picture<'_>| buffer.convert(&picture).unwrap_err().0;
        let short = refuse(Picture::bgrx(Size::new(10, 11), &data, 40));
        assert!(short.contains("at least 40 bytes a row"), "{short}");
        assert!(refuse(Picture::bgrx(Size::new(11, 9), &data, 40)).contains("44 bytes"));
        assert!(refuse(Picture::bgrx(Size::new(0, 9), &data, 40)).contains("0x9"));
        refuse(Picture::bgrx(Size::new(9, 9), &data, usize::MAX));
        let mut nv12 = Picture::bgrx(Size::new(10, 10), &data, 40);
        nv12.format = PixelFormat::Nv12;
        assert!(refuse(nv12).contains("Nv12"));
    }
}
