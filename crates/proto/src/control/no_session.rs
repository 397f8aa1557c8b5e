//! The host's reply to a datagram of an unknown session. A session becomes unknown when it times out or the host
//! restarts. The host has no key for an unknown session, so the reply is not sealed, and anyone can forge it. A client
//! treats the reply as a reason to probe the session, never as proof.
//!
//! ```text
//!  0         1       2      4         8      9      12       20     28
//!  | version | plane | zero | session | kind | zero | number | sent |
//!  | 1       | 0     |      | u32     | 0x11 |      | u64    | i64  |
//! ```
//! Session, packet number and send timestamp are copied from the datagram that the reply answers. Only an on-path
//! attacker can know them.

use super::handshake::PLANE;
use crate::wire::header::{Header, Plane};

/// The kind of this message. No handshake message has this value.
const KIND: u8 = 0x11;

/// Length of the reply in bytes. It is shorter than the shortest datagram that it answers.
pub const NO_SESSION: usize = 28;

/// The reply to `datagram`, whose session the caller does not know; `None` unless it is a control datagram.
#[must_use]
pub fn answer_to(datagram: &[u8]) -> Option<[u8; NO_SESSION]> {
    let (_, plane) = Header::parse(datagram).ok()?;
    if plane != Plane::Control {
        return None;
    }
    let mut answer = [0; NO_SESSION];
    (answer[0], answer[1], answer[8]) = (1, PLANE, KIND);
    answer[4..8].copy_from_slice(&datagram[4..8]);
    answer[12..].copy_from_slice(&datagram[8..24]);
    Some(answer)
}

/// Parses a reply. Returns the session, and the send timestamp of the answered datagram (client clock).
pub(crate) fn parse(datagram: &[u8]) -> Option<(u32, i64)> {
    let datagram: &[u8; NO_SESSION] = datagram.try_into().ok()?;
    let [a, b, c, d] = [4, 5, 6, 7].map(|i| datagram[i]);
    let head = [1, PLANE, 0, 0, a, b, c, d, KIND, 0, 0, 0];
    let left = datagram
        .last_chunk()
        .map(|left| i64::from_le_bytes(*left))?;
    datagram
        .starts_with(&head)
        .then_some((u32::from_le_bytes([a, b, c, d]), left))
}
