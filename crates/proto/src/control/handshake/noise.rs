//! The three Noise patterns and the keys that they yield, implemented with crate `snow`.
//!
//! If a message cannot be decrypted, snow restores its hash state but not its cipher state. Therefore, the third
//! message of a pairing can be read only once, and its outer tag is checked first.

use aws_lc_rs::{hkdf, hmac};
use snow::params::NoiseParams;
use snow::{Builder, HandshakeState};
use zeroize::{Zeroize, Zeroizing};

use super::layout::{Opening, Pattern};
use super::{HandshakeError, SessionSecret, Versions};
use crate::control::identity::{Identity, PublicKey};

/// The longest Noise message in this protocol, in bytes.
const MAX_MESSAGE: usize = 512;

/// The position of the pre-shared key in `psk3`.
const PSK: usize = 3;

/// One side of a Noise handshake.
pub(super) struct Noise(Box<HandshakeState>);

/// The cleartext fields of both peers. They are bound into the handshake, so that tampering is detected.
pub(super) struct Prologue {
    pub(super) opening: Opening,
    pub(super) nonce: [u8; 16],
    pub(super) client: Versions,
    pub(super) host: Versions,
    pub(super) version: u8,
}

impl Prologue {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = b"openuvr handshake".to_vec();
        bytes.push(self.opening.pattern() as u8);
        match &self.opening {
            Opening::Pairing(spake) => bytes.extend_from_slice(spake),
            Opening::Reconnection(client) => bytes.extend_from_slice(&client.0),
            Opening::Ticket => {}
        }
        bytes.extend_from_slice(&self.nonce);
        bytes.extend_from_slice(&[self.client.min, self.client.max]);
        bytes.extend_from_slice(&[self.host.min, self.host.max, self.version]);
        bytes
    }
}

/// The keys of a finished handshake.
pub(super) struct Keys {
    pub(super) secret: SessionSecret,
    pub(super) confirm: Zeroizing<[u8; 32]>,
}

impl Noise {
    /// Creates the client's side. `peer` is the host's key; `None` only at pairing.
    pub(super) fn client(
        identity: &Identity,
        peer: Option<&PublicKey>,
        prologue: &Prologue,
    ) -> Result<Noise, HandshakeError> {
        Self::new(identity, peer, prologue, |builder| {
            builder.build_initiator()
        })
    }

    /// Creates the host's side. `peer` is the client's key; `None` except at reconnection.
    pub(super) fn host(
        identity: &Identity,
        peer: Option<&PublicKey>,
        prologue: &Prologue,
    ) -> Result<Noise, HandshakeError> {
        Self::new(identity, peer, prologue, |builder| {
            builder.build_responder()
        })
    }

