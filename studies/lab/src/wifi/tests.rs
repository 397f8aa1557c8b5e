//! The model against published figures, against another simulator, and for invariants.
#![allow(
    clippy::cast_possible_truncation,
    reason = "packets and nanoseconds of a test are few"
)]

mod acceptance;
mod hops;
mod laws;
mod live;
