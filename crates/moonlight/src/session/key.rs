//! The key of a session, which the client sends with `launch` and `resume` inside TLS.

use std::fmt;

/// A session's AES-128 key. It encrypts RTSP, the control stream, video and sound, each with separate nonces or
/// initialization vectors.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionKey([u8; 16]);

impl SessionKey {
    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl From<[u8; 16]> for SessionKey {
    fn from(bytes: [u8; 16]) -> SessionKey {
        SessionKey(bytes)
    }
}

/// Hides the secret.
impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey")
    }
}
