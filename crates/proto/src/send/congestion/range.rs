//! The bounds of a stream's rate.

use crate::units::Bitrate;

/// The bounds of the target rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// The minimum, below which the picture is useless.
    pub min: Bitrate,
    /// The initial rate.
    pub start: Bitrate,
    /// The maximum.
    pub max: Bitrate,
}

impl Range {
    /// The rate within these bounds that is nearest to `rate`.
    #[must_use]
    pub fn clamp(self, rate: Bitrate) -> Bitrate {
        rate.clamp(self.min, self.max)
    }

    /// The range with a new maximum, which is also the initial rate.
    #[must_use]
    pub fn up_to(self, max: Bitrate) -> Range {
        Range {
            min: self.min.min(max),
            start: max,
            max,
        }
    }

    /// Limits the maximum to a client's `limit`, but not below the minimum.
    #[must_use]
    pub fn limited_to(self, limit: Option<Bitrate>) -> Range {
        let max = limit.map_or(self.max, |limit| limit.clamp(self.min, self.max));
        Range {
            start: self.start.min(max),
            max,
            ..self
        }
    }
}
