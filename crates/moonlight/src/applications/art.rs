//! Box art: a coloured card, with the application's icon in the middle if the application has an icon.

use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::Path;

use png::{BitDepth, ColorType, Transformations};

/// Sides of the box art. Clients show 200 × 267 pixels and stretch other shapes (moonshine's `webserver/mod.rs`).
pub(super) const ART: (u32, u32) = (300, 400);

/// Width of the frame around the box art.
const FRAME: u32 = 12;

/// Longest side of the icon in the box art.
const ICON: u32 = 200;

/// Maximum size of an icon file in bytes, and of an icon's side in pixels. Theme icons have sides of at most 1024
/// pixels.
const LARGEST_FILE: u64 = 8 << 20;
const LONGEST_SIDE: u32 = 4096;

/// Draws the box art as PNG, in a colour derived from `number`. `None` if the PNG library fails.
pub(super) fn draw(number: u32, icon: Option<&Path>) -> Option<Vec<u8>> {
    let [red, green, blue, _] = number.to_le_bytes();
    // The colour is dark enough for the white title that some clients draw over the art.
    let inside = [red, green, blue].map(|part| 32 + part / 3);
    let frame = inside.map(|part| part + part / 2);
    let (width, height) = ART;
    let mut pixels = Vec::new();
    for y in 0..height {
        for x in 0..width {
            let edge = x.min(width - 1 - x).min(y).min(height - 1 - y);
            pixels.extend(if edge < FRAME { frame } else { inside });
        }
    }
    if let Some(icon) = icon.and_then(Icon::read) {
        icon.draw_into(&mut pixels);
    }
    let mut image = Vec::new();
    let mut encoder = png::Encoder::new(&mut image, width, height);
    encoder.set_color(ColorType::Rgb);
    let mut writer = encoder.write_header().ok()?;
    writer.write_image_data(&pixels).ok()?;
    writer.finish().ok()?;
    Some(image)
}

/// A decoded icon, with four bytes per pixel.
struct Icon {
    width: u32,
    height: u32,
    pixels: Vec<u8>,
}

impl Icon {
    /// Reads a PNG file; `None` if it is not a PNG file or is too large.
    fn read(path: &Path) -> Option<Icon> {
        let file = File::open(path).ok()?.take(LARGEST_FILE);
        let mut bytes = Vec::new();
        BufReader::new(file).read_to_end(&mut bytes).ok()?;
        let mut decoder = png::Decoder::new(std::io::Cursor::new(bytes));
        decoder
            .set_transformations(Transformations::normalize_to_color8() | Transformations::ALPHA);
        let mut reader = decoder.read_info().ok()?;
        let (width, height) = (reader.info().width, reader.info().height);
        if !(1..=LONGEST_SIDE).contains(&width) || !(1..=LONGEST_SIDE).contains(&height) {
            return None;
        }
        let mut pixels = vec![0; reader.output_buffer_size()?];
        let frame = reader.next_frame(&mut pixels).ok()?;
        pixels.truncate(frame.buffer_size());
        let pixels = match (frame.color_type, frame.bit_depth) {
            (ColorType::Rgba, BitDepth::Eight) => pixels,
            (ColorType::GrayscaleAlpha, BitDepth::Eight) => {
                let grey = pixels.chunks_exact(2);
                grey.flat_map(|two| [two[0], two[0], two[0], two[1]])
                    .collect()
            }
            _ => return None,
        };
        let icon = Icon {
            width,
            height,
            pixels,
        };
        (icon.pixels.len() == width as usize * height as usize * 4).then_some(icon)
    }

    /// Scales the icon with its own aspect ratio into the middle of the art. Each scaled pixel is the mean of the icon
    /// pixels that it covers.
    fn draw_into(&self, art: &mut [u8]) {
        let longest = self.width.max(self.height);
        let scaled = |side: u32| (side * ICON / longest).max(1);
        let (width, height) = (scaled(self.width), scaled(self.height));
        let (left, top) = ((ART.0 - width) / 2, (ART.1 - height) / 2);
        for y in 0..height {
            for x in 0..width {
                let at = ((top + y) * ART.0 + left + x) as usize * 3;
                let [red, green, blue, alpha] = self.mean((x, y), (width, height));
                for (below, above) in art[at..at + 3].iter_mut().zip([red, green, blue]) {
                    let mixed = u32::from(*below) * (255 - alpha) + above * alpha;
                    *below = u8::try_from(mixed / 255).unwrap_or(u8::MAX);
                }
            }
        }
    }

