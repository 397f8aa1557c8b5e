//! Copied data that does not come from a Wayland application.

use std::sync::Arc;

/// The display's own offer to Wayland applications.
#[derive(Clone, Debug)]
pub(crate) enum Copied {
    /// The player's text.
    Text(Arc<str>),
    /// Data of an X11 application.
    ByX11,
}
