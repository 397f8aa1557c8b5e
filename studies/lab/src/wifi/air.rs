//! Losses on the channel between the access point and a station. They are independent, in bursts, or dependent on the
//! SNR.

use openuvr_sim::random::Random;

use super::{Impossible, Nanos};

/// Losses between the access point and one station, equal in both directions. The causes of loss are independent: an
/// MPDU is lost if at least one of them loses it.
#[derive(Debug, Clone, PartialEq)]
pub struct Air {
    /// Probability that an MPDU is lost independently of others, at any rate.
    pub per: f64,
    /// Burst losses.
    pub bursts: Option<Bursts>,
    /// Losses by SNR. They also depend on the rate and on the MPDU's length.
    pub signal: Option<Signal>,
}

/// Burst losses: two states with random durations (Gilbert 1960, Elliott 1963, in continuous time). MPDUs are lost only
/// in the bad state.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bursts {
    /// Mean duration of the good state.
    pub good: Nanos,
    /// Mean duration of the bad state.
    pub bad: Nanos,
    /// Probability that an MPDU is lost in the bad state.
    pub loss: f64,
}

/// A fading signal: normally distributed in decibels, with an exponential autocorrelation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Signal {
    /// Mean SNR over the channel width, dB.
    pub mean: f64,
    /// Standard deviation of the SNR, dB.
    pub deviation: f64,
    /// Time in which a deviation from the mean decays to 1/e.
    pub coherence: Nanos,
}

impl Air {
    /// A channel with only independent losses of MPDUs.
    #[must_use]
    pub fn losing(per: f64) -> Air {
        Air {
            per,
            bursts: None,
            signal: None,
        }
    }

    pub(super) fn check(&self) -> Result<(), Impossible> {
        let impossible = |what: String| Err(Impossible(what));
        let shares = [Some(self.per), self.bursts.map(|bursts| bursts.loss)];
        for share in shares.into_iter().flatten() {
            if !(0.0..=1.0).contains(&share) {
                return impossible(format!("loss {share} is not between 0 and 1"));
            }
        }
        if self.bursts.is_some_and(|b| b.good == 0 || b.bad == 0) {
            return impossible("bursts: the durations of both states must be longer than 0".into());
        }
        match self.signal {
            Some(signal) if !signal.mean.is_finite() || signal.deviation < 0.0 => impossible(
                "signal: the SNR must be a finite number, and the deviation must not be negative"
                    .into(),
            ),
            Some(signal) if signal.coherence == 0 => {
                impossible("signal: the coherence time must be longer than 0".into())
            }
            _ => Ok(()),
        }
    }
}

/// SNR in dB at which a tenth of all PPDUs with 4096 bytes are lost, by MCS. It is the difference between the
/// sensitivity that 802.11ax requires of a receiver (table 27-51; 802.11be: 36-67) and the receiver's noise, with the
/// standard's noise figure of 10 dB and margin of 5 dB.
const NEEDED: [f64; 14] = [
    4.0, 7.0, 9.0, 12.0, 16.0, 20.0, 21.0, 22.0, 27.0, 29.0, 32.0, 34.0, 37.0, 40.0,
];

/// Slope of the loss over the SNR, well above the needed SNR: the loss falls by a factor of e in this number of
/// decibels. Coded transmissions change from nearly total loss to nearly no loss within about 2 dB.
const DECIBELS_FOR_E: f64 = 0.5;

/// The share of MPDUs of this length that are lost at this SNR.
#[must_use]
pub fn lost_at(signal_db: f64, mcs: u8, bytes: u32) -> f64 {
    let above = (signal_db - NEEDED[usize::from(mcs)]) / DECIBELS_FOR_E;
    // At the needed SNR, the loss is a tenth.
    let of_4096 = 1.0 / (1.0 + 9.0 * above.exp());
    1.0 - (1.0 - of_4096).powf(f64::from(bytes) / 4096.0)
}

/// The state of the channel to one station. Time must not decrease between calls.
#[derive(Debug, Clone)]
pub(super) struct AirState {
    air: Air,
    fates: Random,
    states: Random,
    fading: Random,
    is_bad: bool,
    /// Time of the next change between the good and the bad state.
    change: Nanos,
    /// Deviation of the SNR from its mean in dB, and the time at which it was computed.
    deviation: f64,
    seen: Nanos,
}

