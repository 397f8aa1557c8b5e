//! Rate control: selects the MCS of each PPDU to or from a station.

use openuvr_sim::random::Random;

use super::air::lost_at;
use super::{MILLISECOND, Nanos, Timing};

/// Algorithm of the rate control.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateRule {
    /// The MCS is always that of the radio.
    Fixed,
    /// The MCS is the one with the highest throughput at the current SNR, up to the radio's MCS. The SNR is known
    /// exactly. If it is not modelled, the MCS is that of the radio.
    Ideal,
    /// As in Minstrel, the MCS follows from acknowledgements only: it is the one with the highest mean throughput, at
    /// most the radio's MCS. A tenth of all PPDUs have a random MCS, as a probe.
    Learned,
}

/// Interval at which the mean is updated (Minstrel: 50 ms).
const WINDOW: Nanos = 50 * MILLISECOND;

/// Weight of the past in the mean (EWMA).
const KEPT: f64 = 0.75;

/// Share of PPDUs with a random MCS, as a probe.
const TRIED: f64 = 0.1;

/// Minimum success ratio of a usable MCS, because losses delay delivery.
const HOPELESS: f64 = 0.1;

/// Rate control for the packets to or from one station.
#[derive(Debug, Clone)]
pub(super) struct RateControl {
    rule: RateRule,
    highest: u8,
    random: Random,
    /// By MCS.
    seen: Vec<RateStatistics>,
    best: u8,
    judged: Nanos,
}

/// Statistics of an MCS.
#[derive(Debug, Clone, Copy, Default)]
struct RateStatistics {
    attempted: u32,
    delivered: u32,
    /// Mean success ratio, or `None` if the MCS was never tried.
    through: Option<f64>,
}

impl RateControl {
    pub(super) fn new(rule: RateRule, highest: u8, seed: u64, station: u64) -> RateControl {
        RateControl {
            rule,
            highest,
            random: Random::new(seed, 4 << 32 | station),
            seen: vec![RateStatistics::default(); usize::from(highest) + 1],
            best: highest,
            judged: 0,
        }
    }

    /// The MCS of the next PPDU at this SNR.
    pub(super) fn choose(&mut self, now: Nanos, signal: Option<f64>, timing: &Timing) -> u8 {
        match (self.rule, signal) {
            (RateRule::Fixed, _) | (RateRule::Ideal, None) => self.highest,
            (RateRule::Ideal, Some(signal)) => best(self.highest, |mcs| {
                timing.bits_per_symbol[usize::from(mcs)] as f64 * (1.0 - lost_at(signal, mcs, 1500))
            }),
            (RateRule::Learned, _) => {
                if now >= self.judged + WINDOW {
                    self.judge(timing);
                    self.judged = now;
                }
                if self.random.chance(TRIED) {
                    let all = usize::from(self.highest) + 1;
                    u8::try_from(self.random.below(all)).unwrap_or(0)
                } else {
                    self.best
                }
            }
        }
    }

    /// Records the result of a PPDU.
    pub(super) fn learn(&mut self, mcs: u8, attempted: u32, delivered: u32) {
        let seen = &mut self.seen[usize::from(mcs)];
        seen.attempted += attempted;
        seen.delivered += delivered;
    }

    fn judge(&mut self, timing: &Timing) {
        for seen in &mut self.seen {
            if seen.attempted == 0 {
                continue;
            }
            let now = f64::from(seen.delivered) / f64::from(seen.attempted);
            let before = seen.through.unwrap_or(now);
            seen.through = Some(before * KEPT + now * (1.0 - KEPT));
            (seen.attempted, seen.delivered) = (0, 0);
        }
        self.best = best(self.highest, |mcs| {
            let through = self.seen[usize::from(mcs)].through.unwrap_or(0.0);
            let through = if through < HOPELESS { 0.0 } else { through };
            timing.bits_per_symbol[usize::from(mcs)] as f64 * through
        });
    }
}

/// The MCS with the highest throughput. Of several such MCS, the lowest.
fn best(highest: u8, worth: impl Fn(u8) -> f64) -> u8 {
    (1..=highest).fold(
        0,
        |best, mcs| {
            if worth(mcs) > worth(best) { mcs } else { best }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wifi::Radio;

    #[test]
    fn ideal_rate_control_uses_the_signals_best_rate() {
        let timing = Radio::default().timing().unwrap();
        let mut ideal = RateControl::new(RateRule::Ideal, 11, 1, 0);
        let mut at = |signal| ideal.choose(0, Some(signal), &timing);
        assert_eq!([at(0.0), at(17.0), at(24.0), at(50.0)], [0, 4, 7, 11]);
        assert_eq!(ideal.choose(0, None, &timing), 11);
    }

    #[test]
    fn learned_rate_control_converges_to_the_same_rate() {
        let timing = Radio::default().timing().unwrap();
        let mut learned = RateControl::new(RateRule::Learned, 11, 1, 0);
        let mut most_used = |signal: f64, from: u64| {
            let mut used = [0; 12];
            for n in from..from + 3000 {
                let mcs = learned.choose(n * MILLISECOND, None, &timing);
                used[usize::from(mcs)] += 1;
                let through = 20.0 * (1.0 - lost_at(signal, mcs, 1500));
                let through = u32::try_from(super::super::nanos(through)).unwrap();
                learned.learn(mcs, 20, through);
            }
            (0..12).max_by_key(|mcs| used[*mcs]).unwrap()
        };
        assert_eq!(most_used(24.0, 0), 7);
        assert_eq!(most_used(50.0, 3000), 11);
        assert_eq!(most_used(17.0, 6000), 4);
    }
}
