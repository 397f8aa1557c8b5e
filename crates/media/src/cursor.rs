//! The pointer as a separate stream, so that it can move without a new frame.

use std::sync::Arc;

/// An arrow: `#` black, `.` white.
const ARROW: [&str; 18] = [
    "##          ",
    "#.#         ",
    "#..#        ",
    "#...#       ",
    "#....#      ",
    "#.....#     ",
    "#......#    ",
    "#.......#   ",
    "#........#  ",
    "#.........# ",
    "#......#####",
    "#...#..#    ",
    "#..##...#   ",
    "#.#  #..#   ",
    "##   #...#  ",
    "#     #..#  ",
    "      #...# ",
    "       ###  ",
];

/// The host's pointer, to be drawn by the client.
#[derive(Clone, Debug)]
pub struct Cursor {
    /// Position of the hot spot in the picture (0–65 535 across and down, as in input events);
    /// `None` while the pointer is outside of the picture or hidden.
    pub at: Option<(u16, u16)>,
    /// The shape. It is shared because it changes rarely.
    pub shape: Arc<CursorShape>,
}

/// A pointer's image.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CursorShape {
    /// Width in pixels, at most 256.
    pub width: u16,
    /// Height in pixels, at most 256.
    pub height: u16,
    /// Distance of the hot spot from the left edge.
    pub hot_x: u16,
    /// Distance of the hot spot from the top edge.
    pub hot_y: u16,
    /// `width × height` premultiplied ARGB pixels as in XFixes.
    pub argb: Vec<u32>,
}

impl CursorShape {
    /// An arrow, for a pointer without an image of its own.
    #[must_use]
    pub fn arrow() -> CursorShape {
        let pixels = ARROW.iter().flat_map(|row| row.chars());
        CursorShape {
            width: 12,
            height: 18,
            hot_x: 0,
            hot_y: 0,
            argb: pixels
                .map(|pixel| match pixel {
                    '#' => 0xff00_0000,
                    '.' => 0xffff_ffff,
                    _ => 0,
                })
                .collect(),
        }
    }

    /// Whether no pixel is visible.
    #[must_use]
    pub fn is_invisible(&self) -> bool {
        self.argb.iter().all(|pixel| pixel >> 24 == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arrow_is_whole_and_its_tip_is_its_place() {
        let arrow = CursorShape::arrow();
        assert_eq!(arrow.argb.len(), usize::from(arrow.width * arrow.height));
        assert_eq!(
            (arrow.argb[0], arrow.hot_x, arrow.hot_y),
            (0xff00_0000, 0, 0)
        );
    }
}
