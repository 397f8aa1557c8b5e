//! Whether a cut was right: what the frames behind it say of the link.
//!
//! A link that carries as little as the cut assumed spreads the smaller frames that follow, too. One that
//! does not was never full: a machine was busy, or the link stood still for a moment. Then the rate goes
//! back to where it was, at once.

use std::time::Duration;

/// So many frames in a row have to contradict the cut: at 60 frames/s 0.13 s, so that the rate is back
/// within a second after a round trip of any usual link.
const CONTRADICTIONS: u32 = 8;
/// A frame that crossed in less than this share of the time that it should have taken contradicts …
const FASTER: f64 = 0.5;
/// … and one that took more than this share confirms.
const AS_SLOW: f64 = 0.75;

/// A cut that may have been wrong.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doubt {
    before: f64,
    /// What the link was taken to carry; `None` if nothing was heard of it.
    capacity: Option<f64>,
    against: u32,
}

/// How a frame crossed the link that was on time.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnTime {
    /// Bits behind its first datagram; zero if it had no other.
    pub(super) bits: f64,
    /// From its first datagram to its last.
    pub(super) spread: Duration,
    /// Whether the link spread it beyond how it was sent.
    pub(super) spread_by_link: bool,
}

impl Doubt {
    /// After a cut from `before`, for a link that was taken to carry `capacity`.
    pub(super) fn new(before: f64, capacity: Option<f64>) -> Doubt {
        Doubt {
            before,
            capacity,
            against: 0,
        }
    }

    /// What the rate was before this cut.
    pub(super) fn before(&self) -> f64 {
        self.before
    }

    /// A frame that left after the cut was not on time, or not whole.
    pub(super) fn harmed(&mut self) {
        self.against = 0;
    }

    /// A frame that left after the cut was on time. `Some(true)`: the cut was wrong; `Some(false)`: it was
    /// right.
    pub(super) fn on_time(&mut self, frame: &OnTime) -> Option<bool> {
        let Some(capacity) = self.capacity else {
            self.against += 1;
            return (self.against >= CONTRADICTIONS).then_some(true);
        };
        if frame.bits <= 0.0 {
            // One datagram alone is never spread.
            return None;
        }
        let share = frame.spread.as_secs_f64() * capacity / frame.bits;
        if share > AS_SLOW && frame.spread_by_link {
            return Some(false);
        }
        if share < FASTER {
            self.against += 1;
        }
        (self.against >= CONTRADICTIONS).then_some(true)
    }
}
