//! The client's window: state shared by its presenter and its input source.
//!
//! All displays share the picture's placement ([`placement`]) and text over the picture ([`panel`]). The other
//! modules are for X displays: the window itself (`toplevel`), its contents and mode (`scene`), and the drawing
//! (`painter`). [`present::x11`](crate::present::x11) receives the pictures for such a window, and
//! [`input_source::x11`](crate::input_source::x11) its events. The crate `openuvr-wayland` has modules of the same
//! names for a Wayland compositor.

pub(crate) mod painter;
pub mod panel;
pub mod placement;
pub(crate) mod scene;
pub(crate) mod toplevel;

use std::num::NonZeroU16;
use std::sync::Arc;

use openuvr_proto::input::keys::Keys;
use openuvr_proto::units::Size;

use self::scene::SharedWindow;

/// Settings of the window.
#[derive(Clone, Debug)]
pub struct WindowConfig {
    /// The display: an X display such as `:0`, or a Wayland display such as `wayland-0` or the path of a socket.
    /// `None`: the display in the environment variable `DISPLAY` or `WAYLAND_DISPLAY`.
    pub display: Option<String>,
    /// The window's title.
    pub title: String,
    /// The initial inner size in pixels, preferably the picture's size, which avoids scaling.
    pub size: Size,
    /// Whether the window is resized with the picture, within the screen, until another program or the user resizes it.
    /// If `true`, `size` is also limited to the screen.
    pub follow: bool,
    /// Whether the window starts in full screen.
    pub full_screen: bool,
    /// Whether the user is an observer: the host's pointer is then always drawn over the picture,
    /// even with the local pointer over the window.
    pub observer: bool,
    /// Whether to grab pointer and keyboard, for relative motion and all keys, as soon as the
    /// window is visible.
    pub grab: bool,
    /// The key mode. With `None`, keys are sent as the host's application reads them
    /// ([`InputSource::follow`](crate::input_source::InputSource::follow)). In this case, [`Keys::Position`] replaces
    /// [`Keys::Symbol`] while the pointer is grabbed.
    pub keys: Option<Keys>,
    /// Whether a compositor may show a picture in the middle of a refresh, if it supports that (Wayland).
    pub tearing: bool,
    /// Whether the rows of a picture are displayed as they are decoded, instead of all at once. This is supported on
    /// X11 and on a display without a window system.
    pub slices: bool,
    /// The stream's maximum frame rate in frames per second; `None` if it is unknown. If the client sets the display's
    /// mode, it selects a suitable refresh rate.
    pub frame_rate: Option<NonZeroU16>,
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
            tearing: false,
            slices: false,
            frame_rate: None,
        }
    }
}

/// A window on which components other than its presenter may draw.
#[derive(Clone, Debug)]
pub struct DrawnWindow(pub(crate) Arc<SharedWindow>);

/// Why a window could not be opened, or why it is gone, in one line.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct WindowError(pub String);
