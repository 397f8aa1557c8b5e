//! The clear header of every sealed datagram.
//!
//! ```text
//!  0       1       2       3       4                               8
//! ┌───────┬───────┬───────────────┬───────────────────────────────┐
//! │version│ plane │   reserved    │          session id           │
//! ├───────┴───────┴───────────────┴───────────────────────────────┤ 8
//! │                         packet number                         │
//! ├───────────────────────────────────────────────────────────────┤ 16
//! │             send time, ns of the sender's clock               │
//! └───────────────────────────────────────────────────────────────┘ 24   sealed body, 16-byte tag
//! ```
//! The low two bits of `plane` identify the plane; bit 7 is the key phase. The seal authenticates the whole header as
//! additional data. The send time serves link measurements from captures at one or both peers. A no-session reply
//! repeats the send time of the datagram that it answers. Rate control uses the reports on frames instead of the send
//! time. The reserved field is zero and ignored on receipt.

use zerocopy::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bytes::{MAX_DATAGRAM, Reject};
use crate::id::SessionId;
use crate::time::PeerInstant;

/// The version of the protocol that this build writes, and the only version that it reads. A test ties it to the bytes
/// in `vectors/`.
pub const PROTOCOL_VERSION: u8 = 1;

/// Size of [`Header`] in bytes.
pub const HEADER: usize = size_of::<Header>();

/// Size of the authentication tag after the body in bytes (AES-GCM, NIST SP 800-38D, 128 bits).
pub const TAG: usize = 16;

/// The purpose of a datagram. It determines the key that seals the datagram.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Plane {
    /// Pairing and reconnection; not sealed with a session key.
    Handshake = 0,
    /// OpenUVRCP: input, feedback, clocks, negotiation.
    Control = 1,
    /// OpenUVRDPP: video and the other media streams.
    Media = 2,
}

/// The header as it is in the datagram.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Header {
    version: u8,
    plane: u8,
    reserved: U16,
    session: U32,
    number: U64,
    sent: I64,
}

const _: () = assert!(HEADER == 24);
const PHASE: u8 = 0x80;

impl Header {
    /// The header of a datagram with the send time `sent` (nanoseconds, sender clock).
    #[must_use]
    pub fn new(plane: Plane, phase: bool, session: SessionId, number: u64, sent: i64) -> Header {
        Header {
            version: PROTOCOL_VERSION,
            plane: plane as u8 | if phase { PHASE } else { 0 },
            reserved: U16::ZERO,
            session: U32::new(session.0),
            number: U64::new(number),
            sent: I64::new(sent),
        }
    }

    /// Reads the header of a sealed datagram.
    ///
    /// # Errors
    /// [`Reject`] if the datagram has an invalid size, another protocol version, or a plane that is not sealed.
    pub fn parse(datagram: &[u8]) -> Result<(&Header, Plane), Reject> {
        if datagram.len() > MAX_DATAGRAM {
            return Err(Reject::TooLong);
        }
        if datagram.len() < HEADER + TAG {
            return Err(Reject::Truncated);
        }
        let (header, _) = Header::ref_from_prefix(datagram).map_err(|_| Reject::Truncated)?;
        if header.version != PROTOCOL_VERSION {
            return Err(Reject::Version(header.version));
        }
        let plane = match header.plane & !PHASE {
            1 => Plane::Control,
            2 => Plane::Media,
            other => return Err(Reject::Kind(other)),
        };
        Ok((header, plane))
    }

    /// The header of a captured datagram of `length` bytes on a sealed plane. The capture may also contain several
    /// datagrams that a network card segments or coalesces. `payload` is the beginning of the capture.
    #[must_use]
    pub fn from_capture(payload: &[u8], length: usize) -> Option<&Header> {
        let (header, _) = Header::ref_from_prefix(payload).ok()?;
        let is_sealed = matches!(header.plane & !PHASE, 1 | 2);
        (header.version == PROTOCOL_VERSION && is_sealed && length >= HEADER + TAG)
            .then_some(header)
    }

    /// The session id.
    #[must_use]
    pub fn session(&self) -> SessionId {
        SessionId(self.session.get())
    }

    /// The packet number. Each direction and plane counts its own packets, and a number never repeats under one key.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number.get()
    }

    /// The key phase: the low bit of the key's generation number.
    #[must_use]
    pub fn phase(&self) -> bool {
        self.plane & PHASE != 0
    }

    /// The send timestamp (sender clock).
    #[must_use]
    pub fn sent(&self) -> PeerInstant {
        PeerInstant(self.sent.get())
    }
}

/// The plane of any datagram of this protocol, before any other validation.
///
/// # Errors
/// [`Reject`] if the datagram is too short to have a plane byte, or the byte is not a plane.
pub fn plane_of(datagram: &[u8]) -> Result<Plane, Reject> {
    match datagram.get(1).ok_or(Reject::Truncated)? & !PHASE {
        0 => Ok(Plane::Handshake),
        1 => Ok(Plane::Control),
        2 => Ok(Plane::Media),
        other => Err(Reject::Kind(other)),
    }
}
