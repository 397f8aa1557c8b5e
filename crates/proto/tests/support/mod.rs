//! What the tests of this folder share.
#![allow(clippy::cast_possible_truncation, reason = "a test knows its numbers")]

use openuvr_proto::control::handshake::{Established, PublicKey, SessionSecret};
use openuvr_proto::id::SessionId;

/// What a handshake would leave in both hands.
pub(crate) fn established() -> Established {
    Established {
        session: SessionId(0x0a0b_0c0d),
        secret: SessionSecret(std::array::from_fn(|i| i as u8)),
        peer: PublicKey([9; 32]),
        version: 1,
    }
}
