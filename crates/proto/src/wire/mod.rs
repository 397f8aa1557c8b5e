//! Bytes and values: the one place where the protocol's bytes are read and written.
//!
//! Everything is little-endian. A datagram is a clear, authenticated header
//! ([`header::Header`], 24 bytes), a sealed body, and a 16-byte tag; handshake datagrams are the
//! exception and carry their own cryptography
//! ([`control::handshake`](crate::control::handshake)). Bytes are parsed into values here, once;
//! nothing beyond this module looks at bytes.

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
