//! DualPI2: one queue for L4S traffic and one for classic traffic, with coupled signals (RFC 9332, appendix A).
//!
//! A proportional-integral controller computes a base probability p' from the delay of the classic queue. Classic
//! packets are dropped or marked with the probability p'², and L4S packets are marked with the probability k·p', so
//! that both kinds of flows get about equal rates. L4S packets are also marked with a probability that rises with the
//! delay of their own queue; the higher of the two probabilities applies. A weighted round robin gives the L4S queue
//! priority, but leaves the classic queue a share.
//!
//! The scheduler is the weighted variant of section 4.2.2. A counter instead of random numbers spaces the marks evenly
//! (`recur` in appendix A.1), so that the discipline needs no seed.

use std::fmt;
use std::time::Duration;

use openuvr_proto::time::Instant;

use super::tail_drop::TailDrop;
use super::{Actions, Aqm, Ecn, Packet, is_capable, is_l4s};

/// Target delay of the classic queue, and the longest round trip for which the controller is stable (appendix A.1).
const TARGET: Duration = Duration::from_millis(15);
const RTT_MAX: Duration = Duration::from_millis(100);
/// Update interval: the smaller of the target and a third of [`RTT_MAX`] (appendix A.1).
const UPDATE_EVERY: Duration = TARGET;
/// Coupling factor (appendix A.1).
const K: f64 = 2.0;
/// From this probability of classic drops on, L4S packets are dropped, too: min(1/k², 1) (appendix A.2).
const CLASSIC_MAX: f64 = 1.0 / (K * K);
/// The ramp of the mark probability over the delay of the L4S queue: start and length (`minTh` and `range` of appendix
/// A.1).
const RAMP_FROM: Duration = Duration::from_micros(800);
const RAMP: Duration = Duration::from_micros(400);
/// Space for a packet of any length: no packet enters if less is left, so that long packets are not dropped more often
/// than short ones (`MTU` in figure 3 of appendix A.1). The value is a full Ethernet frame.
const MTU: usize = 1514;
/// Share of the classic queue in the round robin: 1/16 (section 4.2.2).
const CLASSIC_WEIGHT: f64 = 1.0 / 16.0;

/// The two queues.
#[derive(Debug)]
pub struct DualPi2<T> {
    limit: usize,
    l4s: TailDrop<T>,
    classic: TailDrop<T>,
    /// The base probability p'.
    base: f64,
    delay: Duration,
    next_update: Option<Instant>,
    /// Accumulated probabilities: L4S marks, classic signals, L4S drops.
    counts: [f64; 3],
    /// Weighted bytes by which the L4S queue sent more than its share. If the value is positive, the classic queue is
    /// next.
    credit: f64,
    actions: Actions,
}

impl<T> DualPi2<T> {
    /// Two empty queues of at most `limit` bytes together.
    #[must_use]
    pub fn new(limit: usize) -> DualPi2<T> {
        DualPi2 {
            limit,
            l4s: TailDrop::new(usize::MAX),
            classic: TailDrop::new(usize::MAX),
            base: 0.0,
            delay: Duration::ZERO,
            next_update: None,
            counts: [0.0; 3],
            credit: 0.0,
            actions: Actions::default(),
        }
    }

    /// The probability of a classic signal: p'².
    #[must_use]
    pub fn classic_probability(&self) -> f64 {
        self.base * self.base
    }

    /// The coupled probability of an L4S mark: k·p'.
    #[must_use]
    pub fn coupled_probability(&self) -> f64 {
        (K * self.base).min(1.0)
    }

    fn held(&self) -> usize {
        self.l4s.held() + self.classic.held()
    }

    /// Performs the periodic updates until `now`.
    fn update(&mut self, now: Instant) {
        let mut next = self.next_update.unwrap_or(now + UPDATE_EVERY);
        while next <= now {
            // In overload, the L4S queue may have the longer delay (appendix A.2).
            let oldest = [self.classic.oldest(), self.l4s.oldest()];
            let delay = oldest.into_iter().flatten().map(|one| next.since(one));
            self.step(delay.max().unwrap_or_default());
            next = next + UPDATE_EVERY;
            if self.base == 0.0 && self.held() == 0 {
                // An update of an empty queue leaves the probability at zero, so the missed updates are skipped.
                next = next.max(now + UPDATE_EVERY);
            }
        }
        self.next_update = Some(next);
    }

    /// One update of the base probability (`dualpi2_update` in appendix A.1).
    fn step(&mut self, delay: Duration) {
        let rtt = RTT_MAX.as_secs_f64();
        let alpha = 0.1 * UPDATE_EVERY.as_secs_f64() / (rtt * rtt);
        let beta = 0.3 / rtt;
        let (current, old) = (delay.as_secs_f64(), self.delay.as_secs_f64());
        let change = alpha * (current - TARGET.as_secs_f64()) + beta * (current - old);
        self.base = (self.base + change).clamp(0.0, 1.0);
        self.delay = delay;
    }

    /// Whether the L4S queue is next.
    fn l4s_is_next(&mut self) -> bool {
        match (self.l4s.len(), self.classic.len()) {
            (0, _) => {
                self.credit = 0.0;
                false
            }
            (_, 0) => {
                self.credit = 0.0;
                true
            }
            _ => self.credit <= 0.0,
        }
    }

