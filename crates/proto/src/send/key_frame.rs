//! Key-frame requests and their rate limits.
//!
//! As in the OpenUVR paper (section IV-B), no requested key frame is sent for a while after a key frame, because a
//! burst of large frames makes a bad link worse. A request names the client's newest frame, so a request that was sent
//! before the key frame arrived is recognised and ignored, however late it is.

use std::time::Duration;

use crate::control::negotiate::Role;
use crate::id::FrameId;
use crate::send::intake::Intake;
use crate::time::Instant;

/// Minimum interval between key frames for observers, so that observers cannot slow the player (`ARCHITECTURE.md`,
/// "Source, rendition, subscriber").
pub const OBSERVER_BUDGET: Duration = Duration::from_secs(2);

/// Minimum interval between key frames for recorders, whose files have a gap until the key frame. It is half of the
/// observers' interval (guess), because a recorder requests a key frame only when half of its queue is free again.
pub const RECORDER_BUDGET: Duration = Duration::from_secs(1);

/// The rate limit to which a key-frame request is subject.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyFrameRequester {
    /// Limited only by the hold-off.
    Player,
    /// One key frame for all observers within [`OBSERVER_BUDGET`].
    Observer,
    /// One key frame for all recorders within [`RECORDER_BUDGET`].
    Recorder,
}

impl KeyFrameRequester {
    /// The rate limit of a subscriber.
    #[must_use]
    pub fn of(role: Role, intake: Intake) -> KeyFrameRequester {
        match (role, intake) {
            (Role::Player, _) => KeyFrameRequester::Player,
            (Role::Observer, Intake::Complete) => KeyFrameRequester::Recorder,
            (Role::Observer, Intake::Newest | Intake::Steady | Intake::Unacknowledged) => {
                KeyFrameRequester::Observer
            }
        }
    }
}

/// A rate limit shared by several subscribers.
#[derive(Clone, Copy, Debug, Default)]
struct Shared {
    waits: bool,
    last: Option<Instant>,
}

impl Shared {
    fn due(&self, budget: Duration) -> Option<Instant> {
        let spent = |at: Instant| at + budget;
        self.waits
            .then(|| self.last.map_or(Instant(i64::MIN), spent))
    }

    /// Records that a key frame was sent. `for_them` states whether it answers a request to which this limit applies.
    fn sent(&mut self, now: Instant, for_them: bool) {
        if std::mem::take(&mut self.waits) && for_them {
            self.last = Some(now);
        }
    }
}

/// Decides which frames are key frames.
#[derive(Debug, Default)]
pub struct KeyFramePolicy {
    player_waits: bool,
    observers: Shared,
    recorders: Shared,
    last: Option<(FrameId, Instant)>,
    every: Option<u32>,
}

impl KeyFramePolicy {
    /// A policy with the GOP size `frames`: in addition to requested key frames, a frame is a key frame if its number
    /// is at least `frames` higher than that of the last key frame (OpenUVR paper, section IV-B3).
    #[must_use]
    pub fn with_one_every(frames: Option<u32>) -> KeyFramePolicy {
        KeyFramePolicy {
            every: frames,
            ..KeyFramePolicy::default()
        }
    }

    /// Changes the GOP size from the next frame on; `None`: key frames only on request.
    pub fn set_one_every(&mut self, frames: Option<u32>) {
        self.every = frames;
    }

    /// Whether the GOP size makes `next` a key frame.
    #[must_use]
    pub fn is_periodic(&self, next: FrameId) -> bool {
        self.every
            .zip(self.last)
            .is_some_and(|(every, (key, _))| next.0.wrapping_sub(key.0) >= every)
    }

    /// Handles a request of a client whose picture is broken. `newest` is the newest frame known to the client.
    pub fn request(&mut self, requester: KeyFrameRequester, newest: FrameId) {
        if self.last.is_some_and(|(key, _)| newest < key) {
            return;
        }
        self.join(requester);
    }

    /// Handles a subscriber that joins.
    pub fn join(&mut self, requester: KeyFrameRequester) {
        match requester {
            KeyFrameRequester::Player => self.player_waits = true,
            KeyFrameRequester::Observer => self.observers.waits = true,
            KeyFrameRequester::Recorder => self.recorders.waits = true,
        }
    }

