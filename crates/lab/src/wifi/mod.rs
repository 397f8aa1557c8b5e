//! A model of Wi-Fi: one access point and its stations on one channel, as a discrete-event
//! simulation in whole nanoseconds.
//!
//! It follows 802.11: channel access (EDCA with post-backoff, four categories), RTS/CTS, aggregation
//! (A-MPDU) with block acknowledgement and retransmission of what was lost, one queue for each
//! station, and the wire between server and access point. It is a value: packets go in with their
//! times, and come out with theirs. The same seed and the same packets give the same result, whether
//! all are known beforehand ([`scenario`]) or they come while a clock runs ([`live`]).
//!
//! From the bottom up: [`timing`] says how long a transmission lasts, [`air`] what is lost in it and
//! [`rate`] how fast it is; [`bss`] decides who sends what when. [`network`] puts the wire before
//! it, [`traffic`] makes packets, [`scenario`] runs and measures both, [`study`] repeats that and
//! [`paper`] compares it with a published study; [`replay`] sends what was recorded. [`words`] describes
//! a scenario in one line.
//!
//! What it is not: a model of antennas, of hidden stations, or of neighbours' networks. A collision
//! destroys all that takes part in it, and control frames are only lost in collisions.

pub mod air;
pub mod bss;
pub mod live;
pub mod network;
pub mod paper;
pub mod rate;
mod reorder;
pub mod replay;
pub mod scenario;
pub mod setup;
mod statistics;
pub mod study;
pub mod timing;
pub mod traffic;
pub mod words;

pub use bss::{Bss, Event};
pub use setup::{Category, Setup, Way};
pub use statistics::{Estimate, quantile};
pub use timing::{Profile, Radio, Timing};

/// Parameters with which no network can be. Its words say which, and what can be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Impossible(pub String);

/// Nanoseconds since the beginning of a run, or between two events.
pub type Nanos = u64;

/// One microsecond.
pub const MICROSECOND: Nanos = 1_000;

/// One millisecond.
pub const MILLISECOND: Nanos = 1_000_000;

/// One second.
pub const SECOND: Nanos = 1_000_000_000;

/// The nearest whole number of nanoseconds; 0 for what is negative or no number.
#[must_use]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Saturates, as is said.
pub fn nanos(value: f64) -> Nanos {
    value.round() as Nanos
}

/// In milliseconds, for people.
#[must_use]
pub fn milliseconds(time: Nanos) -> f64 {
    time as f64 / MILLISECOND as f64
}

#[cfg(test)]
mod tests;
