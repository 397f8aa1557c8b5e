//! Queue disciplines of a bottleneck: active queue management (AQM) in user space.
//!
//! A discipline takes packets and returns them in its order of transmission. It may mark packets with Congestion
//! Experienced (CE) or drop them. A discipline has neither a clock nor a link: the caller passes `now`, which must not
//! decrease, and takes a packet as soon as the link is idle ([`Bottleneck`](crate::bottleneck::Bottleneck)).
//!
//! Each discipline has a file, an entry in [`Discipline::ALL`] and an arm in [`Discipline::open`].

mod codel;
mod dualpi2;
mod fq_codel;
mod pie;
mod tail_drop;

use std::fmt;
use std::str::FromStr;

pub use openuvr_proto::ecn::Ecn;
use openuvr_proto::time::Instant;

use crate::choices::choices;

pub use dualpi2::DualPi2;
pub use fq_codel::FqCodel;
pub use pie::{Pie, PieControl};
pub use tail_drop::TailDrop;

/// Whether a queue may mark the packet instead of dropping it.
fn is_capable(ecn: Ecn) -> bool {
    ecn != Ecn::NotEct
}

/// Whether a dual queue treats the packet as L4S (RFC 9331, section 5.1).
fn is_l4s(ecn: Ecn) -> bool {
    matches!(ecn, Ecn::Ect1 | Ecn::Ce)
}

/// A packet in a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet<T> {
    /// The flow: a hash of addresses and ports, or any other number that distinguishes flows.
    pub flow: u64,
    /// The packet's length on the link in bytes.
    pub len: usize,
    /// The packet's ECN field.
    pub ecn: Ecn,
    /// The content, which no discipline reads.
    pub content: T,
}

impl<T> Packet<T> {
    /// The same packet with other content.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Packet<U> {
        Packet {
            flow: self.flow,
            len: self.len,
            ecn: self.ecn,
            content: change(self.content),
        }
    }
}

/// Counters of a discipline since its queue was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Actions {
    /// Packets that the discipline marked with CE.
    pub marked: u64,
    /// Packets dropped as a congestion signal.
    pub dropped: u64,
    /// Packets dropped because the queue was full.
    pub overflowed: u64,
}

/// A queue discipline.
pub trait Aqm<T>: fmt::Debug + Send {
    /// Takes a packet at `now`. If the queue is full, or to signal congestion, the discipline drops this packet or
    /// others.
    fn enqueue(&mut self, now: Instant, packet: Packet<T>);

    /// Returns the packet to transmit at `now`; `None` if no packet waits. May drop packets.
    fn dequeue(&mut self, now: Instant) -> Option<Packet<T>>;

    /// Bytes that wait.
    fn bytes(&self) -> usize;

    /// The counters since the queue was opened.
    fn actions(&self) -> Actions;
}

/// The kind of a discipline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Discipline {
    /// A first-in, first-out queue with a limit.
    #[default]
    TailDrop,
    /// PIE (RFC 8033).
    Pie,
    /// FQ-CoDel (RFC 8290).
    FqCodel,
    /// DualPI2 (RFC 9332).
    DualPi2,
}

impl Discipline {
    /// All disciplines with their names on the command line.
    pub const ALL: [(&'static str, Discipline); 4] = [
        ("droptail", Discipline::TailDrop),
        ("pie", Discipline::Pie),
        ("fq_codel", Discipline::FqCodel),
        ("dualpi2", Discipline::DualPi2),
    ];

    /// An empty queue that holds at most `limit` bytes. The seed determines random marks, drops and hashes.
    #[must_use]
    pub fn open<T: fmt::Debug + Send + 'static>(self, limit: usize, seed: u64) -> Box<dyn Aqm<T>> {
        match self {
            Discipline::TailDrop => Box::new(TailDrop::new(limit)),
            Discipline::Pie => Box::new(Pie::new(limit, seed)),
            Discipline::FqCodel => Box::new(FqCodel::new(limit, seed)),
            Discipline::DualPi2 => Box::new(DualPi2::new(limit)),
        }
    }

    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        let found = Discipline::ALL.iter().find(|(_, one)| *one == self);
        found.map_or("", |(name, _)| name)
    }
}

impl fmt::Display for Discipline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The error for a name that is not a discipline.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a queue discipline; use {names}", names = choices(&Discipline::ALL))]
pub struct ParseDisciplineError(String);

impl FromStr for Discipline {
    type Err = ParseDisciplineError;

    fn from_str(text: &str) -> Result<Discipline, ParseDisciplineError> {
        let found = Discipline::ALL.iter().find(|(name, _)| *name == text);
        let unknown = || ParseDisciplineError(text.to_owned());
        found.map(|(_, one)| *one).ok_or_else(unknown)
    }
}

#[cfg(test)]
mod tests;
