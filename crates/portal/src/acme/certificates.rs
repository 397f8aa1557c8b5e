//! Selects the certificate of a connection. If the authority opens the connection to validate a name, the certificate
//! is the response to the challenge. Otherwise, it is the newest certificate.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rcgen::{CertificateParams, CustomExtension, KeyPair};
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;

use super::AcmeError;
use crate::tls::{CurrentCertificate, TlsError};

/// The ALPN protocol of a validation (RFC 8737, section 6.2).
pub(super) const PROTOCOL: &[u8] = b"acme-tls/1";

#[derive(Debug)]
pub(super) struct Certificates {
    newest: CurrentCertificate,
    answers: Mutex<BTreeMap<String, Arc<CertifiedKey>>>,
}

impl Certificates {
    pub(super) fn new(first: CertifiedKey) -> Certificates {
        Certificates {
            newest: CurrentCertificate::new(first),
            answers: Mutex::default(),
        }
    }

    fn answers(&self) -> MutexGuard<'_, BTreeMap<String, Arc<CertifiedKey>>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn show(&self, newest: CertifiedKey) {
        self.newest.take(newest);
    }

    /// Sets the response to a challenge for this name.
    pub(super) fn answer(&self, name: String, answer: CertifiedKey) {
        self.answers().insert(name, Arc::new(answer));
    }

    pub(super) fn forget_answers(&self) {
        self.answers().clear();
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let asks = (hello.alpn()).is_some_and(|mut all| all.any(|of| of == PROTOCOL));
        match asks {
            true => self.answers().get(hello.server_name()?).cloned(),
            false => self.newest.resolve(hello),
        }
    }
}

/// The self-signed certificate that is used until the authority has issued one.
pub(super) fn own(names: &[String]) -> Result<CertifiedKey, AcmeError> {
    signed(CertificateParams::new(names.to_vec())?)
}

/// The response to a challenge for `name` with this `digest` (RFC 8737, section 3).
pub(super) fn answer_to(name: &str, digest: &[u8]) -> Result<CertifiedKey, AcmeError> {
    let mut params = CertificateParams::new([name.to_owned()])?;
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    signed(params)
}

fn signed(params: CertificateParams) -> Result<CertifiedKey, AcmeError> {
    let pair = KeyPair::generate()?;
    let made = params.self_signed(&pair)?;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(pair.serialize_der()));
    let chain = vec![made.der().clone()];
    // `CertifiedKey::from_der` is not used here: it would parse the certificate and reject the critical extension
    // acmeIdentifier.
    let key = default_provider().key_provider.load_private_key(key);
    Ok(CertifiedKey::new(chain, key.map_err(TlsError::Unfit)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_the_digest_in_an_extension_that_is_critical() {
        let answer = answer_to("play.example.org", &[7; 32]).unwrap();
        let (_, read) = x509_parser::parse_x509_certificate(&answer.cert[0]).unwrap();
        // RFC 8737, section 3: id-pe-acmeIdentifier, an octet string of 32 bytes.
        let extensions = read.extensions();
        let found = extensions
            .iter()
            .find(|of| of.oid.to_id_string() == "1.3.6.1.5.5.7.1.31");
        let found = found.unwrap();
        assert!(found.critical);
        assert_eq!(found.value, [&[4, 32][..], &[7; 32]].concat());
    }
}