impl AirState {
    pub(super) fn new(air: Air, seed: u64, station: u64) -> AirState {
        let stream = |kind: u64| Random::new(seed, kind << 32 | station);
        let mut state = AirState {
            fates: stream(1),
            states: stream(2),
            fading: stream(3),
            is_bad: false,
            change: 0,
            deviation: 0.0,
            seen: 0,
            air,
        };
        if let Some(bursts) = state.air.bursts {
            state.change = state.states.exponential(bursts.good);
        }
        if let Some(signal) = state.air.signal {
            state.deviation = signal.deviation * state.fading.normal();
        }
        state
    }

    /// The current SNR, if it is modelled.
    pub(super) fn signal(&mut self, now: Nanos) -> Option<f64> {
        let signal = self.air.signal?;
        let passed = now.saturating_sub(self.seen) as f64 / signal.coherence as f64;
        if passed > 0.0 {
            let kept = (-passed).exp();
            let fresh = signal.deviation * (1.0 - kept * kept).sqrt();
            self.deviation = self.deviation * kept + fresh * self.fading.normal();
            self.seen = now;
        }
        Some(signal.mean + self.deviation)
    }

    /// Whether an MPDU is lost. `signal` is the result of [`AirState::signal`] for its PPDU.
    pub(super) fn loses(&mut self, now: Nanos, signal: Option<f64>, mcs: u8, bytes: u32) -> bool {
        let mut passes = 1.0 - self.air.per;
        if let Some(bursts) = self.air.bursts {
            while self.change <= now {
                self.is_bad = !self.is_bad;
                let mean = if self.is_bad { bursts.bad } else { bursts.good };
                self.change += self.states.exponential(mean).max(1);
            }
            if self.is_bad {
                passes *= 1.0 - bursts.loss;
            }
        }
        if let Some(signal) = signal {
            passes *= 1.0 - lost_at(signal, mcs, bytes);
        }
        self.fates.chance(1.0 - passes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wifi::MILLISECOND;

    #[test]
    fn losses_have_the_configured_frequency() {
        let mut plain = AirState::new(Air::losing(0.1), 1, 0);
        let lost = (0..100_000).filter(|at| plain.loses(*at, None, 11, 1243));
        let lost = lost.count();
        assert!((9_700..10_300).contains(&lost), "{lost}");
        let mut never = AirState::new(Air::losing(0.0), 1, 0);
        assert!((0..1000).all(|at| !never.loses(at, None, 11, 1243)));
    }

    #[test]
    fn bursts_have_their_length_and_share_of_the_time() {
        let air = Air {
            per: 0.0,
            bursts: Some(Bursts {
                good: 90 * MILLISECOND,
                bad: 10 * MILLISECOND,
                loss: 1.0,
            }),
            signal: None,
        };
        let mut state = AirState::new(air, 3, 0);
        let fates: Vec<bool> = (0..400_000)
            .map(|n| state.loses(n * MILLISECOND / 10, None, 0, 100))
            .collect();
        let lost = fates.iter().filter(|lost| **lost).count() as f64 / fates.len() as f64;
        assert!((0.08..0.12).contains(&lost), "{lost}");
        let begun = fates.windows(2).filter(|w| !w[0] && w[1]).count();
        let length = lost * fates.len() as f64 / begun as f64;
        assert!((80.0..120.0).contains(&length), "{length} in a burst");
    }

    #[test]
    fn a_signal_has_its_deviation_and_coherence() {
        let air = Air {
            per: 0.0,
            bursts: None,
            signal: Some(Signal {
                mean: 30.0,
                deviation: 4.0,
                coherence: 50 * MILLISECOND,
            }),
        };
        let mut state = AirState::new(air, 5, 0);
        let values: Vec<f64> = (0..200_000)
            .map(|n| state.signal(n * 5 * MILLISECOND).unwrap())
            .collect();
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let covariance = |lag: usize| {
            let pairs = values.iter().zip(&values[lag..]);
            pairs.map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>() / count
        };
        assert!((mean - 30.0).abs() < 0.2, "{mean}");
        assert!((covariance(0).sqrt() - 4.0).abs() < 0.1);
        let left = covariance(10) / covariance(0);
        assert!((left - (-1.0_f64).exp()).abs() < 0.03, "{left}");
    }

    #[test]
    fn a_tenth_is_lost_at_the_edge_and_more_of_long_mpdus() {
        assert!((lost_at(34.0, 11, 4096) - 0.1).abs() < 1e-9);
        assert!(lost_at(30.0, 11, 4096) > 0.99);
        assert!(lost_at(40.0, 11, 4096) < 1e-5);
        assert!(lost_at(34.0, 11, 100) < 0.005);
        assert!(lost_at(25.0, 7, 1500) < lost_at(25.0, 8, 1500));
    }
}
