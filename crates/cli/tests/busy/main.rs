//! The whole program on a busy machine: beside busy loops at ordinary priority, beside a real-time loop on each
//! core that stops everything for 40 ms ten times a second or for 100 ms twice, and beside a build.
//!
//! What holds is that nothing is lost, repeated or made coarse, and that all is as before a second after the load
//! has ended. How late anything is depends on the machine, and is not looked at. `./dev test-busy` runs all of it;
//! what is not ignored also runs with all tests.

#![allow(
    clippy::print_stdout,
    reason = "what was measured, for who runs the tier"
)]

#[path = "../support/mod.rs"]
mod support;

mod input;
mod load;
#[path = "../../../runtime/tests/support/real_time_loops.rs"]
#[allow(dead_code, reason = "others count the stops")]
mod real_time_loops;
mod record;
mod sound;
mod subscribers;
mod video;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// One test at a time: each has the machine, and what keeps it busy, for itself.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
