//! HTTPS to a portal: a transport of `ureq` with configurable verification of the certificate.
//!
//! By default, the certificate is verified with the system's roots. If a fingerprint is specified, the certificate is
//! verified only by this fingerprint.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use openuvr_pinning::{CertificateHash, PinnedCertificate, client_config};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
    StreamOwned,
};
use ureq::Error;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, Transport,
    TransportAdapter,
};

/// The certificate that was rejected last, if any. Clones share it.
#[derive(Clone, Default, Debug)]
pub(super) struct LastRejection(Arc<Mutex<Option<RejectedCertificate>>>);

#[derive(Clone, Debug)]
pub(super) struct RejectedCertificate {
    pub(super) hash: CertificateHash,
    /// The reason, in the words of the verifying library.
    pub(super) why: String,
}

impl LastRejection {
    /// The certificate that was rejected last, if any.
    pub(super) fn get(&self) -> Option<RejectedCertificate> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Adds TLS to the connection of the preceding connectors.
pub(super) struct Tls {
    config: Arc<ClientConfig>,
}

impl Tls {
    /// Accepts only the certificate with this hash. Without a hash, accepts certificates that the system trusts.
    ///
    /// # Errors
    /// Returns a one-line error if the system has no trusted roots.
    pub(super) fn new(
        pinned: Option<CertificateHash>,
        rejection: &LastRejection,
    ) -> Result<Tls, String> {
        let provider = Arc::new(default_provider());
        let verifier: Arc<dyn ServerCertVerifier> = match pinned {
            Some(hash) => Arc::new(PinnedCertificate::new(hash, Arc::clone(&provider))),
            None => system_roots(&provider)?,
        };
        let verifier = RejectionRecorder {
            verifier,
            rejection: rejection.clone(),
        };
        let config = client_config(provider, Arc::new(verifier)).map_err(|e| e.to_string())?;
        Ok(Tls {
            config: Arc::new(config),
        })
    }
}

/// The verifier with the system's roots.
fn system_roots(provider: &Arc<CryptoProvider>) -> Result<Arc<WebPkiServerVerifier>, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(
            "this system has no trusted certificates: install ca-certificates, or use --portal-fingerprint"
                .to_owned(),
        );
    }
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|e| e.to_string())
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

impl<In: Transport> Connector<In> for Tls {
    type Out = Either<In, Encrypted>;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, Error> {
        let Some(transport) = chained else {
            return Ok(None);
        };
        if !details.needs_tls() || transport.is_tls() {
            return Ok(Some(Either::A(transport)));
        }
        let host = details.uri.host().unwrap_or_default();
        let bare = host.strip_prefix('[').and_then(|of| of.strip_suffix(']'));
        let name = ServerName::try_from(bare.unwrap_or(host).to_owned())
            .map_err(|_| Error::Tls("invalid server name of the portal"))?;
        let failed = |why: rustls::Error| Error::Io(io::Error::other(why));
        let mut conn = ClientConnection::new(Arc::clone(&self.config), name).map_err(failed)?;
        let mut sock = TransportAdapter::new(transport.boxed(), details.current_time.clone());
        sock.set_timeout(details.timeout);
        conn.complete_io(&mut sock)?;
        let config = details.config;
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        Ok(Some(Either::B(Encrypted {
            buffers,
            stream: StreamOwned { conn, sock },
        })))
    }
}

/// A TLS connection.
pub(super) struct Encrypted {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter>,
}

impl fmt::Debug for Encrypted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Encrypted")
    }
}

impl Transport for Encrypted {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.get_mut().set_timeout(timeout);
        self.stream.write_all(&self.buffers.output()[..amount])?;
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.get_mut().set_timeout(timeout);
        let amount = self.stream.read(self.buffers.input_append_buf())?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.get_mut().get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}

/// Records the certificates that `verifier` rejects.
#[derive(Debug)]
struct RejectionRecorder {
    verifier: Arc<dyn ServerCertVerifier>,
    rejection: LastRejection,
}

impl ServerCertVerifier for RejectionRecorder {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified = (self.verifier).verify_server_cert(certificate, between, name, ocsp, now);
        verified.inspect_err(|why| {
            let rejected = RejectedCertificate {
                hash: CertificateHash::of(certificate),
                why: why.to_string(),
            };
            let last = self.rejection.0.lock();
            *last.unwrap_or_else(PoisonError::into_inner) = Some(rejected);
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        (self.verifier).verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        (self.verifier).verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}
