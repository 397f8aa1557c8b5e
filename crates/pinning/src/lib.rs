//! TLS certificates pinned by their SHA-256 hash.
//!
//! A peer without a certificate authority publishes its certificate's [`CertificateHash`] through another channel. A
//! client with a [`PinnedCertificate`] as its verifier accepts only that certificate, and ignores its names and
//! validity period.
#![forbid(unsafe_code)]

use std::error::Error;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use aws_lc_rs::digest;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};

/// SHA-256 of a certificate in DER.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CertificateHash(pub [u8; 32]);

impl CertificateHash {
    /// The hash of this certificate.
    #[must_use]
    pub fn of(certificate: &CertificateDer<'_>) -> CertificateHash {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest::digest(&digest::SHA256, certificate).as_ref());
        CertificateHash(hash)
    }
}

impl fmt::Display for CertificateHash {
    /// Formats the hash as browsers and openssl(1) show it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            let colon = if index == 0 { "" } else { ":" };
            write!(f, "{colon}{byte:02X}")?;
        }
        Ok(())
    }
}

/// The text is not a SHA-256 fingerprint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InvalidFingerprint;

impl fmt::Display for InvalidFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "expected a SHA-256 fingerprint of 64 hexadecimal digits, with or without colons",
        )
    }
}

impl Error for InvalidFingerprint {}

impl FromStr for CertificateHash {
    type Err = InvalidFingerprint;

    /// Parses 64 hexadecimal digits, or the line that `openssl x509 -sha256 -fingerprint` prints. The label before the
    /// digits depends on the version of OpenSSL. Colons are ignored.
    fn from_str(text: &str) -> Result<CertificateHash, InvalidFingerprint> {
        let text = match text.split_once('=') {
            Some((name, digits)) if name.eq_ignore_ascii_case("sha256 fingerprint") => digits,
            _ => text,
        };
        let mut hash = [0; 32];
        let mut digits = text.chars().filter(|c| *c != ':').map(|c| c.to_digit(16));
        let mut digit = || {
            let digit = digits.next().flatten().ok_or(InvalidFingerprint)?;
            u8::try_from(digit).map_err(|_| InvalidFingerprint)
        };
        for byte in &mut hash {
            *byte = digit()? << 4 | digit()?;
        }
        match digits.next() {
            None => Ok(CertificateHash(hash)),
            Some(_) => Err(InvalidFingerprint),
        }
    }
}

/// A verifier that accepts only the certificate with the given hash. The handshake still proves that the peer possesses
/// the certificate's key.
#[derive(Debug)]
pub struct PinnedCertificate {
    hash: CertificateHash,
    provider: Arc<CryptoProvider>,
}

impl PinnedCertificate {
    /// A verifier of this hash.
    #[must_use]
    pub fn new(hash: CertificateHash, provider: Arc<CryptoProvider>) -> PinnedCertificate {
        PinnedCertificate { hash, provider }
    }
}

/// The configuration of a TLS 1.3 client that uses this verifier, without client authentication. Other crates may enable
/// TLS 1.2 in rustls, so the version is explicit.
///
/// # Errors
/// Returns an error if the provider does not support TLS 1.3.
pub fn client_config(
    provider: Arc<CryptoProvider>,
    verifier: Arc<dyn ServerCertVerifier>,
) -> Result<ClientConfig, rustls::Error> {
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(config)
}

impl ServerCertVerifier for PinnedCertificate {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match CertificateHash::of(certificate) == self.hash {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(rustls::Error::General("the fingerprint differs".to_owned())),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rustls::crypto::aws_lc_rs::default_provider;

    use super::*;

    #[test]
    fn a_fingerprint_is_read_as_it_is_shown() {
        let hash = CertificateHash([0xa5; 32]);
        assert_eq!(hash.to_string().parse(), Ok(hash));
        assert_eq!("a5".repeat(32).parse(), Ok(hash));
        for openssl in ["sha256 Fingerprint", "SHA256 Fingerprint"] {
            assert_eq!(format!("{openssl}={hash}").parse(), Ok(hash));
        }
        for bad in [
            String::new(),
            format!("sha1 Fingerprint={hash}"),
            "a5".repeat(31),
            "a5".repeat(33),
            "x".repeat(64),
            "a".repeat(63),
            "a".repeat(65),
            "\u{ff11}".repeat(64),
        ] {
            let parsed = bad.parse::<CertificateHash>();
            assert_eq!(parsed, Err(InvalidFingerprint), "{bad}");
        }
    }

    #[test]
    fn only_the_certificate_with_the_hash_is_accepted() {
        let certificate = CertificateDer::from(b"abc".as_slice());
        let hash = "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD";
        let hash: CertificateHash = hash.parse().expect("the example of FIPS 180-4");
        assert_eq!(CertificateHash::of(&certificate), hash);
        let verifier = PinnedCertificate::new(hash, Arc::new(default_provider()));
        let name = ServerName::try_from("localhost").expect("a name");
        let verify = |certificate: &[u8]| {
            let certificate = CertificateDer::from(certificate.to_vec());
            let now = UnixTime::now();
            verifier.verify_server_cert(&certificate, &[], &name, &[], now)
        };
        verify(b"abc").expect("the pinned one");
        let refused = verify(b"abd").expect_err("another one");
        assert!(refused.to_string().contains("the fingerprint differs"));
        assert!(!verifier.supported_verify_schemes().is_empty());
    }
}
