//! Detects a connected host that sends no pictures.

use std::time::Duration;

use openuvr_proto::time::Instant;

/// A working host sends a picture within this time, even over a bad link (guess).
const TIMEOUT: Duration = Duration::from_millis(2000);

/// The warning.
pub(super) const NO_PICTURE: &str = "connected, but no picture received yet: the host's application \
                                     has not drawn one, or OpenUVR does not capture it";

/// Tracks the first picture of a session.
#[derive(Default)]
pub(super) struct FirstPicture {
    /// The time at which the host granted a role.
    pub(super) since: Option<Instant>,
    /// Whether the host has announced a frame.
    pub(super) announced: bool,
    reported: bool,
}

impl FirstPicture {
    /// Whether the first picture is overdue; `true` once per session. `received` states whether data of a picture has
    /// arrived.
    pub(super) fn is_overdue(&mut self, now: Instant, received: bool) -> bool {
        let late = self.since.is_some_and(|since| now.since(since) >= TIMEOUT);
        if !late || received || self.announced {
            return false;
        }
        !std::mem::replace(&mut self.reported, true)
    }
}