    /// The mean colour, weighted by opacity, and the mean opacity of the icon pixels that the scaled pixel (`x`, `y`)
    /// covers.
    fn mean(&self, (x, y): (u32, u32), (width, height): (u32, u32)) -> [u32; 4] {
        let span = |at: u32, scaled: u32, own: u32| {
            let first = at * own / scaled;
            first..((at + 1) * own).div_ceil(scaled).clamp(first + 1, own)
        };
        let (mut colour, mut opacity, mut count) = ([0_u64; 3], 0_u64, 0_u64);
        for row in span(y, height, self.height) {
            for column in span(x, width, self.width) {
                let at = (row as usize * self.width as usize + column as usize) * 4;
                let alpha = u64::from(self.pixels[at + 3]);
                for (sum, part) in colour.iter_mut().zip(&self.pixels[at..at + 3]) {
                    *sum += u64::from(*part) * alpha;
                }
                opacity += alpha;
                count += 1;
            }
        }
        let small = |value: u64| u32::try_from(value.min(255)).unwrap_or(255);
        let [red, green, blue] = colour.map(|sum| small(sum.checked_div(opacity).unwrap_or(0)));
        [red, green, blue, small(opacity / count.max(1))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pixels_of(image: &[u8]) -> Vec<u8> {
        let decoder = png::Decoder::new(std::io::Cursor::new(image));
        let mut reader = decoder.read_info().unwrap();
        assert_eq!((reader.info().width, reader.info().height), ART);
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels).unwrap();
        pixels
    }

    fn at(pixels: &[u8], x: u32, y: u32) -> [u8; 3] {
        let at = (y * ART.0 + x) as usize * 3;
        [pixels[at], pixels[at + 1], pixels[at + 2]]
    }

    /// Writes these pixels to a PNG file of this colour type.
    fn file(
        folder: &Path,
        color: ColorType,
        size: (u32, u32),
        pixels: &[u8],
    ) -> std::path::PathBuf {
        let path = folder.join("icon.png");
        let file = File::create(&path).unwrap();
        let mut encoder = png::Encoder::new(file, size.0, size.1);
        encoder.set_color(color);
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(pixels).unwrap();
        path
    }

    #[test]
    fn an_icon_is_scaled_into_the_middle() {
        let folder = tempfile::tempdir().unwrap();
        let plain = pixels_of(&draw(7, None).unwrap());
        // The left half is red, the right half is transparent.
        let row = [[255, 0, 0, 255], [0, 255, 0, 0]].concat();
        let path = file(folder.path(), ColorType::Rgba, (2, 1), &row);
        let drawn = pixels_of(&draw(7, Some(&path)).unwrap());
        assert_eq!(at(&drawn, 100, 200), [255, 0, 0]);
        assert_eq!(at(&drawn, 200, 200), at(&plain, 200, 200));
        assert_eq!(at(&drawn, 100, 140), at(&plain, 100, 140), "above it");
        // This icon is larger than its area and has no alpha channel.
        let grey = vec![200; 1000 * 1000];
        let path = file(folder.path(), ColorType::Grayscale, (1000, 1000), &grey);
        let drawn = pixels_of(&draw(7, Some(&path)).unwrap());
        assert_eq!(at(&drawn, 51, 101), [200; 3]);
        assert_eq!(at(&drawn, 49, 101), at(&plain, 49, 101));
    }

    #[test]
    fn other_files_leave_the_art_without_icon() {
        let folder = tempfile::tempdir().unwrap();
        let plain = draw(7, None);
        assert_eq!(draw(7, Some(&folder.path().join("missing"))), plain);
        let path = folder.path().join("text.png");
        std::fs::write(&path, "no picture").unwrap();
        assert_eq!(draw(7, Some(&path)), plain);
        let whole = file(folder.path(), ColorType::Rgb, (2, 2), &[9; 12]);
        let bytes = std::fs::read(&whole).unwrap();
        for end in 0..bytes.len() - 12 {
            std::fs::write(&path, &bytes[..end]).unwrap();
            assert!(draw(7, Some(&path)).is_some());
        }
    }
}
