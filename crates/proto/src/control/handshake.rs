//! Pairing and reconnection: who is there, and a fresh secret for this session.

use crate::id::SessionId;

/// The secret that a handshake leaves in both hands; media and control keys are derived from it,
/// it never seals anything itself.
#[derive(Clone)]
pub struct SessionSecret(pub [u8; 32]);

/// The end of a handshake.
#[derive(Clone)]
pub struct Established {
    /// The session's name in every datagram header.
    pub session: SessionId,
    /// The fresh secret.
    pub secret: SessionSecret,
    /// The peer's long-term X25519 public key.
    pub peer: PublicKey,
}

/// A long-term X25519 public key: a device's identity.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PublicKey(pub [u8; 32]);
