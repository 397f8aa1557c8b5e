//! Converts packed pixels to three planes: ITU-T BT.709, limited range, with chroma at half size
//! (I420, for encoders without NV12 support) or at full size (I444). With half-size chroma, odd
//! sides are padded as for NV12.

use std::ops::Range;

use openuvr_proto::units::Size;
use yuv::{
    BufferStoreMut, YuvPlanarImageMut, YuvRange, YuvStandardMatrix, bgr_to_yuv420, bgr_to_yuv444,
    bgra_to_yuv420, bgra_to_yuv444, rgb_to_yuv420, rgb_to_yuv444, rgba_to_yuv420, rgba_to_yuv444,
};

use super::{ConvertError, MODE, check, upright, whole_rows};
use crate::picture::{Picture, PixelFormat, Plane, RowOrder};

/// The converted picture's memory, reused from frame to frame. `STEP` is the number of luma samples per chroma sample
/// in each direction: 1 for I444, 2 for I420.
#[derive(Debug, Default)]
pub struct Planes<const STEP: usize> {
    planes: [Vec<u8>; 3],
    size: Size,
    /// The picture in top-down order, if it was bottom-up.
    turned: Vec<u8>,
    /// Copy of rows that could not be converted in place.
    copy: Vec<u8>,
}

impl<const STEP: usize> Planes<STEP> {
    const _SUPPORTED: () = assert!(STEP == 1 || STEP == 2);

