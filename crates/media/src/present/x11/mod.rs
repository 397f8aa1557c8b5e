//! The client's window on X11: pictures through MIT-SHM, a cursor, keyboard and pointer.
//!
//! [`open`] creates one window and returns its two parts: the [`X11Presenter`] for the media thread
//! and the [`X11InputSource`] for the input thread, each with its own connection. The input source
//! owns the window, so drop the presenter first.

mod presenter;
mod segments;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use x11rb::connection::Connection;

use super::PresentError;
use crate::display;
use crate::input_source::x11::X11InputSource;
pub use crate::window::WindowConfig;
use crate::window::placement;
use crate::window::scene::{AutoSize, SharedWindow};
use crate::window::toplevel::{self, Window};
pub use presenter::X11Presenter;

/// Opens the window.
///
/// # Errors
/// [`PresentError`] in one line if the size is invalid, or if the display can't be reached, lacks MIT-SHM, RENDER or
/// XKB, or can't convert BGRX pixels to its own format.
pub fn open(config: &WindowConfig) -> Result<(X11Presenter, X11InputSource), PresentError> {
    let display = config
        .display
        .clone()
        .unwrap_or_else(display::from_environment);
    if !config.size.is_valid() {
        return Err(PresentError(format!(
            "a window can't have {} pixels",
            config.size
        )));
    }
    let (input, screen) = display::connect(&display).map_err(PresentError)?;
    let (output, _) = display::connect(&display).map_err(PresentError)?;
    let screen = input
        .setup()
        .roots
        .get(screen)
        .cloned()
        .ok_or_else(|| PresentError(format!("display {display} has no screen {screen}")))?;
    let failed = |cause: &dyn std::fmt::Display| {
        PresentError(format!("can't open a window on display {display}: {cause}"))
    };
    let room = toplevel::room(&input, &screen).map_err(|cause| failed(&cause))?;
    let picture = config.size;
    let mut config = config.clone();
    if config.follow {
        config.size = placement::within(config.size, room);
    }
    let config = &config;
    let window = Window::open(&input, &screen, config).map_err(|cause| failed(&cause))?;
    // The other connection uses the window next, so the server must know the window by then.
    x11rb::wrapper::ConnectionExt::sync(&input).map_err(|cause| failed(&cause))?;
    let stage = Arc::new(SharedWindow::new(
        display.clone(),
        window.id,
        (&screen, display::stores_bgrx(input.setup(), &screen)),
        config.size,
        config.observer,
        config.follow.then(|| AutoSize {
            screen: room,
            size: config.size,
            requested: Vec::new(),
            set_by_other: None,
            full_screen: config.full_screen,
        }),
    ));
    let presenter = X11Presenter::new(output, Arc::clone(&stage), picture, config.slices)?;
    let source = X11InputSource::new(input, window, stage, config)?;
    Ok((presenter, source))
}
