//! State updates that the host sends to each subscriber in addition to frames.
//!
//! OpenUVR sessions receive the updates as control messages. Other subscribers receive them through
//! [`Subscriber::update`](super::subscriber::Subscriber::update). Only the newest update of each kind counts, so no
//! queue builds up for a slow subscriber.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::control::clipboard::{ClipboardDirections, ClipboardText};
use crate::control::negotiate::{MAX_CURSOR_SIDE, ObserverReason, Role};
use crate::control_event::ControlEvent;
use crate::controller::Haptic;
use crate::input::pad::{PadId, Rumble};
use crate::units::Size;
use crate::validated::Invalid;
use crate::wire::control::GoodbyeReason;

/// A changed state.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Update {
    /// The subscriber's new role, whether or not the subscriber requested it.
    Role {
        /// The role.
        role: Role,
        /// The reason why an observer is not the player.
        observer_reason: Option<ObserverReason>,
    },
    /// Whether the streamed source is visible; initially `true`.
    SourceShown(bool),
    /// Whether the application wants relative mouse motion; initially `false` (absolute motion).
    RelativeMouse(bool),
    /// The new cursor shape.
    CursorShape(Arc<CursorShape>),
    /// The cursor's horizontal and vertical position, 0–65 535 each; `None` while the cursor is outside the picture.
    CursorMoved(Option<(u16, u16)>),
    /// The newest rate-control event. Only for the player.
    ControlEvent(ControlEvent),
    /// The allowed clipboard directions between the host and the player; initially none.
    ClipboardDirections(ClipboardDirections),
    /// Run a gamepad's motors for `millis` milliseconds, unless a later update changes that. Only for the player.
    Rumble {
        /// The pad.
        pad: PadId,
        /// The strength; [`Rumble::OFF`] stops the motors.
        rumble: Rumble,
        /// 0 with [`Rumble::OFF`].
        millis: u16,
    },
    /// Start a vibration, which replaces the previous vibration. Only for the player.
    Haptic(Haptic),
    /// Text copied at the host. Only for the player.
    Clipboard(ClipboardText),
    /// The subscription has ended. No more updates follow.
    Ended(GoodbyeReason),
}

/// A cursor shape.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "ShapeFields", into = "ShapeFields")]
pub struct CursorShape {
    /// Width and height in pixels, at most [`MAX_CURSOR_SIDE`] each.
    pub size: Size,
    /// Hot spot: pixels from the left edge and from the top edge.
    pub hot: (u16, u16),
    /// Premultiplied ARGB, row by row.
    pub argb: Vec<u32>,
}

/// Width and height, hot spot, and pixels.
type ShapeFields = ((u16, u16), (u16, u16), Vec<u32>);

impl TryFrom<ShapeFields> for CursorShape {
    type Error = Invalid;

    fn try_from(((width, height), hot, argb): ShapeFields) -> Result<CursorShape, Invalid> {
        let size = Size::new(width.into(), height.into());
        let fits = size.width.max(size.height) <= MAX_CURSOR_SIDE && size.pixels() == argb.len();
        let shape = CursorShape { size, hot, argb };
        fits.then_some(shape).ok_or(Invalid("cursor shape"))
    }
}

impl From<CursorShape> for ShapeFields {
    fn from(shape: CursorShape) -> ShapeFields {
        let side = |side| u16::try_from(side).unwrap_or(u16::MAX);
        let size = (side(shape.size.width), side(shape.size.height));
        (size, shape.hot, shape.argb)
    }
}
