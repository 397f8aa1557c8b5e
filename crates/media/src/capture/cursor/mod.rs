//! The pointer as a separate stream: position and shape. There is one implementation per window system.

mod hidden_pointer;
pub mod position;
pub mod x11;

use std::sync::Arc;
use std::time::Duration;

use super::{CaptureError, Waker};
use crate::cursor::{Cursor, CursorShape};

/// Result of [`CursorWatch::next`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CursorEvent {
    /// A new position in the picture (0–65 535 across and down); `None` if the pointer is outside of the picture or not
    /// visible.
    Moved(Option<(u16, u16)>),
    /// A new shape.
    Shaped(Arc<CursorShape>),
    /// Whether an application has locked the pointer in place, and reads only relative motion.
    Locked(bool),
    /// The timeout expired.
    TimedOut,
    /// A [`Waker`] was raised.
    Woken,
}

/// Watches the pointer of a display over its own connection. One thread owns it.
pub trait CursorWatch: Send {
    /// The pointer as of the last call of [`CursorWatch::next`].
    fn cursor(&self) -> &Cursor;

    /// A handle with which another thread makes [`CursorWatch::next`] return
    /// [`CursorEvent::Woken`].
    fn waker(&self) -> Waker;

    /// Waits for the next change, at most `timeout` (`None`: no limit). Pending motion events are merged into one
    /// change. The first calls return the current shape and position.
    ///
    /// # Errors
    /// [`CaptureError`] if the connection is broken.
    fn next(&mut self, timeout: Option<Duration>) -> Result<CursorEvent, CaptureError>;
}