    /// When a requested key frame is due. `hold_off` is the time after a key frame in which no requested key frame is
    /// due.
    #[must_use]
    pub fn due(&self, hold_off: Duration) -> Option<Instant> {
        let never = Instant(i64::MIN);
        let held = self.last.map_or(never, |(_, at)| at + hold_off);
        if self.player_waits {
            return Some(held);
        }
        let observers = self.observers.due(OBSERVER_BUDGET);
        let recorders = self.recorders.due(RECORDER_BUDGET);
        let due = observers.into_iter().chain(recorders).min()?;
        Some(held.max(due))
    }

    /// Records that a frame could not be encoded, so a key frame is due at once.
    pub fn failed(&mut self) {
        self.player_waits = true;
        self.last = None;
    }

    /// Records that a key frame was sent for any reason.
    pub fn sent(&mut self, now: Instant, frame: FrameId) {
        let for_them = !std::mem::take(&mut self.player_waits);
        self.observers.sent(now, for_them);
        self.recorders.sent(now, for_them);
        self.last = Some((frame, now));
    }
}

/// The hold-off: the time until the key frame's acknowledgement can arrive, plus two frame intervals for its size, within
/// 30–500 ms (guess).
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
        policy.request(KeyFrameRequester::Player, FrameId(10));
        assert!(policy.due(HOLD).is_some_and(|at| at <= Instant(0)));
        policy.sent(Instant(0), FrameId(12));
        policy.request(KeyFrameRequester::Player, FrameId(11));
        assert_eq!(policy.due(HOLD), None);
        policy.request(KeyFrameRequester::Player, FrameId(13));
        assert_eq!(policy.due(HOLD), Some(Instant(0) + HOLD));
    }

    #[test]
    fn the_budget_of_an_unencoded_frame_is_used_at_once() {
        let mut policy = KeyFramePolicy::default();
        policy.join(KeyFrameRequester::Player);
        policy.sent(Instant(0), FrameId(1));
        policy.failed();
        assert!(policy.due(HOLD).is_some_and(|at| at <= Instant(0)));
    }

    #[test]
    fn a_group_of_pictures_ends_by_its_count_or_earlier_on_request() {
        let mut policy = KeyFramePolicy::with_one_every(Some(30));
        let mut keys = Vec::new();
        policy.join(KeyFrameRequester::Player);
        for frame in 1..=100 {
            if frame == 47 {
                policy.request(KeyFrameRequester::Player, FrameId(46));
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
        policy.join(KeyFrameRequester::Observer);
        policy.sent(Instant(0), FrameId(1));
        policy.join(KeyFrameRequester::Observer);
        policy.request(KeyFrameRequester::Observer, FrameId(5));
        assert_eq!(policy.due(HOLD), Some(Instant(0) + OBSERVER_BUDGET));
        policy.join(KeyFrameRequester::Player);
        assert_eq!(policy.due(HOLD), Some(Instant(0) + HOLD));
    }

    #[test]
    fn a_recorder_does_not_wait_for_the_observers_budget() {
        let mut policy = KeyFramePolicy::default();
        policy.join(KeyFrameRequester::Observer);
        policy.sent(Instant(0), FrameId(1));
        policy.request(KeyFrameRequester::Recorder, FrameId(5));
        assert_eq!(policy.due(HOLD), Some(Instant(0) + HOLD));
        let first = Instant(0) + HOLD;
        policy.sent(first, FrameId(6));
        // Recorders have their own limit, separate from the observers'.
        policy.request(KeyFrameRequester::Recorder, FrameId(7));
        assert_eq!(policy.due(HOLD), Some(first + RECORDER_BUDGET));
        policy.request(KeyFrameRequester::Observer, FrameId(7));
        assert_eq!(policy.due(HOLD), Some(first + RECORDER_BUDGET));
        policy.sent(first + RECORDER_BUDGET, FrameId(8));
        assert_eq!(policy.due(HOLD), None, "one key frame serves both");
    }
}
