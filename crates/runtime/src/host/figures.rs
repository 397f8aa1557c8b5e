//! Statistics of a host's subscribers. The control thread writes them; any thread can read them.

use openuvr_clock as clock;
use openuvr_proto::host::figures::SubscriberFigures;

use super::HostRuntime;
use crate::lock::lock;

impl HostRuntime {
    /// All subscribers. For a subscriber that reports on frames, the figures include its frame rate and latency over
    /// the last five seconds. Callable from any thread. Blocks the host only while the figures are copied.
    #[must_use]
    pub fn figures(&self) -> Vec<SubscriberFigures> {
        // Copy the figures, so that they are sorted without holding the lock.
        let figures = lock(&self.shared.figures).clone();
        figures.read(clock::now())
    }
}
