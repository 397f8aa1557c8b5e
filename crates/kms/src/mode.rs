//! The choice of a display mode.

use openuvr_proto::units::Size;

/// A mode of a display.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ModeDescription {
    pub(crate) size: Size,
    /// Refreshes in 1000 seconds.
    pub(crate) millihertz: u32,
    /// Whether the display prefers this mode. The preferred mode usually has the native resolution.
    pub(crate) preferred: bool,
    /// Whether half of the rows are drawn in each refresh. This is unsuitable for a stream, whose pictures are complete.
    pub(crate) interlaced: bool,
}

/// The requested refresh rate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Rate {
    /// The highest rate, at which a picture waits the shortest time for a refresh.
    Highest,
    /// The rate nearest to this one, in hertz.
    Near(f64),
}

/// The positions of `modes` in the order in which they are tried for a picture of this size. Modes of this size come
/// first, ordered by their rate, then the preferred ones, then all others by descending number of pixels. Interlaced
/// modes come last. The display may refuse any mode.
pub(crate) fn order(modes: &[ModeDescription], picture: Size, rate: Rate) -> Vec<usize> {
    let mut order: Vec<usize> = (0..modes.len()).collect();
    let key = |at: &usize| {
        let mode = modes[*at];
        let class = match mode {
            ModeDescription {
                interlaced: true, ..
            } => 3,
            mode if mode.size == picture => 0,
            mode if mode.preferred => 1,
            _ => 2,
        };
        let size = match class {
            0 => 0,
            _ => usize::MAX - mode.size.pixels(),
        };
        (class, size, by_rate(mode.millihertz, rate))
    };
    // The sort is stable, because the kernel lists better modes first.
    order.sort_by_key(key);
    order
}

/// The sort key of a rate: smaller for a better rate.
fn by_rate(millihertz: u32, rate: Rate) -> u64 {
    match rate {
        Rate::Highest => u64::from(u32::MAX - millihertz),
        Rate::Near(hertz) => {
            let distance = (f64::from(millihertz) - hertz * 1000.0).abs();
            // The value is in range because it was clamped.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let distance = distance.clamp(0.0, 1e12) as u64;
            distance
        }
    }
}

/// The refresh rate of a mode in thousandths of a hertz. `clock` is the pixel clock in kilohertz. `total` is the number
/// of pixels in a row and of rows in a refresh, with blanking.
pub(crate) fn millihertz(clock: u32, total: (u16, u16), interlaced: bool, doubled: bool) -> u32 {
    let pixels = u64::from(total.0) * u64::from(total.1);
    let Some(mut rate) = (u64::from(clock) * 1_000_000).checked_div(pixels) else {
        return 0;
    };
    if interlaced {
        rate *= 2;
    }
    if doubled {
        rate /= 2;
    }
    u32::try_from(rate).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL_HD: Size = Size::new(1920, 1080);
    const HD: Size = Size::new(1280, 720);

    fn mode(size: Size, hertz: u32, preferred: bool) -> ModeDescription {
        ModeDescription {
            size,
            millihertz: hertz * 1000,
            preferred,
            interlaced: false,
        }
    }

    fn monitor() -> Vec<ModeDescription> {
        vec![
            mode(FULL_HD, 60, true),
            mode(FULL_HD, 144, false),
            mode(HD, 50, false),
            mode(HD, 60, false),
            mode(Size::new(2560, 1440), 30, false),
            ModeDescription {
                interlaced: true,
                ..mode(HD, 120, false)
            },
        ]
    }

    #[test]
    fn a_mode_of_the_pictures_size_comes_first_at_the_wanted_rate() {
        let modes = monitor();
        let first = |size, rate| order(&modes, size, rate)[0];
        assert_eq!(first(HD, Rate::Highest), 3);
        assert_eq!(first(HD, Rate::Near(50.0)), 2);
        assert_eq!(first(FULL_HD, Rate::Highest), 1);
        assert_eq!(first(FULL_HD, Rate::Near(59.94)), 0);
    }

    #[test]
    fn without_one_the_preferred_mode_is_taken_and_then_the_largest() {
        let order = order(&monitor(), Size::new(800, 600), Rate::Highest);
        assert_eq!(order, [0, 4, 1, 3, 2, 5]);
        assert_eq!(super::order(&[], HD, Rate::Highest), [0; 0]);
    }

    #[test]
    fn the_rate_is_that_of_the_timings() {
        // CTA-861, format 16: 148.5 MHz, 2200 x 1125.
        assert_eq!(millihertz(148_500, (2200, 1125), false, false), 60_000);
        // Format 5: 1080i.
        assert_eq!(millihertz(74_250, (2200, 1125), true, false), 60_000);
        assert_eq!(millihertz(148_500, (0, 0), false, false), 0);
    }
}
