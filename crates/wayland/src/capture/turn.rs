//! Pictures of outputs that are mounted rotated or mirrored. The compositor copies these pictures as the panel shows
//! them. This module turns them upright for viewers.

use openuvr_proto::units::Size;
use wayland_client::protocol::wl_output;

use openuvr_media::picture::{Picture, PixelFormat, RowOrder};

/// How the compositor rotates its contents for the panel (`wl_output.transform`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Transform {
    /// Quarter turns counter-clockwise, 0 to 3.
    quarters: u8,
    /// Whether the contents are mirrored around a vertical axis before they are rotated.
    flipped: bool,
}

impl From<wl_output::Transform> for Transform {
    fn from(transform: wl_output::Transform) -> Transform {
        use wl_output::Transform as T;
        let (quarters, flipped) = match transform {
            T::_90 => (1, false),
            T::_180 => (2, false),
            T::_270 => (3, false),
            T::Flipped => (0, true),
            T::Flipped90 => (1, true),
            T::Flipped180 => (2, true),
            T::Flipped270 => (3, true),
            _ => (0, false),
        };
        Transform { quarters, flipped }
    }
}

impl Transform {
    pub(super) fn is_normal(self) -> bool {
        self == Transform::default()
    }

    /// The size of an upright picture of a panel with this size.
    pub(super) fn turned(self, panel: Size) -> Size {
        match self.quarters % 2 {
            0 => panel,
            _ => Size::new(panel.height, panel.width),
        }
    }

    /// The position on the panel of the pixel at (`x`, `y`) in the upright picture, which has this `size`.
    fn source(self, (x, y): (usize, usize), size: Size) -> (usize, usize) {
        let (width, height) = (size.width as usize, size.height as usize);
        let x = if self.flipped { width - 1 - x } else { x };
        match self.quarters {
            0 => (x, y),
            1 => (y, width - 1 - x),
            2 => (width - 1 - x, height - 1 - y),
            _ => (height - 1 - y, x),
        }
    }
}

/// An upright copy of a picture, in BGRX.
#[derive(Default)]
pub(super) struct Turned {
    size: Size,
    pixels: Vec<u8>,
}

impl Turned {
    /// Replaces the upright copy with a copy of `picture`, which must have a packed format.
    pub(super) fn turn(&mut self, picture: &Picture<'_>, transform: Transform) {
        let Some(length) = picture.format.packed() else {
            return;
        };
        self.size = transform.turned(picture.size);
        self.pixels.resize(self.size.pixels() * 4, 0);
        let red_first = matches!(picture.format, PixelFormat::Rgbx | PixelFormat::Rgb);
        let plane = &picture.planes[0];
        let last = picture.size.height as usize - 1;
        let width = self.size.width as usize;
        for (at, to) in self.pixels.chunks_exact_mut(4).enumerate() {
            let (x, y) = transform.source((at % width, at / width), self.size);
            let y = match picture.rows {
                RowOrder::TopDown => y,
                RowOrder::BottomUp => last - y,
            };
            let from = y * plane.stride + x * length;
            to[..3].copy_from_slice(&plane.data[from..from + 3]);
            if red_first {
                to.swap(0, 2);
            }
        }
    }

    /// The copy, if there is one.
    pub(super) fn picture(&self) -> Option<Picture<'_>> {
        let stride = self.size.width as usize * 4;
        let exists = !self.pixels.is_empty();
        exists.then(|| Picture::bgrx(self.size, &self.pixels, stride))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The upright picture of a panel of 3x2 pixels with the values 0 to 5.
    fn upright(transform: wl_output::Transform) -> Vec<u8> {
        let panel: Vec<u8> = (0..6u8).flat_map(|value| [value, 0, 0, 0]).collect();
        let picture = Picture::bgrx(Size::new(3, 2), &panel, 12);
        let mut turned = Turned::default();
        turned.turn(&picture, transform.into());
        let values = turned.pixels.chunks_exact(4).map(|pixel| pixel[0]);
        values.collect()
    }

    #[test]
    fn a_turned_panel_is_seen_upright() {
        use wl_output::Transform as T;
        assert_eq!(upright(T::Normal), [0, 1, 2, 3, 4, 5]);
        // Contents that were rotated counter-clockwise for the panel are rotated back.
        assert_eq!(upright(T::_90), [3, 0, 4, 1, 5, 2]);
        assert_eq!(upright(T::_180), [5, 4, 3, 2, 1, 0]);
        assert_eq!(upright(T::_270), [2, 5, 1, 4, 0, 3]);
        assert_eq!(upright(T::Flipped), [2, 1, 0, 5, 4, 3]);
    }
}
