//! What a host says of a session that it does not know: it was started again, or has given the client
//! up. It has no key to seal that with, so anybody can say it: a client takes it for a reason to ask,
//! never for an answer.
//!
//! ```text
//!  0         1       2      4         8      9      12       20     28
//!  | version | plane | zero | session | kind | zero | number | left |
//!  | 1       | 0     |      | u32     | 0x11 |      | u64    | i64  |
//! ```
//! Session, packet number and time of leaving are those of the datagram that it answers, which only
//! somebody on the way can know.

use super::handshake::PLANE;
use crate::wire::header::{Header, Plane};

/// Beside the kinds of the handshake.
const KIND: u8 = 0x11;

/// Bytes of it: fewer than the shortest datagram that it answers.
pub const NO_SESSION: usize = 28;

/// The answer to a control datagram of an unknown session; `None` to all others.
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

/// What [`answer_to`] wrote: the session, and when the datagram that it answers left, on its sender's
/// clock.
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
