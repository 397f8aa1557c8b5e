//! Scheduling latency of OpenUVR's threads: the time from a wake-up, by another thread or a timer, until the thread
//! runs. It can be recorded while a host or client runs, for `openuvr lab jitter analyse`. The recording is off by
//! default.
//!
//! Each place where a thread is woken is a [`WakeupSite`]. The woken thread writes a sample into the site's ring
//! (single producer), and a background thread drains the rings into files. Neither waits for the other: a sample that
//! finds its ring full is lost and counted. While recording is off, a site costs a comparison. While it is on, a
//! wake-up by another thread costs two clock reads, one before and one after it, and a few atomic operations.
//!
//! Waits that end with an external event (a datagram, a picture, a sound device's request) are not covered, because the
//! time of the event is unknown.

mod ring;

use std::sync::{Arc, Mutex};

use openuvr_clock as clock;
use openuvr_proto::time::Instant;

pub(crate) use self::ring::{Ring, Sample};
use crate::lock::lock;

/// Maximum number of sites over all threads, including threads that have ended. Additional sites are not recorded.
const MOST_SITES: usize = 64;

/// Creates sites. Clones share the recording; the default records nothing.
#[derive(Clone, Debug, Default)]
pub struct SchedulingLatencies(Option<Arc<WakeupSites>>);

#[derive(Debug, Default)]
struct WakeupSites(Mutex<Vec<Arc<Ring>>>);

/// A place where one thread is woken, by others or by its timer. Clones refer to the same site. Only one thread at a
/// time calls [`received`](WakeupSite::received) and [`woke`](WakeupSite::woke).
#[derive(Clone, Debug, Default)]
pub struct WakeupSite(Option<Arc<Ring>>);

impl SchedulingLatencies {
    /// An enabled recording.
    pub(crate) fn on() -> SchedulingLatencies {
        SchedulingLatencies(Some(Arc::default()))
    }

    /// The rings of all sites, in order of creation.
    pub(crate) fn rings(&self) -> Vec<Arc<Ring>> {
        let sites = self.0.as_ref();
        sites.map_or_else(Vec::new, |sites| lock(&sites.0).clone())
    }

    /// Creates a site. A duplicate name gets a number. The name is also the name of the site's file.
    #[must_use]
    pub fn site(&self, name: &str) -> WakeupSite {
        let Some(sites) = &self.0 else {
            return WakeupSite::default();
        };
        let mut all = lock(&sites.0);
        if all.len() >= MOST_SITES {
            return WakeupSite::default();
        }
        let taken = all.iter().filter(|ring| ring.of == name).count();
        let ring = Arc::new(Ring::new(name, taken + 1));
        all.push(ring.clone());
        WakeupSite(Some(ring))
    }
}

impl WakeupSite {
    /// Call this when the calling thread is about to wake the site's thread. If there are several wake-ups before the
    /// site's thread runs, the first counts. A thread that wakes itself is not recorded.
    pub fn sent(&self) {
        if let Some(ring) = &self.0 {
            ring.sent(clock::now());
        }
    }

    /// Call this in the site's thread when it runs. The call receives the pending wake-up, if any.
    pub fn received(&self) {
        if let Some(ring) = &self.0 {
            ring.received(clock::now());
        }
    }

    /// Call this when the calling thread woke from a timer set to `deadline`. The call is ignored if the thread woke
    /// earlier.
    pub fn woke(&self, deadline: Instant) {
        if let Some(ring) = &self.0 {
            ring.woke(deadline, clock::now());
        }
    }
}

#[cfg(test)]
mod tests;
