//! The pixel layout of a visual of an X server, and its conversion to 8-bit blue, green, red.
//!
//! Most servers use the layout of BGRX pictures, which needs no conversion. Other screens have 15, 16 or 30 bits per
//! pixel, or 8 bits that index a colour map.
//!
//! Spec: X protocol, section 8 (formats, visuals) and `QueryColors`.

use x11rb::errors::ReplyError;
use x11rb::protocol::xproto::{
    Colormap, ConnectionExt as _, ImageOrder, Setup, VisualClass, Visualid, Visualtype,
};
use x11rb::rust_connection::RustConnection;

/// The layout of a visual's pixels in memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PixelLayout {
    /// Bytes per pixel: 1 to 4.
    bytes: usize,
    /// Alignment of rows in bytes.
    align: usize,
    colours: Colours,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Colours {
    /// The layout of [`PixelFormat::Bgrx`](crate::picture::PixelFormat::Bgrx).
    Bgrx,
    /// Blue, green and red in bits of the pixel.
    Bits([Channel; 3]),
    /// The pixel is an index in a colour map of this many cells.
    Cells(u16),
}

/// A colour channel of a pixel.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Channel {
    shift: u32,
    /// The 8-bit value of each channel value.
    values: Vec<u8>,
}

/// The cells of a colour map as blue, green, red; empty for pixels without a colour map.
pub type Cells = Vec<[u8; 3]>;

impl PixelLayout {
    /// The layout of `visual`.
    ///
    /// # Errors
    /// Returns an error for an unsupported layout, in one line that starts with `display`.
    pub fn of(setup: &Setup, visual: Visualid, display: &str) -> Result<PixelLayout, String> {
        let depths = setup.roots.iter().flat_map(|screen| &screen.allowed_depths);
        let visuals = depths.flat_map(|depth| depth.visuals.iter().map(|v| (depth.depth, v)));
        let found = { visuals }.find(|(_, found)| found.visual_id == visual);
        let (depth, visual) =
            found.ok_or_else(|| format!("{display} has no visual {visual:#x}"))?;
        let form = setup.pixmap_formats.iter().find(|form| form.depth == depth);
        let (bits, pad) = form.map_or((0, 0), |form| (form.bits_per_pixel, form.scanline_pad));
        let little = setup.image_byte_order == ImageOrder::LSB_FIRST;
        let colours = colours(visual, bits);
        match colours {
            Some(colours) if matches!(bits, 8 | 16 | 24 | 32) && (little || bits == 8) => {
                Ok(PixelLayout {
                    bytes: usize::from(bits / 8),
                    align: usize::from(pad / 8).max(1),
                    colours,
                })
            }
            _ => Err(format!(
                "{display}: unsupported pixels of {bits} bits with depth {depth}: \
                 use a screen of depth 24 (or 8, 15, 16 or 30)"
            )),
        }
    }

    /// Whether no conversion is needed.
    #[must_use]
    pub fn is_bgrx(&self) -> bool {
        self.colours == Colours::Bgrx
    }

    /// Whether pixels index a colour map.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        matches!(self.colours, Colours::Cells(_))
    }

    /// The size of a row of this many pixels.
    #[must_use]
    pub fn row(&self, pixels: usize) -> usize {
        (pixels * self.bytes).next_multiple_of(self.align)
    }

    /// The rows of an image with this many pixels per row, without padding.
    pub fn rows<'a>(
        &self,
        image: &'a [u8],
        pixels: usize,
    ) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let used = pixels * self.bytes;
        let rows = image.chunks(self.row(pixels).max(1));
        rows.filter_map(move |row| row.get(..used))
    }

    /// Queries the current colour map from the server. Without a colour map, returns no cells and sends no query.
    ///
    /// # Errors
    /// Returns an error if the server is gone or the colour map does not exist.
    pub fn cells(&self, conn: &RustConnection, map: Colormap) -> Result<Cells, ReplyError> {
        let Colours::Cells(count) = self.colours else {
            return Ok(Cells::new());
        };
        let all: Vec<u32> = (0..u32::from(count)).collect();
        let colours = conn.query_colors(map, &all)?.reply()?.colors;
        let byte = |value: u16| value.to_be_bytes()[0];
        let cell = |c: &x11rb::protocol::xproto::Rgb| [byte(c.blue), byte(c.green), byte(c.red)];
        Ok(colours.iter().map(cell).collect())
    }

    /// Converts a row of the server's pixels to BGRX.
    pub fn convert(&self, cells: &[[u8; 3]], from: &[u8], to: &mut [u8]) {
        let pixels = from.chunks_exact(self.bytes).zip(to.chunks_exact_mut(4));
        match &self.colours {
            Colours::Bgrx => {
                let length = from.len().min(to.len());
                to[..length].copy_from_slice(&from[..length]);
            }
            Colours::Bits(channels) => {
                for (from, to) in pixels {
                    let pixel = from
                        .iter()
                        .rev()
                        .fold(0, |all, byte| all << 8 | u32::from(*byte));
                    for (channel, to) in channels.iter().zip(to) {
                        *to = channel.of(pixel);
                    }
                }
            }
            Colours::Cells(_) => {
                for (from, to) in pixels {
                    let cell = cells.get(usize::from(from[0])).copied().unwrap_or_default();
                    to[..3].copy_from_slice(&cell);
                }
            }
        }
    }
}

