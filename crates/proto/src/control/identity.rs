//! Device identities. An identity is a long-term X25519 key pair. Its public key has a fingerprint for users and an id
//! for the wire (`ClientId`).
//!
//! Crate `runtime` stores the keys (`identity_store`, `trust_store`). An identity key never seals media. It is used
//! only for the Diffie-Hellman steps of a handshake (`docs/protocol.md`, "Pairing and reconnection").

use std::fmt;

use aws_lc_rs::{digest, rand};
use serde::{Deserialize, Serialize};
use snow::params::DHChoice;
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::Dh;
use zeroize::{Zeroize, Zeroizing};

use crate::printable::is_printable;

/// A device's long-term key pair. Dropping it overwrites the secret. `Debug` prints only the fingerprint.
#[derive(Clone)]
pub struct Identity {
    secret: [u8; 32],
    public: PublicKey,
}

impl Identity {
    /// Generates an identity from the operating system's randomness.
    ///
    /// # Errors
    /// [`NoRandomness`] if the operating system provides no random bytes.
    pub fn generate() -> Result<Identity, NoRandomness> {
        random().map(Identity::from_bytes)
    }

    /// The identity with the secret scalar `secret`. Any 32 bytes are valid, because X25519 clamps them (RFC 7748
    /// section 5).
    #[must_use]
    pub fn from_bytes(mut secret: [u8; 32]) -> Identity {
        let mut dh = x25519();
        dh.set(&secret);
        let mut public = [0; 32];
        public.copy_from_slice(dh.pubkey());
        let identity = Identity {
            secret,
            public: PublicKey(public),
        };
        secret.zeroize();
        identity
    }

    /// The secret scalar. Use it only to write the key file.
    #[must_use]
    pub fn to_bytes(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.secret)
    }

    /// The Diffie-Hellman secret that this identity shares with the owner of `peer` (X25519, RFC 7748 section 6.1);
    /// `None` if `peer` is weak.
    pub(crate) fn agree(&self, peer: &PublicKey) -> Option<Zeroizing<[u8; 32]>> {
        let mut dh = x25519();
        dh.set(&self.secret);
        let mut shared = Zeroizing::new([0; 32]);
        dh.dh(&peer.0, &mut *shared).ok()?;
        (*shared != [0; 32]).then_some(shared)
    }

    /// The public key.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        self.public
    }
}

impl Drop for Identity {
    fn drop(&mut self) {
        self.secret.zeroize();
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.public.fingerprint())
    }
}

/// A long-term X25519 public key: a device's identity.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct PublicKey(pub [u8; 32]);

impl PublicKey {
    /// A short name that users can compare: the first 64 bits of SHA-256 over the key, as four groups of four
    /// hexadecimal digits. It only helps users to distinguish devices; trust always depends on the full key.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let hash = sha256(&[b"openuvr fingerprint", &self.0]);
        let mut text = String::with_capacity(19);
        for (index, byte) in hash[..8].iter().enumerate() {
            if index > 0 && index % 2 == 0 {
                text.push('-');
            }
            text.push_str(&format!("{byte:02x}"));
        }
        text
    }

    /// Whether the key is of small order. Every shared secret with such a key is zero (RFC 7748 section 6.1). The key
    /// proves nothing about its owner and is never trusted.
    #[must_use]
    pub fn is_weak(&self) -> bool {
        let mut dh = x25519();
        dh.set(&[0x55; 32]);
        let mut shared = [0; 32];
        dh.dh(&self.0, &mut shared).is_err() || shared == [0; 32]
    }
}

/// A client's pseudonym towards a host: a hash of its public key. The hash cannot be reversed and proves nothing. It is
/// sent in the clear, so an eavesdropper can recognise the client, as by a hardware address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ClientId(pub [u8; 16]);

impl ClientId {
    /// The id of the client that owns `key`.
    #[must_use]
    pub fn of(key: &PublicKey) -> ClientId {
        let mut id = [0; 16];
        id.copy_from_slice(&sha256(&[b"openuvr client id", &key.0])[..16]);
        ClientId(id)
    }
}

