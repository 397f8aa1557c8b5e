//! Loss measurement from a client's reports.
//!
//! Two values describe the loss (Gilbert 1960): the share of lost datagrams and the mean run length. Both are means
//! over the last seconds.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};

pub use crate::control_event::Loss;
use crate::time::Instant;
use crate::validated::{Invalid, span};
use crate::wire::control::Report;

/// Time constant of the means. It is long enough to see several losses at 1 % and 1 Mb/s, and short enough to follow a
/// user who walks away from the access point (guess).
const MEMORY: Duration = Duration::from_secs(2);

/// Delivered datagrams that are added to the measured ones, so that one early loss does not look like a bad link: the
/// datagrams of three frames at 10 Mb/s.
const TRUST: f64 = 50.0;

/// The measured state of a client's link.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct LinkState {
    /// The shortest recent round trip; 20 ms before the first measurement.
    #[serde(serialize_with = "span::serialize", deserialize_with = "round_trip")]
    pub round_trip: Duration,
    /// The measured loss.
    pub loss: Loss,
}

fn round_trip<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let round_trip = span::deserialize(deserializer)?;
    match round_trip < Duration::from_secs(3600) {
        true => Ok(round_trip),
        false => Err(serde::de::Error::custom(Invalid("round trip"))),
    }
}

/// Measures the loss from reports.
#[derive(Clone, Debug, Default)]
pub struct LossMeter {
    received: f64,
    lost: f64,
    runs: f64,
    at: Instant,
}

impl LossMeter {
    /// Adds a report. Call it once per report.
    pub fn note(&mut self, now: Instant, report: &Report) {
        let keep = self.decay(now);
        self.received = self.received * keep + f64::from(report.datagrams);
        self.lost = self.lost * keep + f64::from(report.missing);
        self.runs = self.runs * keep + f64::from(report.runs);
        self.at = now;
    }

    fn decay(&self, now: Instant) -> f64 {
        (-now.since(self.at).as_secs_f64() / MEMORY.as_secs_f64()).exp()
    }

    /// The current loss estimate.
    #[must_use]
    pub fn loss(&self, now: Instant) -> Loss {
        let keep = self.decay(now);
        let [received, lost, runs] = [self.received, self.lost, self.runs].map(|n| n * keep);
        Loss {
            rate: lost / (received + lost + TRUST),
            run: ((lost + 1.0) / (runs + 1.0)).max(1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{FrameId, ViewId};
    use crate::trace::{DisplayLatency, Fidelity, Outcome};
    use crate::wire::video::EchoKind;

    fn report(datagrams: u16, missing: u16, runs: u16) -> Report {
        Report {
            view: ViewId::FIRST,
            frame: FrameId(1),
            outcome: Outcome::Displayed(Fidelity::Complete),
            first_received: None,
            recoverable: None,
            decoded: None,
            submitted: None,
            presented: None,
            motion_to_photon: None,
            echo: EchoKind::None,
            datagrams,
            missing,
            runs,
            repaired: 0,
            resent: 0,
            pose: None,
            ecn: None,
            age: DisplayLatency::default(),
        }
    }

    #[test]
    fn rate_and_run_length_are_estimated_and_decay() {
        let mut meter = LossMeter::default();
        assert_eq!(meter.loss(Instant(0)), Loss::NONE);
        let frame = Duration::from_micros(16_667);
        let mut now = Instant(0);
        for i in 0..600 {
            now = now + frame;
            let burst = if i % 10 == 0 { (4, 1) } else { (0, 0) };
            meter.note(now, &report(20 - burst.0, burst.0, burst.1));
        }
        let loss = meter.loss(now);
        assert!((loss.rate - 0.02).abs() < 0.002, "{loss:?}");
        assert!((loss.run - 4.0).abs() < 0.5, "{loss:?}");
        for _ in 0..600 {
            now = now + frame;
            meter.note(now, &report(20, 0, 0));
        }
        let loss = meter.loss(now);
        assert!(loss.rate < 0.001, "{loss:?}");
    }
}
