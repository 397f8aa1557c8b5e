//! Changes the display's size while it runs (`--fit`).

use std::sync::Arc;

use openuvr_proto::units::Size;

use super::{Command, Commands};
use crate::pictures::Exchange;

/// The maximum side of a display. A picture of this size takes 67 MB, and no codec is fast enough for larger ones.
const MAX_SIDE: u32 = 4096;

/// Changes the size of a display.
pub struct DisplayResizer {
    exchange: Arc<Exchange>,
    commands: Commands,
    own: Size,
}

impl DisplayResizer {
    pub(crate) fn new(exchange: Arc<Exchange>, commands: Commands, own: Size) -> DisplayResizer {
        DisplayResizer {
            exchange,
            commands,
            own,
        }
    }

    /// Sets the display's size to `wanted`, or to the nearest possible size. Returns the new size. Applications get the
    /// new size when the compositor's thread has read it, and redraw themselves.
    pub fn set(&mut self, wanted: Size) -> Size {
        let side = |side: u32| side.clamp(1, MAX_SIDE);
        let size = Size::new(side(wanted.width), side(wanted.height));
        self.exchange.request_size(size);
        // If the command queue is full, the compositor reads the size when a later change sends this command again.
        let _ = self.commands.try_send(Command::Settings);
        size
    }

    /// Restores the size with which the display was started.
    pub fn restore(&mut self) {
        self.set(self.own);
    }
}