/// A device's display name on the wire: at most [`DeviceName::MAX`] bytes of UTF-8 on one line. All characters are
/// [printable](crate::printable), so the name is safe on a terminal.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct DeviceName(String);

impl From<String> for DeviceName {
    fn from(name: String) -> DeviceName {
        DeviceName::new(&name)
    }
}

impl From<DeviceName> for String {
    fn from(name: DeviceName) -> String {
        name.0
    }
}

impl DeviceName {
    /// Maximum length in bytes: one more than the longest label of a host name (RFC 1035 section 2.3.4: 63 octets).
    pub const MAX: usize = 64;

    /// Creates a name from `text`. Drops characters that are not printable, and truncates the name to
    /// [`DeviceName::MAX`] bytes.
    #[must_use]
    pub fn new(text: &str) -> DeviceName {
        let mut name = String::new();
        let printable = text.chars().filter(|c| is_printable(*c));
        for c in printable.skip_while(|c| c.is_whitespace()) {
            if name.len() + c.len_utf8() > Self::MAX {
                break;
            }
            name.push(c);
        }
        name.truncate(name.trim_end().len());
        DeviceName(name)
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The operating system provided no random bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("cannot make keys: the operating system provides no random bytes (getrandom failed)")]
pub struct NoRandomness;

/// `N` random bytes from the operating system. For values that must not be predictable, such as keys, nonces, PINs and
/// session ids. Code that needs no secret randomness gets its seeds as arguments.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], NoRandomness> {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(bytes)
}

/// SHA-256 over the concatenation of `parts`.
pub(crate) fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in parts {
        context.update(part);
    }
    let mut hash = [0; 32];
    hash.copy_from_slice(context.finish().as_ref());
    hash
}

fn x25519() -> Box<dyn Dh> {
    DefaultResolver
        .resolve_dh(&DHChoice::Curve25519)
        .expect("snow is built with its Curve25519")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_key_of_the_rfc_7748_scalar() {
        // Alice's private key in RFC 7748 section 6.1.
        let secret = [
            0x77, 0x07, 0x6d, 0x0a, 0x73, 0x18, 0xa5, 0x7d, 0x3c, 0x16, 0xc1, 0x72, 0x51, 0xb2,
            0x66, 0x45, 0xdf, 0x4c, 0x2f, 0x87, 0xeb, 0xc0, 0x99, 0x2a, 0xb1, 0x77, 0xfb, 0xa5,
            0x1d, 0xb9, 0x2c, 0x2a,
        ];
        let identity = Identity::from_bytes(secret);
        assert_eq!(identity.public().0[..4], [0x85, 0x20, 0xf0, 0x09]);
        assert_eq!(identity.public().0[28..], [0xaa, 0x9b, 0x4e, 0x6a]);
        assert_eq!(*identity.to_bytes(), secret);
    }

    #[test]
    fn debug_shows_no_secret() {
        let identity = Identity::from_bytes([0x41; 32]);
        let shown = format!("{identity:?}");
        assert_eq!(
            shown,
            format!("Identity({})", identity.public().fingerprint())
        );
        assert!(!shown.contains("41414141"));
    }

    #[test]
    fn small_order_keys_are_weak() {
        let mut one = [0; 32];
        one[0] = 1;
        assert!(PublicKey([0; 32]).is_weak());
        assert!(PublicKey(one).is_weak());
        assert!(!Identity::from_bytes([7; 32]).public().is_weak());
    }

    #[test]
    fn names_are_printed_on_one_line() {
        assert_eq!(
            DeviceName::new(" desk\n\u{1b}[2J\u{202e}top ").as_str(),
            "desk[2Jtop"
        );
        let long = DeviceName::new(&"ü".repeat(40));
        assert_eq!(long.as_str().len(), DeviceName::MAX);
    }
}
