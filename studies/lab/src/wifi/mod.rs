//! A model of Wi-Fi: one access point and its stations on one channel, as a discrete-event
//! simulation in whole nanoseconds.
//!
//! The model follows 802.11: channel access (EDCA with post-backoff, four categories), RTS/CTS, aggregation (A-MPDU)
//! with block acknowledgement and retransmission, one queue for each station, and the wired link between server and
//! access point. It uses no clock and no socket: packets enter with their times, and leave with their delivery times.
//! The same seed and the same packets give the same result, whether all packets are known in advance ([`scenario`]) or
//! arrive in real time ([`live`]).
//!
//! From the bottom up: [`timing`] computes durations, [`air`] computes losses, and [`rate`] selects the MCS. [`bss`]
//! models medium access. [`network`] adds the server and its link, [`traffic`] generates packets, [`scenario`] runs the
//! network with its traffic and measures the results, and [`study`] repeats such runs. [`paper`] and [`topology`]
//! compare the model with published studies. [`replay`] sends recorded packets. [`words`] parses a scenario from one
//! line.
//!
//! Antennas, hidden stations and neighbouring networks are not modelled. A collision destroys all transmissions that
//! take part in it. Control frames are lost only in collisions.

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

/// The parameters are impossible. The message names them and the valid values.
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

/// Rounds to whole nanoseconds. Negative values and NaN give 0.
#[must_use]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Saturates, as documented.
pub fn nanos(value: f64) -> Nanos {
    value.round() as Nanos
}

/// Converts nanoseconds to milliseconds for output.
#[must_use]
pub fn milliseconds(time: Nanos) -> f64 {
    time as f64 / MILLISECOND as f64
}

#[cfg(test)]
mod tests;
