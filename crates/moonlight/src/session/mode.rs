//! The picture that a client requests.

use std::ops::RangeInclusive;
use std::str::FromStr;

use openuvr_proto::units::Size;

/// Accepted widths and heights in pixels: from a small window to 8K (7680 × 4320), rounded up.
const SIDES: RangeInclusive<u32> = 64..=8192;

/// Accepted frame rates, up to that of a display with 540 Hz.
const RATES: RangeInclusive<u16> = 1..=540;

/// Size and frame rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mode {
    /// Width and height.
    pub size: Size,
    /// Frames per second.
    pub rate: u16,
}

/// No picture has this size and rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the mode must have 64 to 8192 pixels a side and 1 to 540 Hz")]
pub struct InvalidMode;

impl Mode {
    /// The mode that clients request by default.
    pub const USUAL: Mode = Mode {
        size: Size::new(1280, 720),
        rate: 60,
    };

    /// A mode within the limits.
    ///
    /// # Errors
    /// [`InvalidMode`] if no picture has this size and rate.
    pub fn new(width: u32, height: u32, rate: u16) -> Result<Mode, InvalidMode> {
        match SIDES.contains(&width) && SIDES.contains(&height) && RATES.contains(&rate) {
            true => Ok(Mode {
                size: Size::new(width, height),
                rate,
            }),
            false => Err(InvalidMode),
        }
    }
}

impl FromStr for Mode {
    type Err = InvalidMode;

    /// Parses `1280x720x60`, as in the parameter `mode` of `launch`.
    fn from_str(text: &str) -> Result<Mode, InvalidMode> {
        let mut parts = text.split('x').map(str::parse::<u32>);
        let mut next = || parts.next().and_then(Result::ok).ok_or(InvalidMode);
        let (width, height, rate) = (next()?, next()?, next()?);
        match parts.next() {
            None => Mode::new(width, height, u16::try_from(rate).map_err(|_| InvalidMode)?),
            Some(_) => Err(InvalidMode),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_parsed_within_limits() {
        let mode: Mode = "1280x720x60".parse().unwrap();
        assert_eq!((mode.size, mode.rate), (Size::new(1280, 720), 60));
        for good in ["3440x1440x144", "1080x1920x120", "640x480x30"] {
            assert!(good.parse::<Mode>().is_ok(), "{good}");
        }
        for bad in [
            "",
            "1280x720",
            "0x0x60",
            "16384x720x60",
            "1280x720x1000",
            "1280x720x0",
            "1280x720x60x1",
            "-1x720x60",
            "axbxc",
            "4294967296x720x60",
        ] {
            assert_eq!(bad.parse::<Mode>(), Err(InvalidMode), "{bad}");
        }
    }
}
