//! Head pose prediction: extrapolates the client's newest pose with constant velocity.

use std::time::Duration;

use openuvr_proto::motion::{self, PoseTrack, Velocity};
use openuvr_proto::pose::ReceivedPose;
use openuvr_proto::time::Instant;

use super::pose::{Pose, Vector};

/// A head without an update for this long stays at its last pose and counts as untracked (guess: even a bad link delays
/// updates less).
const STALE: Duration = Duration::from_millis(330);

/// State of the head in the player's space.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct HeadState {
    pub(crate) pose: Pose,
    /// Linear velocity in m/s, if known. `angular` is in rad/s.
    pub(crate) linear: Option<Vector>,
    pub(crate) angular: Option<Vector>,
    /// Whether the pose was measured recently.
    pub(crate) tracked: bool,
}

impl HeadState {
    /// The state before the first pose: at the origin.
    const UNKNOWN: HeadState = HeadState {
        pose: Pose::IDENTITY,
        linear: None,
        angular: None,
        tracked: false,
    };
}

/// A received pose.
#[derive(Clone, Copy)]
struct Sample {
    posed: ReceivedPose,
    /// Sampling time, on the local clock.
    at: Instant,
}

/// Tracks the head's newest poses.
#[derive(Default)]
pub(crate) struct HeadTracker {
    newest: Option<Sample>,
    /// The earlier poses.
    track: PoseTrack,
    /// The velocity that the client reports; if it reports none, the velocity derived from earlier poses.
    velocity: Velocity,
}

impl HeadTracker {
    /// Takes the newest pose. A duplicate does not change the velocity.
    pub(crate) fn update(&mut self, posed: ReceivedPose) {
        let sample = Sample {
            posed,
            // Before the clocks are synchronised, the arrival time is used.
            at: posed
                .sampled_here
                .map_or(posed.received, |mapped| mapped.at.min(posed.received)),
        };
        let before = self.newest.replace(sample).map(|before| before.posed);
        let same = before.is_some_and(|before| before.subscriber == posed.subscriber);
        if same && before.is_some_and(|before| before.id == posed.id) {
            return;
        }
        if !same {
            self.track.jumped();
        }
        let moved = self.track.moved(sample.at, &posed.pose);
        self.velocity = Velocity::of(&posed.pose).or(moved);
    }

    /// Predicts the head at `at`, from the data available at `now`.
    pub(crate) fn predict(&self, now: Instant, at: Instant) -> HeadState {
        let Some(newest) = self.newest else {
            return HeadState::UNKNOWN;
        };
        let tracked = now.since(newest.posed.received) < STALE;
        if !tracked {
            let (at, orientation) =
                motion::extrapolated(&newest.posed.pose, &Velocity::default(), 0.0);
            return HeadState {
                pose: Pose { orientation, at },
                ..HeadState::UNKNOWN
            };
        }
        let ahead = seconds(newest.at, at);
        let (at, orientation) = motion::extrapolated(&newest.posed.pose, &self.velocity, ahead);
        HeadState {
            pose: Pose { orientation, at },
            linear: self.velocity.linear,
            angular: self.velocity.angular,
            tracked,
        }
    }
}

#[allow(
    clippy::cast_precision_loss,
    reason = "the spans are far below a second"
)]
fn seconds(from: Instant, to: Instant) -> f32 {
    to.0.saturating_sub(from.0) as f32 / 1e9
}

#[cfg(test)]
mod tests {
    use openuvr_proto::id::{PoseId, SessionId, SubscriberId};
    use openuvr_proto::pose;
    use openuvr_proto::time::PeerInstant;

    use super::super::pose::Rotation;
    use super::super::pose::tests::near;
    use super::*;

    fn ms(ms: i64) -> Instant {
        Instant(ms * 1_000_000)
    }

    fn posed(id: u32, at: i64, x: f32, yaw: f32) -> ReceivedPose {
        let Rotation(orientation) = Rotation::around([0.0, yaw, 0.0]);
        ReceivedPose {
            subscriber: SubscriberId::Session(SessionId(1)),
            id: PoseId(id),
            pose: pose::Pose::new([x, 0.0, 0.0], orientation).unwrap(),
            sampled: PeerInstant(0),
            sampled_here: None,
            received: ms(at),
        }
    }

    #[test]
    fn an_unknown_head_is_at_the_origin() {
        let head = HeadTracker::default().predict(ms(5), ms(9));
        assert_eq!((head.pose, head.tracked), (Pose::IDENTITY, false));
    }

    #[test]
    fn a_steady_rotation_is_extrapolated() {
        let mut tracker = HeadTracker::default();
        // The head turns at 2 rad/s and moves at 0.5 m/s.
        for (id, at) in (1..).zip([0, 10, 20]) {
            let at_s = at as f32 / 1e3;
            tracker.update(posed(id, at, 0.5 * at_s, 2.0 * at_s));
        }
        let head = tracker.predict(ms(21), ms(60));
        assert!(near(&head.pose.orientation.vector(), &[0.0, 0.12, 0.0]));
        assert!(near(&head.pose.at, &[0.03, 0.0, 0.0]));
        assert!(head.tracked);
        // A duplicate pose does not mean that the head stands still.
        tracker.update(posed(3, 20, 0.01, 0.04));
        assert_eq!(tracker.predict(ms(21), ms(60)), head);
        // The extrapolation is limited.
        let far = tracker.predict(ms(21), ms(900));
        assert!(near(&far.pose.orientation.vector(), &[0.0, 0.24, 0.0]));
    }

    #[test]
    fn noise_of_close_poses_is_not_a_velocity() {
        let mut tracker = HeadTracker::default();
        // At rest except for noise, with two poses a frame.
        for (id, at) in (1..).zip([0, 9, 10, 19, 20]) {
            let noise = if at % 2 == 0 { 0.0005 } else { -0.0005 };
            tracker.update(posed(id, at, 0.0, noise));
        }
        let turns = tracker.predict(ms(20), ms(20)).angular.unwrap();
        assert!(turns[1].abs() < 0.051, "{turns:?}");
        // The poses of a different player start without a velocity.
        let mut other = posed(1, 21, 1.0, 0.0);
        other.subscriber = SubscriberId::Session(SessionId(2));
        tracker.update(other);
        assert_eq!(tracker.predict(ms(21), ms(30)).angular, None);
    }

    #[test]
    fn velocities_from_the_client_are_used() {
        let mut tracker = HeadTracker::default();
        let mut moving = posed(1, 0, 0.0, 0.0);
        moving.pose = moving.pose.moving(None, Some([0.0, 1.0, 0.0])).unwrap();
        tracker.update(moving);
        let head = tracker.predict(ms(1), ms(50));
        assert!(near(&head.pose.orientation.vector(), &[0.0, 0.05, 0.0]));
        assert_eq!(head.linear, None);
    }

    #[test]
    fn a_stale_head_stays_and_is_untracked() {
        let mut tracker = HeadTracker::default();
        tracker.update(posed(1, 0, 0.0, 0.0));
        tracker.update(posed(2, 10, 0.1, 0.0));
        let head = tracker.predict(ms(400), ms(420));
        assert_eq!((head.pose.at, head.tracked), ([0.1, 0.0, 0.0], false));
    }
}
