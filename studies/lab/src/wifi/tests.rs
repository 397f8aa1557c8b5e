//! Compares the model with published figures and with another simulator, and tests its invariants.
#![allow(
    clippy::cast_possible_truncation,
    reason = "packets and nanoseconds of a test are few"
)]

mod acceptance;
mod hops;
mod laws;
mod live;
