//! Bytes and values: the one place where the protocol's bytes are read and written.
//!
//! Everything is little-endian. A datagram is a clear, authenticated header
//! ([`header::Header`], 24 bytes), a sealed body, and a 16-byte tag; handshake datagrams are the
//! exception and carry their own cryptography
//! ([`control::handshake`](crate::control::handshake)). Bytes are parsed into values here, once;
//! nothing beyond this module looks at bytes.

pub mod control;
pub mod extensions;
pub mod fields;
pub mod header;
pub mod media;
pub mod parity;
pub mod seal;
pub mod timed;
pub mod video;

/// The largest datagram in bytes, the same over every link: what a 1500-byte Ethernet frame
/// carries behind IPv6 and UDP headers (40 + 8 bytes), less room for a tunnel.
pub const MAX_DATAGRAM: usize = 1400;

/// Refuses a `field` whose value is not `ok`.
fn range(ok: bool, field: &'static str) -> Result<(), Reject> {
    ok.then_some(()).ok_or(Reject::Range(field))
}

/// Why bytes from the network were refused. Never fatal: the datagram is counted and forgotten.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Reject {
    /// Shorter than its fields need.
    #[error("truncated")]
    Truncated,
    /// Longer than [`MAX_DATAGRAM`], or bytes behind the last field.
    #[error("too long")]
    TooLong,
    /// A protocol version that this build does not speak.
    #[error("unknown protocol version {0}")]
    Version(u8),
    /// A plane or kind that does not exist or does not belong here.
    #[error("unknown kind {0}")]
    Kind(u8),
    /// No such session.
    #[error("unknown session")]
    Session,
    /// The tag does not fit: damaged, forged, or sealed under another key.
    #[error("forged or damaged")]
    Forged,
    /// A packet number that was seen already, or is older than the replay window.
    #[error("replayed")]
    Replayed,
    /// A field with a value outside its range.
    #[error("field out of range: {0}")]
    Range(&'static str),
}
