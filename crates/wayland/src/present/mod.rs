//! The client's window on a Wayland compositor: pictures in shared memory, a cursor, keyboard,
//! pointer and touch.
//!
//! [`open`] creates one window and returns its two parts: the [`WaylandPresenter`] for the media thread and the
//! [`WaylandInputSource`] for the input thread. Both parts share one connection. The input source reads the events of
//! this connection, so poll the input source continuously. No X server is needed.

mod presenter;

use crate::input_source::WaylandInputSource;
use openuvr_media::present::PresentError;
pub use openuvr_media::window::WindowConfig;
pub use presenter::WaylandPresenter;

/// Opens the window.
///
/// # Errors
/// [`PresentError`], in one line, if the compositor cannot be reached, does not answer, or lacks a protocol.
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
