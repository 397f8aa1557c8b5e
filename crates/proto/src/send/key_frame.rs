//! When a key frame is sent: at most as often as it helps.
//!
//! The rule of the OpenUVR paper (section IV-B): once a request is fulfilled, further ones are
//! ignored for a while, since a burst of large frames makes a bad link worse. Requests name the
//! newest frame that the client knew, so a request that left before the key frame arrived is
//! recognised and ignored however late it comes.

use std::time::Duration;

use crate::control::negotiate::Role;
use crate::id::FrameId;
use crate::time::Instant;

/// Observers' wishes are gathered into one key frame in this time, so that they can't slow the
/// player (architecture, section 1).
pub const OBSERVER_BUDGET: Duration = Duration::from_secs(2);

/// Decides when the next frame must be a key frame.
#[derive(Debug, Default)]
pub struct KeyFramePolicy {
    player_waits: bool,
    observer_waits: bool,
    last: Option<(FrameId, Instant)>,
    last_for_observers: Option<Instant>,
    every: Option<u32>,
}

impl KeyFramePolicy {
    /// A policy that makes every `frames`-th frame a key frame besides: a group of pictures of
    /// that size, as encoders without feedback have (OpenUVR paper, section IV-B3). `None`: none.
    #[must_use]
    pub fn with_one_every(frames: Option<u32>) -> KeyFramePolicy {
        KeyFramePolicy {
            every: frames,
            ..KeyFramePolicy::default()
        }
    }

    /// Whether `next` must be a key frame by its number alone.
    #[must_use]
    pub fn is_periodic(&self, next: FrameId) -> bool {
        self.every
            .zip(self.last)
            .is_some_and(|(every, (key, _))| next.0.wrapping_sub(key.0) >= every)
    }

    /// Somebody's picture is broken, and `newest` is the newest frame that they had heard of.
    pub fn request(&mut self, role: Role, newest: FrameId) {
        if self.last.is_some_and(|(key, _)| newest < key) {
            return;
        }
        self.join(role);
    }

    /// Somebody starts to watch.
    pub fn join(&mut self, role: Role) {
        match role {
            Role::Player => self.player_waits = true,
            Role::Observer => self.observer_waits = true,
        }
    }

    /// When the next key frame is due, if one is wanted; `hold_off` is how long a fulfilled
    /// request silences the next.
    #[must_use]
    pub fn due(&self, hold_off: Duration) -> Option<Instant> {
        let long_ago = Instant(i64::MIN);
        let held = self.last.map_or(long_ago, |(_, at)| at + hold_off);
        let budget = self
            .last_for_observers
            .map_or(long_ago, |at| at + OBSERVER_BUDGET);
        match (self.player_waits, self.observer_waits) {
            (true, _) => Some(held),
            (false, true) => Some(held.max(budget)),
            (false, false) => None,
        }
    }

    /// A frame could not be encoded: whatever was known is void, and a key frame is wanted at once.
    pub fn failed(&mut self) {
        self.player_waits = true;
        self.last = None;
    }

    /// A key frame was sent, whoever wanted it.
    pub fn sent(&mut self, now: Instant, frame: FrameId) {
        if self.observer_waits && !self.player_waits {
            self.last_for_observers = Some(now);
        }
        self.player_waits = false;
        self.observer_waits = false;
        self.last = Some((frame, now));
    }
}

/// How long a fulfilled request silences the next: until the key frame can have arrived and its
/// acknowledgement come back, two frame intervals more for its size, within 30–500 ms (guess).
#[must_use]
pub fn hold_off(round_trip: Duration, frame_interval: Duration) -> Duration {
    (round_trip + frame_interval * 2).clamp(Duration::from_millis(30), Duration::from_millis(500))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLD: Duration = Duration::from_millis(50);

    #[test]
    fn a_request_that_left_before_the_key_frame_arrived_is_ignored() {
        let mut policy = KeyFramePolicy::default();
        policy.request(Role::Player, FrameId(10));
        assert!(policy.due(HOLD).is_some_and(|at| at <= Instant(0)));
        policy.sent(Instant(0), FrameId(12));
        policy.request(Role::Player, FrameId(11));
        assert_eq!(policy.due(HOLD), None);
        policy.request(Role::Player, FrameId(13));
        assert_eq!(policy.due(HOLD), Some(Instant(0) + HOLD));
    }

    #[test]
    fn a_frame_that_was_not_encoded_is_made_up_for_at_once() {
        let mut policy = KeyFramePolicy::default();
        policy.join(Role::Player);
        policy.sent(Instant(0), FrameId(1));
        policy.failed();
        assert!(policy.due(HOLD).is_some_and(|at| at <= Instant(0)));
    }

    #[test]
    fn a_group_of_pictures_ends_by_its_count_or_earlier_on_request() {
        let mut policy = KeyFramePolicy::with_one_every(Some(30));
        let mut keys = Vec::new();
        policy.join(Role::Player);
        for frame in 1..=100 {
            if frame == 47 {
                policy.request(Role::Player, FrameId(46));
            }
            let now = Instant(i64::from(frame) * 20_000_000);
            let asked = policy.due(HOLD).is_some_and(|at| at <= now);
            if asked || policy.is_periodic(FrameId(frame)) {
                policy.sent(now, FrameId(frame));
                keys.push(frame);
            }
        }
        assert_eq!(keys, [1, 31, 47, 77]);
        assert!(!KeyFramePolicy::default().is_periodic(FrameId(100)));
    }

    #[test]
    fn observers_share_one_key_frame_in_two_seconds() {
        let mut policy = KeyFramePolicy::default();
        policy.join(Role::Observer);
        policy.sent(Instant(0), FrameId(1));
        policy.join(Role::Observer);
        policy.request(Role::Observer, FrameId(5));
        assert_eq!(policy.due(HOLD), Some(Instant(0) + OBSERVER_BUDGET));
        policy.join(Role::Player);
        assert_eq!(policy.due(HOLD), Some(Instant(0) + HOLD));
    }
}
