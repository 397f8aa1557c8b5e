//! Moving pictures for codecs: a gradient with a sliding texture and noise.
#![allow(clippy::cast_possible_truncation)] // all values are below 256

use openuvr_media::picture::{Picture, PixelFormat, Plane, RowOrder};
use openuvr_proto::units::Size;

/// One NV12 picture.
pub(crate) struct Nv12 {
    pub(crate) size: Size,
    pub(crate) luma: Vec<u8>,
    pub(crate) chroma: Vec<u8>,
}

impl Nv12 {
    /// Picture number `t` of the film.
    pub(crate) fn frame(size: Size, t: u32) -> Nv12 {
        let (w, h) = (size.width, size.height);
        let mut noise = 0x9e37_79b9u32 ^ (t + 1).wrapping_mul(0x85eb_ca6b);
        let mut luma = Vec::with_capacity(size.pixels());
        for y in 0..h {
            for x in 0..w {
                noise ^= noise << 13;
                noise ^= noise >> 17;
                noise ^= noise << 5;
                let gradient = 40 + (x + y) * 100 / (w + h);
                // A woven pattern with detail at several scales, moving 3 pixels per frame to the
                // right and 1 down.
                let (u, v) = (x.wrapping_sub(3 * t), y.wrapping_sub(t));
                let texture = ((u ^ v) & 31) + ((u / 8 + v / 8) & 1) * 24;
                let inside = (x / 96 + y / 64).is_multiple_of(2);
                let value = gradient + if inside { texture } else { 12 } + (noise >> 30);
                luma.push(value.min(235) as u8);
            }
        }
        let mut chroma = Vec::with_capacity(size.pixels() / 2);
        for y in 0..h / 2 {
            for x in 0..w / 2 {
                chroma.push((100 + (x + t) * 40 / w) as u8);
                chroma.push((150 - (y + t) * 40 / h) as u8);
            }
        }
        Nv12 { size, luma, chroma }
    }

    pub(crate) fn picture(&self) -> Picture<'_> {
        let stride = self.size.width as usize;
        let plane = |data| Plane { data, stride };
        Picture {
            size: self.size,
            format: PixelFormat::Nv12,
            rows: RowOrder::TopDown,
            planes: [plane(&self.luma), plane(&self.chroma), Plane::EMPTY],
        }
    }
}
