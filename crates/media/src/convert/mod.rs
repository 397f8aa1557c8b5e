//! Convert: converts pictures to the pixel format of the next stage. There is one file for NV12, one for pictures of
//! three planes, and one for scaling.

pub mod bgrx_to_nv12;
pub mod bgrx_to_planes;
mod scale;

use std::fmt;
use std::ops::Range;

use openuvr_proto::units::Size;
use yuv::YuvConversionMode;

use crate::damage::Damage;
use crate::picture::{Picture, PixelFormat, Plane, RowOrder};

pub use bgrx_to_nv12::Nv12Buffer;
pub use bgrx_to_planes::Planes;
pub use scale::Scaler;

/// Converts packed pictures to NV12, and owns the result's memory. The default implementation is [`Nv12Buffer`]; a
/// benchmark may pass a different implementation to a [`Converter`].
pub trait ToNv12: fmt::Debug + Send {
    /// Converts `picture` (packed: [`PixelFormat::packed`]) and lends the result, which has the
    /// size [`Nv12Buffer::padded`] and is valid until the next call.
    ///
    /// # Errors
    /// [`ConvertError`] if the implementation does not support such a picture.
    fn convert(&mut self, picture: &Picture<'_>) -> Result<Picture<'_>, ConvertError>;

    /// Like [`ToNv12::convert`], for a picture that differs from the last converted picture only in `damage`. An
    /// implementation without partial conversion converts the complete picture.
    ///
    /// # Errors
    /// As [`ToNv12::convert`].
    fn convert_changed(
        &mut self,
        picture: &Picture<'_>,
        _damage: &Damage,
    ) -> Result<Picture<'_>, ConvertError> {
        self.convert(picture)
    }

    /// The last converted picture. `None` if it was discarded, or before the first conversion.
    fn converted(&self) -> Option<Picture<'_>>;

    /// Discards the last converted picture, which is outdated.
    fn forget(&mut self);
}

/// Converts packed pictures to an encoder's format, and owns the result's memory.
#[derive(Debug)]
pub struct Converter {
    nv12: Box<dyn ToNv12>,
    i420: Planes<2>,
    i444: Planes<1>,
    bgrx: Vec<u8>,
}

impl Converter {
    /// A converter without memory; it allocates on the first picture.
    #[must_use]
    pub fn new() -> Converter {
        Converter::with_nv12(Box::new(Nv12Buffer::new()))
    }

    /// A converter that makes NV12 pictures with `nv12` instead of [`Nv12Buffer`].
    #[must_use]
    pub fn with_nv12(nv12: Box<dyn ToNv12>) -> Converter {
        Converter {
            nv12,
            i420: Planes::default(),
            i444: Planes::default(),
            bgrx: Vec::new(),
        }
    }

    /// The size of a picture in format `to` that contains `size`. For a format with subsampled chroma, both sides are
    /// even.
    #[must_use]
    pub fn padded(size: Size, to: PixelFormat) -> Size {
        match to {
            PixelFormat::Nv12 | PixelFormat::I420 => Nv12Buffer::padded(size),
            _ => size,
        }
    }

    /// As [`Converter::convert`], for a picture that differs from the last converted picture only in `damage`:
    /// unchanged areas are not converted again if possible.
    ///
    /// # Errors
    /// As [`Converter::convert`].
    pub fn convert_changed<'a>(
        &'a mut self,
        picture: &Picture<'a>,
        to: PixelFormat,
        damage: &Damage,
    ) -> Result<Picture<'a>, ConvertError> {
        if to == PixelFormat::Nv12 && picture.format != to && damage.is_partial(picture.size) {
            return self.nv12.convert_changed(picture, damage);
        }
        self.convert(picture, to)
    }

    /// The last picture that was converted to NV12. `None` if it was discarded, or before the first conversion.
    #[must_use]
    pub fn nv12(&self) -> Option<Picture<'_>> {
        self.nv12.converted()
    }

    /// Converts `picture` (packed: [`PixelFormat::packed`]) to `to`, of size [`Converter::padded`].
    /// The result is valid until the next call. A picture already in that format is not copied. The
    /// result may be bottom-up: see [`Picture::rows`].
    ///
    /// # Errors
    /// [`ConvertError`] if `picture` is not packed, has an invalid size or too few bytes, or if the
    /// conversion is not supported.
    pub fn convert<'a>(
        &'a mut self,
        picture: &Picture<'a>,
        to: PixelFormat,
    ) -> Result<Picture<'a>, ConvertError> {
        match to {
            _ if picture.format == to => {
                // The NV12 picture is outdated.
                self.nv12.forget();
                Ok(*picture)
            }
            PixelFormat::Bgrx => packed_to_bgrx(picture, &mut self.bgrx),
            PixelFormat::Nv12 => self.nv12.convert(picture),
            PixelFormat::I420 => self.i420.convert(picture),
            PixelFormat::I444 => self.i444.convert(picture),
            PixelFormat::Gbr | PixelFormat::Rgbx | PixelFormat::Bgr | PixelFormat::Rgb => Err(
                ConvertError(format!("conversion to {to:?} is not supported")),
            ),
        }
    }
}

