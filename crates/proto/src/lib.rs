//! The OpenUVR protocol without I/O.
//!
//! All parts that need no clock, socket, thread or device are here: wire format, seals, fragmentation and reassembly,
//! loss repair, rate control, pairing and clocks. The host's and the client's side of a session are composed of these
//! parts. `now` is an argument, `handle_*` methods take events, and `poll_*` methods return actions. Tests of this
//! crate never sleep.
//!
//! The crate opens no sockets (crate `net`), uses no devices (crate `media`), and starts no threads (crate `runtime`).
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(
        clippy::cast_possible_truncation,
        reason = "test values are known to fit"
    )
)]

pub mod bytes;
pub mod client;
pub mod control;
pub mod control_event;
pub mod controller;
pub mod display;
pub mod ecn;
pub mod field_of_view;
pub mod host;
pub mod id;
pub mod input;
pub mod ledger;
pub mod motion;
pub mod pose;
pub mod printable;
pub mod quantile;
pub mod recv;
pub mod reproject;
pub mod rotation;
pub mod send;
pub mod seq;
pub mod shell;
pub mod time;
pub mod trace;
pub mod transport;
pub mod units;
pub mod validated;
pub mod wire;
