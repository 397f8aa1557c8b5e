//! Quantities with their unit in the type.

/// Bits per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Bitrate(pub u64);

impl Bitrate {
    /// From megabits (10^6 bits) per second.
    #[must_use]
    pub const fn from_mbps(mbps: u64) -> Bitrate {
        Bitrate(mbps * 1_000_000)
    }
}

/// A picture's width and height in pixels.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Size {
    /// Pixels per row.
    pub width: u32,
    /// Rows.
    pub height: u32,
}

impl Size {
    /// The largest width and height that this protocol carries, in pixels: the limit of H.264
    /// level 6.2 (ITU-T H.264 table A-1: 139 264 macroblocks, 8·MaxFS bounds a side to 16 888),
    /// rounded down to a power of two.
    pub const MAX_SIDE: u32 = 16_384;

    /// Width × height.
    #[must_use]
    pub const fn new(width: u32, height: u32) -> Size {
        Size { width, height }
    }

    /// Whether both sides are between 1 and [`Size::MAX_SIDE`].
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

/// A text that is not a picture's size, and what one looks like.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("'{0}' is not a size such as 1280x720")]
pub struct NotASize(String);

impl std::str::FromStr for Size {
    type Err = NotASize;

    /// Reads `1280x720`; both sides are between 1 and [`Size::MAX_SIDE`].
    fn from_str(text: &str) -> Result<Size, NotASize> {
        // Digits only: a number of the standard library may have a sign.
        let side = |text: &str| match text.bytes().all(|b| b.is_ascii_digit()) {
            true => text.parse().ok(),
            false => None,
        };
        text.split_once('x')
            .and_then(|(width, height)| Some(Size::new(side(width)?, side(height)?)))
            .filter(|size| size.is_valid())
            .ok_or_else(|| NotASize(text.to_owned()))
    }
}
