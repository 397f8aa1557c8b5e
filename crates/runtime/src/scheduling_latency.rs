//! How long our own threads take to hear of each other, and of their timers: recorded while host or client
//! run, so that `openuvr lab jitter analyse` reads it. Off unless somebody asks.
//!
//! Each place where one thread wakes another, or a timer wakes one, is a [`WakeupSite`]: the thread that is woken
//! writes a sample into a ring of its own, which nobody else writes to, and a thread without urgency empties
//! the rings into files. Neither waits for the other: what finds a ring full is lost and counted. Off, a
//! site costs a comparison; on, a call of the clock at each end and three stores.
//!
//! What it is not: it says nothing of waits that the outside ends, such as a datagram, a picture, or a
//! block that a sound device wants: nobody knows when those were sent.

mod ring;

use std::sync::{Arc, Mutex};

use openuvr_proto::time::Instant;

pub(crate) use self::ring::{Ring, Sample};
use crate::clock;
use crate::lock::lock;

/// Threads that come and go have a site each; beyond so many, new ones are not recorded.
const MOST_SITES: usize = 64;

/// Where sites come from. Clones share it; the default records nothing.
#[derive(Clone, Debug, Default)]
pub struct SchedulingLatencies(Option<Arc<WakeupSites>>);

#[derive(Debug, Default)]
struct WakeupSites(Mutex<Vec<Arc<Ring>>>);

/// A place at which one thread is woken: by others, or by its timer. Clones are the same place. One thread
/// at a time calls [`received`](Site::received) and [`woke`](Site::woke).
#[derive(Clone, Debug, Default)]
pub struct WakeupSite(Option<Arc<Ring>>);

impl SchedulingLatencies {
    /// One whose sites record.
    pub(crate) fn on() -> SchedulingLatencies {
        SchedulingLatencies(Some(Arc::default()))
    }

    /// The rings of all sites so far, in the order in which they were made.
    pub(crate) fn rings(&self) -> Vec<Arc<Ring>> {
        let sites = self.0.as_ref();
        sites.map_or_else(Vec::new, |sites| lock(&sites.0).clone())
    }

    /// A new place; a name that is taken gets a number. The name is that of its file.
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
    /// The calling thread is about to wake the other one. Of several before that takes notice the first
    /// counts. A thread that wakes itself hands nothing over.
    pub fn sent(&self) {
        if let Some(ring) = &self.0 {
            ring.sent(clock::now());
        }
    }

    /// The calling thread is awake; what was sent to it since the last time has arrived.
    pub fn received(&self) {
        if let Some(ring) = &self.0 {
            ring.received(clock::now());
        }
    }

    /// The calling thread slept until `deadline`, if that has passed.
    pub fn woke(&self, deadline: Instant) {
        if let Some(ring) = &self.0 {
            ring.woke(deadline, clock::now());
        }
    }
}

#[cfg(test)]
mod tests;