impl Default for Converter {
    fn default() -> Converter {
        Converter::new()
    }
}

/// Why a picture could not be converted.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConvertError(pub String);

/// `yuv`'s 13-bit fixed-point mode, with AVX2 or SSE4.1 if available. Its results differ from exact arithmetic by at
/// most 2 (tested in `bgrx_to_nv12` and `bgrx_to_planes`). Measured: 0.30 ms at 1280×720, 0.65 ms at 1920×1080 on one
/// core. A 7-bit mode could save only part of that time.
const MODE: YuvConversionMode = YuvConversionMode::Balanced;

/// Checks that `picture` is packed and complete; returns the length of a row in bytes.
fn check(picture: &Picture<'_>) -> Result<usize, ConvertError> {
    let size = picture.size;
    let plane = picture.planes[0];
    let Some(pixel) = picture.format.packed() else {
        return Err(ConvertError(format!(
            "only packed pixels can be converted, not {:?}",
            picture.format
        )));
    };
    if !size.is_valid() {
        return Err(ConvertError(format!("invalid picture size {size}")));
    }
    let row = size.width as usize * pixel;
    let needed = plane
        .stride
        .checked_mul(size.height as usize - 1)
        .and_then(|n| n.checked_add(row));
    if plane.stride < row || needed.is_none_or(|n| n > plane.data.len()) {
        return Err(ConvertError(format!(
            "a {size} {:?} picture needs at least {row} bytes a row; this picture has {} bytes \
             a row and {} bytes in total",
            picture.format,
            plane.stride,
            plane.data.len()
        )));
    }
    Ok(row)
}

/// A checked `picture` in top-down order: copied to `memory` if it is bottom-up.
fn upright<'a>(picture: &Picture<'a>, row: usize, memory: &'a mut Vec<u8>) -> Picture<'a> {
    if picture.rows == RowOrder::TopDown {
        return *picture;
    }
    let plane = picture.planes[0];
    memory.clear();
    for n in (0..picture.size.height as usize).rev() {
        memory.extend_from_slice(&plane.data[n * plane.stride..][..row]);
    }
    let mut upright = *picture;
    upright.rows = RowOrder::TopDown;
    upright.planes[0] = Plane {
        data: memory,
        stride: row,
    };
    upright
}

/// Converts a packed picture to BGRX in `memory`, with the same row order.
fn packed_to_bgrx<'a>(
    picture: &Picture<'_>,
    memory: &'a mut Vec<u8>,
) -> Result<Picture<'a>, ConvertError> {
    let row = check(picture)?;
    let (size, plane) = (picture.size, picture.planes[0]);
    let stride = size.width as usize * 4;
    memory.resize(stride * size.height as usize, 0);
    let red_first = matches!(picture.format, PixelFormat::Rgbx | PixelFormat::Rgb);
    let pixel = row / size.width as usize;
    for (n, to) in memory.chunks_exact_mut(stride).enumerate() {
        let from = &plane.data[n * plane.stride..][..row];
        for (to, from) in to.chunks_exact_mut(4).zip(from.chunks_exact(pixel)) {
            let (first, third) = if red_first { (2, 0) } else { (0, 2) };
            to[..3].copy_from_slice(&[from[first], from[1], from[third]]);
        }
    }
    let mut bgrx = Picture::bgrx(size, memory, stride);
    bgrx.rows = picture.rows;
    Ok(bgrx)
}

