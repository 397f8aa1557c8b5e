//! PIE: a drop probability that a proportional-integral controller adapts to the queueing delay (RFC 8033).
//!
//! The queueing delay is the age of the oldest packet. RFC 8033 (section 4.3) permits this in place of an estimate from
//! the departure rate. An ECN-capable packet is marked instead of dropped while the probability is low (section 5.1).
//!
//! [`PieControl`] decides about packets, and [`Pie`] is a queue with this control.

use std::fmt;
use std::time::Duration;

use openuvr_proto::time::Instant;

use super::tail_drop::TailDrop;
use super::{Actions, Aqm, Ecn, Packet, is_capable};
use crate::random::Random;

/// QDELAY_REF, T_UPDATE, MAX_BURST, alpha and beta of RFC 8033, appendix A (alpha and beta per second).
const TARGET: Duration = Duration::from_millis(15);
const UPDATE_EVERY: Duration = Duration::from_millis(15);
const MAX_BURST: Duration = Duration::from_millis(150);
const ALPHA: f64 = 0.125;
const BETA: f64 = 1.25;
/// If the probability is below this value and the delay is below half of the target, nothing is dropped (section 4.1).
const SPARED_BELOW: f64 = 0.2;
/// A queue of this many bytes or fewer drops nothing: two packets (section 4.1).
const SPARED_BYTES: usize = 2 * 1500;
/// Above this probability, ECN-capable packets are dropped instead of marked (section 5.1).
const MARK_UP_TO: f64 = 0.1;
/// Limits of the accumulated probability: below the first one, no packet is dropped; from the second one on, the next
/// packet is dropped (section 5.4).
const NEVER_BELOW: f64 = 0.85;
const ALWAYS_FROM: f64 = 8.5;
/// Decay factor per update while the queue is empty (section 4.2), and the probability below which it counts as zero
/// (guess).
const DECAY: f64 = 0.98;
const ZERO: f64 = 1e-9;
/// Maximum increase per update, from a probability of a tenth on (section 5.5).
const LARGEST_STEP: f64 = 0.02;

/// The decisions of PIE about the packets of one queue. The caller owns the queue.
#[derive(Debug, Clone)]
pub struct PieControl {
    random: Random,
    probability: f64,
    accumulated: f64,
    delay: Duration,
    burst: Duration,
    next_update: Option<Instant>,
}

impl PieControl {
    /// The control of an empty queue.
    #[must_use]
    pub fn new(seed: u64) -> PieControl {
        PieControl {
            random: Random::new(seed, 1),
            probability: 0.0,
            accumulated: 0.0,
            delay: Duration::ZERO,
            burst: MAX_BURST,
            next_update: None,
        }
    }

    /// Performs the periodic updates until `now`. `oldest` is the arrival of the oldest packet in the queue. Call this
    /// method before each packet enters or leaves.
    pub fn update(&mut self, now: Instant, oldest: Option<Instant>) {
        let mut next = self.next_update.unwrap_or(now + UPDATE_EVERY);
        while next <= now {
            let delay = oldest.map(|oldest| next.since(oldest));
            self.step(delay.unwrap_or_default());
            next = next + UPDATE_EVERY;
            if self.probability == 0.0 && oldest.is_none() && self.burst == MAX_BURST {
                // An update of an empty queue leaves this state as it is, so the missed updates are skipped.
                next = next.max(now + UPDATE_EVERY);
            }
        }
        self.next_update = Some(next);
    }

    /// One update (sections 4.2, 4.4 and 5.5).
    fn step(&mut self, delay: Duration) {
        let (current, old) = (delay.as_secs_f64(), self.delay.as_secs_f64());
        let change = ALPHA * (current - TARGET.as_secs_f64()) + BETA * (current - old);
        let mut change = change / scale(self.probability);
        if self.probability >= 0.1 {
            change = change.min(LARGEST_STEP);
        }
        self.probability = (self.probability + change).clamp(0.0, 1.0);
        if delay.is_zero() && self.delay.is_zero() {
            self.probability *= DECAY;
        }
        if self.probability < ZERO {
            self.probability = 0.0;
        }
        self.burst = self.burst.saturating_sub(UPDATE_EVERY);
        if self.probability == 0.0 && delay < TARGET / 2 && self.delay < TARGET / 2 {
            self.burst = MAX_BURST;
        }
        self.delay = delay;
    }

    /// Whether a packet that arrives at a queue of this many bytes gets a congestion signal (sections 4.1, 4.4 and
    /// 5.4; `drop_early` in appendix A).
    pub fn signals(&mut self, bytes: usize) -> bool {
        let low = self.probability < SPARED_BELOW && self.delay < TARGET / 2;
        if low || bytes <= SPARED_BYTES {
            return false;
        }
        if self.probability == 0.0 {
            self.accumulated = 0.0;
        }
        self.accumulated += self.probability;
        let signals = match self.accumulated {
            accumulated if accumulated < NEVER_BELOW => false,
            accumulated if accumulated >= ALWAYS_FROM => true,
            _ => self.random.chance(self.probability),
        };
        if signals {
            self.accumulated = 0.0;
        }
        signals && self.burst.is_zero()
    }

