//! A sender that ignores congestion and always sends at half of the bottleneck's rate.

use openuvr_proto::units::Bitrate;

use super::{Ack, Control, Loss};
use crate::aqm::Ecn;

#[derive(Debug)]
pub(super) struct Greedy {
    rate: f64,
}

impl Greedy {
    pub(super) fn new(bottleneck: Bitrate) -> Greedy {
        Greedy {
            rate: bottleneck.0 as f64 / 2.0,
        }
    }
}

impl Control for Greedy {
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }

    fn window(&self) -> f64 {
        f64::INFINITY
    }

    fn pacing(&self) -> Option<f64> {
        Some(self.rate)
    }

    fn on_ack(&mut self, _: &Ack) {}

    fn on_loss(&mut self, _: &Loss) {}
}
