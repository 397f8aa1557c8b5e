//! An element's position on the display, and the part of its buffer that is shown there.

use openuvr_media::damage::Block;

/// A rectangle on the display in pixels. It may extend beyond the display.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Rectangle {
    pub(crate) x: i32,
    pub(crate) y: i32,
    pub(crate) width: u32,
    pub(crate) height: u32,
}

impl Rectangle {
    /// The part of the rectangle within a block; `None` if they do not overlap.
    pub(crate) fn within(&self, block: &Block) -> Option<Block> {
        let span = |at: i32, length: u32, range: &std::ops::Range<u32>| {
            let begin = i64::from(at).clamp(range.start.into(), range.end.into());
            let end =
                (i64::from(at) + i64::from(length)).clamp(range.start.into(), range.end.into());
            let [begin, end] = [begin, end].map(|edge| u32::try_from(edge).unwrap_or(0));
            (begin < end).then_some(begin..end)
        };
        Some(Block {
            columns: span(self.x, self.width, &block.columns)?,
            rows: span(self.y, self.height, &block.rows)?,
        })
    }

    /// Whether the rectangle covers a whole block.
    pub(crate) fn covers(&self, block: &Block) -> bool {
        self.within(block).as_ref() == Some(block)
    }
}

/// Rotations and reflections of a buffer's contents: the values of `wl_output.transform`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Orientation {
    /// The number of quarter turns counter-clockwise after the reflection, 0 to 3.
    pub(crate) turns: u8,
    /// Whether the contents are reflected about their vertical axis.
    pub(crate) flipped: bool,
}

/// The mapping of a buffer to a rectangle on the display.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Mapping {
    pub(crate) place: Rectangle,
    /// The shown part of the contents as x, y, width and height, in pixels of the upright buffer.
    pub(crate) crop: (f64, f64, f64, f64),
    pub(crate) orientation: Orientation,
}

impl Mapping {
    /// The offset from a position on the display to the buffer's pixel; `None` if buffer and display differ in scale or
    /// orientation, or if the shown part does not start at a whole pixel.
    pub(crate) fn offset(&self) -> Option<(i64, i64)> {
        let (x, y, width, height) = self.crop;
        let same = (width, height) == (self.place.width.into(), self.place.height.into())
            && self.orientation == Orientation::default()
            && x.fract() == 0.0
            && y.fract() == 0.0;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "positions in a buffer, whose sides are below 2^31"
        )]
        same.then(|| {
            (
                x as i64 - i64::from(self.place.x),
                y as i64 - i64::from(self.place.y),
            )
        })
    }

    /// The pixel of a buffer of `size` that is shown at this position within the rectangle. Scaling uses the nearest
    /// pixel.
    pub(crate) fn source(&self, x: u32, y: u32, size: (u32, u32)) -> (u32, u32) {
        let part = |at: u32, from: i32, length: u32| {
            (f64::from(at) - f64::from(from) + 0.5) / f64::from(length.max(1))
        };
        let across = self.crop.0 + part(x, self.place.x, self.place.width) * self.crop.2;
        let down = self.crop.1 + part(y, self.place.y, self.place.height) * self.crop.3;
        // The size of the contents in their upright orientation.
        let (width, height) = match self.orientation.turns % 2 {
            0 => (f64::from(size.0), f64::from(size.1)),
            _ => (f64::from(size.1), f64::from(size.0)),
        };
        let across = if self.orientation.flipped {
            width - across
        } else {
            across
        };
        let (u, v) = match self.orientation.turns {
            0 => (across, down),
            1 => (down, width - across),
            2 => (width - across, height - down),
            _ => (height - down, across),
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the result is clamped to the length"
        )]
        let limited = |at: f64, length: u32| (at.max(0.0) as u32).min(length.saturating_sub(1));
        (limited(u, size.0), limited(v, size.1))
    }

    /// The smallest rectangle on the display that contains a rectangle of the buffer (left, upper, right and lower edge
    /// in buffer pixels). For a rotated or flipped buffer, it is the whole rectangle of the element.
    pub(crate) fn shown(&self, (left, top, right, bottom): (f64, f64, f64, f64)) -> Rectangle {
        if self.orientation != Orientation::default() {
            return self.place;
        }
        let (x, y, width, height) = self.crop;
        let scale = (
            f64::from(self.place.width) / width,
            f64::from(self.place.height) / height,
        );
        let limited = |at: f64, limit: u32| at.clamp(0.0, limit.into());
        let [left, right] = [left, right].map(|at| limited((at - x) * scale.0, self.place.width));
        let [top, bottom] = [top, bottom].map(|at| limited((at - y) * scale.1, self.place.height));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the edges are clamped to the element"
        )]
        Rectangle {
            x: self.place.x.saturating_add(left.floor() as i32),
            y: self.place.y.saturating_add(top.floor() as i32),
            width: (right.ceil() - left.floor()) as u32,
            height: (bottom.ceil() - top.floor()) as u32,
        }
    }
}

/// A surface on the display.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Element<S> {
    pub(crate) surface: S,
    pub(crate) mapping: Mapping,
    /// Whether all of its pixels are opaque.
    pub(crate) opaque: bool,
}