    /// Resets the accumulated probability, because the queue was full and dropped a packet (appendix A).
    pub fn overflowed(&mut self) {
        self.accumulated = 0.0;
    }
}

/// The divisor of a change at a probability (section 4.2): small probabilities change in small steps.
fn scale(probability: f64) -> f64 {
    match probability {
        p if p < 0.000_001 => 2048.0,
        p if p < 0.000_01 => 512.0,
        p if p < 0.000_1 => 128.0,
        p if p < 0.001 => 32.0,
        p if p < 0.01 => 8.0,
        p if p < 0.1 => 2.0,
        _ => 1.0,
    }
}

/// The queue.
#[derive(Debug)]
pub struct Pie<T> {
    queue: TailDrop<T>,
    control: PieControl,
    actions: Actions,
}

impl<T> Pie<T> {
    /// An empty queue of at most `limit` bytes.
    #[must_use]
    pub fn new(limit: usize, seed: u64) -> Pie<T> {
        Pie {
            queue: TailDrop::new(limit),
            control: PieControl::new(seed),
            actions: Actions::default(),
        }
    }
}

impl<T: fmt::Debug + Send> Aqm<T> for Pie<T> {
    fn enqueue(&mut self, now: Instant, mut packet: Packet<T>) {
        self.control.update(now, self.queue.oldest());
        if self.control.signals(self.queue.held()) {
            if !is_capable(packet.ecn) || self.control.probability > MARK_UP_TO {
                self.actions.dropped += 1;
                return;
            }
            self.actions.marked += u64::from(packet.ecn != Ecn::Ce);
            packet.ecn = Ecn::Ce;
        }
        if !self.queue.push(now, packet) {
            self.control.overflowed();
        }
    }

    fn dequeue(&mut self, now: Instant) -> Option<Packet<T>> {
        self.control.update(now, self.queue.oldest());
        self.queue.pop().map(|(_, packet)| packet)
    }

    fn bytes(&self) -> usize {
        self.queue.held()
    }

    fn actions(&self) -> Actions {
        Actions {
            overflowed: self.queue.overflowed(),
            ..self.actions
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_follow_the_control_law_and_its_scale() {
        for (probability, divisor) in [
            (0.0, 2048.0),
            (0.000_005, 512.0),
            (0.000_05, 128.0),
            (0.000_5, 32.0),
            (0.005, 8.0),
            (0.05, 2.0),
        ] {
            let mut pie = PieControl::new(1);
            pie.probability = probability;
            pie.delay = Duration::from_millis(20);
            pie.step(Duration::from_millis(25));
            let change = (ALPHA * 0.010 + BETA * 0.005) / divisor;
            let error = pie.probability - probability - change;
            assert!(error.abs() < 1e-12, "{probability}: {error}");
        }
    }

    #[test]
    fn large_steps_are_capped_and_idle_time_decays() {
        let mut pie = PieControl::new(1);
        pie.probability = 0.1;
        pie.step(Duration::from_secs(1));
        assert!((pie.probability - 0.12).abs() < 1e-12);
        // The queue was empty at this update and at the previous one. The integral part lowers the probability, which
        // then decays.
        let mut pie = PieControl::new(1);
        pie.probability = 0.5;
        pie.step(Duration::ZERO);
        let want = (0.5 - ALPHA * 0.015) * DECAY;
        assert!((pie.probability - want).abs() < 1e-12);
    }

    #[test]
    fn spared_packets_keep_the_accumulated_probability() {
        let mut pie = PieControl::new(1);
        pie.burst = Duration::ZERO;
        pie.probability = 0.3;
        // 0.85 is reached with the third packet, even if short queues are in between.
        for _ in 0..2 {
            assert!(!pie.signals(1 << 20));
            assert!(!pie.signals(SPARED_BYTES));
        }
        assert!((pie.accumulated - 0.6).abs() < 1e-12);
        assert!((0..100).any(|_| pie.signals(1 << 20)));
        assert!(pie.accumulated < 1e-12);
        assert!(!pie.signals(1 << 20));
        pie.overflowed();
        assert!(pie.accumulated < 1e-12);
    }

    #[test]
    fn a_burst_is_allowed_after_an_idle_time() {
        let mut pie = PieControl::new(1);
        for _ in 0..9 {
            pie.step(Duration::from_millis(100));
            assert!(!pie.burst.is_zero());
        }
        pie.step(Duration::from_millis(100));
        assert!(pie.burst.is_zero());
        pie.probability = 0.0;
        pie.step(Duration::ZERO);
        pie.step(Duration::ZERO);
        assert_eq!(pie.burst, MAX_BURST);
    }
}
