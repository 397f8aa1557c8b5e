//! A shared medium: a link model that several stations use together, such as a Wi-Fi network.
//!
//! This is only an interface. A relay or bridge accepts any medium instead of a [`LinkModel`](crate::link::LinkModel)
//! for each client.

use std::fmt;

use openuvr_proto::time::Instant;

use crate::lateness::Lateness;
use crate::link::Counters;

/// Direction of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// To the stations, from the access point.
    Down,
    /// From the stations, to the access point.
    Up,
}

/// A delivered datagram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// Delivery time.
    pub due: Instant,
    /// The datagram's direction.
    pub direction: Direction,
    /// The station that sent the datagram, or to which it was sent.
    pub station: usize,
    /// The datagram's content.
    pub bytes: Vec<u8>,
}

/// A model that carries the datagrams of its stations in real or virtual time. One thread calls it, and the times that
/// it passes do not decrease.
pub trait Medium: fmt::Debug + Send {
    /// Number of stations for clients. The index of a station is less than this number.
    fn stations(&self) -> usize;

    /// Sends a datagram at `now` to or from a station. `on_air` is the size of its packet in bytes, including the IP
    /// header.
    fn send(&mut self, now: Instant, to: (Direction, usize), bytes: Vec<u8>, on_air: usize);

    /// The next datagram delivered by `now`.
    fn poll(&mut self, now: Instant) -> Option<Arrival>;

    /// When to call [`Medium::poll`] next; `None` without traffic.
    fn next_timeout(&mut self) -> Option<Instant>;

    /// The counters of the datagrams from the stations, and those of the datagrams to the stations, each over all
    /// stations.
    fn counters(&self) -> (Counters, Counters);

    /// The times that datagrams to the stations took to cross the medium.
    fn crossing(&self) -> &Lateness;
}
