//! Statistics of a host's subscribers. The control thread writes them; any thread can read them.

use openuvr_clock as clock;
use openuvr_proto::host::figures::SubscriberFigures;

use super::HostRuntime;
use crate::lock::lock;

impl HostRuntime {
    /// Frame rate and latency of each subscriber over the newest five seconds, for those that report on frames. Callable
    /// from any thread. Blocks the host only for a copy.
    #[must_use]
    pub fn figures(&self) -> Vec<SubscriberFigures> {
        // Sorts a copy, without holding the lock.
        let figures = lock(&self.shared.figures).clone();
        figures.read(clock::now())
    }
}
