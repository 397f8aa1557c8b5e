//! Messages between processes of one machine and one user: a host in an application's process, the program
//! that started the application, and gateways.
//!
//! ```text
//!  launcher (openuvr run, xr)  ── Hello, settings ──►  host in the application's process
//!                              ◄── Hello, LaunchReport …
//!  gateway (openuvr run, gateway) ── Hello, GatewayMessage … ──►  the same host, at another socket
//!                                 ◄── Hello, HostMessage … (slices and sound as raw payloads)
//! ```
//!
//! The format is derived with serde in postcard's encoding (<https://postcard.jamesmunns.com/wire-format>). [`frame`] adds a
//! length prefix and the limits. [`hello`] refuses a peer of another version, so there is no negotiation. Each end treats
//! the other as hostile: no input causes a panic or allocates more than the limit of its kind of message.
//!
//! Sockets and threads are in crate `runtime`.
#![forbid(unsafe_code)]

pub mod admission;
pub mod frame;
pub mod gateway_message;
pub mod hello;
pub mod host_message;
pub mod launch_report;
pub mod notice;
