//! The host's identity for Moonlight: a self-signed certificate with an RSA key, which clients store when they pair.

use std::path::Path;
use std::time::{Duration, SystemTime};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use openuvr_runtime::store::{Lock, StoreError, read_text, write_whole};
use rcgen::{CertificateParams, DnType, KeyPair, PKCS_RSA_SHA256, RsaKeySize};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use time::OffsetDateTime;

use crate::hex::to_hex;
use crate::pairing::ClientCertificate;

/// Certificate and key, in the host's folder.
const FILE: &str = "moonlight.pem";

/// Validity of the certificate. Clients only compare certificates, so a new certificate would unpair all clients.
const VALID: Duration = Duration::from_hours(24 * 365 * 20);

/// Tolerated lag of clients' clocks.
const CLOCK_TOLERANCE: Duration = Duration::from_hours(24);

/// Why there is no usable identity.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The file cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file has unexpected content.
    #[error("{0}: not a certificate and its RSA key in PEM form; move the file away to start over")]
    Content(String),
    /// The library cannot create an identity.
    #[error("cannot create a certificate: {0}")]
    Create(#[from] rcgen::Error),
}

#[derive(Debug)]
pub(crate) struct Identity {
    /// The certificate in PEM form.
    pub(crate) pem: String,
    pub(crate) certificate: CertificateDer<'static>,
    /// The certificate's signature.
    pub(crate) signature: Vec<u8>,
    /// The number by which clients identify the host: a part of the certificate's hash.
    pub(crate) number: String,
    key: PrivateKeyDer<'static>,
    signing: RsaKeyPair,
}

impl Identity {
    /// Reads the identity of a folder, or creates it.
    ///
    /// # Errors
    /// [`IdentityError`] if the file cannot be used or the library fails.
    pub(crate) fn open(folder: &Path, now: SystemTime) -> Result<Identity, IdentityError> {
        let _lock = Lock::take(folder)?;
        let path = folder.join(FILE);
        let text = match read_text(&path)? {
            Some(text) => text,
            None => {
                let text = created(now)?;
                write_whole(&path, text.as_bytes())?;
                text
            }
        };
        parsed(&text).ok_or_else(|| IdentityError::Content(path.display().to_string()))
    }

    /// Its key, for TLS.
    pub(crate) fn key(&self) -> PrivateKeyDer<'static> {
        self.key.clone_key()
    }

    /// The signature of a message (RSA with PKCS #1 padding and SHA-256); `None` if the library fails.
    pub(crate) fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        let mut signature = vec![0; self.signing.public_modulus_len()];
        let random = SystemRandom::new();
        let signed = (self.signing).sign(&RSA_PKCS1_SHA256, &random, message, &mut signature);
        signed.ok()?;
        Some(signature)
    }
}

fn created(now: SystemTime) -> Result<String, rcgen::Error> {
    // Clients support no other keys.
    let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048)?;
    let mut parameters = CertificateParams::new(Vec::new())?;
    let name = "OpenUVR host for Moonlight";
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters.not_before = OffsetDateTime::from(now - CLOCK_TOLERANCE);
    parameters.not_after = OffsetDateTime::from(now + VALID);
    let certificate = parameters.self_signed(&key)?;
    Ok(certificate.pem() + &key.serialize_pem())
}

fn parsed(text: &str) -> Option<Identity> {
    let certificate = CertificateDer::from_pem_slice(text.as_bytes()).ok()?;
    let key = PrivateKeyDer::from_pem_slice(text.as_bytes()).ok()?;
    let signing = RsaKeyPair::from_pkcs8(key.secret_der()).ok()?;
    let parts = ClientCertificate::from_der(&certificate).ok()?;
    let end = text.find("-----BEGIN PRIVATE KEY-----")?;
    let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &certificate);
    Some(Identity {
        pem: text[..end].to_owned(),
        signature: parts.signature,
        number: to_hex(&hash.as_ref()[..8]),
        certificate: certificate.into_owned(),
        key: key.clone_key(),
        signing,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_created_once() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("keys");
        let first = Identity::open(&folder, SystemTime::now()).unwrap();
        let again = Identity::open(&folder, SystemTime::now()).unwrap();
        assert_eq!(first.certificate, again.certificate);
        assert!(!first.pem.contains("PRIVATE"));
        let signature = again.sign(b"a message").unwrap();
        let certificate = ClientCertificate::from_pem(first.pem.as_bytes()).unwrap();
        assert!(certificate.has_signed(b"a message", &signature));
        assert!(!certificate.has_signed(b"another", &signature));
        std::fs::write(folder.join(FILE), "nothing").unwrap();
        let why = Identity::open(&folder, SystemTime::now()).unwrap_err();
        assert!(why.to_string().contains("moonlight.pem"), "{why}");
    }
}
