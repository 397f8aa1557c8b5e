//! The client's window on a Wayland compositor: pictures in shared memory, a cursor, keyboard,
//! pointer and touch.
//!
//! [`open`] creates one window and returns its two parts: the [`WaylandPresenter`] for the media
//! thread and the [`WaylandInputSource`] for the input thread. They share one connection, whose
//! events the input source reads: poll it continuously. No X server is needed.

mod presenter;

use super::PresentError;
use crate::input_source::wayland::WaylandInputSource;
pub use crate::window::WindowConfig;
pub use presenter::WaylandPresenter;

/// Opens the window.
///
/// # Errors
/// [`PresentError`] in one line if the compositor can't be reached, does not answer, or lacks a
/// protocol.
pub fn open(config: &WindowConfig) -> Result<(WaylandPresenter, WaylandInputSource), PresentError> {
    if !config.size.is_valid() {
        return Err(PresentError(format!(
            "a window can't have {} pixels",
            config.size
        )));
    }
    let (source, surface) = WaylandInputSource::open(config)?;
    Ok((WaylandPresenter::new(surface), source))
}
