//! Sends the pointer independently of frames. Either the cursor thread watches a display's pointer, or the application
//! sets its own pointer.

use std::time::Duration;

use openuvr_media::capture::cursor::{CursorEvent, CursorWatch};
use openuvr_media::cursor::CursorShape;
use openuvr_proto::send::update;
use openuvr_proto::units::Size;

use super::{HostRuntime, Notice, Shared};

/// Polling interval. If an application warps the pointer over a window that itself selects motion events, only polling
/// detects the new position. Each poll sends three small requests.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

impl HostRuntime {
    /// Sets the shape and the position of the application's pointer, for applications without a pointer on a display.
    /// If `shape` is `None`, the shape is unchanged. `at` is the horizontal and vertical position in the picture,
    /// 0–65535 each; `None` hides the pointer. Callable from any thread.
    pub fn set_pointer(&self, shape: Option<&CursorShape>, at: Option<(u16, u16)>) {
        let mut sessions = self.shared.sessions();
        if let Some(shape) = shape {
            sessions.cursor_shape(on_the_wire(shape));
        }
        sessions.cursor_moved(at);
        self.shared.flush(&mut sessions);
    }

    /// Selects relative mouse motion or absolute positions. Absolute positions are the initial state. Callable from any
    /// thread.
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
