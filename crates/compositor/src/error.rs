//! Errors of the display.

/// Why a display cannot be started, or has ended.
#[derive(Debug, thiserror::Error)]
pub enum DisplayError {
    /// The socket for applications can't be created.
    #[error("can't create the Wayland socket {path}: {why}")]
    Socket {
        /// The socket's path.
        path: String,
        /// The cause.
        why: String,
    },
    /// A resource of this process is missing, such as a thread or a descriptor.
    #[error("can't start the Wayland display: {0}")]
    Start(String),
    /// The keyboard layout is unknown.
    #[error("no keyboard layout {0:?}: install xkb-data, or correct the variables XKB_DEFAULT_*")]
    Keyboard(String),
}
