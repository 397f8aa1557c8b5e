//! The queueing delay of SCReAM version 2: its average, the target, and the virtual marks that follow from both (the
//! draft's sections "Detecting Increased Queue Delay" and "Competing Flows Compensation").

use std::collections::VecDeque;
use std::time::Duration;

use openuvr_proto::time::Instant;

/// The minimum and the maximum of the target, in seconds.
const TARGETS: (f64, f64) = (0.06, 0.4);
/// Gain of the average while the queueing delay grows.
const GAIN: f64 = 0.25;
/// Lengths of the histories for variance and mean.
const HISTORY: usize = 200;
const RECENT: usize = 50;
/// If the share of round trips with losses exceeds the first value, a competing flow is assumed. The second value is
/// the gain of the average of this share (guess: 100 round trips).
const LOSS_RATE: f64 = 0.002;
const LOSS_GAIN: f64 = 0.01;

/// The state. Times are in seconds.
#[derive(Debug)]
pub(super) struct QueueDelay {
    /// The shortest one-way delay so far, and the queueing delay of the newest datagram.
    base: Option<Duration>,
    queue: f64,
    average: f64,
    updated: Option<Instant>,
    target: f64,
    /// Queueing delays relative to the minimum of the target, one per round trip.
    history: VecDeque<f64>,
    losses: f64,
}

impl Default for QueueDelay {
    fn default() -> QueueDelay {
        QueueDelay {
            base: None,
            queue: 0.0,
            average: 0.0,
            updated: None,
            target: TARGETS.0,
            history: VecDeque::new(),
            losses: 0.0,
        }
    }
}

impl QueueDelay {
    pub(super) fn on_datagram(&mut self, took: Duration) {
        let base = self.base.map_or(took, |base| base.min(took));
        self.base = Some(base);
        self.queue = took.saturating_sub(base).as_secs_f64();
    }

    /// Updates the average, at most once per `interval`. The average grows slowly and falls immediately.
    pub(super) fn update(&mut self, now: Instant, interval: Duration) {
        if self.updated.is_some_and(|at| now.since(at) < interval) {
            return;
        }
        self.updated = Some(now);
        self.average = match self.queue < self.average {
            true => self.queue,
            false => GAIN * self.queue + (1.0 - GAIN) * self.average,
        };
    }

    /// The share of datagrams that an L4S queue would mark at this average delay, 0 to 1.
    pub(super) fn virtual_marks(&self) -> f64 {
        let half = self.target / 2.0;
        ((self.average - half) / half).clamp(0.0, 1.0)
    }

    /// Whether the queueing delay is below a quarter of the target.
    pub(super) fn is_short(&self) -> bool {
        self.queue < self.target / 4.0
    }

    /// Adjusts the target once per round trip: beside a competing flow, the target rises. `lost` is whether a datagram
    /// was lost since the last reaction.
    pub(super) fn adjust_target(&mut self, lost: bool) {
        self.losses += LOSS_GAIN * (f64::from(u8::from(lost)) - self.losses);
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back(self.queue / TARGETS.0);
        let all = self.history.len() as f64;
        let mean = self.history.iter().sum::<f64>() / all;
        let squares = self.history.iter().map(|one| (one - mean) * (one - mean));
        let variance = squares.sum::<f64>() / all;
        let recent = self.history.len().min(RECENT);
        let recent_mean = self.history.iter().rev().take(recent).sum::<f64>() / recent as f64;
        let next = (recent_mean + variance.sqrt()) * TARGETS.0;
        self.target = match (self.losses > LOSS_RATE, variance < 0.2) {
            (true, _) => 1.5 * next,
            (false, true) => next,
            (false, false) if next < TARGETS.0 => next.max(self.target * 0.5),
            (false, false) => self.target * 0.9,
        };
        self.target = self.target.clamp(TARGETS.0, TARGETS.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_marks_grow_from_half_of_the_target() {
        let mut delay = QueueDelay::default();
        let marks = |delay: &mut QueueDelay, average: f64| {
            delay.average = average;
            delay.virtual_marks()
        };
        assert_eq!(marks(&mut delay, 0.03), 0.0);
        assert!((marks(&mut delay, 0.045) - 0.5).abs() < 1e-9);
        assert_eq!(marks(&mut delay, 0.1), 1.0);
    }

    #[test]
    fn losses_raise_the_target_and_an_empty_queue_lowers_it() {
        let mut delay = QueueDelay::default();
        delay.on_datagram(Duration::ZERO);
        delay.on_datagram(Duration::from_millis(120));
        (0..60).for_each(|_| delay.adjust_target(true));
        assert!(delay.target > 0.15, "{}", delay.target);
        delay.on_datagram(Duration::ZERO);
        (0..1000).for_each(|_| delay.adjust_target(false));
        assert_eq!(delay.target, TARGETS.0);
    }
}
