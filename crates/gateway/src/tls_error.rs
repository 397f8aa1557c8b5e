//! Why the page has no certificate.

use std::path::PathBuf;

use openuvr_runtime::store::StoreError;
use tokio_rustls::rustls;

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
