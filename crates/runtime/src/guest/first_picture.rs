//! Detects that a client waits for the first picture but the application has submitted none.

use std::time::Duration;

use openuvr_proto::time::Instant;

/// An application that draws submits a picture within this time, even while it loads a level (guess).
const TIMEOUT: Duration = Duration::from_secs(2);

/// The time at which a client started waiting, and whether the wait has been reported.
#[derive(Default)]
pub(super) struct FirstPictureTimer {
    since: Option<Instant>,
    reported: bool,
}

impl FirstPictureTimer {
    /// Whether the wait has exceeded the timeout. Returns `true` only once for each wait. A wait ends when the first
    /// picture arrives or no client is left.
    pub(super) fn has_expired(&mut self, now: Instant, watched: bool, pictures: u64) -> bool {
        if !watched || pictures > 0 {
            *self = FirstPictureTimer::default();
            return false;
        }
        let since = *self.since.get_or_insert(now);
        if self.reported || now.since(since) < TIMEOUT {
            return false;
        }
        self.reported = true;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_first_picture_is_reported_once() {
        let mut first_picture = FirstPictureTimer::default();
        let at = |ms: i64| Instant(ms * 1_000_000);
        assert!(!first_picture.has_expired(at(0), false, 0), "no client");
        assert!(!first_picture.has_expired(at(5000), true, 0));
        assert!(!first_picture.has_expired(at(6999), true, 0));
        assert!(first_picture.has_expired(at(7000), true, 0));
        assert!(!first_picture.has_expired(at(9000), true, 0), "once");
        assert!(!first_picture.has_expired(at(9001), false, 0), "it left");
        assert!(!first_picture.has_expired(at(20_000), true, 0));
        assert!(
            first_picture.has_expired(at(22_000), true, 0),
            "another one"
        );
        assert!(
            !first_picture.has_expired(at(30_000), true, 1),
            "there is one"
        );
    }
}
