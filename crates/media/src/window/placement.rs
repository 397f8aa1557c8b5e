//! The placement of a picture in a window: as large as possible, centred, with its own aspect ratio
//! and black bars.

use std::ops::Range;

use openuvr_proto::units::Size;

use crate::cursor::Cursor;

/// A rectangle in window pixels.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rect {
    /// Left edge.
    pub x: i32,
    /// Upper edge.
    pub y: i32,
    /// Width.
    pub width: i32,
    /// Height.
    pub height: i32,
}

impl Rect {
    /// The intersection, `None` if empty.
    pub fn and(self, other: Rect) -> Option<Rect> {
        let (x, y) = (self.x.max(other.x), self.y.max(other.y));
        let width = (self.x + self.width).min(other.x + other.width) - x;
        let height = (self.y + self.height).min(other.y + other.height) - y;
        (width > 0 && height > 0).then_some(Rect {
            x,
            y,
            width,
            height,
        })
    }
}

/// A picture's placement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placement {
    /// The picture's own size.
    pub picture: Size,
    /// Its area in the window.
    pub area: Rect,
}

/// The picture's size if it fits on the screen, otherwise the largest size of the same aspect ratio that fits.
pub fn within(picture: Size, screen: Size) -> Size {
    if picture.width <= screen.width && picture.height <= screen.height {
        return picture;
    }
    let side = |pixels: i32| u32::try_from(pixels).unwrap_or(1);
    let area = Placement::fit(screen, picture).area;
    Size::new(side(area.width), side(area.height))
}

/// The visible part of the pointer's shape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overlay {
    /// Its area in the window.
    pub area: Rect,
    /// The shape's pixel at the area's top left corner.
    pub from: (i32, i32),
}

/// Distance in pixels between the top left corners of the picture and the text, horizontally and vertically.
const FROM_CORNER: i32 = 8;

fn side(pixels: u32) -> i32 {
    i32::try_from(pixels.clamp(1, Size::MAX_SIDE)).unwrap_or(1)
}

impl Placement {
    /// Fits `picture` into `window`.
    pub fn fit(window: Size, picture: Size) -> Placement {
        let (window_w, window_h) = (side(window.width), side(window.height));
        let (w, h) = (side(picture.width), side(picture.height));
        // Sides are at most 2^14, so the products are at most 2^28 and fit in an `i32`.
        let (width, height) = if window_w * h <= window_h * w {
            (window_w, ((window_w * h + w / 2) / w).clamp(1, window_h))
        } else {
            (((window_h * w + h / 2) / h).clamp(1, window_w), window_h)
        };
        let (x, y) = ((window_w - width) / 2, (window_h - height) / 2);
        Placement {
            picture,
            area: Rect {
                x,
                y,
                width,
                height,
            },
        }
    }

    /// Whether each pixel of the picture covers exactly one pixel of the window.
    pub fn is_unscaled(&self) -> bool {
        self.area.width == side(self.picture.width) && self.area.height == side(self.picture.height)
    }

    /// The area that the given rows of an unscaled picture cover in the window.
    pub fn rows(&self, rows: &Range<u32>) -> Rect {
        let count = |rows: u32| i32::try_from(rows).unwrap_or(i32::MAX);
        Rect {
            y: self.area.y + count(rows.start),
            height: count(rows.end.saturating_sub(rows.start)),
            ..self.area
        }
    }

    /// Splits `area`: the part on the first `rows` rows of an unscaled picture, and the part on its other rows.
    pub fn split(&self, area: Rect, rows: u32) -> (Option<Rect>, Option<Rect>) {
        let first = area.and(self.rows(&(0..rows)));
        (first, area.and(self.rows(&(rows..self.picture.height))))
    }

    /// The window pixel at a position in the picture (0–65 535 across and down).
    pub fn pixel(&self, (x, y): (u16, u16)) -> (i32, i32) {
        let along =
            |place: u16, length: i32| (i32::from(place) * length / 65_535).clamp(0, length - 1);
        (
            self.area.x + along(x, self.area.width),
            self.area.y + along(y, self.area.height),
        )
    }

