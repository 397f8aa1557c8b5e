//! Computation of window positions and sizes, without an X server.

use openuvr_proto::units::Size;
use x11rb::properties::WmSizeHints;

/// The maximum side of a window. X11 coordinates are signed 16-bit.
const MAX_SIDE: u32 = 32_767;

/// A position on the display and a size, in pixels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Rectangle {
    /// The upper left corner: x and y.
    pub(super) at: (i32, i32),
    pub(super) size: Size,
}

impl Rectangle {
    /// A whole display of this size.
    pub(super) fn whole(size: Size) -> Rectangle {
        Rectangle { at: (0, 0), size }
    }

    /// A rectangle of `size` centred on this one, within a display of size `all`. If the new rectangle is larger than
    /// the display, its upper left corner is visible.
    pub(super) fn centred(self, size: Size, all: Size) -> Rectangle {
        let place = |from: i32, has: u32, takes: u32, all: u32| {
            let middle = i64::from(from) + (i64::from(has) - i64::from(takes)) / 2;
            let last = (i64::from(all) - i64::from(takes)).max(0);
            i32::try_from(middle.clamp(0, last)).unwrap_or(0)
        };
        let x = place(self.at.0, self.size.width, size.width, all.width);
        let y = place(self.at.1, self.size.height, size.height, all.height);
        Rectangle { at: (x, y), size }
    }
}

/// The size limits of a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Limits {
    least: Size,
    most: Size,
}

impl Limits {
    /// The limits in a window's `WM_NORMAL_HINTS`. Size increments and aspect ratios are ignored, because a terminal
    /// fills the remaining space with a border, and a video player fills it with bars.
    pub(super) fn of(hints: Option<&WmSizeHints>) -> Limits {
        let side = |pixels: i32, otherwise: u32| {
            let pixels = u32::try_from(pixels).ok().filter(|pixels| *pixels > 0);
            pixels.map_or(otherwise, |pixels| pixels.min(MAX_SIDE))
        };
        let size = |requested: Option<(i32, i32)>, otherwise: u32| {
            let (width, height) = requested.unwrap_or((0, 0));
            Size::new(side(width, otherwise), side(height, otherwise))
        };
        let least = size(hints.and_then(|hints| hints.min_size), 1);
        let most = size(hints.and_then(|hints| hints.max_size), MAX_SIDE);
        // If limits contradict each other, the minimum applies.
        let most = Size::new(most.width.max(least.width), most.height.max(least.height));
        Limits { least, most }
    }

    /// The allowed size nearest to `wanted`.
    pub(super) fn nearest(&self, wanted: Size) -> Size {
        let (least, most) = (self.least, self.most);
        Size::new(
            wanted.width.clamp(least.width, most.width),
            wanted.height.clamp(least.height, most.height),
        )
    }
}

/// `size`, but no larger than `all`.
pub(super) fn within(size: Size, all: Size) -> Size {
    Size::new(size.width.min(all.width), size.height.min(all.height))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Size = Size::new(640, 360);

    fn limits(least: Option<(i32, i32)>, most: Option<(i32, i32)>) -> Limits {
        Limits::of(Some(&WmSizeHints {
            min_size: least,
            max_size: most,
            ..WmSizeHints::new()
        }))
    }

    #[test]
    fn a_size_is_limited_by_window_and_display() {
        assert_eq!(Limits::of(None).nearest(ALL), ALL);
        let least = limits(Some((100, 100)), None);
        assert_eq!(least.nearest(ALL), ALL);
        let most = limits(None, Some((320, 9000)));
        assert_eq!(most.nearest(ALL), Size::new(320, 360));
        let fixed = limits(Some((800, 200)), Some((800, 200)));
        assert_eq!(fixed.nearest(ALL), Size::new(800, 200));
        // Invalid limits are ignored.
        let odd = limits(Some((-5, 0)), Some((0, i32::MIN)));
        assert_eq!(odd.nearest(ALL), ALL);
        let crossed = limits(Some((700, 10)), Some((10, 10)));
        assert_eq!(crossed.nearest(ALL), Size::new(700, 10));
    }

    #[test]
    fn a_centred_window_stays_on_the_display() {
        let whole = Rectangle::whole(ALL);
        let at = |size: (u32, u32)| whole.centred(Size::new(size.0, size.1), ALL).at;
        assert_eq!(at((640, 360)), (0, 0));
        assert_eq!(at((100, 60)), (270, 150));
        assert_eq!(at((101, 61)), (269, 149));
        assert_eq!(at((800, 60)), (0, 150), "its left edge is visible");
        let parent = Rectangle {
            at: (500, 10),
            size: Size::new(100, 40),
        };
        let over = parent.centred(Size::new(300, 100), ALL);
        assert_eq!(over.at, (340, 0), "it stays within the display");
        assert_eq!(within(Size::new(700, 20), ALL), Size::new(640, 20));
    }
}
