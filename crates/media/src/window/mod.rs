//! The client's window on an X display: what its presenter and its input source share.
//!
//! The window itself ([`toplevel`]), what it shows and how it is used ([`scene`]), where a picture lies in
//! it ([`placement`]), text over the picture ([`panel`]), and how all of that is drawn ([`painter`]).
//!
//! What it is not: it neither takes pictures (that is [`present::x11`](crate::present::x11)) nor reads
//! events ([`input_source::x11`](crate::input_source::x11)).

pub(crate) mod painter;
pub(crate) mod panel;
pub(crate) mod placement;
pub(crate) mod scene;
pub(crate) mod toplevel;

use std::sync::Arc;

use openuvr_proto::input::keys::Keys;
use openuvr_proto::units::Size;

use self::scene::SharedWindow;

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

/// A window that something other than its presenter may draw on.
#[derive(Clone, Debug)]
pub struct DrawnWindow(pub(crate) Arc<SharedWindow>);

/// Why a window could not be opened, or is gone: one line.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct WindowError(pub(crate) String);
