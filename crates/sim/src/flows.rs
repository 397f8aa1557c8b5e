//! Bulk transfers that compete for a bottleneck: Cubic, Prague, BBR, and a sender that ignores congestion.
//!
//! [`bulk::Bulk`] is the transport: packets in flight, acknowledgements, loss detection, pacing. A [`Control`]
//! determines the window and the pacing rate. Flows run on a virtual clock and always have data to send.
//!
//! The flows are simplified, because only the load on the bottleneck matters: each packet is acknowledged separately,
//! acknowledgements are never lost, and lost packets are not retransmitted.
//!
//! Each control has a file, an entry in [`Kind::ALL`] and an arm in [`Kind::open`].

mod bbr;
pub mod bulk;
mod cubic;
mod greedy;
mod prague;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use openuvr_proto::time::Instant;
use openuvr_proto::units::Bitrate;

use crate::aqm::Ecn;
use crate::choices::choices;

/// Size of every packet on the link in bytes.
pub const PACKET: usize = 1500;

/// [`PACKET`] for calculations with windows.
const SEGMENT: f64 = 1500.0;

/// The initial window in bytes: ten segments (RFC 6928).
const INITIAL_WINDOW: f64 = 10.0 * SEGMENT;

/// An acknowledged packet.
#[derive(Debug, Clone, Copy)]
pub struct Ack {
    /// Time of the acknowledgement.
    pub now: Instant,
    /// Time since the packet was sent.
    pub round_trip: Duration,
    /// The smoothed round trip (RFC 6298).
    pub smoothed: Duration,
    /// Bytes of the packet.
    pub bytes: f64,
    /// Whether the packet arrived with CE.
    pub marked: bool,
    /// Bytes in flight without the packet.
    pub in_flight: f64,
    /// Delivery rate in bits per second since the packet was sent (draft-cheng-iccrg-delivery-rate-estimation).
    pub delivery_rate: f64,
    /// Whether the packet is the first of a new round trip.
    pub round: bool,
}

/// A lost packet.
#[derive(Debug, Clone, Copy)]
pub struct Loss {
    /// Time at which the loss was detected.
    pub now: Instant,
    /// The time at which the packet was sent.
    pub sent: Instant,
    /// Whether a timeout detected the loss.
    pub timeout: bool,
}

/// A congestion control.
pub trait Control: fmt::Debug + Send {
    /// The ECN field with which the flow's packets are sent.
    fn ecn(&self) -> Ecn;

    /// The congestion window in bytes.
    fn window(&self) -> f64;

    /// The pacing rate in bits per second; `None` without pacing.
    fn pacing(&self) -> Option<f64>;

    /// Handles the acknowledgement of a packet.
    fn on_ack(&mut self, ack: &Ack);

    /// Handles the loss of a packet.
    fn on_loss(&mut self, loss: &Loss);
}

/// A kind of flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Cubic (RFC 9438) without ECN.
    Cubic,
    /// Prague, with L4S.
    Prague,
    /// BBR version 1.
    Bbr,
    /// A constant rate, regardless of congestion.
    Greedy,
}

impl Kind {
    /// All kinds with their names on the command line.
    pub const ALL: [(&'static str, Kind); 4] = [
        ("cubic", Kind::Cubic),
        ("prague", Kind::Prague),
        ("bbr", Kind::Bbr),
        ("greedy", Kind::Greedy),
    ];

    /// A control in its initial state, for a bottleneck of `rate`.
    #[must_use]
    pub fn open(self, rate: Bitrate) -> Box<dyn Control> {
        match self {
            Kind::Cubic => Box::new(cubic::Cubic::default()),
            Kind::Prague => Box::new(prague::Prague::default()),
            Kind::Bbr => Box::new(bbr::Bbr::default()),
            Kind::Greedy => Box::new(greedy::Greedy::new(rate)),
        }
    }

    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        let found = Kind::ALL.iter().find(|(_, one)| *one == self);
        found.map_or("", |(name, _)| name)
    }
}

/// The error for a name that is not a kind of flow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a kind of flow; use {names}", names = choices(&Kind::ALL))]
pub struct ParseKindError(String);

impl FromStr for Kind {
    type Err = ParseKindError;

    fn from_str(text: &str) -> Result<Kind, ParseKindError> {
        let found = Kind::ALL.iter().find(|(name, _)| *name == text);
        let unknown = || ParseKindError(text.to_owned());
        found.map(|(_, one)| *one).ok_or_else(unknown)
    }
}

#[cfg(test)]
mod tests;
