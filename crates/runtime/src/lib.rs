//! The threads of a host and a client. This crate starts the media threads and passes the time of crate `clock` to the
//! protocol.
//!
//! The protocol logic is in crate `proto`. A stream's sockets and devices are used through the traits of crates `net`
//! and `media`.
#![deny(unsafe_code)]

pub mod accept_backoff;
pub mod bind_remedy;
#[cfg(feature = "client")]
pub mod client;
pub mod connection_limits;
pub mod csv;
#[cfg(feature = "host")]
pub mod guest;
#[cfg(feature = "host")]
pub mod host;
pub mod identity_store;
#[cfg(feature = "launch")]
pub mod launch;
#[cfg(feature = "host")]
pub mod launch_protocol;
#[cfg(feature = "host")]
pub mod launcher;
pub mod lock;
pub mod machine;
pub mod recording;
#[cfg(feature = "host")]
pub mod remote;
pub mod sched;
pub mod scheduling_latency;
pub mod sound_choice;
#[cfg(any(feature = "host", feature = "client"))]
pub mod sound_player;
pub mod store;
mod sys;
pub mod trust_store;

/// The default port of a host. IANA has assigned this number to another service, which is not in use (guess).
pub const PORT: u16 = 4710;
