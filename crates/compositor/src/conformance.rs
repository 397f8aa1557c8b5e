//! What a conformance suite requests: windows at positions that it chooses.

use std::sync::mpsc::SyncSender;

/// A request to move a window.
pub(crate) struct WindowMove {
    /// The number of its client.
    pub(crate) client: i32,
    /// The protocol identifier of its surface.
    pub(crate) surface: u32,
    /// The new position of its upper left corner, in units of windows.
    pub(crate) at: (i32, i32),
    /// Is sent when the window is there.
    pub(crate) done: SyncSender<()>,
}
