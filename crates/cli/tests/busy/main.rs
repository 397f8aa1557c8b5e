//! The whole program on a busy machine. There are four loads: busy loops at ordinary priority, a build, and two kinds
//! of real-time loops, one loop on each core. A loop blocks its core for 40 ms ten times a second, or for 100 ms twice
//! a second.
//!
//! The tests require that nothing is lost, repeated or degraded. One second after the end of the load, everything must
//! be as it was before the load. Latency depends on the machine and is not checked. `./dev test-busy` runs all of these
//! tests; those that are not ignored also run with all other tests.

#![allow(clippy::print_stdout, reason = "measurements for the user of the tier")]

#[path = "../support/mod.rs"]
mod support;

mod input;
mod load;
#[path = "../../../runtime/tests/support/real_time_loops.rs"]
#[allow(dead_code, reason = "other tests count the stops")]
mod real_time_loops;
mod record;
mod sound;
mod subscribers;
mod video;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Serialises the tests, so that each has the machine and its load to itself.
fn serialise() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
