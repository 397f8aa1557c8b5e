//! The pointer is sent independently of frames: the cursor thread watches a display's pointer, or the
//! application sets its own.

use std::time::Duration;

use openuvr_media::capture::cursor::{CursorEvent, CursorWatch};
use openuvr_media::cursor::CursorShape;
use openuvr_proto::send::update;
use openuvr_proto::units::Size;

use super::{HostRuntime, Notice, Shared};

/// Polling interval. A pointer warped over a window that itself selects motion is only visible by polling, ten times a
/// second with three small requests each.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

impl HostRuntime {
    /// Sets the application's pointer: `shape` (`None`: unchanged) and the position in the picture (0–65 535 across and
    /// down; `None`: hidden). For applications without a pointer on a display. Callable from any thread.
    pub fn set_pointer(&self, shape: Option<&CursorShape>, at: Option<(u16, u16)>) {
        let mut sessions = self.shared.sessions();
        if let Some(shape) = shape {
            sessions.cursor_shape(on_the_wire(shape));
        }
        sessions.cursor_moved(at);
        self.shared.flush(&mut sessions);
    }

    /// Selects relative mouse motion, or absolute positions (the initial state). Callable from any thread.
    pub fn set_relative_mouse(&self, relative: bool) {
        let mut sessions = self.shared.sessions();
        sessions.relative_mouse(relative);
        self.shared.flush(&mut sessions);
    }
}

fn on_the_wire(shape: &CursorShape) -> update::CursorShape {
    update::CursorShape {
        size: Size::new(shape.width.into(), shape.height.into()),
        hot: (shape.hot_x, shape.hot_y),
        argb: shape.argb.clone(),
    }
}

/// Sends the pointer's positions and shapes to the sessions until the host stops.
pub(super) fn run(shared: &Shared, mut watch: Box<dyn CursorWatch>) {
    while !shared.stopping() {
        let event = match watch.next(Some(POLL_INTERVAL)) {
            Ok(event) => event,
            Err(e) => {
                shared.notice(Notice::Warning(format!("pointer no longer sent: {e}")));
                return;
            }
        };
        let mut sessions = shared.sessions();
        match event {
            CursorEvent::Moved(at) => sessions.cursor_moved(at),
            CursorEvent::Shaped(shape) => sessions.cursor_shape(on_the_wire(&shape)),
            CursorEvent::Locked(locked) => sessions.relative_mouse(locked),
            CursorEvent::TimedOut | CursorEvent::Woken => continue,
        }
        shared.flush(&mut sessions);
    }
}
