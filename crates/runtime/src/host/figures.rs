//! Figures of a host's subscribers: the control thread notes what becomes of frames, anybody reads.

use openuvr_proto::host::figures::SubscriberFigures;

use super::HostRuntime;
use crate::clock;
use crate::lock::lock;

impl HostRuntime {
    /// How its subscribers see it now: frames a second and latency over the newest five seconds, of those that
    /// report on their frames. From any thread; the host waits for it no longer than a copy takes.
    #[must_use]
    pub fn figures(&self) -> Vec<SubscriberFigures> {
        // Sorting is done on a copy, while nobody waits.
        let figures = lock(&self.shared.figures).clone();
        figures.read(clock::now())
    }
}
