//! Scales pictures down. Each pixel is the mean of the area that it covers in the larger picture.
//!
//! This module does not scale up. First, rows are summed with 16-bit products, which the compiler vectorises. Then the
//! sums are combined by columns. Weights add up to 256, so a flat area stays exact. For noise, the error is at most 3,
//! unless a pixel covers hundreds of source pixels.

use std::ops::Range;

use openuvr_proto::units::Size;

use super::{ConvertError, check};
use crate::picture::{Picture, Plane};

/// The sum of an area's weights.
const WHOLE: u32 = 256;

/// Memory for scaling.
#[derive(Debug, Default)]
pub struct Scaler {
    sizes: (Size, Size),
    columns: Shares,
    rows: Shares,
    sums: Vec<u16>,
    scaled: Vec<u8>,
}

/// For each pixel of an axis of the scaled picture: the source pixels that it covers, and their weights.
#[derive(Debug, Default)]
struct Shares {
    covered: Vec<Range<usize>>,
    /// In units of 1/[`WHOLE`].
    weights: Vec<u16>,
}

impl Scaler {
    /// The size of `picture` limited to `limit`, with the same aspect ratio and even sides, as encoders require. A size
    /// within the limit is returned unchanged.
    #[must_use]
    pub fn fitted(picture: Size, limit: Size) -> Size {
        if picture.width <= limit.width && picture.height <= limit.height {
            return picture;
        }
        let (w, h) = (u64::from(picture.width), u64::from(picture.height));
        let (most_w, most_h) = (u64::from(limit.width), u64::from(limit.height));
        let (width, height) = if most_w * h <= most_h * w {
            (most_w, (most_w * h + w / 2) / w)
        } else {
            ((most_h * w + h / 2) / h, most_h)
        };
        let even = |side: u64, most: u32| {
            let side = u32::try_from(side).unwrap_or(most).min(most);
            (side & !1).max(side.min(2)).max(1)
        };
        Size::new(
            even(width, limit.width.min(picture.width)),
            even(height, limit.height.min(picture.height)),
        )
    }

    /// Scales the packed `picture` to `size`, both sides of which must be at most those of the picture. The result is
    /// valid until the next call. A picture that already has that size is not copied.
    ///
    /// # Errors
    /// [`ConvertError`] if `picture` is not packed, has an invalid size or too few bytes, or if
    /// `size` is larger.
    pub fn scale<'a>(
        &'a mut self,
        picture: &Picture<'a>,
        size: Size,
    ) -> Result<Picture<'a>, ConvertError> {
        if picture.size == size {
            return Ok(*picture);
        }
        let row = check(picture)?;
        if !size.is_valid() || size.width > picture.size.width || size.height > picture.size.height
        {
            return Err(ConvertError(format!(
                "a picture of {} can't be scaled to {size}: only smaller sizes are supported",
                picture.size
            )));
        }
        if self.sizes != (picture.size, size) {
            self.sizes = (picture.size, size);
            self.columns = Shares::new(picture.size.width, size.width);
            self.rows = Shares::new(picture.size.height, size.height);
        }
        let plane = picture.planes[0];
        let pixel = row / picture.size.width as usize;
        let stride = size.width as usize * pixel;
        self.sums.resize(row, 0);
        self.scaled.resize(stride * size.height as usize, 0);
        for (out, (from, weights)) in (self.scaled.chunks_exact_mut(stride)).zip(self.rows.each()) {
            self.sums.fill(0);
            for (line, weight) in from.zip(weights) {
                let line = &plane.data[line * plane.stride..][..row];
                for (sum, byte) in self.sums.iter_mut().zip(line) {
                    // The weights add up to 256: no sum exceeds 255 * 256.
                    *sum += u16::from(*byte) * weight;
                }
            }
            match pixel {
                4 => across::<4>(&self.sums, &self.columns, out),
                _ => across::<3>(&self.sums, &self.columns, out),
            }
        }
        let mut scaled = *picture;
        scaled.size = size;
        scaled.planes[0] = Plane {
            data: &self.scaled,
            stride,
        };
        Ok(scaled)
    }
}

/// Combines a row of sums by columns.
fn across<const PIXEL: usize>(sums: &[u16], columns: &Shares, out: &mut [u8]) {
    let (sums, _) = sums.as_chunks::<PIXEL>();
    let (out, _) = out.as_chunks_mut::<PIXEL>();
    for (out, (from, weights)) in out.iter_mut().zip(columns.each()) {
        let mut total = [WHOLE * WHOLE / 2; PIXEL];
        for (sums, weight) in sums[from].iter().zip(weights) {
            for (total, sum) in total.iter_mut().zip(sums) {
                *total += u32::from(*sum) * u32::from(weight);
            }
        }
        for (out, total) in out.iter_mut().zip(total) {
            // After the division by the weights of both axes, the result is at most 255.
            *out = (total / (WHOLE * WHOLE)).to_le_bytes()[0];
        }
    }
}

impl Shares {
    fn new(from: u32, to: u32) -> Shares {
        let (from, to) = (u64::from(from), u64::from(to));
        let mut shares = Shares::default();
        for at in 0..to {
            // Positions are in units of 1/`to` of a source pixel, so each scaled pixel covers `from` units.
            let (begin, end) = (at * from, (at + 1) * from);
            let (first, last) = (begin / to, end.div_ceil(to));
            let upto = |pixel: u64| (pixel * to).clamp(begin, end) - begin;
            let weight = |pixel: u64| upto(pixel) * u64::from(WHOLE) / from;
            for pixel in first..last {
                let share = weight(pixel + 1) - weight(pixel);
                shares
                    .weights
                    .push(u16::try_from(share).unwrap_or_default());
            }
            let index = |pixel| usize::try_from(pixel).unwrap_or(usize::MAX);
            shares.covered.push(index(first)..index(last));
        }
        shares
    }

