//! Positions of pointers in the picture.

use openuvr_proto::units::Size;

/// Maps a position on the display to the picture of `viewport`: 0 is the left (top) edge of the first pixel, 65 535 is
/// the right (bottom) edge of the last pixel. The result is a pixel's centre. Multiplying it by the size and dividing
/// by 65 536 recovers the pixel. `None` outside the picture.
#[must_use]
pub fn normalised(place: (i32, i32), viewport: (i32, i32, Size)) -> Option<(u16, u16)> {
    let (left, top, size) = viewport;
    let along = |at: i32, side: u32| {
        let at = u32::try_from(at).ok().filter(|at| *at < side)?;
        u16::try_from((u64::from(at) * 2 + 1) * 65_535 / (u64::from(side) * 2)).ok()
    };
    Some((
        along(place.0.checked_sub(left)?, size.width)?,
        along(place.1.checked_sub(top)?, size.height)?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_the_middles_of_pixels() {
        let viewport = (100, 50, Size::new(640, 480));
        assert_eq!(normalised((100, 50), viewport), Some((51, 68)));
        assert_eq!(normalised((739, 529), viewport), Some((65_483, 65_466)));
        assert_eq!(normalised((740, 529), viewport), None);
        assert_eq!(normalised((99, 60), viewport), None);
        assert_eq!(
            normalised((0, 0), (0, 0, Size::new(1, 1))),
            Some((32_767, 32_767))
        );
        assert_eq!(normalised((0, 0), (0, 0, Size::new(0, 0))), None);
        for width in [1, 2, 1365, 1920, 7680, 16_384] {
            for x in (0..width).step_by(7) {
                let at = normalised((x, 0), (0, 0, Size::new(width.unsigned_abs(), 1)));
                let found = i64::from(at.unwrap().0) * i64::from(width) / 65_536;
                assert_eq!(found, i64::from(x));
            }
        }
    }
}
