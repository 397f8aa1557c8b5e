//! A fixed rate, which shows the latency of the path without rate control.

use openuvr_proto::time::Instant;
use openuvr_proto::units::Bitrate;

use super::{Controller, FrameReport};

/// The controller, with its rate.
#[derive(Debug)]
pub(super) struct Fixed(pub(super) Bitrate);

impl Controller for Fixed {
    fn target(&self) -> Bitrate {
        self.0
    }

    fn on_report(&mut self, _: Instant, _: &FrameReport<'_>) {}
}
