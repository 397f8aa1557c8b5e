//! The rate delivered during consecutive late frames: a lower bound of the link's capacity.
//!
//! Frames that all arrive at once after a stall of the link or a machine indicate a high capacity. Queued
//! frames arrive at the link's rate.

use std::time::Duration;

use crate::time::PeerInstant;

/// Counts the bits that arrived after the first late frame.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delivered {
    /// Completion times of the first and of the newest late frame.
    span: Option<(PeerInstant, PeerInstant)>,
    /// Bits that arrived in between.
    bits: f64,
}

impl Delivered {
    /// Adds a late frame that was completed, or ended incomplete, at `last`, and of which `bits` arrived.
    pub(super) fn note(&mut self, last: PeerInstant, bits: f64) {
        let (first, newest) = self.span.unwrap_or((last, last));
        if last > first {
            self.bits += bits;
        }
        self.span = Some((first, newest.max(last)));
    }

    /// The time over which the bits arrived.
    pub(super) fn span(&self) -> Duration {
        self.span
            .map_or(Duration::ZERO, |(first, newest)| newest.since(first))
    }

    /// Bits a second; `None` if all arrived at once.
    pub(super) fn rate(&self) -> Option<f64> {
        let seconds = self.span().as_secs_f64();
        (seconds > 0.0).then(|| self.bits / seconds)
    }
}
