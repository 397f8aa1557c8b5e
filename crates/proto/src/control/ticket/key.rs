//! The portal's signing key pair.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::from_text;
use crate::control::identity::{NoRandomness, random};

/// Bytes of a signature (RFC 8032, section 5.1.6).
pub const SIGNATURE: usize = 64;

/// An Ed25519 key pair that signs tickets (RFC 8032). `Debug` shows only the public half.
pub struct TicketSigner {
    seed: Zeroizing<[u8; 32]>,
    pair: Ed25519KeyPair,
}

impl TicketSigner {
    /// A new key pair from the operating system's randomness.
    ///
    /// # Errors
    /// [`NoRandomness`] if the operating system provides no random bytes.
    pub fn generate() -> Result<TicketSigner, NoRandomness> {
        let seed = Zeroizing::new(random()?);
        TicketSigner::from_seed(&seed).ok_or(NoRandomness)
    }

    /// The key pair of this seed (RFC 8032, section 5.1.5: the private key). `None` only if the cryptographic library fails.
    #[must_use]
    pub fn from_seed(seed: &[u8; 32]) -> Option<TicketSigner> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).ok()?;
        Some(TicketSigner {
            seed: Zeroizing::new(*seed),
            pair,
        })
    }

    /// The secret half, for the portal's key file only.
    #[must_use]
    pub fn seed(&self) -> Zeroizing<[u8; 32]> {
        self.seed.clone()
    }

    /// The public half, for hosts.
    #[must_use]
    pub fn public(&self) -> TicketKey {
        let mut key = [0; 32];
        key.copy_from_slice(self.pair.public_key().as_ref());
        TicketKey(key)
    }

    /// The signature over `purpose` and `body`.
    pub(super) fn sign(&self, purpose: &[u8], body: &[u8]) -> [u8; SIGNATURE] {
        let mut signature = [0; SIGNATURE];
        signature.copy_from_slice(self.pair.sign(&[purpose, body].concat()).as_ref());
        signature
    }
}

impl fmt::Debug for TicketSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TicketSigner({})", self.public())
    }
}

/// The public half of a portal's key. Its text is base64url without padding, 43 characters.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TicketKey(pub [u8; 32]);

impl TryFrom<String> for TicketKey {
    type Error = BadTicketKey;

    fn try_from(text: String) -> Result<TicketKey, BadTicketKey> {
        text.parse()
    }
}

impl From<TicketKey> for String {
    fn from(value: TicketKey) -> String {
        value.to_string()
    }
}

impl TicketKey {
    /// Verifies `signature` over `purpose` and `body`.
    pub(super) fn verifies(&self, purpose: &[u8], body: &[u8], signature: &[u8]) -> bool {
        let key = UnparsedPublicKey::new(&ED25519, &self.0);
        key.verify(&[purpose, body].concat(), signature).is_ok()
    }
}

impl fmt::Display for TicketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl FromStr for TicketKey {
    type Err = BadTicketKey;

    fn from_str(text: &str) -> Result<TicketKey, BadTicketKey> {
        let bytes = from_text(text.trim()).ok_or(BadTicketKey)?;
        bytes.try_into().map(TicketKey).map_err(|_| BadTicketKey)
    }
}

/// The text is not a portal's key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "expected a portal's key of 43 characters (letters, digits, - and _): copy it as the portal prints it"
)]
pub struct BadTicketKey;
