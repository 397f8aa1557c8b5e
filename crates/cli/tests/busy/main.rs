//! The whole program on a busy machine: while busy loops run at ordinary priority, while a real-time loop on each core
//! blocks it for 40 ms ten times a second or for 100 ms twice a second, and while a build runs.
//!
//! The tests require that nothing is lost, repeated or degraded, and that everything is as before one second after the load
//! has ended. Latency depends on the machine and is not checked. `./dev test-busy` runs all of them; tests that are not
//! ignored also run with all others.

#![allow(clippy::print_stdout, reason = "measurements for the user of the tier")]

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

/// Serialises the tests, so that each has the machine and its load to itself.
fn serialise() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
