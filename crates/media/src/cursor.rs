//! The pointer as a separate stream: it moves without a frame.

use std::sync::Arc;

/// The host's pointer, to be drawn by the client.
#[derive(Clone, Debug)]
pub struct Cursor {
    /// Position of the hot spot in the picture (0–65 535 across and down, as in input events);
    /// `None` while the pointer is outside of the picture or hidden.
    pub at: Option<(u16, u16)>,
    /// The shape; shared, since it changes rarely.
    pub shape: Arc<CursorShape>,
}

/// A pointer's image.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CursorShape {
    /// Pixels per row, at most 256.
    pub width: u16,
    /// Rows, at most 256.
    pub height: u16,
    /// Hot spot from the left.
    pub hot_x: u16,
    /// Hot spot from the top.
    pub hot_y: u16,
    /// `width × height` premultiplied ARGB pixels as in XFixes.
    pub argb: Vec<u32>,
}

impl CursorShape {
    /// Whether no pixel is visible.
    #[must_use]
    pub fn is_invisible(&self) -> bool {
        self.argb.iter().all(|pixel| pixel >> 24 == 0)
    }
}
