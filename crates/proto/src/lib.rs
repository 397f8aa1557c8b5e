//! The OpenUVR protocol as a value.
//!
//! Everything that can be decided without a clock, a socket, a thread or a device is decided
//! here: the bytes on the wire, sealing, fragmenting and reassembly, loss, rate, pairing, clocks,
//! and the two sessions that compose them. `now` comes in as an argument; `handle_*` takes what
//! happened, `poll_*` says what to do. Tests of this crate never sleep.
//!
//! What it is not: it opens no socket (crate `net`), touches no device (crate `media`), and
//! spawns no thread (crate `runtime`).
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::cast_possible_truncation, reason = "a test knows its numbers")
)]

pub mod bytes;
pub mod client;
pub mod control;
pub mod control_event;
pub mod controller;
pub mod display;
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
pub mod time;
pub mod trace;
pub mod transport;
pub mod units;
pub mod wire;