    /// For each scaled pixel: the range of source pixels that it covers, and their weights.
    fn each(&self) -> impl Iterator<Item = (Range<usize>, impl Iterator<Item = u16> + '_)> + '_ {
        let mut rest = self.weights.as_slice();
        self.covered.iter().map(move |covered| {
            let (own, behind) = rest.split_at(covered.len());
            rest = behind;
            (covered.clone(), own.iter().copied())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::{PixelFormat, RowOrder};

    /// The mean of the area in floating point.
    fn exact(data: &[u8], from: Size, to: Size, pixel: usize) -> Vec<f64> {
        let overlap = |at: u32, of: u32, side: u32, pixel: u32| {
            let scale = f64::from(side) / f64::from(of);
            let (begin, end) = (f64::from(at) * scale, f64::from(at + 1) * scale);
            (end.min(f64::from(pixel + 1)) - begin.max(f64::from(pixel))).max(0.0) / scale
        };
        let mut out = Vec::new();
        for (y, x) in (0..to.height).flat_map(|y| (0..to.width).map(move |x| (y, x))) {
            for channel in 0..pixel {
                let mut sum = 0.0;
                for (v, u) in (0..from.height).flat_map(|v| (0..from.width).map(move |u| (v, u))) {
                    let at = ((v * from.width + u) as usize) * pixel + channel;
                    let share =
                        overlap(x, to.width, from.width, u) * overlap(y, to.height, from.height, v);
                    sum += share * f64::from(data[at]);
                }
                out.push(sum);
            }
        }
        out
    }

    #[test]
    fn each_pixel_is_the_mean_of_its_area() {
        let mut scaler = Scaler::default();
        for (from, to) in [
            ((12, 9), (5, 4)),
            ((7, 7), (7, 3)),
            ((600, 2), (1, 1)),
            ((8, 6), (4, 2)),
        ] {
            let (from, to) = (Size::new(from.0, from.1), Size::new(to.0, to.1));
            for (format, pixel) in [(PixelFormat::Bgrx, 4), (PixelFormat::Rgb, 3)] {
                let bytes = from.pixels() * pixel;
                let mut seed = 9_u32;
                let data: Vec<u8> = (0..bytes)
                    .map(|_| {
                        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                        seed.to_le_bytes()[3]
                    })
                    .collect();
                let mut picture = Picture::bgrx(from, &data, from.width as usize * pixel);
                (picture.format, picture.rows) = (format, RowOrder::BottomUp);
                let scaled = scaler.scale(&picture, to).unwrap();
                assert_eq!((scaled.size, scaled.format), (to, format));
                assert_eq!(scaled.rows, RowOrder::BottomUp);
                let expected = exact(&data, from, to, pixel);
                assert_eq!(scaled.planes[0].data.len(), expected.len());
                for (got, expected) in scaled.planes[0].data.iter().zip(expected) {
                    let off = (f64::from(*got) - expected).abs();
                    // In an area of hundreds of pixels, each weight is 0 or 1 of 256.
                    let most = if from.width > 256 { 12.0 } else { 3.5 };
                    assert!(off <= most, "{from} to {to}: {got} for {expected}");
                }
            }
        }
    }

    #[test]
    fn a_flat_picture_stays_exact_also_with_rows_that_are_padded() {
        let (from, to, stride) = (Size::new(101, 67), Size::new(64, 42), 101 * 4 + 12);
        let data = [10, 20, 255, 0].repeat(stride * 67 / 4 + 1);
        let picture = Picture::bgrx(from, &data[..stride * 66 + 404], stride);
        // The padding is a multiple of the pixel size, so all rows have the same colour.
        let mut scaler = Scaler::default();
        let scaled = scaler.scale(&picture, to).unwrap();
        let (pixels, _) = scaled.planes[0].data.as_chunks::<4>();
        assert!(pixels.iter().all(|pixel| *pixel == [10, 20, 255, 0]));
        assert!(scaler.scale(&picture, Size::new(102, 67)).is_err());
        let short = Picture::bgrx(from, &data[..100], stride);
        assert!(scaler.scale(&short, to).is_err());
    }

    #[test]
    fn a_limit_keeps_the_shape_and_even_sides() {
        let fitted = |w, h, limit: (u32, u32)| {
            let size = Scaler::fitted(Size::new(w, h), Size::new(limit.0, limit.1));
            (size.width, size.height)
        };
        assert_eq!(fitted(1920, 1080, (1280, 720)), (1280, 720));
        assert_eq!(fitted(1920, 1080, (1280, 1280)), (1280, 720));
        assert_eq!(fitted(1366, 768, (1280, 720)), (1280, 720));
        assert_eq!(fitted(1024, 768, (1280, 720)), (960, 720));
        assert_eq!(fitted(639, 479, (640, 480)), (639, 479), "unchanged");
        assert_eq!(fitted(16_384, 1, (100, 100)), (100, 1));
        assert_eq!(fitted(3, 3000, (1, 1)), (1, 1));
        assert_eq!(fitted(16_384, 16_384, (1, 16_384)), (1, 1));
    }
}
