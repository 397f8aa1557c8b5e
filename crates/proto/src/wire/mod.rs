//! The wire format. Only this module reads and writes the protocol's bytes.
//!
//! Everything is little-endian. A datagram consists of a clear, authenticated header ([`header::Header`], 24 bytes), a
//! sealed body, and a 16-byte tag. Handshake datagrams are the exception: they have their own cryptography
//! ([`control::handshake`](crate::control::handshake)). This module parses the bytes into values once; no other module
//! accesses them.

pub mod control;
pub mod extensions;
pub mod fec;
pub mod header;
pub mod media;
pub mod seal;
pub mod timed;
pub mod video;
mod views;

pub use crate::bytes::{MAX_DATAGRAM, Reject};
