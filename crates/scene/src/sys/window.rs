//! The window on either window system, and the choice between them.

use std::ffi::{CStr, c_void};

use anyhow::{Result, bail};
use openuvr_proto::units::Size;

use super::event::Event;
use super::wayland::WaylandWindow;
use super::x11::X11Window;

/// The display to open a window on.
#[derive(Clone, PartialEq, Debug)]
enum DisplayName {
    /// An X display, such as `:1`.
    X11(String),
    /// A Wayland display, such as `wayland-1`, or the path of its socket.
    Wayland(String),
}

impl DisplayName {
    /// The display that `--display` or `--wayland` names. An empty `wayland` is the option without a value, and selects
    /// `$WAYLAND_DISPLAY`. Without both options, the environment selects the display: `$DISPLAY` if it is set,
    /// otherwise `$WAYLAND_DISPLAY`.
    fn choose(
        display: Option<&str>,
        wayland: Option<&str>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<DisplayName> {
        let variable = |name| variable(name).filter(|value| !value.is_empty());
        let x11 = || variable("DISPLAY").map(DisplayName::X11);
        let session = || variable("WAYLAND_DISPLAY").map(DisplayName::Wayland);
        let found = match (display, wayland) {
            (Some(display), _) => Some(DisplayName::X11(display.to_owned())),
            (None, Some("")) => session(),
            (None, Some(socket)) => Some(DisplayName::Wayland(socket.to_owned())),
            (None, None) => x11().or_else(session),
        };
        match found {
            Some(name) => Ok(name),
            None => bail!(
                "no display is known: use --display (as in --display :0) or --wayland (as in --wayland wayland-1), or \
                 set DISPLAY or WAYLAND_DISPLAY"
            ),
        }
    }
}

/// A window with a current OpenGL context. It belongs to the thread that opened it.
pub(crate) enum Window {
    X11(Box<X11Window>),
    Wayland(Box<WaylandWindow>),
}

impl Window {
    /// Opens a window on the X display `display`, or on the Wayland display `wayland`. An empty `wayland` selects
    /// `$WAYLAND_DISPLAY`. If both are `None`, opens the window on `$DISPLAY`, or on `$WAYLAND_DISPLAY` if `$DISPLAY`
    /// is not set.
    ///
    /// # Errors
    /// Returns an error if no display is known, it can't be opened or has no OpenGL, or a library is missing.
    pub(crate) fn open(
        display: Option<&str>,
        wayland: Option<&str>,
        size: Size,
        full_screen: bool,
    ) -> Result<Window> {
        Ok(
            match DisplayName::choose(display, wayland, |name| std::env::var(name).ok())? {
                DisplayName::X11(name) => {
                    Window::X11(Box::new(X11Window::open(&name, size, full_screen)?))
                }
                DisplayName::Wayland(name) => {
                    Window::Wayland(Box::new(WaylandWindow::open(&name, size, full_screen)?))
                }
            },
        )
    }

    /// The window's size in pixels.
    pub(crate) fn size(&self) -> Size {
        match self {
            Window::X11(window) => window.size(),
            Window::Wayland(window) => window.size(),
        }
    }

    /// The events since the last call, without waiting.
    pub(crate) fn events(&mut self) -> Vec<Event> {
        match self {
            Window::X11(window) => window.events(),
            Window::Wayland(window) => window.events(),
        }
    }

    /// Shows the drawn picture. On X11, this returns when the X server has displayed the picture (if OpenGL is drawn in
    /// software, the swap itself waits for that). On Wayland, this returns when the compositor has received the
    /// picture, because applications do not wait until the compositor displays it.
    pub(crate) fn swap(&self) {
        match self {
            Window::X11(window) => window.swap(),
            Window::Wayland(window) => window.swap(),
        }
    }

    /// An OpenGL function of the current context, or null.
    pub(super) fn gl_function(&self, name: &CStr) -> *const c_void {
        match self {
            Window::X11(window) => window.gl_function(name),
            Window::Wayland(window) => window.gl_function(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_precede_the_environment_and_x11_precedes_wayland() {
        let both = |name: &str| Some(if name == "DISPLAY" { ":7" } else { "wayland-7" }.to_owned());
        let session = |name: &str| both(name).filter(|_| name == "WAYLAND_DISPLAY");
        let empty = |_: &str| Some(String::new());
        let x11 = |name: &str| Some(DisplayName::X11(name.to_owned()));
        let wayland = |name: &str| Some(DisplayName::Wayland(name.to_owned()));
        assert_eq!(DisplayName::choose(Some(":1"), None, both).ok(), x11(":1"));
        assert_eq!(
            DisplayName::choose(None, Some("/run/socket"), both).ok(),
            wayland("/run/socket")
        );
        assert_eq!(
            DisplayName::choose(None, Some(""), both).ok(),
            wayland("wayland-7")
        );
        assert_eq!(DisplayName::choose(None, None, both).ok(), x11(":7"));
        assert_eq!(
            DisplayName::choose(None, None, session).ok(),
            wayland("wayland-7")
        );
        for option in [None, Some("")] {
            let why = DisplayName::choose(None, option, empty)
                .unwrap_err()
                .to_string();
            assert!(why.starts_with("no display is known: "), "{why}");
        }
    }
}