    /// Marks or drops a packet of the L4S queue. Returns whether the packet is kept.
    fn signal_l4s(&mut self, now: Instant, arrived: Instant, packet: &mut Packet<T>) -> bool {
        let classic = self.classic_probability();
        if classic >= CLASSIC_MAX && recurs(&mut self.counts[2], classic) {
            self.actions.dropped += 1;
            return false;
        }
        let own = match self.l4s.len() {
            // A single packet is no queue (`Th_len` in appendix A.2).
            0 => 0.0,
            _ => ramp(now.since(arrived)),
        };
        let coupled = self.coupled_probability();
        if recurs(&mut self.counts[0], own.max(coupled)) {
            self.mark(packet);
        }
        true
    }

    /// Marks or drops a packet of the classic queue. Returns whether the packet is kept.
    fn signal_classic(&mut self, packet: &mut Packet<T>) -> bool {
        let probability = self.classic_probability();
        if !recurs(&mut self.counts[1], probability) {
            return true;
        }
        if !is_capable(packet.ecn) || probability >= CLASSIC_MAX {
            self.actions.dropped += 1;
            return false;
        }
        self.mark(packet);
        true
    }

    fn mark(&mut self, packet: &mut Packet<T>) {
        self.actions.marked += u64::from(packet.ecn != Ecn::Ce);
        packet.ecn = Ecn::Ce;
    }
}

/// The probability of a mark by the L4S queue's own delay (`laqm` in appendix A.1).
fn ramp(delay: Duration) -> f64 {
    let above = delay.saturating_sub(RAMP_FROM).as_secs_f64();
    (above / RAMP.as_secs_f64()).min(1.0)
}

/// Whether an event with this probability occurs now. The events are evenly spaced (`recur` in appendix A.1).
fn recurs(count: &mut f64, probability: f64) -> bool {
    *count += probability;
    let occurs = *count > 1.0;
    if occurs {
        *count -= 1.0;
    }
    occurs
}

impl<T: fmt::Debug + Send> Aqm<T> for DualPi2<T> {
    fn enqueue(&mut self, now: Instant, packet: Packet<T>) {
        self.update(now);
        if self.held() > 0 && self.held() + MTU > self.limit {
            self.actions.overflowed += 1;
            return;
        }
        let queue = match is_l4s(packet.ecn) {
            true => &mut self.l4s,
            false => &mut self.classic,
        };
        queue.push(now, packet);
    }

    fn dequeue(&mut self, now: Instant) -> Option<Packet<T>> {
        self.update(now);
        loop {
            let l4s = self.l4s_is_next();
            let (arrived, mut packet) = match l4s {
                true => self.l4s.pop()?,
                false => self.classic.pop()?,
            };
            let kept = match l4s {
                true => self.signal_l4s(now, arrived, &mut packet),
                false => self.signal_classic(&mut packet),
            };
            if kept {
                let bytes = packet.len as f64;
                self.credit += match l4s {
                    true => bytes * CLASSIC_WEIGHT,
                    false => -bytes * (1.0 - CLASSIC_WEIGHT),
                };
                return Some(packet);
            }
        }
    }

    fn bytes(&self) -> usize {
        self.held()
    }

    fn actions(&self) -> Actions {
        self.actions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_coupled_by_the_square() {
        let mut queues = DualPi2::<()>::new(1 << 20);
        for base in [0.0, 0.01, 0.1, 0.3, 0.5] {
            queues.base = base;
            let coupled = queues.coupled_probability();
            // p_C = (p_CL / k)^2: RFC 9332, equation (1).
            let want = (coupled / K) * (coupled / K);
            assert!((queues.classic_probability() - want).abs() < 1e-12);
        }
        queues.base = 0.9;
        assert!((queues.coupled_probability() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_full_queue_drops_short_packets_as_well() {
        let mut queues = DualPi2::new(4000);
        for len in [1500, 900, 60, 100] {
            queues.enqueue(
                Instant(0),
                Packet {
                    flow: 1,
                    len,
                    ecn: Ecn::NotEct,
                    content: (),
                },
            );
        }
        // Before the third packet, 1600 bytes are left, and before the fourth, 1540.
        assert_eq!((queues.held(), queues.actions().overflowed), (2560, 0));
        queues.enqueue(
            Instant(0),
            Packet {
                flow: 1,
                len: 60,
                ecn: Ecn::NotEct,
                content: (),
            },
        );
        assert_eq!((queues.held(), queues.actions().overflowed), (2560, 1));
    }

    #[test]
    fn the_base_follows_the_control_law() {
        let mut queues = DualPi2::<()>::new(1 << 20);
        queues.step(Duration::from_millis(25));
        // alpha = 0.15/s, beta = 3/s; delays of 10 ms above the target and 25 ms above the last one.
        assert!((queues.base - (0.15 * 0.010 + 3.0 * 0.025)).abs() < 1e-9);
        queues.step(Duration::from_millis(25));
        assert!((queues.base - (0.15 * 0.020 + 3.0 * 0.025)).abs() < 1e-9);
        queues.step(Duration::ZERO);
        assert!(queues.base < 0.002, "{}", queues.base);
    }

    #[test]
    fn the_ramp_reaches_from_nothing_to_every_packet() {
        let at = |micros| ramp(Duration::from_micros(micros));
        assert_eq!([at(0), at(800), at(1200), at(5000)], [0.0, 0.0, 1.0, 1.0]);
        assert!((at(1000) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn evenly_spaced_events_have_their_share() {
        let mut count = 0.0;
        let occurred = (0..1000).filter(|_| recurs(&mut count, 0.1)).count();
        assert!((99..=100).contains(&occurred), "{occurred}");
    }
}
