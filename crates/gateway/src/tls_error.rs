//! Errors of the page's certificate.

use std::path::PathBuf;

use openuvr_runtime::store::StoreError;
use tokio_rustls::rustls;

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read or written.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The file does not exist.
    #[error("{}: no such file", .0.display())]
    Missing(PathBuf),
    /// A file has unexpected content.
    #[error("{}: {what}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The problem.
        what: String,
    },
    /// Certificate and key do not match.
    #[error("cannot use certificate and key: {0}")]
    Unfit(#[from] rustls::Error),
    /// Creating a certificate failed.
    #[error("cannot create a certificate: {0}")]
    Make(#[from] rcgen::Error),
}
