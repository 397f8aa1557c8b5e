//! Failures to start a server.

use std::io;

use openuvr_proto::units::Size;

/// Time for a server to report its display number, in seconds (guess: a start takes half a second on an idle machine,
/// and more than ten seconds at a load of six per core).
pub(crate) const START_SECONDS: i64 = 30;

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Xvfb can't be executed.
    #[error("can't start Xvfb: {0}; apt install xvfb")]
    NotInstalled(io::Error),
    /// Xvfb has ended, or has not printed a display number.
    #[error(
        "Xvfb ended before it opened a display of {0}: run `Xvfb -displayfd 1 -screen 0 {0}x24` to see why"
    )]
    Ended(Size),
    /// Xvfb has not reported its display number in time.
    #[error(
        "Xvfb did not start within {} s: run `Xvfb :99` to see why",
        START_SECONDS
    )]
    Timeout,
    /// The failed operation, and its error.
    #[error("{0}: {1}")]
    System(String, io::Error),
}
