//! A picture in which only a part is updated. All other macroblocks come from the encoder's reconstruction of the
//! previous frame. The encoder therefore finds no difference and skips them.
//!
//! libx264's flag for unchanged macroblocks is not sufficient: libx264 ignores it if the quantiser is finer than at the
//! last coding of these macroblocks, as in a refinement.

use crate::encode::MacroblockRange;
use crate::picture::{Picture, PixelFormat, Plane, RowOrder};

/// The side of a macroblock.
const SIDE: usize = 16;

/// The memory of the composed picture, reused from frame to frame.
#[derive(Default)]
pub(super) struct CompositePicture {
    planes: [Vec<u8>; 3],
}

impl CompositePicture {
    /// Composes a picture from `part` of `picture`, and from `known` elsewhere. The planes of `known` have their top
    /// row first. `None` for a format that libx264 stores differently from its input.
    pub(super) fn of<'a>(
        &'a mut self,
        picture: &Picture<'_>,
        known: &[Plane<'_>; 3],
        part: MacroblockRange,
    ) -> Option<Picture<'a>> {
        // For each plane, the number of pixel rows per row of the plane. Every plane has one byte per pixel column.
        let downs: &[usize] = match picture.format {
            PixelFormat::Nv12 => &[1, 2],
            PixelFormat::I444 => &[1; 3],
            _ => return None,
        };
        let (width, height) = (picture.size.width as usize, picture.size.height as usize);
        let columns = width.div_ceil(SIDE);
        let first = usize::from(part.first_mb);
        let end = first + usize::from(part.mbs);
        for (n, down) in downs.iter().enumerate() {
            let (row, rows) = (width, height / down);
            let (from, to) = (picture.planes[n], &mut self.planes[n]);
            to.resize(row * rows, 0);
            for (y, to) in to.chunks_exact_mut(row).enumerate() {
                to.copy_from_slice(known[n].data.get(y * known[n].stride..)?.get(..row)?);
                // The macroblocks of this row that belong to the part.
                let begin = y * down / SIDE * columns;
                let span = first.clamp(begin, begin + columns) - begin
                    ..end.clamp(begin, begin + columns) - begin;
                let bytes = span.start * SIDE..(span.end * SIDE).min(row);
                let y = match picture.rows {
                    RowOrder::TopDown => y,
                    RowOrder::BottomUp => rows - 1 - y,
                };
                if !bytes.is_empty() {
                    let source = from.data.get(y * from.stride..)?;
                    to[bytes.clone()].copy_from_slice(source.get(bytes)?);
                }
            }
        }
        let mut planes = [Plane::EMPTY; 3];
        for (plane, data) in planes.iter_mut().zip(&self.planes[..downs.len()]) {
            let stride = width;
            *plane = Plane { data, stride };
        }
        Some(Picture {
            rows: RowOrder::TopDown,
            planes,
            ..*picture
        })
    }
}
