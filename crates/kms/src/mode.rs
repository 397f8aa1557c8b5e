//! The choice of a display mode.

use std::num::NonZeroU16;

use openuvr_proto::units::Size;

/// A mode of a display.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ModeDescription {
    pub(crate) size: Size,
    /// Refreshes in 1000 seconds.
    pub(crate) millihertz: u32,
    /// Whether the display prefers this mode. The preferred mode usually has the native resolution.
    pub(crate) preferred: bool,
    /// Whether half of the rows are drawn in each refresh. This is unsuitable for a stream, whose pictures are
    /// complete.
    pub(crate) interlaced: bool,
}

/// Maximum relative difference between a refresh rate and a multiple of the frame rate: 1 in this number. It includes
/// the rates of television, such as 59.94 Hz for 60 frames/s, which differ by 1 in 1001.
const SAME: u64 = 500;

/// The requested refresh rate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Rate {
    /// The highest rate, at which a picture waits the shortest time for a refresh.
    Highest,
    /// The highest rate that is a multiple of this frame rate, so that all frames are displayed for the same number of
    /// refreshes. Without such a rate, the highest.
    MultipleOf(NonZeroU16),
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
fn by_rate(millihertz: u32, rate: Rate) -> (bool, u64) {
    let highest = u64::from(u32::MAX - millihertz);
    match rate {
        Rate::Highest => (false, highest),
        Rate::MultipleOf(frame_rate) => (!is_multiple(millihertz, frame_rate), highest),
        Rate::Near(hertz) => {
            let distance = (f64::from(millihertz) - hertz * 1000.0).abs();
            // The value is in range because it was clamped.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let distance = distance.clamp(0.0, 1e12) as u64;
            (false, distance)
        }
    }
}

/// Whether a refresh rate is a multiple of a frame rate.
fn is_multiple(millihertz: u32, frame_rate: NonZeroU16) -> bool {
    let (rate, once) = (u64::from(millihertz), u64::from(frame_rate.get()) * 1000);
    let nearest = (rate + once / 2) / once * once;
    nearest > 0 && rate.abs_diff(nearest) * SAME <= nearest
}

/// Tries the modes of an [`order`], until `accept` accepts one. `refused` is called for each mode that the display
/// refuses. Returns the accepted mode; `None` if all were refused.
///
/// # Errors
/// The first error other than a refusal: `accept` returns a refusal as the inner error.
pub(crate) fn first_accepted<C, E>(
    order: impl IntoIterator<Item = usize>,
    mut accept: impl FnMut(usize) -> Result<Result<(), C>, E>,
    mut refused: impl FnMut(usize, C),
) -> Result<Option<usize>, E> {
    for mode in order {
        match accept(mode)? {
            Ok(()) => return Ok(Some(mode)),
            Err(cause) => refused(mode, cause),
        }
    }
    Ok(None)
}

/// The refresh rate of a mode in thousandths of a hertz. `clock` is the pixel clock in kilohertz. `total` is the number
/// of pixels in a row and of rows in a complete picture, with blanking.
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
    fn a_multiple_of_the_frame_rate_precedes_a_higher_rate() {
        let modes = [60, 144, 120, 75].map(|hertz| mode(HD, hertz, false));
        let rates = |modes: &[ModeDescription], frames| {
            let rate = Rate::MultipleOf(NonZeroU16::new(frames).unwrap());
            let order = order(modes, HD, rate);
            order
                .into_iter()
                .map(|at| modes[at].millihertz)
                .collect::<Vec<_>>()
        };
        assert_eq!(rates(&modes, 60), [120_000, 60_000, 144_000, 75_000]);
        assert_eq!(rates(&modes, 72)[0], 144_000);
        assert_eq!(rates(&modes, 30)[0], 120_000);
        // There is no multiple, so the highest rate comes first.
        assert_eq!(rates(&modes, 90)[0], 144_000);
        assert_eq!(rates(&modes, 240)[0], 144_000);
        // The rates of television.
        let television = [50_000, 59_940, 23_976].map(|millihertz| ModeDescription {
            millihertz,
            ..mode(HD, 0, false)
        });
        assert_eq!(rates(&television, 60)[0], 59_940);
        assert_eq!(rates(&television, 24)[0], 23_976);
        assert_eq!(rates(&television, 25)[0], 50_000);
        // The frame rate has no influence on the size.
        let rate = Rate::MultipleOf(NonZeroU16::new(30).unwrap());
        assert_eq!(order(&monitor(), FULL_HD, rate)[0], 0);
        assert_eq!(order(&monitor(), Size::new(800, 600), rate)[0], 0);
    }

    #[test]
    fn a_refused_mode_is_followed_by_the_next() {
        let order = order(&monitor(), HD, Rate::Highest);
        let try_modes = |accepted: &[usize]| {
            let mut refusals = Vec::new();
            let accept = |mode: usize| match accepted.contains(&mode) {
                true => Ok::<_, ()>(Ok(())),
                false => Ok(Err("refused")),
            };
            let found = first_accepted(order.clone(), accept, |mode, why| {
                refusals.push((mode, why));
            });
            (found, refusals)
        };
        assert_eq!(order, [3, 2, 0, 4, 1, 5]);
        assert_eq!(try_modes(&[2, 3]), (Ok(Some(3)), vec![]));
        let refused = |modes: &[usize]| -> Vec<(usize, &str)> {
            modes.iter().map(|at| (*at, "refused")).collect()
        };
        assert_eq!(try_modes(&[0]), (Ok(Some(0)), refused(&[3, 2])));
        assert_eq!(try_modes(&[]), (Ok(None), refused(&order)));
    }

    #[test]
    fn another_error_ends_the_trials() {
        let mut tried = Vec::new();
        let accept = |mode: usize| {
            tried.push(mode);
            match mode {
                4 => Ok(Err("refused")),
                _ => Err("the card is gone"),
            }
        };
        let found = first_accepted([4, 7, 9], accept, |_, _| ());
        assert_eq!(found, Err("the card is gone"));
        assert_eq!(tried, [4, 7]);
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
