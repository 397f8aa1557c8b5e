//! The certificate of the page: made once and kept beside the host's key, or the person's own.
//!
//! One that a host made for itself is known to no browser: the first visit asks the person, who compares
//! the fingerprint that the host shows.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_lc_rs::digest;
use openuvr_runtime::store::{StoreError, read_text, write_whole};
use rcgen::{CertificateParams, DnType, KeyPair};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig, version};

/// Where the certificate lies that the host made, in its folder, with its key: in one file, so that two hosts
/// which start at once don't mix theirs.
const OWN: &str = "web.pem";

/// Whose certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Certificate {
    /// One that the host makes for itself, if there is none yet, in this folder.
    Own(PathBuf),
    /// The person's, as PEM.
    Files {
        /// The chain, the page's own first.
        certificate: PathBuf,
        /// The key.
        key: PathBuf,
    },
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file can't be read or written.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// There is no such file.
    #[error("{}: there is no such file", .0.display())]
    Missing(PathBuf),
    /// A file holds something else.
    #[error("{}: {what}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What it lacks.
        what: String,
    },
    /// Certificate and key don't fit.
    #[error("certificate and key can't be used: {0}")]
    Unfit(#[from] rustls::Error),
    /// No certificate could be made.
    #[error("no certificate could be made: {0}")]
    Make(#[from] rcgen::Error),
}

/// What connections are taken with.
pub(crate) struct Tls {
    pub(crate) acceptor: TlsAcceptor,
    /// SHA-256 over the certificate, as browsers show it.
    pub(crate) fingerprint: String,
}

/// Reads the certificate, or makes one.
pub(crate) fn open(certificate: &Certificate) -> Result<Tls, TlsError> {
    let (chain, key) = match certificate {
        Certificate::Own(folder) => {
            let own = own(folder)?;
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
        .map_err(|e| content(&chain, &format!("it is no certificate in PEM form: {e}")))?;
    let Some(first) = certificates.first() else {
        return Err(content(&chain, "it holds no certificate in PEM form"));
    };
    let fingerprint = fingerprint(first);
    let private = PrivateKeyDer::from_pem_slice(text(&key)?.as_bytes())
        .map_err(|e| content(&key, &format!("it holds no private key in PEM form: {e}")))?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(certificates, private)?;
    Ok(Tls {
        acceptor: TlsAcceptor::from(Arc::new(config)),
        fingerprint,
    })
}

/// The host's own certificate and key in `folder`, made at the first call.
fn own(folder: &Path) -> Result<PathBuf, TlsError> {
    let path = folder.join(OWN);
    if path.exists() {
        return Ok(path);
    }
    let pair = KeyPair::generate()?;
    let mut params = CertificateParams::new(vec!["openuvr.local".to_owned()])?;
    // Its age says nothing, since nobody but the host vouches for it.
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    params.not_after = rcgen::date_time_ymd(2099, 12, 31);
    params
        .distinguished_name
        .push(DnType::CommonName, "OpenUVR host");
    let made = params.self_signed(&pair)?;
    let both = format!("{}{}", made.pem(), pair.serialize_pem());
    write_whole(&path, both.as_bytes())?;
    Ok(path)
}

/// As browsers show it: SHA-256, pairs of digits with colons between.
fn fingerprint(certificate: &CertificateDer<'_>) -> String {
    let hash = digest::digest(&digest::SHA256, certificate);
    let pairs: Vec<String> = hash.as_ref().iter().map(|b| format!("{b:02X}")).collect();
    pairs.join(":")
}
