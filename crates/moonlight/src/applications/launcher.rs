//! What a host offers that starts applications by itself.

use crate::session::Mode;

/// Why an application does not start.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LaunchRefused {
    /// Another one runs; its place in the list.
    #[error("another application runs")]
    Busy(usize),
    /// It failed, in one line.
    #[error("{0}")]
    Failed(String),
}

/// Starts and ends the applications of a host, one at a time. Its methods are called by threads of connections, and may
/// block for seconds.
pub trait Launcher: Send + Sync {
    /// Starts the application at this place of the list, on a display of this mode unless a player has one already. One
    /// that runs is left alone.
    ///
    /// # Errors
    /// [`LaunchRefused`]
    fn launch(&self, place: usize, mode: Mode) -> Result<(), LaunchRefused>;

    /// The place of the application that runs. Does not block.
    fn running(&self) -> Option<usize>;

    /// Ends the application that runs.
    fn quit(&self);
}