    /// Converts `picture` and lends the result, which has the top row first and is valid until the next call. Allocates
    /// only when the size has changed.
    ///
    /// # Errors
    /// [`ConvertError`] if `picture` is not packed, has an invalid size or too few bytes.
    pub fn convert(&mut self, picture: &Picture<'_>) -> Result<Picture<'_>, ConvertError> {
        let () = Self::_SUPPORTED;
        let row = check(picture)?;
        let mut turned = std::mem::take(&mut self.turned);
        let converted = self.fill(&upright(picture, row, &mut turned), row);
        self.turned = turned;
        converted?;
        Ok(self.picture())
    }

    fn fill(&mut self, picture: &Picture<'_>, row: usize) -> Result<(), ConvertError> {
        let side = |n: u32| n.next_multiple_of(if STEP == 2 { 2 } else { 1 });
        let size = Size::new(side(picture.size.width), side(picture.size.height));
        if self.size != size {
            let chroma = size.pixels() / (STEP * STEP);
            for (plane, samples) in self.planes.iter_mut().zip([size.pixels(), chroma, chroma]) {
                plane.clear();
                plane.resize(samples, 0);
            }
            self.size = size;
        }
        let mut copy = std::mem::take(&mut self.copy);
        let (visible, format, plane) = (picture.size, picture.format, picture.planes[0]);
        let converted = whole_rows(visible, row, plane, &mut copy, |rows, data, stride| {
            self.convert_rows(format, visible.width, rows, data, stride)
        });
        self.copy = copy;
        converted?;
        self.pad(visible);
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
        let count = rows.len();
        if count == 0 {
            return Ok(());
        }
        let bad = |e: &dyn std::fmt::Display| {
            ConvertError(format!("can't convert {count} rows of {width} pixels: {e}"))
        };
        let luma = self.size.width as usize;
        let chroma = luma / STEP;
        let chroma_rows = chroma * (rows.start / STEP)..chroma * rows.end.div_ceil(STEP);
        let [y, u, v] = &mut self.planes;
        let strides = [luma, chroma].map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        let mut image = YuvPlanarImageMut {
            y_plane: BufferStoreMut::Borrowed(&mut y[luma * rows.start..luma * rows.end]),
            y_stride: strides[0],
            u_plane: BufferStoreMut::Borrowed(&mut u[chroma_rows.clone()]),
            u_stride: strides[1],
            v_plane: BufferStoreMut::Borrowed(&mut v[chroma_rows]),
            v_stride: strides[1],
            width,
            height: u32::try_from(count).map_err(|e| bad(&e))?,
        };
        let convert = match (format, STEP) {
            (PixelFormat::Rgbx, 1) => rgba_to_yuv444,
            (PixelFormat::Bgr, 1) => bgr_to_yuv444,
            (PixelFormat::Rgb, 1) => rgb_to_yuv444,
            (_, 1) => bgra_to_yuv444,
            (PixelFormat::Rgbx, _) => rgba_to_yuv420,
            (PixelFormat::Bgr, _) => bgr_to_yuv420,
            (PixelFormat::Rgb, _) => rgb_to_yuv420,
            _ => bgra_to_yuv420,
        };
        convert(
            &mut image,
            &data[..stride * count],
            u32::try_from(stride).map_err(|e| bad(&e))?,
            YuvRange::Limited,
            YuvStandardMatrix::Bt709,
            MODE,
        )
        .map_err(|e| bad(&e))
    }

    /// Repeats the last column and row of luma. Chroma is complete.
    fn pad(&mut self, visible: Size) {
        let width = self.size.width as usize;
        let luma = &mut self.planes[0];
        if visible.width < self.size.width {
            for row in luma.chunks_exact_mut(width) {
                row[width - 1] = row[width - 2];
            }
        }
        if visible.height < self.size.height {
            let last = luma.len() - width;
            luma.copy_within(last - width..last, last);
        }
    }

    fn picture(&self) -> Picture<'_> {
        let luma = self.size.width as usize;
        let plane = |i: usize, stride| Plane {
            data: &self.planes[i],
            stride,
        };
        Picture {
            size: self.size,
            format: if STEP == 1 {
                PixelFormat::I444
            } else {
                PixelFormat::I420
            },
            rows: RowOrder::TopDown,
            planes: [plane(0, luma), plane(1, luma / STEP), plane(2, luma / STEP)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Nv12Buffer;
    use super::*;

    fn noise(len: usize) -> Vec<u8> {
        let mut seed = 9u64;
        std::iter::repeat_with(|| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed.to_le_bytes()[3]
        })
        .take(len)
        .collect()
    }

    #[test]
    fn i420_is_nv12_with_its_chroma_apart() {
        let (mut planes, mut nv12) = (Planes::<2>::default(), Nv12Buffer::new());
        for (width, height) in [(64, 32), (65, 33), (1, 1), (150, 7)] {
            let size = Size::new(width, height);
            // The last row lacks padding.
            let stride = width as usize * 4 + 8;
            let data = noise(stride * height as usize - 8);
            let picture = Picture::bgrx(size, &data, stride);
            let a = planes.convert(&picture).expect("converted");
            let b = nv12.convert(&picture).expect("converted");
            assert_eq!((a.size, a.format), (b.size, PixelFormat::I420));
            let close = |a: u8, b: u8| a.abs_diff(b) <= 2;
            let luma = a.planes[0].data.iter().zip(b.planes[0].data);
            assert!(luma.into_iter().all(|(a, b)| close(*a, *b)), "{size}");
            for (i, pair) in b.planes[1].data.chunks(2).enumerate() {
                let (u, v) = (a.planes[1].data[i], a.planes[2].data[i]);
                assert!(close(u, pair[0]) && close(v, pair[1]), "{size}: {i}");
            }
        }
    }

    #[test]
    fn i444_has_the_colour_of_each_pixel() {
        let mut planes = Planes::<1>::default();
        let size = Size::new(67, 5);
        let data = noise(67 * 4 * 5);
        let out = planes
            .convert(&Picture::bgrx(size, &data, 67 * 4))
            .expect("converted");
        assert_eq!((out.size, out.format), (size, PixelFormat::I444));
        for (i, pixel) in data.chunks(4).enumerate() {
            let [b, g, r] = [0, 1, 2].map(|c| f64::from(pixel[c]) / 255.0);
            // BT.709, clause 3.
            let y = 0.2126 * r + 0.7152 * g + 0.0722 * b;
            let exact = [
                16.0 + 219.0 * y,
                128.0 + 224.0 * (b - y) / (2.0 * (1.0 - 0.0722)),
                128.0 + 224.0 * (r - y) / (2.0 * (1.0 - 0.2126)),
            ];
            for (plane, exact) in out.planes.iter().zip(exact) {
                let have = f64::from(plane.data[i]);
                assert!((have - exact).abs() <= 2.0, "{i}: {have}, not {exact}");
            }
        }
    }
}
