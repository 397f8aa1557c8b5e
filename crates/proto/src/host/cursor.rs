//! The host's cursor state and its distribution to subscribers. Only the newest state counts.

use std::sync::Arc;

use super::Host;
use crate::control::negotiate::Negotiation;
use crate::send::update::CursorShape;
use crate::wire::control::Message;

/// The cursor, and the mouse mode of the application.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    shape: Option<Arc<CursorShape>>,
    at: Option<(u16, u16)>,
    serial: u32,
    relative_mouse: bool,
}

impl Cursor {
    pub(super) fn shape(&self) -> Option<&Arc<CursorShape>> {
        self.shape.as_ref()
    }

    pub(super) fn at(&self) -> Option<(u16, u16)> {
        self.at
    }

    pub(super) fn relative_mouse(&self) -> bool {
        self.relative_mouse
    }

    /// The position message for a session.
    pub(super) fn moved(&self) -> Message<'static> {
        Message::CursorMoved {
            serial: self.serial,
            at: self.at,
        }
    }

    /// The shape message for a session.
    pub(super) fn shaped(&self) -> Option<Negotiation> {
        let shape = self.shape.as_ref()?;
        Some(Negotiation::CursorShape {
            size: shape.size,
            hot: shape.hot,
            argb: shape.argb.clone(),
        })
    }
}

impl Host {
    /// Sets the cursor's shape.
    pub fn cursor_shape(&mut self, shape: CursorShape) {
        for session in &mut self.sessions {
            session.shape_due = true;
        }
        for other in &mut self.others {
            other.due.shape = true;
        }
        self.cursor.shape = Some(Arc::new(shape));
    }

    /// Sets the cursor's position.
    pub fn cursor_moved(&mut self, at: Option<(u16, u16)>) {
        self.cursor.serial = self.cursor.serial.wrapping_add(1);
        self.cursor.at = at;
        let message = self.cursor.moved();
        for session in self.sessions.iter_mut().filter(|s| s.is_active()) {
            session.plane.queue(&message);
        }
        for other in &mut self.others {
            other.due.moved = true;
        }
    }

    /// Sets whether mouse motion is relative; initially, it is absolute.
    pub fn relative_mouse(&mut self, wanted: bool) {
        if std::mem::replace(&mut self.cursor.relative_mouse, wanted) != wanted {
            for session in &mut self.sessions {
                session.mouse_due = true;
            }
            for other in &mut self.others {
                other.due.mouse = true;
            }
        }
    }
}
