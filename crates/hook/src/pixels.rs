//! How an X server lays out the pixels of a window, and what they are in ours.

use openuvr_media::picture::PixelFormat;
use x11rb::protocol::xproto::{ImageOrder, Setup, VisualClass, Visualid};

/// Bytes of a pixel of ours.
const OURS: usize = 4;

/// The masks of red, green and blue in [`PixelFormat::Bgrx`].
const BGRX: [u32; 3] = [0xff_0000, 0xff00, 0xff];

/// The layout of the pixels of one visual.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PixelLayout {
    /// Of red, green and blue.
    masks: [u32; 3],
    /// Bytes of a pixel.
    bytes: usize,
    /// Rows begin at multiples of so many bytes.
    pad: usize,
    most_significant_first: bool,
}

impl PixelLayout {
    /// That of a visual. `None` if the server has no such, or its pixels are numbers of a palette.
    pub(crate) fn of(setup: &Setup, visual: Visualid) -> Option<PixelLayout> {
        let depths = setup.roots.iter().flat_map(|screen| &screen.allowed_depths);
        let mut visuals = depths.flat_map(|of| of.visuals.iter().map(move |one| (of.depth, one)));
        let (depth, visual) = visuals.find(|(_, one)| one.visual_id == visual)?;
        if ![VisualClass::TRUE_COLOR, VisualClass::DIRECT_COLOR].contains(&visual.class) {
            return None;
        }
        let mut formats = setup.pixmap_formats.iter();
        let format = formats.find(|format| format.depth == depth)?;
        let layout = PixelLayout {
            masks: [visual.red_mask, visual.green_mask, visual.blue_mask],
            bytes: usize::from(format.bits_per_pixel / 8),
            pad: usize::from(format.scanline_pad / 8).max(1),
            most_significant_first: setup.image_byte_order == ImageOrder::MSB_FIRST,
        };
        (1..=OURS).contains(&layout.bytes).then_some(layout)
    }

    /// Bytes from a row of so many pixels to the next.
    pub(crate) fn stride(self, width: usize) -> usize {
        (width * self.bytes).next_multiple_of(self.pad)
    }

    /// Writes the pixels of a row as [`PixelFormat::Bgrx`], as many as there is room for.
    pub(crate) fn convert(self, row: &[u8], to: &mut [u8]) {
        const { assert!(matches!(PixelFormat::Bgrx.packed(), Some(OURS))) };
        if self.masks == BGRX && self.bytes == OURS && !self.most_significant_first {
            let length = row.len().min(to.len());
            to[..length].copy_from_slice(&row[..length]);
            return;
        }
        for (pixel, to) in row.chunks_exact(self.bytes).zip(to.chunks_exact_mut(OURS)) {
            let append = |value: u32, byte: &u8| value << 8 | u32::from(*byte);
            let value = match self.most_significant_first {
                true => pixel.iter().fold(0, append),
                false => pixel.iter().rev().fold(0, append),
            };
            let [red, green, blue] = self.masks.map(|mask| level(value, mask));
            to.copy_from_slice(&[blue, green, red, 0]);
        }
    }
}

/// The part of a pixel that `mask` selects, from 0 to 255.
fn level(value: u32, mask: u32) -> u8 {
    if mask == 0 {
        return 0;
    }
    let most = u64::from(mask >> mask.trailing_zeros());
    let level = u64::from((value & mask) >> mask.trailing_zeros());
    u8::try_from((level * 255 + most / 2) / most).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use x11rb::protocol::xproto::{Depth, Format, Screen, Visualtype};

    use super::*;

    /// A server with one visual of these masks.
    fn server(depth: u8, bits: u8, masks: [u32; 3]) -> Setup {
        let visual = Visualtype {
            visual_id: 33,
            class: VisualClass::TRUE_COLOR,
            red_mask: masks[0],
            green_mask: masks[1],
            blue_mask: masks[2],
            ..Visualtype::default()
        };
        Setup {
            pixmap_formats: vec![Format {
                depth,
                bits_per_pixel: bits,
                scanline_pad: 32,
            }],
            roots: vec![Screen {
                allowed_depths: vec![Depth {
                    depth,
                    visuals: vec![visual],
                }],
                ..Screen::default()
            }],
            ..Setup::default()
        }
    }

    fn converted(setup: &Setup, row: &[u8]) -> [u8; 4] {
        let mut to = [9; 4];
        let layout = PixelLayout::of(setup, 33).expect("a visual");
        layout.convert(row, &mut to);
        to
    }

    #[test]
    fn pixels_of_every_depth_are_converted_by_their_masks() {
        let usual = server(24, 32, BGRX);
        assert_eq!(converted(&usual, &[1, 2, 3, 0]), [1, 2, 3, 0]);
        // Ten bits each, red first; as X servers of 30-bit screens have them.
        let deep = server(30, 32, [0x3ff0_0000, 0xf_fc00, 0x3ff]);
        let pixel = 0x3ff << 20 | 0x200 << 10 | 0x004_u32;
        assert_eq!(converted(&deep, &pixel.to_le_bytes()), [1, 128, 255, 0]);
        let mut other = server(30, 32, [0x3ff, 0xf_fc00, 0x3ff0_0000]);
        assert_eq!(converted(&other, &pixel.to_le_bytes()), [255, 128, 1, 0]);
        other.image_byte_order = ImageOrder::MSB_FIRST;
        assert_eq!(converted(&other, &pixel.to_be_bytes()), [255, 128, 1, 0]);
        let high = server(16, 16, [0xf800, 0x7e0, 0x1f]);
        assert_eq!(converted(&high, &[0x1f, 0xf8]), [255, 0, 255, 0]);
        let layout = PixelLayout::of(&high, 33).expect("a visual");
        assert_eq!(layout.stride(3), 8, "rows are padded");
    }

    #[test]
    fn pixels_that_are_no_colours_are_not_converted() {
        let mut palette = server(8, 8, [0; 3]);
        palette.roots[0].allowed_depths[0].visuals[0].class = VisualClass::PSEUDO_COLOR;
        assert_eq!(PixelLayout::of(&palette, 33), None);
        assert_eq!(PixelLayout::of(&server(24, 32, BGRX), 34), None);
    }
}
