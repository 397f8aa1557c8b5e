//! TLS with the host's certificate. A client may show any certificate. The hash of the certificate then decides on the
//! client's permissions.
//!
//! Clients' certificates are self-signed, some in forms that certificate libraries refuse. Only possession of the key
//! matters: the signature of the handshake is verified against the key of the certificate.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::NoServerSessionStorage;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, ServerConfig,
    SignatureScheme, version,
};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;

use crate::identity::Identity;

/// The TLS configuration of connections.
///
/// # Errors
/// Returns an error if the library refuses the host's key.
pub(crate) fn config(identity: &Identity) -> Result<Arc<ServerConfig>, Error> {
    let provider = Arc::new(default_provider());
    let verifier = AnyClient {
        algorithms: provider.signature_verification_algorithms,
    };
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])?
        .with_client_cert_verifier(Arc::new(verifier))
        .with_single_cert(vec![identity.certificate.clone()], identity.key())?;
    // Without stored sessions, the client proves possession of its key on each connection.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// Accepts any certificate if the client possesses its key.
#[derive(Debug)]
struct AnyClient {
    algorithms: WebPkiSupportedAlgorithms,
}

impl AnyClient {
    fn verify(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let (_, parsed) = X509Certificate::from_der(certificate)
            .map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
        let key = &parsed.public_key().subject_public_key.data;
        let of_scheme = |(scheme, _): &&(SignatureScheme, _)| *scheme == signed.scheme;
        let known = self.algorithms.mapping.iter().find(of_scheme);
        let algorithms = known.map_or(&[][..], |(_, algorithms)| algorithms);
        let verified = algorithms.iter().any(|algorithm| {
            algorithm
                .verify_signature(key, message, signed.signature())
                .is_ok()
        });
        match verified {
            true => Ok(HandshakeSignatureValid::assertion()),
            false => Err(Error::InvalidCertificate(CertificateError::BadSignature)),
        }
    }
}

impl ClientCertVerifier for AnyClient {
    /// Strangers get an answer of the protocol instead of a TLS alert.
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
