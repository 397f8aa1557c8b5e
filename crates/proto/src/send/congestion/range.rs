//! Between what the rate of a stream may vary.

use crate::units::Bitrate;

/// Between what the target may vary.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// Never less: below it the picture is of no use.
    pub min: Bitrate,
    /// At the start of a session.
    pub start: Bitrate,
    /// Never more.
    pub max: Bitrate,
}

impl Range {
    /// With a new highest rate, which is also where the rate starts.
    #[must_use]
    pub fn up_to(self, max: Bitrate) -> Range {
        Range {
            min: self.min.min(max),
            start: max,
            max,
        }
    }

    /// As far as a client's wish goes that the rate be at most `wished`: what it may be at least
    /// stays.
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
