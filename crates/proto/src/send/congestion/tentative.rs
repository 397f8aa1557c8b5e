//! Verification of a decrease by the frames after it.
//!
//! A link with the assumed capacity also spreads the smaller frames that follow. If these frames are not spread, the
//! link was never full: a machine was busy, or the link stalled briefly. The earlier rate is then restored at once.

use std::time::Duration;

/// Number of contradicting frames that revert a decrease: 0.13 s at 60 frames/s, so that the rate is restored within a
/// second, including a usual round trip.
const CONTRADICTIONS: u32 = 8;
/// A frame that crosses the link in less than this share of the expected time contradicts the decrease.
const CONTRADICTS: f64 = 0.5;
/// A frame that takes more than this share of the expected time confirms the decrease.
const CONFIRMS: f64 = 0.75;

/// A decrease that can still be reverted.
#[derive(Clone, Copy, Debug)]
pub(super) struct TentativeDecrease {
    before: f64,
    /// The assumed capacity; `None` after a silence.
    capacity: Option<f64>,
    against: u32,
}

/// The transit of a frame that was on time.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnTime {
    /// Bits after its first datagram; zero if it had only one.
    pub(super) bits: f64,
    /// Time from its first datagram to its last.
    pub(super) spread: Duration,
    /// Whether its spread exceeds the time over which it was sent.
    pub(super) spread_by_link: bool,
}

impl TentativeDecrease {
    /// A decrease from `before` with the assumed `capacity`.
    pub(super) fn new(before: f64, capacity: Option<f64>) -> TentativeDecrease {
        TentativeDecrease {
            before,
            capacity,
            against: 0,
        }
    }

    /// The rate before the decrease.
    pub(super) fn before(&self) -> f64 {
        self.before
    }

    /// Handles a late or incomplete frame that was sent after the decrease.
    pub(super) fn on_bad_frame(&mut self) {
        self.against = 0;
    }

    /// Handles a frame that was sent after the decrease and arrived on time. Returns `Some(true)` if the decrease was
    /// wrong, and `Some(false)` if it was right.
    pub(super) fn on_time(&mut self, frame: &OnTime) -> Option<bool> {
        let Some(capacity) = self.capacity else {
            self.against += 1;
            return (self.against >= CONTRADICTIONS).then_some(true);
        };
        if frame.bits <= 0.0 {
            // A single datagram has no spread.
            return None;
        }
        let share = frame.spread.as_secs_f64() * capacity / frame.bits;
        if share > CONFIRMS && frame.spread_by_link {
            return Some(false);
        }
        if share < CONTRADICTS {
            self.against += 1;
        }
        (self.against >= CONTRADICTIONS).then_some(true)
    }
}
