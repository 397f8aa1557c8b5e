//! The pointer moves without a frame: the cursor thread watches that of a display, and an application
//! without one says where its own is.

use std::time::Duration;

use openuvr_media::capture::cursor::{CursorEvent, CursorWatch};
use openuvr_media::cursor::CursorShape;
use openuvr_proto::send::update;
use openuvr_proto::units::Size;

use super::{HostRuntime, Notice, Shared};

/// A pointer that is warped under a window which itself selects motion is only seen when asked
/// for: ten times a second, three small requests each.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

impl HostRuntime {
    /// The application's pointer looks like `shape` now (`None`: as before) and is at this place of the
    /// picture (0–65 535 across and down; `None`: hidden). For an application that has no pointer on a
    /// display. From any thread.
    pub fn set_pointer(&self, shape: Option<&CursorShape>, at: Option<(u16, u16)>) {
        let mut sessions = self.shared.sessions();
        if let Some(shape) = shape {
            sessions.cursor_shape(on_the_wire(shape));
        }
        sessions.cursor_moved(at);
        self.shared.flush(&mut sessions);
    }

    /// The application wants to hear how far the mouse moves, or (as at first) where the pointer is.
    /// From any thread.
    pub fn set_relative_mouse(&self, wanted: bool) {
        let mut sessions = self.shared.sessions();
        sessions.relative_mouse(wanted);
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

/// Passes the pointer's places and shapes to the sessions until the host stops.
pub(super) fn run(shared: &Shared, mut watch: CursorWatch) {
    while !shared.stopping() {
        let event = match watch.next(Some(POLL_INTERVAL)) {
            Ok(event) => event,
            Err(e) => {
                shared.notice(Notice::Warning(format!(
                    "the pointer is no longer sent: {e}"
                )));
                return;
            }
        };
        let mut sessions = shared.sessions();
        match event {
            CursorEvent::Moved(at) => sessions.cursor_moved(at),
            CursorEvent::Shaped(shape) => sessions.cursor_shape(on_the_wire(&shape)),
            CursorEvent::TimedOut | CursorEvent::Woken => continue,
        }
        shared.flush(&mut sessions);
    }
}
