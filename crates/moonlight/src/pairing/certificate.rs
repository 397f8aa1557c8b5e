//! A client's certificate: self-signed, with an RSA key.

use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;

/// Maximum certificate length. Clients' certificates have about 1 KiB.
const LONGEST: usize = 8 * 1024;

/// The parts of a certificate that pairing needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientCertificate {
    /// The certificate, in DER.
    pub der: Vec<u8>,
    /// Its signature.
    pub signature: Vec<u8>,
    /// Its RSA key, in DER.
    key: Vec<u8>,
}

/// The bytes are not a certificate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not a certificate")]
pub struct InvalidCertificate;

impl ClientCertificate {
    /// Parses PEM.
    ///
    /// # Errors
    /// [`InvalidCertificate`] if the bytes are not a certificate.
    pub fn from_pem(pem: &[u8]) -> Result<ClientCertificate, InvalidCertificate> {
        if pem.len() > LONGEST {
            return Err(InvalidCertificate);
        }
        let der = CertificateDer::from_pem_slice(pem).map_err(|_| InvalidCertificate)?;
        ClientCertificate::from_der(&der)
    }

    /// Parses DER.
    ///
    /// # Errors
    /// [`InvalidCertificate`] if the bytes are not a certificate.
    pub fn from_der(der: &[u8]) -> Result<ClientCertificate, InvalidCertificate> {
        let (rest, parsed) = X509Certificate::from_der(der).map_err(|_| InvalidCertificate)?;
        // With other data appended, a certificate would have the same key but another hash.
        if !rest.is_empty() || der.len() > LONGEST {
            return Err(InvalidCertificate);
        }
        Ok(ClientCertificate {
            der: der.to_vec(),
            signature: parsed.signature_value.data.to_vec(),
            key: parsed.public_key().subject_public_key.data.to_vec(),
        })
    }

    /// Whether its key has signed `message` (RSA with PKCS #1 padding and SHA-256).
    #[must_use]
    pub fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &self.key);
        key.verify(message, signature).is_ok()
    }
}
