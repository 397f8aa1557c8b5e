//! Renders lines of text as a picture with a translucent background.
//!
//! This module renders each line as given. It neither positions nor wraps the text.

use embedded_graphics::Drawable as _;
use embedded_graphics::Pixel;
use embedded_graphics::draw_target::DrawTarget;
use embedded_graphics::geometry::{OriginDimensions, Point, Size as Area};
use embedded_graphics::mono_font::iso_8859_1::{FONT_6X13, FONT_9X15, FONT_10X20};
use embedded_graphics::mono_font::{MonoFont, MonoTextStyle};
use embedded_graphics::pixelcolor::BinaryColor;
use embedded_graphics::text::{Baseline, Text};
use openuvr_proto::units::Size;

/// Background and text colours in premultiplied ARGB (X Render): black with an opacity of seven tenths, and white.
const GROUND: u32 = 0xb300_0000;
const INK: u32 = 0xffff_ffff;

/// Pixels between the box's edge and the text.
const MARGIN: u32 = 6;

/// Pixels between two lines.
const LEADING: u32 = 2;

/// Maximum line length and number of lines; text beyond these is cut off.
const COLUMNS: usize = 100;
const ROWS: usize = 40;

/// A picture of text.
#[derive(PartialEq, Eq, Debug)]
pub struct Panel {
    /// Width in pixels.
    pub width: u16,
    /// Height in pixels.
    pub height: u16,
    /// Premultiplied ARGB, row by row.
    pub argb: Vec<u32>,
}

impl Panel {
    /// Renders `lines` in a font size that suits a window of size `window`.
    pub fn new(lines: &[String], window: Size) -> Panel {
        let font = font_for(window);
        let cell = font.character_size;
        let (advance, height) = (cell.width, cell.height + LEADING);
        let lines: Vec<String> = lines
            .iter()
            .take(ROWS)
            .map(|line| line.chars().take(COLUMNS).collect())
            .collect();
        let columns = lines.iter().map(|line| line.chars().count()).max();
        let side = |count: usize, each: u32| {
            // The product is at most 1000 (100 columns of 10 pixels, or 40 rows of 22), so neither it nor the sum
            // overflows.
            u16::try_from(count)
                .unwrap_or(u16::MAX)
                .saturating_mul(u16::try_from(each).unwrap_or(u16::MAX))
                + 2 * u16::try_from(MARGIN).unwrap_or(0)
        };
        let mut panel = Panel {
            width: side(columns.unwrap_or(0), advance),
            height: side(lines.len(), height),
            argb: Vec::new(),
        };
        let pixels = usize::from(panel.width) * usize::from(panel.height);
        panel.argb = vec![GROUND; pixels];
        let style = MonoTextStyle::new(font, BinaryColor::On);
        let mut at = Point::zero() + Area::new(MARGIN, MARGIN);
        for line in &lines {
            // Drawing into memory can't fail.
            let _ = Text::with_baseline(line, at, style, Baseline::Top).draw(&mut panel);
            at += Area::new(0, height);
        }
        panel
    }
}

/// The font for a window's height: about thirty to sixty lines fit in an ordinary window, but the text is never
/// illegibly small.
fn font_for(window: Size) -> &'static MonoFont<'static> {
    match window.height {
        ..480 => &FONT_6X13,
        480..1000 => &FONT_9X15,
        _ => &FONT_10X20,
    }
}

impl OriginDimensions for Panel {
    fn size(&self) -> Area {
        Area::new(self.width.into(), self.height.into())
    }
}

impl DrawTarget for Panel {
    type Color = BinaryColor;
    type Error = std::convert::Infallible;

    fn draw_iter<I>(&mut self, pixels: I) -> Result<(), Self::Error>
    where
        I: IntoIterator<Item = Pixel<BinaryColor>>,
    {
        let width = usize::from(self.width);
        for Pixel(at, colour) in pixels {
            if let (Ok(x), Ok(y)) = (usize::try_from(at.x), usize::try_from(at.y))
                && x < width
                && colour.is_on()
                && let Some(pixel) = self.argb.get_mut(y * width + x)
            {
                *pixel = INK;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn a_panel_is_as_large_as_its_text_and_holds_its_letters() {
        let panel = Panel::new(&lines(&["ii", "i"]), Size::new(1280, 720));
        assert_eq!((panel.width, panel.height), (2 * 9 + 12, 2 * 17 + 12));
        let row = |y: usize| &panel.argb[y * 30..(y + 1) * 30];
        let inks = |from: usize, to: usize, x: std::ops::Range<usize>| {
            let rows = (from..to).flat_map(|y| &row(y)[x.clone()]);
            rows.filter(|pixel| **pixel == INK).count()
        };
        let (first, second) = (inks(6, 23, 6..15), inks(6, 23, 15..24));
        assert!(first > 5, "an i is drawn");
        assert_eq!(first, second, "equal letters look equal");
        assert_eq!(inks(23, 40, 6..15), first);
        assert_eq!(inks(23, 40, 15..24), 0, "no pixels without a letter");
        let all = panel.argb.iter().all(|pixel| [INK, GROUND].contains(pixel));
        assert!(all);
    }

    #[test]
    fn oversized_text_is_cut_off() {
        let long = vec!["\u{0}\u{1f600}\n".repeat(10_000); 1000];
        let panel = Panel::new(&long, Size::new(1, 16_384));
        assert_eq!(panel.width, 100 * 10 + 12);
        assert_eq!(panel.height, 40 * 22 + 12);
        let empty = Panel::new(&[], Size::new(0, 0));
        assert_eq!(empty.argb.len(), 12 * 12);
    }
}
