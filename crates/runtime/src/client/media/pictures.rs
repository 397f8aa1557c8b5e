//! Whether a host that was found sends pictures.

use std::time::Duration;

use openuvr_proto::time::Instant;

/// A host that serves pictures has sent one by then, also over a bad link (guess).
const FIRST_PICTURE: Duration = Duration::from_millis(2000);

/// What is said then.
pub(super) const NO_PICTURE: &str = "connected, but the host has sent no picture yet: its application \
                                     has not drawn one, or gives none to OpenUVR";

/// Whether a session has pictures at all.
#[derive(Default)]
pub(super) struct Pictures {
    /// When the host granted a role.
    pub(super) since: Option<Instant>,
    /// It said that there was a frame.
    pub(super) announced: bool,
    told: bool,
}

impl Pictures {
    /// Whether it is time to say that there are none: once in a session.
    pub(super) fn are_late(&mut self, now: Instant, received: bool) -> bool {
        let late = self
            .since
            .is_some_and(|since| now.since(since) >= FIRST_PICTURE);
        if !late || received || self.announced {
            return false;
        }
        !std::mem::replace(&mut self.told, true)
    }
}
