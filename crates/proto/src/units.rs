//! Units of measurement as types.

use serde::{Deserialize, Serialize};

use crate::validated::Invalid;

/// Bits per second.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct Bitrate(pub u64);

impl Bitrate {
    /// Creates a bitrate from megabits (10^6 bits) per second.
    #[must_use]
    pub const fn from_mbps(mbps: u64) -> Bitrate {
        Bitrate(mbps * 1_000_000)
    }
}

/// A text that is not a valid bitrate; the message contains examples.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("'{0}' is not a rate in bits per second such as 800K, 20M or 1G")]
pub struct ParseBitrateError(String);

impl std::str::FromStr for Bitrate {
    type Err = ParseBitrateError;

    /// Parses text such as `20M` and `2.5M`. K or k stands for thousands, M for millions and G for billions.
    fn from_str(text: &str) -> Result<Bitrate, ParseBitrateError> {
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
        let factor = match unit {
            "" => Some(1.0),
            "K" | "k" => Some(1e3),
            "M" => Some(1e6),
            "G" => Some(1e9),
            _ => None,
        };
        let number = number.parse::<f64>().ok();
        let bits = number.zip(factor).map(|(number, factor)| number * factor);
        // Saturates.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        bits.map(|bits| Bitrate(bits.round() as u64))
            .ok_or_else(|| ParseBitrateError(text.to_owned()))
    }
}

/// A picture's width and height in pixels.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "(u32, u32)", into = "(u32, u32)")]
pub struct Size {
    /// Pixels per row.
    pub width: u32,
    /// Rows.
    pub height: u32,
}

impl TryFrom<(u32, u32)> for Size {
    type Error = Invalid;

    fn try_from((width, height): (u32, u32)) -> Result<Size, Invalid> {
        let size = Size::new(width, height);
        size.is_valid()
            .then_some(size)
            .ok_or(Invalid("picture size"))
    }
}

impl From<Size> for (u32, u32) {
    fn from(size: Size) -> (u32, u32) {
        (size.width, size.height)
    }
}

impl Size {
    /// Maximum width and height of a picture in this protocol, in pixels. This is the limit of H.264 level 6.2, rounded
    /// down to a power of two (ITU-T H.264 table A-1: 139 264 macroblocks, 8·MaxFS limits a side to 16 888).
    pub const MAX_SIDE: u32 = 16_384;

    /// Width × height.
    #[must_use]
    pub const fn new(width: u32, height: u32) -> Size {
        Size { width, height }
    }

    /// Whether width and height are between 1 and [`Size::MAX_SIDE`].
    #[must_use]
    pub const fn is_valid(self) -> bool {
        self.width >= 1
            && self.height >= 1
            && self.width <= Self::MAX_SIDE
            && self.height <= Self::MAX_SIDE
    }

    /// Width × height in pixels.
    #[must_use]
    pub const fn pixels(self) -> usize {
        self.width as usize * self.height as usize
    }
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}x{}", self.width, self.height)
    }
}

/// A text that is not a valid picture size; the message contains an example.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("'{0}' is not a size such as 1280x720")]
pub struct ParseSizeError(String);

impl std::str::FromStr for Size {
    type Err = ParseSizeError;

    /// Parses text such as `1280x720`. Width and height must be between 1 and [`Size::MAX_SIDE`].
    fn from_str(text: &str) -> Result<Size, ParseSizeError> {
        // Accept only digits, because the standard library would also accept a sign.
        let side = |text: &str| match text.bytes().all(|b| b.is_ascii_digit()) {
            true => text.parse().ok(),
            false => None,
        };
        text.split_once('x')
            .and_then(|(width, height)| Some(Size::new(side(width)?, side(height)?)))
            .filter(|size| size.is_valid())
            .ok_or_else(|| ParseSizeError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_they_are_written() {
        for size in [
            Size::new(1, 1),
            Size::new(1280, 720),
            Size::new(16_384, 16_384),
        ] {
            assert_eq!(size.to_string().parse(), Ok(size));
        }
        for text in [
            "", "x", "1280", "1280x", "0x720", "+1x1", "1x16385", "1x2x3", "1 x 2",
        ] {
            let why = text.parse::<Size>().unwrap_err().to_string();
            assert_eq!(why, format!("'{text}' is not a size such as 1280x720"));
        }
    }

    #[test]
    fn rates_are_read_with_their_unit() {
        for (text, bits) in [
            ("800", 800),
            ("800K", 800_000),
            ("800k", 800_000),
            ("2.5M", 2_500_000),
            ("1G", 1_000_000_000),
        ] {
            assert_eq!(text.parse(), Ok(Bitrate(bits)));
        }
        for text in ["", "M", "5m", "5 M", "-5M", "1.2.3M", "infM", "NaN"] {
            assert!(text.parse::<Bitrate>().is_err(), "{text}");
        }
    }
}
