//! The threads of a host and a client: the only crate that spawns media threads and hands
//! the clock to the protocol.
//!
//! What it is not: it decides nothing about packets (crate `proto`), and touches sockets and
//! devices only through their traits (crates `net` and `media`).
#![deny(unsafe_code)]

pub mod accept_backoff;
#[cfg(feature = "client")]
pub mod client;
pub mod clock;
pub mod csv;
#[cfg(feature = "host")]
pub mod guest;
pub mod scheduling_latency;
#[cfg(feature = "host")]
pub mod host;
pub mod identity_store;
#[cfg(feature = "launch")]
pub mod launch;
#[cfg(feature = "host")]
pub mod launcher;
#[cfg(feature = "host")]
pub mod line;
pub mod lock;
pub mod machine;
pub mod recording;
#[cfg(feature = "host")]
pub mod remote;
pub mod sched;
pub mod sound_choice;
#[cfg(any(feature = "host", feature = "client"))]
pub mod sound_player;
pub mod store;
mod sys;
pub mod trust_store;

/// The port of a host, if none is named: a guess at a number that IANA has not assigned to a service
/// in use.
pub const PORT: u16 = 4710;
