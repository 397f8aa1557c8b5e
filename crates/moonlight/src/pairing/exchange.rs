//! The host's side of the five steps of pairing, without I/O (`nvpairingmanager.cpp` of moonlight-qt; `pairing.py` of
//! moonlight-python).
//!
//! ```text
//!      client                                            host
//! 1    salt, certificate                          ──►    waits for the PIN: key = SHA-256(salt, PIN), 16 bytes
//!                                                 ◄──    certificate
//! 2    E(challenge A)                             ──►
//!                                                 ◄──    E(SHA-256(A, signature of the host's certificate, secret H), challenge B)
//! 3    E(SHA-256(B, signature of the client's certificate, secret C)) ──►
//!                                                 ◄──    secret H, signed
//! 4    secret C, signed                           ──►    compares with step 3
//! 5    "pairchallenge", over HTTPS with its certificate
//! ```
//! E is AES-128 in ECB mode with the key of step 1.

use aws_lc_rs::cipher::{
    AES_128, DecryptingKey, DecryptionContext, EncryptingKey, EncryptionContext, UnboundCipherKey,
};
use aws_lc_rs::digest::{Context, SHA256};

use super::certificate::ClientCertificate;

/// Length of a challenge, of a secret and of the salt.
const SHORT: usize = 16;

/// Length of a hash.
const HASH: usize = 32;

/// Why a step was refused. The pairing is then over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ExchangeError {
    /// A step came out of order or for the second time.
    #[error("a pairing step came out of order")]
    Order,
    /// The step's bytes have the wrong length.
    #[error("a malformed pairing step")]
    Form,
    /// The client's PIN differs from the host's.
    #[error("the PIN is not the one that the client shows")]
    WrongPin,
    /// The client does not possess the key of its certificate.
    #[error("the client does not have the private key of its certificate")]
    Signature,
    /// The cryptographic library failed.
    #[error("the cryptographic library failed")]
    Library,
}

/// The host's random numbers for a pairing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HostRandom {
    /// Secret H.
    pub secret: [u8; SHORT],
    /// Challenge B.
    pub challenge: [u8; SHORT],
}

/// A pairing after its first step.
pub struct Exchange {
    key: [u8; SHORT],
    certificate: ClientCertificate,
    random: HostRandom,
    step: Step,
}

enum Step {
    Begun,
    Challenged,
    Committed([u8; HASH]),
    Over,
}

/// SHA-256 of all parts.
fn hash(parts: &[&[u8]]) -> [u8; HASH] {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(part);
    }
    let mut hash = [0; HASH];
    hash.copy_from_slice(context.finish().as_ref());
    hash
}

impl Exchange {
    /// Starts with the salt and the certificate of the client, and the PIN that the user entered.
    #[must_use]
    pub fn start(
        salt: &[u8; SHORT],
        pin: &str,
        certificate: ClientCertificate,
        random: HostRandom,
    ) -> Exchange {
        let mut key = [0; SHORT];
        key.copy_from_slice(&hash(&[salt, pin.as_bytes()])[..SHORT]);
        Exchange {
            key,
            certificate,
            random,
            step: Step::Begun,
        }
    }

    /// The client's certificate.
    #[must_use]
    pub fn certificate(&self) -> &ClientCertificate {
        &self.certificate
    }

    /// Step 2: the answer to the client's encrypted challenge. `signature` is the signature of the host's certificate.
    ///
    /// # Errors
    /// [`ExchangeError`] if the step is refused.
    pub fn challenge(
        &mut self,
        encrypted: &[u8],
        signature: &[u8],
    ) -> Result<Vec<u8>, ExchangeError> {
        let Step::Begun = std::mem::replace(&mut self.step, Step::Over) else {
            return Err(ExchangeError::Order);
        };
        let challenge: [u8; SHORT] = self.decrypted(encrypted)?;
        let proof = hash(&[&challenge, signature, &self.random.secret]);
        let mut answer = proof.to_vec();
        answer.extend(self.random.challenge);
        let key = UnboundCipherKey::new(&AES_128, &self.key);
        let key = key.and_then(EncryptingKey::ecb);
        key.and_then(|key| key.less_safe_encrypt(&mut answer, EncryptionContext::None))
            .map_err(|_| ExchangeError::Library)?;
        self.step = Step::Challenged;
        Ok(answer)
    }

    /// Step 3: takes the client's commitment and reveals the host's secret.
    ///
    /// # Errors
    /// [`ExchangeError`] if the step is refused.
    pub fn commit(&mut self, encrypted: &[u8]) -> Result<[u8; SHORT], ExchangeError> {
        let Step::Challenged = std::mem::replace(&mut self.step, Step::Over) else {
            return Err(ExchangeError::Order);
        };
        self.step = Step::Committed(self.decrypted(encrypted)?);
        Ok(self.random.secret)
    }

    /// Step 4: checks the client's secret and the signature of the secret. If both are accepted, the client has paired.
    ///
    /// # Errors
    /// [`ExchangeError`] if the step is refused.
    pub fn finish(&mut self, secret: &[u8]) -> Result<(), ExchangeError> {
        let Step::Committed(committed) = std::mem::replace(&mut self.step, Step::Over) else {
            return Err(ExchangeError::Order);
        };
        let (secret, signature) = secret.split_at_checked(SHORT).ok_or(ExchangeError::Form)?;
        let expected = hash(&[&self.random.challenge, &self.certificate.signature, secret]);
        aws_lc_rs::constant_time::verify_slices_are_equal(&committed, &expected)
            .map_err(|_| ExchangeError::WrongPin)?;
        match self.certificate.has_signed(secret, signature) {
            true => Ok(()),
            false => Err(ExchangeError::Signature),
        }
    }

    fn decrypted<const N: usize>(&self, encrypted: &[u8]) -> Result<[u8; N], ExchangeError> {
        let mut plain: [u8; N] = encrypted.try_into().map_err(|_| ExchangeError::Form)?;
        let key = UnboundCipherKey::new(&AES_128, &self.key);
        let key = key.and_then(DecryptingKey::ecb);
        key.and_then(|key| key.decrypt(&mut plain, DecryptionContext::None).map(drop))
            .map_err(|_| ExchangeError::Library)?;
        Ok(plain)
    }
}