/// Calls `convert` with all rows of `plane`, which belongs to a checked packed picture of `size` with `row` bytes per
/// row. A [`Picture`] may lack the padding of its last row. In that case, `yuv` would skip the last pair of rows, so
/// these rows are copied to `copy`, without padding. Each call starts with an even row.
fn whole_rows(
    size: Size,
    row: usize,
    plane: Plane<'_>,
    copy: &mut Vec<u8>,
    mut convert: impl FnMut(Range<usize>, &[u8], usize) -> Result<(), ConvertError>,
) -> Result<(), ConvertError> {
    let rows = size.height as usize;
    let complete = plane.data.len() >= plane.stride * rows;
    let direct = if complete { rows } else { (rows - 1) & !1 };
    convert(0..direct, plane.data, plane.stride)?;
    if direct < rows {
        copy.clear();
        for n in direct..rows {
            copy.extend_from_slice(&plane.data[n * plane.stride..][..row]);
        }
        convert(direct..rows, copy, row)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(len: usize) -> Vec<u8> {
        let mut seed = 77u32;
        std::iter::repeat_with(|| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            seed.to_le_bytes()[3]
        })
        .take(len)
        .collect()
    }

    /// The same picture in each packed format, in both row orders.
    fn ways(size: Size, bgrx: &[u8]) -> Vec<(PixelFormat, RowOrder, Vec<u8>, usize)> {
        let width = size.width as usize;
        let formats = [
            PixelFormat::Bgrx,
            PixelFormat::Rgbx,
            PixelFormat::Bgr,
            PixelFormat::Rgb,
        ];
        let mut all = Vec::new();
        for format in formats {
            let bytes = format.packed().expect("packed");
            let stride = width * bytes + 12;
            for order in [RowOrder::TopDown, RowOrder::BottomUp] {
                let mut rows: Vec<&[u8]> = bgrx.chunks_exact(width * 4).collect();
                if order == RowOrder::BottomUp {
                    rows.reverse();
                }
                let mut data = Vec::new();
                for row in rows {
                    for pixel in row.chunks_exact(4) {
                        let [b, g, r, x] = [pixel[0], pixel[1], pixel[2], pixel[3]];
                        let pixel = match format {
                            PixelFormat::Bgrx | PixelFormat::Bgr => [b, g, r, x],
                            _ => [r, g, b, x],
                        };
                        data.extend_from_slice(&pixel[..bytes]);
                    }
                    data.extend_from_slice(&[99; 12]);
                }
                data.truncate(data.len() - 12);
                all.push((format, order, data, stride));
            }
        }
        all
    }

    /// All planes, top row first.
    fn upright_planes(picture: &Picture<'_>) -> Vec<u8> {
        let (width, height) = (picture.size.width as usize, picture.size.height as usize);
        let shapes = match picture.format {
            PixelFormat::Bgrx => vec![(width * 4, height)],
            PixelFormat::Nv12 => vec![(width, height), (width, height / 2)],
            PixelFormat::I420 => vec![
                (width, height),
                (width / 2, height / 2),
                (width / 2, height / 2),
            ],
            _ => vec![(width, height); 3],
        };
        let mut all = Vec::new();
        for (plane, (row, rows)) in picture.planes.iter().zip(shapes) {
            for y in 0..rows {
                let y = match picture.rows {
                    RowOrder::TopDown => y,
                    RowOrder::BottomUp => rows - 1 - y,
                };
                all.extend_from_slice(&plane.data[y * plane.stride..][..row]);
            }
        }
        all
    }

    #[test]
    fn a_picture_is_the_same_in_each_packed_format_and_order() {
        for size in [
            Size::new(64, 32),
            Size::new(37, 23),
            Size::new(1, 1),
            Size::new(6, 5),
        ] {
            let mut bgrx = noise(size.pixels() * 4);
            // Unused bytes are excluded from the comparison.
            bgrx.iter_mut().skip(3).step_by(4).for_each(|x| *x = 0);
            for to in [
                PixelFormat::Nv12,
                PixelFormat::I420,
                PixelFormat::I444,
                PixelFormat::Bgrx,
            ] {
                let mut converter = Converter::new();
                let usual = Picture::bgrx(size, &bgrx, size.width as usize * 4);
                let want = upright_planes(&converter.convert(&usual, to).expect("BGRX"));
                for (format, rows, data, stride) in ways(size, &bgrx) {
                    let plane = Plane {
                        data: &data,
                        stride,
                    };
                    let picture = Picture {
                        size,
                        format,
                        rows,
                        planes: [plane, Plane::EMPTY, Plane::EMPTY],
                    };
                    let have = converter.convert(&picture, to).expect("packed");
                    assert_eq!((have.size, have.format), (Converter::padded(size, to), to));
                    let mut have = upright_planes(&have);
                    if to == PixelFormat::Bgrx && format == PixelFormat::Bgrx {
                        assert!(picture.rows == rows);
                    }
                    if to == PixelFormat::Bgrx {
                        have.iter_mut().skip(3).step_by(4).for_each(|x| *x = 0);
                    }
                    let apart = have.iter().zip(&want).map(|(a, b)| a.abs_diff(*b)).max();
                    assert_eq!(have.len(), want.len());
                    assert!(
                        apart <= Some(1),
                        "{size} {format:?} {rows:?} to {to:?}: {apart:?} apart"
                    );
                }
            }
        }
    }

    #[test]
    fn short_buffers_are_refused_in_each_format() {
        let size = Size::new(10, 4);
        let data = noise(10 * 4 * 4);
        for (format, stride) in [(PixelFormat::Rgb, 30), (PixelFormat::Rgbx, 40)] {
            for rows in [RowOrder::TopDown, RowOrder::BottomUp] {
                let short = Plane {
                    data: &data[..stride * 4 - 1],
                    stride,
                };
                let picture = Picture {
                    size,
                    format,
                    rows,
                    planes: [short, Plane::EMPTY, Plane::EMPTY],
                };
                for to in [PixelFormat::Nv12, PixelFormat::I420, PixelFormat::Bgrx] {
                    let error = Converter::new().convert(&picture, to).expect_err("short").0;
                    assert!(error.contains(&format!("{format:?}")), "{error}");
                }
            }
        }
    }
}
