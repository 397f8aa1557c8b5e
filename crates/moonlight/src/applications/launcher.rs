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

/// Starts and ends the applications of a host, one at a time. Connection threads call its methods, which may block for
/// seconds.
pub trait Launcher: Send + Sync {
    /// Starts the application at this position in the list. The display gets this mode unless a player already has the
    /// display. An application that is already running is left alone.
    ///
    /// # Errors
    /// [`LaunchRefused`] if another application is running or the start fails.
    fn launch(&self, place: usize, mode: Mode) -> Result<(), LaunchRefused>;

    /// The position of the running application. Does not block.
    fn running(&self) -> Option<usize>;

    /// Ends the running application.
    fn quit(&self);
}
