//! Prague: a scalable congestion control for L4S (draft-briscoe-iccrg-prague-congestion-control).
//!
//! Alpha is the moving average of the share of marked bytes. After a round trip with marks, the window decreases by the
//! fraction alpha/2. Acknowledgements without marks increase it by a segment per round trip, or by less if the round
//! trip is shorter than the virtual one. Packets are paced at one window per round trip. A loss halves the window.

use std::time::Duration;

use openuvr_proto::time::Instant;

use super::{Ack, Control, INITIAL_WINDOW, Loss, SEGMENT};
use crate::aqm::Ecn;

/// Gain of the moving average, as in DCTCP (RFC 8257, section 4.2).
const GAIN: f64 = 1.0 / 16.0;
/// A flow with a shorter round trip grows as if this were its round trip (section 2.4.4 of the draft).
const VIRTUAL_ROUND_TRIP: Duration = Duration::from_millis(25);
/// Factor of the pacing rate while the window doubles each round trip (Linux: `tcp_pacing_ss_ratio`).
const START_PACING: f64 = 2.0;

#[derive(Debug)]
pub(super) struct Prague {
    window: f64,
    starting: bool,
    /// The moving average of the share of marked bytes.
    alpha: f64,
    /// Marked and all bytes of this round trip.
    marked: f64,
    acked: f64,
    smoothed: Option<Duration>,
    reduced_at: Instant,
}

impl Default for Prague {
    fn default() -> Prague {
        Prague {
            window: INITIAL_WINDOW,
            starting: true,
            alpha: 1.0,
            marked: 0.0,
            acked: 0.0,
            smoothed: None,
            reduced_at: Instant(i64::MIN),
        }
    }
}

impl Prague {
    /// The growth per round trip in bytes: a segment, or less for a short round trip, so that such a flow takes no more
    /// than its share.
    fn growth(&self, smoothed: Duration) -> f64 {
        let ratio = smoothed.as_secs_f64() / VIRTUAL_ROUND_TRIP.max(smoothed).as_secs_f64();
        SEGMENT * ratio * ratio
    }
}

impl Control for Prague {
    fn ecn(&self) -> Ecn {
        Ecn::Ect1
    }

    fn window(&self) -> f64 {
        self.window
    }

    fn pacing(&self) -> Option<f64> {
        let seconds = self.smoothed?.as_secs_f64().max(1e-6);
        let excess = if self.starting { START_PACING } else { 1.0 };
        Some(self.window * 8.0 / seconds * excess)
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.smoothed = Some(ack.smoothed);
        self.acked += ack.bytes;
        if ack.marked {
            self.marked += ack.bytes;
        } else if self.starting {
            self.window += ack.bytes;
        } else {
            self.window += self.growth(ack.smoothed) * ack.bytes / self.window;
        }
        if !ack.round {
            return;
        }
        let share = self.marked / self.acked.max(1.0);
        self.alpha += GAIN * (share - self.alpha);
        if self.marked > 0.0 {
            self.window *= 1.0 - self.alpha / 2.0;
            self.starting = false;
        }
        self.window = self.window.max(2.0 * SEGMENT);
        (self.marked, self.acked) = (0.0, 0.0);
    }

    fn on_loss(&mut self, loss: &Loss) {
        if loss.sent <= self.reduced_at {
            return;
        }
        self.reduced_at = loss.now;
        self.starting = false;
        self.window = (self.window / 2.0).max(2.0 * SEGMENT);
    }
}
