//! The wire format of sealed datagrams: header, seal, and the bodies of the media and control planes.
//!
//! Everything is little-endian. A datagram consists of a clear, authenticated header ([`header::Header`], 24 bytes), a
//! sealed body, and a 16-byte tag. Handshake datagrams are the exception: they have their own layout and cryptography
//! ([`control::handshake`](crate::control::handshake)). The messages of the reliable stream are encoded in
//! `control::negotiate`. Each body is parsed once, into values; other code uses only the values.

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
