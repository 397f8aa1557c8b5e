//! Position and angles of a head, and the pose with velocities derived from recent poses.

use openuvr_proto::motion::PoseTrack;
use openuvr_proto::pose::Pose;
use openuvr_proto::rotation::Rotation;
use openuvr_proto::time::Instant;

/// Position in metres; yaw to the left, pitch up and roll to the left shoulder, in radians.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct EulerPose {
    pub(super) at: [f32; 3],
    pub(super) yaw: f32,
    pub(super) pitch: f32,
    pub(super) roll: f32,
}

impl EulerPose {
    pub(super) fn rotation(&self) -> Rotation {
        Rotation::of_head(self.yaw, self.pitch, self.roll)
    }
}

/// Recent poses, for velocities.
#[derive(Clone, Debug, Default)]
pub(super) struct VelocityTracker(PoseTrack);

impl VelocityTracker {
    /// The pose at `place`, with velocities from earlier poses. `None` if a number is not finite.
    pub(super) fn pose(&mut self, place: EulerPose, now: Instant) -> Option<Pose> {
        let pose = Pose::new(place.at, place.rotation().0).ok()?;
        let velocity = self.0.moved(now, &pose);
        pose.moving(velocity.linear, velocity.angular).ok()
    }

    /// Discards recent poses after a discontinuity.
    pub(super) fn jumped(&mut self) {
        self.0.jumped();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_places_make_a_velocity_and_a_clock_that_jumps_none() {
        let at = |ms: i64| Instant(ms * 1_000_000);
        let place = |yaw: f32| EulerPose {
            at: [yaw, 0.0, 0.0],
            yaw,
            ..EulerPose::default()
        };
        let mut moving = VelocityTracker::default();
        let first = moving.pose(place(0.0), at(0)).expect("finite");
        assert_eq!(first.angular_velocity(), None);
        let second = moving.pose(place(0.01), at(10)).expect("finite");
        let turns = second.angular_velocity().expect("known");
        assert!((turns[1] - 1.0).abs() < 1e-3, "{turns:?}");
        let moves = second.linear_velocity().expect("known");
        assert!((moves[0] - 1.0).abs() < 1e-3, "{moves:?}");
        for jump in [at(5), at(5), at(90_000)] {
            let pose = moving.pose(place(0.02), jump).expect("finite");
            assert_eq!(pose.angular_velocity(), None, "{jump:?}");
        }
        assert_eq!(moving.pose(place(f32::NAN), at(90_010)), None);
    }
}
