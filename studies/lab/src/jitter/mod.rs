//! Latency jitter: the latency of each message from one thread or actor to another.
//!
//! The probes (`studies/probes/`) write sample files. This module reads them ([`samples`]) and analyses them
//! ([`analysis`]), together with the pauses of a garbage collector ([`pauses`]). The reporter (`studies/report`) has
//! the figures of the reproduced study.
//!
//! This module starts no probe, and reads no clock.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "statistics work in floating point; classes and cells of plots are small"
)]

pub mod analysis;
pub mod distribution;
pub mod pauses;
pub mod samples;

/// Nanoseconds. Points in time are readings of CLOCK_MONOTONIC.
pub type Nanos = u64;

#[cfg(test)]
mod tests;
