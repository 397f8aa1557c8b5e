//! The TLS certificate of the page: configured by the user, or created by the host
//! ([`certificate`](crate::certificate)).
//!
//! A browser warns about a certificate that the host created, unless the user has installed the host's authority in the
//! browser. When the browser warns, the user compares the certificate's fingerprint with the one that the host shows.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use openuvr_pinning::CertificateHash;
use openuvr_runtime::lock::lock;
use openuvr_runtime::store::read_text;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, version};

use crate::certificate::{self, PAGE, PageNames};
use crate::tls_error::TlsError;

/// Interval at which a running host checks for a new certificate (a guess: programs that renew certificates do so days
/// before expiry).
const POLL_INTERVAL: Duration = Duration::from_hours(1);

/// Source of the certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Certificate {
    /// Created by the host in this folder, and replaced when it expires soon or does not cover the names.
    Own(PathBuf),
    /// Configured by the user, as PEM.
    Files {
        /// The chain, with the page's certificate first.
        certificate: PathBuf,
        /// The key.
        key: PathBuf,
    },
}

/// The certificate for new connections.
pub(crate) struct Tls {
    certificate: Certificate,
    names: PageNames,
    current: Mutex<Current>,
}

#[derive(Clone)]
struct Current {
    config: Arc<ServerConfig>,
    /// SHA-256 of the certificate, as browsers show it.
    fingerprint: String,
}

impl Tls {
    /// Reads the certificate, or creates one for these names.
    pub(crate) fn open(
        certificate: &Certificate,
        names: PageNames,
        now: SystemTime,
    ) -> Result<Tls, TlsError> {
        Ok(Tls {
            certificate: certificate.clone(),
            current: Mutex::new(read(certificate, &names, now)?),
            names,
        })
    }

    /// The acceptor for the next connection.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(lock(&self.current).config.clone())
    }

    pub(crate) fn fingerprint(&self) -> String {
        lock(&self.current).fingerprint.clone()
    }

    /// Loads a certificate that has changed, and reissues the host's own certificate before it expires. If that fails,
    /// the current certificate stays in use.
    fn renew(&self, now: SystemTime) {
        match read(&self.certificate, &self.names, now) {
            Err(e) => tracing::warn!("cannot renew the page's certificate: {e}"),
            Ok(next) => {
                let mut current = lock(&self.current);
                if next.fingerprint != current.fingerprint {
                    tracing::info!("new certificate of the page: {}", next.fingerprint);
                    *current = next;
                }
            }
        }
    }
}

/// Renews the certificate periodically. Does not return.
pub(crate) async fn keep_renewed(tls: Arc<Tls>) {
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        let tls = tls.clone();
        // File access may block.
        let renewed = tokio::task::spawn_blocking(move || tls.renew(SystemTime::now()));
        let _ = renewed.await;
    }
}

fn read(
    certificate: &Certificate,
    names: &PageNames,
    now: SystemTime,
) -> Result<Current, TlsError> {
    let (chain, key) = match certificate {
        Certificate::Own(folder) => {
            certificate::ensure(folder, names, now)?;
            let own = folder.join(PAGE);
            (own.clone(), own)
        }
        Certificate::Files { certificate, key } => (certificate.clone(), key.clone()),
    };
    let content = |path: &Path, what: &str| TlsError::Content {
        path: path.to_owned(),
        what: what.to_owned(),
    };
    let text = |path: &Path| {
        let found = read_text(path)?;
        found.ok_or_else(|| TlsError::Missing(path.to_owned()))
    };
    let pem = text(&chain)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let certificates = certificates
        .map_err(|e| content(&chain, &format!("not a certificate in PEM form: {e}")))?;
    let Some(first) = certificates.first() else {
        return Err(content(&chain, "no certificate in PEM form"));
    };
    let fingerprint = CertificateHash::of(first).to_string();
    let private = PrivateKeyDer::from_pem_slice(text(&key)?.as_bytes())
        .map_err(|e| content(&key, &format!("no private key in PEM form: {e}")))?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(certificates, private)?;
    Ok(Current {
        config: Arc::new(config),
        fingerprint,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_host_reloads_its_certificate() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path().join("keys");
        let names = PageNames::of(([127, 0, 0, 1], 4711).into(), []);
        let now = SystemTime::now();
        let day = Duration::from_hours(24);
        let tls = Tls::open(&Certificate::Own(folder.clone()), names, now).unwrap();
        let first = tls.fingerprint();
        tls.renew(now + 300 * day);
        assert_eq!(tls.fingerprint(), first);
        tls.renew(now + 370 * day);
        let second = tls.fingerprint();
        assert_ne!(second, first);
        // An unreadable certificate changes nothing.
        std::fs::write(folder.join("web-authority.pem"), "").unwrap();
        tls.renew(now + 371 * day);
        assert_eq!(tls.fingerprint(), second);
    }
}