    fn new(
        identity: &Identity,
        peer: Option<&PublicKey>,
        prologue: &Prologue,
        build: impl FnOnce(Builder<'_>) -> Result<HandshakeState, snow::Error>,
    ) -> Result<Noise, HandshakeError> {
        let name = match prologue.opening.pattern() {
            Pattern::Pairing => "Noise_XXpsk3_25519_ChaChaPoly_BLAKE2s",
            Pattern::Reconnection => "Noise_KK_25519_ChaChaPoly_BLAKE2s",
            Pattern::Ticket => "Noise_IK_25519_ChaChaPoly_BLAKE2s",
        };
        let start = || {
            let params: NoiseParams = name.parse()?;
            let (secret, prologue) = (identity.to_bytes(), prologue.bytes());
            let mut builder = Builder::new(params)
                .local_private_key(&*secret)?
                .prologue(&prologue)?;
            if let Some(peer) = peer {
                builder = builder.remote_public_key(&peer.0)?;
            }
            build(builder)
        };
        start()
            .map(|state| Noise(Box::new(state)))
            .map_err(|_| HandshakeError::Crypto)
    }

    /// Sets the pre-shared key of XXpsk3. This may happen at any time before the third message.
    pub(super) fn set_psk(&mut self, key: &[u8]) -> Result<(), HandshakeError> {
        self.0.set_psk(PSK, key).map_err(|_| HandshakeError::Crypto)
    }

    /// The next message, with `payload` in it.
    pub(super) fn write(&mut self, payload: &[u8]) -> Result<Vec<u8>, HandshakeError> {
        let mut message = vec![0; MAX_MESSAGE];
        let length = self
            .0
            .write_message(payload, &mut message)
            .map_err(|_| HandshakeError::Crypto)?;
        message.truncate(length);
        Ok(message)
    }

    /// Reads the peer's next message and returns its payload; `None` if the message is not authentic.
    pub(super) fn read(&mut self, message: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let mut payload = Zeroizing::new(vec![0; MAX_MESSAGE]);
        let length = self.0.read_message(message, &mut payload).ok()?;
        payload.truncate(length);
        Some(payload)
    }

    /// The peer's identity key. `None` if no message with the key has been read, or if the key is weak.
    pub(super) fn peer(&self) -> Option<PublicKey> {
        let key = PublicKey(self.0.get_remote_static()?.try_into().ok()?);
        (!key.is_weak()).then_some(key)
    }

    /// The keys of a finished handshake: HKDF-SHA256 over both of Noise's split keys, salted with the handshake hash.
    /// The secret therefore depends on every exchanged byte.
    pub(super) fn keys(mut self) -> Result<Keys, HandshakeError> {
        if !self.0.is_handshake_finished() {
            return Err(HandshakeError::Crypto);
        }
        let (mut first, mut second) = self.0.dangerously_get_raw_split();
        let split = Zeroizing::new([first, second].concat());
        first.zeroize();
        second.zeroize();
        let prk = hkdf::Salt::new(hkdf::HKDF_SHA256, self.0.get_handshake_hash()).extract(&split);
        let expand = |info: &[u8]| -> Result<[u8; 32], HandshakeError> {
            let mut key = [0; 32];
            prk.expand(&[info], hkdf::HKDF_SHA256)
                .and_then(|okm| okm.fill(&mut key))
                .map_err(|_| HandshakeError::Crypto)?;
            Ok(key)
        };
        Ok(Keys {
            secret: SessionSecret(expand(b"openuvr session secret")?),
            confirm: Zeroizing::new(expand(b"openuvr confirm")?),
        })
    }
}

/// The key for the tag of a reconnection's Begin. With the tag, a host rejects strangers at the cost of one HMAC. The
/// tag proves possession of the client's key; the handshake proves liveness.
pub(super) fn begin_key(identity: &Identity, peer: &PublicKey) -> Option<Zeroizing<[u8; 32]>> {
    let shared = identity.agree(peer)?;
    let mut key = Zeroizing::new([0; 32]);
    key.copy_from_slice(hmac::sign(&mac_key(&shared), b"openuvr begin").as_ref());
    Some(key)
}

/// The key for the tag of a Begin with a ticket. Hosts do not reveal their public key to strangers, and a sender that
/// does not know the key costs the host only two HMACs, one of them for this key (compare `mac1` of WireGuard).
pub(super) fn ticket_begin_key(host: &PublicKey) -> [u8; 32] {
    let mut key = [0; 32];
    key.copy_from_slice(hmac::sign(&mac_key(&host.0), b"openuvr ticket begin").as_ref());
    key
}

/// HMAC-SHA256 over a message without its last 32 bytes, which hold the tag.
pub(super) fn tag(key: &[u8; 32], message: &[u8]) -> [u8; 32] {
    let body = &message[..message.len().saturating_sub(32)];
    let mut tag = [0; 32];
    tag.copy_from_slice(hmac::sign(&mac_key(key), body).as_ref());
    tag
}

/// Verifies the tag in the last 32 bytes of `message` in constant time.
pub(super) fn is_tagged(key: &[u8; 32], message: &[u8]) -> bool {
    message
        .split_last_chunk::<32>()
        .is_some_and(|(body, tag)| hmac::verify(&mac_key(key), body, tag).is_ok())
}

fn mac_key(key: &[u8; 32]) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, key)
}
