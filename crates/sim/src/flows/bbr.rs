//! BBR version 1: paces at the measured bandwidth and limits the data in flight to a multiple of bandwidth × delay
//! (Cardwell, Cheng et al.: BBR: Congestion-Based Congestion Control, ACM Queue 14(5), 2016;
//! draft-cardwell-iccrg-bbr-congestion-control-00).
//!
//! It reacts to neither losses nor marks.

use std::collections::VecDeque;
use std::time::Duration;

use openuvr_proto::time::Instant;

use super::{Ack, Control, INITIAL_WINDOW, Loss, SEGMENT};
use crate::aqm::Ecn;

/// 2 / ln 2: the smallest gain that doubles the rate each round trip (section 4.3.2.1 of the draft).
const START_GAIN: f64 = 2.885;
/// The pacing gains of a cycle (section 4.3.4.1). Each gain applies for one shortest round trip.
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Gain of the window (section 4.2.3.2).
const WINDOW_GAIN: f64 = 2.0;
/// Window of the bandwidth filter in round trips, and window of the round-trip filter (sections 4.1.1.3 and 4.1.2.3).
const BANDWIDTH_ROUNDS: u64 = 10;
const ROUND_TRIP_WINDOW: Duration = Duration::from_secs(10);
/// Duration and window of a probe for the shortest round trip (section 4.3.5).
const PROBE: Duration = Duration::from_millis(200);
const PROBE_WINDOW: f64 = 4.0 * SEGMENT;
/// The start ends after three round trips in which the bandwidth grew by less than a quarter (section 4.3.2.2).
const FULL_GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    Start,
    Drain,
    /// The index into [`CYCLE`], and the time from which its gain applies.
    Cruise(usize, Instant),
    /// The time until which the window is small.
    Probe(Instant),
}

#[derive(Debug)]
pub(super) struct Bbr {
    phase: Phase,
    round: u64,
    /// The largest delivery rate of each round trip, in bits per second.
    rates: VecDeque<(u64, f64)>,
    shortest: Option<(Duration, Instant)>,
    full: f64,
    full_rounds: u32,
}

impl Default for Bbr {
    fn default() -> Bbr {
        Bbr {
            phase: Phase::Start,
            round: 0,
            rates: VecDeque::new(),
            shortest: None,
            full: 0.0,
            full_rounds: 0,
        }
    }
}

impl Bbr {
    fn bandwidth(&self) -> Option<f64> {
        let rates = self.rates.iter().map(|(_, rate)| *rate);
        rates.reduce(f64::max)
    }

    /// Bandwidth × delay in bytes.
    fn pipe(&self) -> Option<f64> {
        let (shortest, _) = self.shortest?;
        Some(self.bandwidth()? * shortest.as_secs_f64() / 8.0)
    }

    fn measure(&mut self, ack: &Ack) {
        self.round += u64::from(ack.round);
        let round = self.round;
        match self.rates.back_mut() {
            Some((at, rate)) if *at == round => *rate = rate.max(ack.delivery_rate),
            _ => self.rates.push_back((round, ack.delivery_rate)),
        }
        while let Some((at, _)) = self.rates.front()
            && at + BANDWIDTH_ROUNDS <= round
        {
            self.rates.pop_front();
        }
    }

    fn check_full(&mut self) {
        let bandwidth = self.bandwidth().unwrap_or(0.0);
        if bandwidth >= self.full * FULL_GROWTH {
            (self.full, self.full_rounds) = (bandwidth, 0);
            return;
        }
        self.full_rounds += 1;
        if self.full_rounds >= FULL_ROUNDS {
            self.phase = Phase::Drain;
        }
    }
}

impl Control for Bbr {
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }

    fn window(&self) -> f64 {
        let Some(pipe) = self.pipe() else {
            return INITIAL_WINDOW;
        };
        match self.phase {
            Phase::Probe(_) => PROBE_WINDOW,
            Phase::Start | Phase::Drain => (pipe * START_GAIN).max(INITIAL_WINDOW),
            Phase::Cruise(..) => (pipe * WINDOW_GAIN).max(PROBE_WINDOW),
        }
    }

    fn pacing(&self) -> Option<f64> {
        let gain = match self.phase {
            Phase::Start => START_GAIN,
            Phase::Drain => 1.0 / START_GAIN,
            Phase::Cruise(index, _) => CYCLE[index % CYCLE.len()],
            Phase::Probe(_) => 1.0,
        };
        Some(self.bandwidth()? * gain)
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.measure(ack);
        let (shortest, since) = *self.shortest.get_or_insert((ack.round_trip, ack.now));
        let expired = ack.now > since + ROUND_TRIP_WINDOW;
        if ack.round_trip <= shortest || expired {
            self.shortest = Some((ack.round_trip, ack.now));
        }
        let started = !matches!(self.phase, Phase::Start | Phase::Drain);
        if expired && started {
            self.phase = Phase::Probe(ack.now + PROBE);
        }
        match self.phase {
            Phase::Start if ack.round => self.check_full(),
            Phase::Drain if self.pipe().is_some_and(|pipe| ack.in_flight <= pipe) => {
                self.phase = Phase::Cruise(0, ack.now);
            }
            Phase::Cruise(index, begin) if ack.now > begin + shortest => {
                self.phase = Phase::Cruise((index + 1) % CYCLE.len(), ack.now);
            }
            Phase::Probe(until) if ack.now > until => self.phase = Phase::Cruise(2, ack.now),
            Phase::Start | Phase::Drain | Phase::Cruise(..) | Phase::Probe(_) => {}
        }
    }

    fn on_loss(&mut self, _: &Loss) {}
}
