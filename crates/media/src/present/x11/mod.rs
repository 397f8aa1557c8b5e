//! The client's window on X11: pictures by MIT-SHM, its own cursor, keyboard and pointer.
//!
//! [`open`] makes one window and returns its two halves: the [`X11Presenter`] for the media
//! thread and the [`X11InputSource`] for the input thread, each on a connection of its own.
//! The window belongs to the input source: drop the presenter first.

mod buffers;
mod painter;
pub(crate) mod placement;
mod presenter;
pub(crate) mod scene;
#[cfg(test)]
mod tests;
pub(crate) mod window;

use std::sync::Arc;

use openuvr_proto::units::Size;
use x11rb::connection::Connection;

use super::PresentError;
use crate::display;
use crate::input_source::x11::X11InputSource;
pub(crate) use painter::Painter;
pub use presenter::X11Presenter;
use scene::Stage;
use window::Window;

/// How the window is to be.
#[derive(Clone, Debug)]
pub struct WindowConfig {
    /// Which display (`:0`); `None` for the environment variable `DISPLAY`.
    pub display: Option<String>,
    /// The window's title.
    pub title: String,
    /// Its inner size at first, in pixels; best the picture's, which then is not scaled.
    pub size: Size,
    /// Whether it starts as full screen.
    pub full_screen: bool,
    /// Whether the person only watches: the host's pointer is then drawn over the picture, also
    /// while the local one is over the window.
    pub observer: bool,
    /// Whether the pointer is grabbed for relative motion as soon as the window is there.
    pub grab: bool,
}

impl Default for WindowConfig {
    fn default() -> WindowConfig {
        WindowConfig {
            display: None,
            title: "OpenUVR".to_owned(),
            size: Size::new(1280, 720),
            full_screen: false,
            observer: false,
            grab: false,
        }
    }
}

/// Opens the window.
///
/// # Errors
/// [`PresentError`] in one line if the display can't be reached or lacks MIT-SHM, RENDER or XKB,
/// or if its pixels are not 8-bit BGRX.
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
    display::check_pixels(input.setup(), &screen, &format!("display {display}"))
        .map_err(PresentError)?;
    let failed = |cause: &dyn std::fmt::Display| {
        PresentError(format!(
            "no window can be opened on display {display}: {cause}"
        ))
    };
    let window = Window::open(&input, &screen, config).map_err(|cause| failed(&cause))?;
    // The other connection refers to the window next: the server must know it by then.
    x11rb::wrapper::ConnectionExt::sync(&input).map_err(|cause| failed(&cause))?;
    let stage = Arc::new(Stage::new(
        display.clone(),
        window.id,
        &screen,
        config.size,
        config.observer,
    ));
    let presenter = X11Presenter::new(output, Arc::clone(&stage), config.size)?;
    let source = X11InputSource::new(input, window, stage, config.grab)?;
    Ok((presenter, source))
}
