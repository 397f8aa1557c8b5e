//! What a link delivered while frames were late in a row: it carries that much at least.
//!
//! Frames that all arrive at one moment, because the link or a machine stood still before it, say that it
//! carries a great deal. Frames that wait in a queue arrive as fast as the link carries them.

use std::time::Duration;

use crate::time::PeerInstant;

/// Counts what arrived behind the first late frame.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delivered {
    /// When the first late frame was whole, and the newest.
    span: Option<(PeerInstant, PeerInstant)>,
    /// Bits that arrived between these.
    bits: f64,
}

impl Delivered {
    /// A late frame was whole, or as whole as it became, at `last`; `bits` of it arrived.
    pub(super) fn note(&mut self, last: PeerInstant, bits: f64) {
        let (first, newest) = self.span.unwrap_or((last, last));
        if last > first {
            self.bits += bits;
        }
        self.span = Some((first, newest.max(last)));
    }

    /// Over how long it was counted.
    pub(super) fn span(&self) -> Duration {
        self.span
            .map_or(Duration::ZERO, |(first, newest)| newest.since(first))
    }

    /// Bits a second; `None` if all arrived at one moment.
    pub(super) fn rate(&self) -> Option<f64> {
        let seconds = self.span().as_secs_f64();
        (seconds > 0.0).then(|| self.bits / seconds)
    }
}
