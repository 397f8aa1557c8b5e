//! What a host tells each subscriber beside its frames: the newest state of a few things.
//!
//! An OpenUVR session hears of them in messages of its control plane; everybody else through
//! [`Subscriber::update`](super::subscriber::Subscriber::update). Of each kind only the newest counts,
//! so that one who is slow to listen makes no queue.

use std::sync::Arc;

use crate::control::clipboard::{ClipboardDirections, ClipboardText};
use crate::control::negotiate::{ObserverReason, Role};
use crate::control_event::ControlEvent;
use crate::controller::Haptic;
use crate::input::pad::{PadId, Rumble};
use crate::units::Size;
use crate::wire::control::GoodbyeReason;

/// Something that has changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Update {
    /// The subscriber has this role now, for which it did not ask.
    Role {
        /// The role.
        role: Role,
        /// Why an observer does not play.
        observer_reason: Option<ObserverReason>,
    },
    /// Whether what is streamed is to be seen at the host; at first it is.
    SourceShown(bool),
    /// The application wants to hear how far the mouse moves (`true`), or where the pointer is, as at
    /// first.
    RelativeMouse(bool),
    /// The pointer looks like this now.
    CursorShape(Arc<CursorShape>),
    /// The pointer is here: across and down, 0–65 535 each; `None` while it is outside the picture.
    CursorMoved(Option<(u16, u16)>),
    /// What the policy decided last; said to the player.
    ControlEvent(ControlEvent),
    /// Clipboard text goes these ways between the host and whoever plays; at first none.
    ClipboardDirections(ClipboardDirections),
    /// A pad's motors run like this for so many milliseconds, unless it is said again; said to the player.
    Rumble {
        /// The pad.
        pad: PadId,
        /// How hard; [`Rumble::OFF`] stops them.
        rumble: Rumble,
        /// 0 with [`Rumble::OFF`].
        millis: u16,
    },
    /// A hand feels this now, in place of what it felt; said to the player.
    Haptic(Haptic),
    /// This was copied at the host; said to the player.
    Clipboard(ClipboardText),
    /// It is over: the host stops, or has no place for it any more. Nothing follows.
    Ended(GoodbyeReason),
}

/// A pointer's picture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CursorShape {
    /// Pixels per row and rows, at most [`MAX_CURSOR_SIDE`](crate::control::negotiate::MAX_CURSOR_SIDE)
    /// each.
    pub size: Size,
    /// Hot spot from the left and top.
    pub hot: (u16, u16),
    /// Premultiplied ARGB, row by row.
    pub argb: Vec<u32>,
}