fn colours(visual: &Visualtype, bits: u8) -> Option<Colours> {
    if visual.class != VisualClass::TRUE_COLOR && visual.class != VisualClass::DIRECT_COLOR {
        return (bits == 8).then(|| Colours::Cells(visual.colormap_entries.min(256)));
    }
    let masks = [visual.blue_mask, visual.green_mask, visual.red_mask];
    if bits == 32 && masks == [0xff, 0xff00, 0xff_0000] {
        return Some(Colours::Bgrx);
    }
    let [blue, green, red] = masks.map(Channel::of_mask);
    Some(Colours::Bits([blue?, green?, red?]))
}

impl Channel {
    /// The channel of a mask of at most 16 contiguous bits.
    fn of_mask(mask: u32) -> Option<Channel> {
        let shift = mask.trailing_zeros();
        let most = mask.checked_shr(shift)?;
        if most.count_ones() != 32 - most.leading_zeros() || most > 0xffff {
            return None;
        }
        let values = (0..=most).map(|value| u8::try_from((value * 255 + most / 2) / most));
        Some(Channel {
            shift,
            values: values.collect::<Result<_, _>>().ok()?,
        })
    }

    fn of(&self, pixel: u32) -> u8 {
        // The number of values is a power of two, so the last index is also the mask of an index.
        let last = self.values.len() - 1;
        self.values[(pixel >> self.shift) as usize & last]
    }
}

#[cfg(test)]
mod tests {
    use x11rb::protocol::xproto::{Depth, Format, Screen};

    use super::*;

    /// A server with one visual.
    fn setup(depth: u8, bits_per_pixel: u8, visual: Visualtype) -> Setup {
        Setup {
            image_byte_order: ImageOrder::LSB_FIRST,
            pixmap_formats: vec![Format {
                depth,
                bits_per_pixel,
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

    fn masks(red_mask: u32, green_mask: u32, blue_mask: u32) -> Visualtype {
        Visualtype {
            visual_id: 7,
            class: VisualClass::TRUE_COLOR,
            red_mask,
            green_mask,
            blue_mask,
            ..Visualtype::default()
        }
    }

    fn pixel(form: &PixelLayout, cells: &[[u8; 3]], from: &[u8]) -> [u8; 4] {
        let mut to = [0; 4];
        form.convert(cells, from, &mut to);
        to
    }

    #[test]
    fn each_depth_becomes_bytes() {
        let of = |depth, bits, visual| {
            PixelLayout::of(&setup(depth, bits, visual), 7, "display :0").expect("known")
        };
        let usual = of(24, 32, masks(0xff_0000, 0xff00, 0xff));
        assert!(usual.is_bgrx());
        let five = of(16, 16, masks(0xf800, 0x7e0, 0x1f));
        assert!(!five.is_bgrx());
        assert_eq!(
            pixel(&five, &[], &0xffff_u16.to_le_bytes()),
            [255, 255, 255, 0]
        );
        assert_eq!(
            pixel(&five, &[], &0xf810_u16.to_le_bytes()),
            [132, 0, 255, 0]
        );
        let ten = of(30, 32, masks(0x3ff0_0000, 0xf_fc00, 0x3ff));
        let value = (0x3ff << 20) | (0x200 << 10) | 1_u32;
        assert_eq!(pixel(&ten, &[], &value.to_le_bytes()), [0, 128, 255, 0]);
        let red_first = of(24, 32, masks(0xff, 0xff00, 0xff_0000));
        assert_eq!(pixel(&red_first, &[], &[1, 2, 3, 0]), [3, 2, 1, 0]);
        // Rows of 16-bit pixels are padded to four bytes.
        let rows: Vec<&[u8]> = five
            .rows(&[1, 2, 3, 4, 5, 6, 0, 0, 7, 8, 9, 10, 11, 12, 0, 0], 3)
            .collect();
        assert_eq!(rows, [&[1, 2, 3, 4, 5, 6][..], &[7, 8, 9, 10, 11, 12]]);
    }

    #[test]
    fn cells_are_looked_up_and_unknown_visuals_are_refused() {
        let cells = Visualtype {
            class: VisualClass::PSEUDO_COLOR,
            colormap_entries: 256,
            visual_id: 7,
            ..Visualtype::default()
        };
        let form = PixelLayout::of(&setup(8, 8, cells), 7, "display :0").expect("known");
        assert_eq!(pixel(&form, &[[0; 3], [3, 2, 1]], &[1]), [3, 2, 1, 0]);
        let refused = |setup: &Setup, visual| {
            let error = PixelLayout::of(setup, visual, "display :0").expect_err("unknown");
            assert!(error.starts_with("display :0"), "{error}");
            assert_eq!(error.lines().count(), 1);
        };
        refused(&setup(1, 1, cells), 7);
        refused(&setup(24, 32, masks(0xff_00ff, 0xff00, 0xff)), 7);
        refused(&setup(24, 32, masks(0, 0, 0)), 7);
        refused(&setup(24, 32, masks(0xff_0000, 0xff00, 0xff)), 8);
        let mut big = setup(16, 16, masks(0xf800, 0x7e0, 0x1f));
        big.image_byte_order = ImageOrder::MSB_FIRST;
        refused(&big, 7);
    }
}