    /// The area in which to draw the host's pointer over the picture, clipped to the picture. `None` if no part of the
    /// pointer is visible.
    pub fn overlay(&self, cursor: &Cursor) -> Option<Overlay> {
        let (x, y) = self.pixel(cursor.at?);
        let shape = Rect {
            x: x - i32::from(cursor.shape.hot_x),
            y: y - i32::from(cursor.shape.hot_y),
            width: i32::from(cursor.shape.width),
            height: i32::from(cursor.shape.height),
        };
        let area = shape.and(self.area)?;
        Some(Overlay {
            area,
            from: (area.x - shape.x, area.y - shape.y),
        })
    }

    /// The area in which to draw a text of `width` × `height`: near the picture's top left corner, clipped to the
    /// picture.
    pub fn panel(&self, (width, height): (u16, u16)) -> Option<Rect> {
        let area = Rect {
            x: self.area.x + FROM_CORNER,
            y: self.area.y + FROM_CORNER,
            width: width.into(),
            height: height.into(),
        };
        area.and(self.area)
    }

    /// Converts a window pixel's centre to a position in the picture. Pixels of the bars map to the nearest pixel of
    /// the picture.
    pub fn place(&self, x: i32, y: i32) -> (u16, u16) {
        let along = |at: i32, from: i32, length: i32| {
            let pixel = i64::from((at - from).clamp(0, length - 1));
            let place = ((2 * pixel + 1) * 65_535 + i64::from(length)) / (2 * i64::from(length));
            u16::try_from(place).unwrap_or(u16::MAX)
        };
        let area = self.area;
        (along(x, area.x, area.width), along(y, area.y, area.height))
    }

    /// The bars: the parts of `window` outside of the picture.
    pub fn bars(self, window: Size) -> impl Iterator<Item = Rect> {
        let (w, h) = (side(window.width), side(window.height));
        let Rect {
            x,
            y,
            width,
            height,
        } = self.area;
        let bars = [
            Rect {
                x: 0,
                y: 0,
                width: w,
                height: y,
            },
            Rect {
                x: 0,
                y: y + height,
                width: w,
                height: h - y - height,
            },
            Rect {
                x: 0,
                y,
                width: x,
                height,
            },
            Rect {
                x: x + width,
                y,
                width: w - x - width,
                height,
            },
        ];
        bars.into_iter()
            .filter(|bar| bar.width > 0 && bar.height > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shape_is_kept_and_bars_fill_the_rest() {
        let fitted = Placement::fit(Size::new(800, 800), Size::new(400, 200));
        assert_eq!(
            fitted.area,
            Rect {
                x: 0,
                y: 200,
                width: 800,
                height: 400
            }
        );
        assert_eq!(fitted.bars(Size::new(800, 800)).count(), 2);
        assert!(!fitted.is_unscaled());
        let wide = Placement::fit(Size::new(900, 200), Size::new(400, 200));
        assert_eq!(
            wide.area,
            Rect {
                x: 250,
                y: 0,
                width: 400,
                height: 200
            }
        );
        assert!(wide.is_unscaled(), "bars alone don't scale");
    }

    #[test]
    fn an_area_is_split_between_first_and_other_rows() {
        // The picture lies between two bars that are four columns wide.
        let placed = Placement::fit(Size::new(28, 10), Size::new(20, 10));
        let area = |y, height| Rect {
            x: 6,
            y,
            width: 3,
            height,
        };
        for (rows, first, rest) in [
            (0, None, Some(area(2, 5))),
            (2, None, Some(area(2, 5))),
            (4, Some(area(2, 2)), Some(area(4, 3))),
            (10, Some(area(2, 5)), None),
        ] {
            assert_eq!(placed.split(area(2, 5), rows), (first, rest), "{rows} rows");
        }
    }

    #[test]
    fn every_pixel_survives_the_trip_over_the_wire() {
        for width in [1, 2, 639, 1280, 3840, 16_384] {
            let fitted = Placement::fit(Size::new(width, 16), Size::new(width, 16));
            for x in 0..i32::try_from(width).expect("small") {
                assert_eq!(fitted.pixel(fitted.place(x, 3)), (x, 3), "width {width}");
            }
        }
    }
}
