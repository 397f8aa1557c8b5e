//! Composition in memory: elements are drawn into a picture, restricted to a block of it.
//!
//! An opaque element in the display's scale is copied row by row. Anything else is sampled (nearest pixel) and blended
//! per pixel. If a single window fills the display, its damage is copied once, and nothing else is drawn.

pub(crate) mod element;
pub(crate) mod sys;

use openuvr_media::damage::Block;

pub(crate) use element::{Element, Mapping, Orientation, Rectangle};

/// The source of an element's pixels, which are premultiplied ARGB in native byte order, as in `wl_shm`'s `argb8888`.
pub(crate) trait Pixels {
    /// Width and height in pixels.
    fn size(&self) -> (u32, u32);

    /// The pixel at a position within the size.
    fn pixel(&self, x: u32, y: u32) -> u32;

    /// Copies the pixels from `x` of row `y` to `row`, blue first. The range is within the size.
    fn copy(&self, x: u32, y: u32, row: &mut [u8]);
}

/// Pixels of one colour.
pub(crate) struct Uniform(pub(crate) u32);

impl Pixels for Uniform {
    fn size(&self) -> (u32, u32) {
        (1, 1)
    }

    fn pixel(&self, _: u32, _: u32) -> u32 {
        self.0
    }

    fn copy(&self, _: u32, _: u32, row: &mut [u8]) {
        for pixel in row.chunks_exact_mut(4) {
            pixel.copy_from_slice(&self.0.to_le_bytes());
        }
    }
}

/// Rows in ordinary memory, blue first, without padding.
pub(crate) struct Rows<'a> {
    pub(crate) size: (u32, u32),
    pub(crate) data: &'a [u8],
}

impl Pixels for Rows<'_> {
    fn size(&self) -> (u32, u32) {
        self.size
    }

    fn pixel(&self, x: u32, y: u32) -> u32 {
        let at = (y as usize * self.size.0 as usize + x as usize) * 4;
        let bytes = self.data.get(at..at + 4).and_then(|b| b.try_into().ok());
        bytes.map_or(0, u32::from_le_bytes)
    }

    fn copy(&self, x: u32, y: u32, row: &mut [u8]) {
        let at = (y as usize * self.size.0 as usize + x as usize) * 4;
        if let Some(source) = self.data.get(at..at + row.len()) {
            row.copy_from_slice(source);
        }
    }
}

/// A picture that is being drawn: BGRX rows without padding.
pub(crate) struct Canvas<'a> {
    pub(crate) width: u32,
    pub(crate) data: &'a mut [u8],
}

impl Canvas<'_> {
    fn row(&mut self, y: u32, columns: std::ops::Range<u32>) -> &mut [u8] {
        let begin = y as usize * self.width as usize;
        let range = (begin + columns.start as usize) * 4..(begin + columns.end as usize) * 4;
        self.data.get_mut(range).unwrap_or_default()
    }

    /// Fills a block with black.
    pub(crate) fn clear(&mut self, block: &Block) {
        for y in block.rows.clone() {
            self.row(y, block.columns.clone()).fill(0);
        }
    }

    /// Draws the part of an element within `block`.
    pub(crate) fn draw(
        &mut self,
        pixels: &dyn Pixels,
        mapping: &Mapping,
        opaque: bool,
        block: &Block,
    ) {
        let Some(part) = mapping.place.within(block) else {
            return;
        };
        if let Some((dx, dy)) = mapping.offset() {
            let (width, height) = pixels.size();
            let mut scratch = vec![0; if opaque { 0 } else { part.columns.len() * 4 }];
            for y in part.rows.clone() {
                let (x, from) = (i64::from(part.columns.start) + dx, i64::from(y) + dy);
                let row = self.row(y, part.columns.clone());
                let fits = x >= 0
                    && x + (row.len() / 4) as i64 <= width.into()
                    && (0..height.into()).contains(&from);
                let (true, Ok(x), Ok(from)) = (fits, u32::try_from(x), u32::try_from(from)) else {
                    continue;
                };
                if opaque {
                    pixels.copy(x, from, row);
                    continue;
                }
                pixels.copy(x, from, &mut scratch);
                for (over, below) in scratch.chunks_exact(4).zip(row.chunks_exact_mut(4)) {
                    draw_over(over.try_into().map_or(0, u32::from_le_bytes), below);
                }
            }
            return;
        }
        let columns: Vec<_> = part.columns.clone().collect();
        for y in part.rows.clone() {
            let row = self.row(y, part.columns.clone());
            for (x, target) in columns.iter().zip(row.chunks_exact_mut(4)) {
                let (from_x, from_y) = mapping.source(*x, y, pixels.size());
                let over = pixels.pixel(from_x, from_y);
                if opaque {
                    target.copy_from_slice(&over.to_le_bytes());
                } else {
                    draw_over(over, target);
                }
            }
        }
    }
}

fn draw_over(over: u32, below: &mut [u8]) {
    let before = (&*below).try_into().map_or(0, u32::from_le_bytes);
    below.copy_from_slice(&blend(over, before).to_le_bytes());
}

/// A premultiplied pixel over an opaque one.
fn blend(over: u32, below: u32) -> u32 {
    match over >> 24 {
        0xff => over,
        0 if over == 0 => below,
        alpha => {
            let rest = 255 - alpha;
            let channel = |shift: u32| {
                let (over, below) = (over >> shift & 0xff, below >> shift & 0xff);
                // Rounded division by 255, exact for products of two bytes.
                let product = below * rest + 128;
                (over + ((product + (product >> 8)) >> 8)).min(255) << shift
            };
            channel(0) | channel(8) | channel(16) | 0xff00_0000
        }
    }
}

#[cfg(test)]
mod tests;
