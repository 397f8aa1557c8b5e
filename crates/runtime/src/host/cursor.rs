//! The cursor thread: the pointer moves without a frame.

use std::time::Duration;

use openuvr_media::capture::cursor::{CursorEvent, CursorWatch};
use openuvr_proto::control::negotiate::Negotiation;
use openuvr_proto::units::Size;

use super::{Notice, Shared};

/// A pointer that is warped under a window which itself selects motion is only seen when asked
/// for: ten times a second, three small requests each.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Passes the pointer's places and shapes to the sessions until the host stops.
pub(super) fn run(shared: &Shared, mut watch: CursorWatch) {
    while !shared.stopping() {
        let event = match watch.next(Some(LOOK_EVERY)) {
            Ok(event) => event,
            Err(e) => {
                shared.notice(Notice::Trouble(format!(
                    "the pointer is no longer sent: {e}"
                )));
                return;
            }
        };
        let mut sessions = shared.sessions();
        match event {
            CursorEvent::Moved(at) => sessions.cursor_moved(at),
            CursorEvent::Shaped(shape) => sessions.cursor_shape(Negotiation::CursorShape {
                size: Size::new(shape.width.into(), shape.height.into()),
                hot: (shape.hot_x, shape.hot_y),
                argb: shape.argb.clone(),
            }),
            CursorEvent::TimedOut | CursorEvent::Woken => continue,
        }
        shared.flush(&mut sessions);
    }
}
