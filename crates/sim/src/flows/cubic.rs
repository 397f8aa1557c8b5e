//! Cubic (RFC 9438), with fast convergence and its Reno-friendly region. Windows are in segments, as in the RFC.
//!
//! The flow is not ECN-capable. Slow start has no HyStart++: it ends with the first loss.

use openuvr_proto::time::Instant;

use super::{Ack, Control, INITIAL_WINDOW, Loss, SEGMENT};
use crate::aqm::Ecn;

/// C and β of RFC 9438, section 4.
const C: f64 = 0.4;
const BETA: f64 = 0.7;
/// α of the Reno-friendly region (section 4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

#[derive(Debug)]
pub(super) struct Cubic {
    window: f64,
    threshold: f64,
    window_max: f64,
    /// The window that Reno would have (`W_est`), and the window before the last reduction (`cwnd_prior`).
    reno: f64,
    prior: f64,
    /// Start of the congestion avoidance stage, and the time until the window has regained its maximum (K).
    epoch: Option<(Instant, f64)>,
    reduced_at: Instant,
}

impl Default for Cubic {
    fn default() -> Cubic {
        Cubic {
            window: INITIAL_WINDOW / SEGMENT,
            threshold: f64::INFINITY,
            window_max: 0.0,
            reno: 0.0,
            prior: 0.0,
            epoch: None,
            reduced_at: Instant(i64::MIN),
        }
    }
}

impl Control for Cubic {
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }

    fn window(&self) -> f64 {
        self.window * SEGMENT
    }

    fn pacing(&self) -> Option<f64> {
        None
    }

    fn on_ack(&mut self, ack: &Ack) {
        if self.window < self.threshold {
            self.window += 1.0;
            return;
        }
        let (begin, k) = *self.epoch.get_or_insert_with(|| {
            self.window_max = self.window_max.max(self.window);
            self.reno = self.window;
            (ack.now, ((self.window_max - self.window) / C).cbrt())
        });
        // The window one round trip from now (section 4.2).
        let t = (ack.now.since(begin) + ack.smoothed).as_secs_f64();
        let cubic = C * (t - k).powi(3) + self.window_max;
        let target = cubic.clamp(self.window, self.window * 1.5);
        // Once `W_est` has reached the window before the last reduction, it grows by a segment per round trip (section
        // 4.3).
        let alpha = if self.reno < self.prior { ALPHA } else { 1.0 };
        self.reno += alpha / self.window;
        let now = C * (ack.now.since(begin).as_secs_f64() - k).powi(3) + self.window_max;
        if now < self.reno {
            self.window = self.window.max(self.reno);
        } else {
            self.window += (target - self.window) / self.window;
        }
    }

    fn on_loss(&mut self, loss: &Loss) {
        // One reduction per round trip: losses of packets that were sent before the last reduction are ignored.
        if loss.sent <= self.reduced_at {
            return;
        }
        self.reduced_at = loss.now;
        self.prior = self.window;
        // Fast convergence (section 4.7).
        self.window_max = match self.window < self.window_max {
            true => self.window * (1.0 + BETA) / 2.0,
            false => self.window,
        };
        self.threshold = (self.window * BETA).max(2.0);
        self.window = if loss.timeout { 1.0 } else { self.threshold };
        self.epoch = None;
    }
}
