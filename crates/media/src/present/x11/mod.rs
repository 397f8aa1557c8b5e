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

use openuvr_proto::input::keys::Keys;
use openuvr_proto::units::Size;
use x11rb::connection::Connection;

use super::PresentError;
use crate::display;
use crate::input_source::x11::X11InputSource;
pub(crate) use painter::Painter;
pub use presenter::X11Presenter;
use scene::{Following, Stage};
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
    /// Whether the window gets each new size of the picture, as far as the screen has room, until
    /// somebody gives it another one; `size` is then cut to the screen, too.
    pub follow: bool,
    /// Whether it starts as full screen.
    pub full_screen: bool,
    /// Whether the person only watches: the host's pointer is then drawn over the picture, also
    /// while the local one is over the window.
    pub observer: bool,
    /// Whether pointer and keyboard are grabbed, for relative motion and all keys, as soon as the
    /// window is there.
    pub grab: bool,
    /// How keys are told; `None`: by position while the pointer is grabbed, else as the host's
    /// application reads them ([`InputSource::follow`](crate::input_source::InputSource::follow)).
    pub keys: Option<Keys>,
}

impl Default for WindowConfig {
    fn default() -> WindowConfig {
        WindowConfig {
            display: None,
            title: "OpenUVR".to_owned(),
            size: Size::new(1280, 720),
            follow: false,
            full_screen: false,
            observer: false,
            grab: false,
            keys: None,
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
    let room = window::room(&input, &screen).map_err(|cause| failed(&cause))?;
    let picture = config.size;
    let mut config = config.clone();
    if config.follow {
        config.size = scene::within(config.size, room);
    }
    let config = &config;
    let window = Window::open(&input, &screen, config).map_err(|cause| failed(&cause))?;
    // The other connection refers to the window next: the server must know it by then.
    x11rb::wrapper::ConnectionExt::sync(&input).map_err(|cause| failed(&cause))?;
    let stage = Arc::new(Stage::new(
        display.clone(),
        window.id,
        &screen,
        config.size,
        config.observer,
        config.follow.then(|| Following {
            screen: room,
            size: config.size,
            asked: Vec::new(),
            full_screen: config.full_screen,
        }),
    ));
    let presenter = X11Presenter::new(output, Arc::clone(&stage), picture)?;
    let source = X11InputSource::new(input, window, stage, config)?;
    Ok((presenter, source))
}
