//! A model of Wi-Fi: one access point and its stations on one channel, as a discrete-event
//! simulation in whole nanoseconds.
//!
//! It follows 802.11: channel access (EDCA with post-backoff, four categories), RTS/CTS,
//! aggregation (A-MPDU) with block acknowledgement and retransmission, one queue per station, and
//! the wired link between server and access point. It is a value: packets go in and come out with
//! their times. The same seed and the same packets give the same result, whether all are known in
//! advance ([`scenario`]) or arrive in real time ([`live`]).
//!
//! From the bottom up: [`timing`] computes durations, [`air`] losses, and [`rate`] the MCS; [`bss`]
//! models medium access. [`network`] adds the server and its link, [`traffic`] generates packets,
//! [`scenario`] runs and measures both, and [`study`] repeats that. [`paper`] and [`topology`]
//! compare it with published studies; [`replay`] sends recorded packets. [`words`] parses a scenario
//! from one line.
//!
//! Not modelled: antennas, hidden stations, and neighbouring networks. A collision destroys all
//! transmissions in it, and control frames are lost only in collisions.

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
pub mod topology;
pub mod traffic;
pub mod words;

pub use bss::{Bss, Event};
pub use setup::{Category, Direction, Setup};
pub use statistics::Estimate;
pub use timing::{Profile, Radio, Timing};

/// Impossible parameters. The message names them and the valid values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Impossible(pub String);

/// Nanoseconds since the start of a run, or between two events.
pub type Nanos = u64;

/// One microsecond.
pub const MICROSECOND: Nanos = 1_000;

/// One millisecond.
pub const MILLISECOND: Nanos = 1_000_000;

/// One second.
pub const SECOND: Nanos = 1_000_000_000;

/// The nearest whole number of nanoseconds; 0 for negative values and NaN.
#[must_use]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Saturates, as documented.
pub fn nanos(value: f64) -> Nanos {
    value.round() as Nanos
}

/// Converts to milliseconds for output.
#[must_use]
pub fn milliseconds(time: Nanos) -> f64 {
    time as f64 / MILLISECOND as f64
}

#[cfg(test)]
mod tests;
