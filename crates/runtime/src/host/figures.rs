//! Statistics of a host's subscribers: written by the control thread, readable from any thread.

use openuvr_clock as clock;
use openuvr_proto::host::figures::SubscriberFigures;

use super::HostRuntime;
use crate::lock::lock;

impl HostRuntime {
    /// Frame rate and latency of each subscriber over the newest five seconds, for those that report on
    /// frames. Callable from any thread; blocks the host only for a copy.
    #[must_use]
    pub fn figures(&self) -> Vec<SubscriberFigures> {
        // Sorts a copy, without holding the lock.
        let figures = lock(&self.shared.figures).clone();
        figures.read(clock::now())
    }
}
