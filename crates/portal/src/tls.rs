//! The portal's TLS certificate. It comes from configured files, or a resolver selects it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{self, ServerConfig};
use tracing::{info, warn};

/// The ALPN protocol ID of HTTP/1.1 (RFC 7301, section 6).
const HTTP: &[u8] = b"http/1.1";

/// Interval at which the files are checked; a guess: operators load the page soon after they replace the files.
const POLL_INTERVAL: Duration = Duration::from_secs(10);

/// The certificate's files.
pub(crate) struct TlsFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// The certificate files, and the certificate from the last time when certificate and key matched.
pub(crate) struct WatchedFiles {
    files: Arc<TlsFiles>,
    shown: Arc<CurrentCertificate>,
}

/// The certificate for new connections.
#[derive(Debug)]
pub(crate) struct CurrentCertificate(Mutex<Arc<CertifiedKey>>);

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    /// A file has unexpected content.
    #[error("{}: {what}", path.display())]
    File { path: PathBuf, what: String },
    /// Certificate and key cannot be used together, for example because they do not match.
    #[error("cannot use certificate and key: {0}")]
    Unfit(#[from] rustls::Error),
}

impl TlsFiles {
    /// Reads the files.
    ///
    /// # Errors
    /// Returns a one-line error if the files are not usable. For an unusable file, the error contains its path.
    pub(crate) fn open(self) -> Result<WatchedFiles, TlsError> {
        let first = certified(&self.certificate, &self.key)?;
        Ok(WatchedFiles {
            files: Arc::new(self),
            shown: Arc::new(CurrentCertificate::new(first)),
        })
    }
}

impl WatchedFiles {
    /// The TLS configuration for connections.
    ///
    /// # Errors
    /// Returns an error if TLS cannot be set up.
    pub(crate) fn tls(&self) -> Result<Arc<ServerConfig>, TlsError> {
        shown_by(self.shown.clone(), &[])
    }

    /// Reloads changed files, for as long as the future is polled. While the files are not usable, for example between
    /// the writes of certificate and key, the previous certificate stays in use.
    pub(crate) async fn keep(self) {
        let mut last_error = String::new();
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            let files = Arc::clone(&self.files);
            // Runs in a blocking task, because file access may block.
            let read = move || certified(&files.certificate, &files.key);
            let Ok(read) = tokio::task::spawn_blocking(read).await else {
                continue;
            };
            match read {
                Ok(newest) => {
                    last_error.clear();
                    if self.shown.take(newest) {
                        info!(file = %self.files.certificate.display(), "new certificate");
                    }
                }
                Err(why) => {
                    let why = why.to_string();
                    if why != last_error {
                        warn!("cannot load the new certificate: {why}");
                    }
                    last_error = why;
                }
            }
        }
    }
}

impl CurrentCertificate {
    pub(crate) fn new(first: CertifiedKey) -> CurrentCertificate {
        CurrentCertificate(Mutex::new(Arc::new(first)))
    }

    /// Sets the certificate. Returns whether it has changed.
    pub(crate) fn take(&self, newest: CertifiedKey) -> bool {
        let mut shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = shown.cert != newest.cert;
        if is_new {
            *shown = Arc::new(newest);
        }
        is_new
    }
}

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Arc::clone(&shown))
    }
}

/// Reads a certificate chain and its key from PEM files. Both may be in the same file.
///
/// # Errors
/// Returns a one-line error if the files are not usable. For an unusable file, the error contains its path.
pub(crate) fn certified(certificate: &Path, key: &Path) -> Result<CertifiedKey, TlsError> {
    let wrong = |path: &Path, what: String| TlsError::File {
        path: path.to_owned(),
        what,
    };
    let read = |path: &Path| std::fs::read(path).map_err(|why| wrong(path, why.to_string()));
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(certificate)?).collect();
    let chain =
        chain.map_err(|e| wrong(certificate, format!("not a certificate in PEM form: {e}")))?;
    if chain.is_empty() {
        return Err(wrong(certificate, "no certificate in PEM form".to_owned()));
    }
    let private = PrivateKeyDer::from_pem_slice(&read(key)?)
        .map_err(|e| wrong(key, format!("no private key in PEM form: {e}")))?;
    Ok(CertifiedKey::from_der(chain, private, &default_provider())?)
}

/// Creates a TLS configuration. `resolver` selects the certificate. If `more` is not empty, the ALPN protocols are HTTP
/// and the protocols in `more`.
///
/// # Errors
/// Returns an error if TLS cannot be set up.
pub(crate) fn shown_by(
    resolver: Arc<dyn ResolvesServerCert>,
    more: &[&[u8]],
) -> Result<Arc<ServerConfig>, TlsError> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(resolver);
    if !more.is_empty() {
        let all = std::iter::once(&HTTP).chain(more);
        config.alpn_protocols = all.map(|protocol| protocol.to_vec()).collect();
    }
    Ok(Arc::new(config))
}
