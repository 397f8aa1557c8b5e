//! The interface of a host that starts applications itself.

use crate::session::Mode;

/// Why an application does not start.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LaunchRefused {
    /// Another application is running, at this position in the list.
    #[error("another application runs")]
    Busy(usize),
    /// The start failed, for this reason in one line.
    #[error("{0}")]
    Failed(String),
}

/// Starts and ends the applications of a host, one at a time. Its methods are called by the threads of connections and may
/// block for seconds.
pub trait Launcher: Send + Sync {
    /// Starts the application at this position in the list, on a display of this mode unless a player already has one. An
    /// application that is already running is left alone.
    ///
    /// # Errors
    /// [`LaunchRefused`] if another application is running or the start fails.
    fn launch(&self, place: usize, mode: Mode) -> Result<(), LaunchRefused>;

    /// The position of the running application. Does not block.
    fn running(&self) -> Option<usize>;

    /// Ends the running application.
    fn quit(&self);
}
