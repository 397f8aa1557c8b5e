//! Latency jitter: how long a message takes from one thread or actor to another, message by message.
//!
//! The probes (`probes/`) write files of samples; here they are read ([`samples`]) and summed up
//! ([`analysis`]), with the pauses of a garbage collector beside them ([`pauses`]). [`slides`] has the
//! figures of the published study that is repeated.
//!
//! What it is not: it starts no probe, and reads no clock.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "statistics work in floating point; classes and cells of plots are small"
)]

pub mod analysis;
pub mod distribution;
pub mod pauses;
pub mod samples;
pub mod slides;

/// Nanoseconds, of CLOCK_MONOTONIC where it is a time.
pub type Nanos = u64;

#[cfg(test)]
mod tests;
