//! Pose prediction: extrapolates the newest pose at constant velocity. The position is extrapolated linearly, the
//! orientation along the logarithm of its quaternion.
//!
//! `openuvr bench prediction` measures the error. Times are arguments.

use std::collections::VecDeque;
use std::time::Duration;

use crate::pose::Pose;
use crate::rotation::{Rotation, Vector};
use crate::time::Instant;

/// Maximum extrapolation in seconds. Beyond it, the result is worse than no extrapolation (guess: within this time, a
/// head changes its motion).
pub const MAX_EXTRAPOLATION_S: f32 = 0.1;

/// Maximum time between two poses for a velocity estimate, in seconds.
const APART: f32 = 0.1;

/// Maximum time between the two poses of a velocity estimate. If all earlier poses are older, the newest of them is
/// used. A longer time reduces the effect of a tracker's noise, but the estimate lags by half that time (guess: at 20
/// ms, both errors are small relative to the unpredictable motion; a noise of 0.02° becomes 1.4° a second).
const BASELINE: Duration = Duration::from_millis(20);

/// Number of kept poses: those within [`BASELINE`] at 2000 a second, the maximum send rate of a client.
const KEPT: usize = 40;

/// Linear and angular velocity, in the reference space of the poses.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Velocity {
    /// Metres per second.
    pub linear: Option<Vector>,
    /// Radians per second around each axis.
    pub angular: Option<Vector>,
}

impl Velocity {
    /// The velocity that is part of a pose.
    #[must_use]
    pub fn of(pose: &Pose) -> Velocity {
        Velocity {
            linear: pose.linear_velocity(),
            angular: pose.angular_velocity(),
        }
    }

    /// This velocity, with missing parts taken from `other`.
    #[must_use]
    pub fn or(self, other: Velocity) -> Velocity {
        Velocity {
            linear: self.linear.or(other.linear),
            angular: self.angular.or(other.angular),
        }
    }

    /// The velocity from one pose to another `span` seconds later; empty if `span` is zero or too long.
    #[must_use]
    pub fn between(before: &Pose, after: &Pose, span: f32) -> Velocity {
        if !(span > 0.0 && span <= APART) {
            return Velocity::default();
        }
        let turned = Rotation::of(after).after(Rotation::of(before).inverse());
        let moved = plus(after.position(), before.position(), -1.0);
        Velocity {
            linear: Some(moved.map(|v| v / span)),
            angular: Some(turned.vector().map(|v| v / span)),
        }
    }
}

/// The newest poses of one tracker. They yield the velocity of poses that contain none.
#[derive(Clone, Debug, Default)]
pub struct PoseTrack(VecDeque<(Instant, Pose)>);

impl PoseTrack {
    /// Adds the pose at time `at` and returns its velocity, calculated from the oldest pose that is at most 20 ms
    /// older. If there is none, the velocity is calculated from the newest earlier pose. The velocity is empty for the
    /// first pose, for a pose that is not newer than the previous one, and if the earlier pose is more than 100 ms
    /// older.
    pub fn moved(&mut self, at: Instant, pose: &Pose) -> Velocity {
        if self.0.back().is_some_and(|(newest, _)| *newest >= at) {
            self.0.clear();
        }
        // Keeps one older pose, for a tracker with a low rate.
        while self.0.len() > 1 && (self.0.len() >= KEPT || at.since(self.0[0].0) > BASELINE) {
            self.0.pop_front();
        }
        let moved = self
            .0
            .front()
            .map(|(before, from)| Velocity::between(from, pose, at.since(*before).as_secs_f32()));
        self.0.push_back((at, *pose));
        moved.unwrap_or_default()
    }

    /// Resets the track, because the next pose does not continue the previous motion.
    pub fn jumped(&mut self) {
        self.0.clear();
    }
}

/// The pose, extrapolated by `later` seconds, but by at most [`MAX_EXTRAPOLATION_S`] in either direction.
#[must_use]
pub fn extrapolated(pose: &Pose, velocity: &Velocity, later: f32) -> (Vector, Rotation) {
    let later = later.clamp(-MAX_EXTRAPOLATION_S, MAX_EXTRAPOLATION_S);
    let angular = velocity.angular.unwrap_or_default().map(|v| v * later);
    let linear = velocity.linear.unwrap_or_default();
    (
        plus(pose.position(), linear, later),
        // The velocity is in the reference space, so its rotation is applied after the pose's.
        Rotation::around(angular).after(Rotation::of(pose)),
    )
}

fn plus(a: Vector, b: Vector, by: f32) -> Vector {
    [a[0] + b[0] * by, a[1] + b[1] * by, a[2] + b[2] * by]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turned(x: f32, yaw: f32) -> Pose {
        let Rotation(orientation) = Rotation::around([0.0, yaw, 0.0]);
        Pose::new([x, 1.0, 0.0], orientation).unwrap()
    }

    #[test]
    fn a_steady_motion_is_extrapolated_up_to_the_limit() {
        let (before, after) = (turned(0.0, 0.1), turned(0.01, 0.12));
        let velocity = Velocity::between(&before, &after, 0.01);
        let near = |a: f32, b: f32| (a - b).abs() < 1e-4;
        let (at, rotation) = extrapolated(&after, &velocity, 0.05);
        assert!(near(at[0], 0.06) && near(rotation.vector()[1], 0.22));
        let (at, rotation) = extrapolated(&after, &velocity, 7.0);
        assert!(near(at[0], 0.11) && near(rotation.vector()[1], 0.32));
        for span in [0.0, -0.01, 0.2, f32::NAN] {
            assert_eq!(
                Velocity::between(&before, &after, span),
                Velocity::default()
            );
        }
        let (at, rotation) = extrapolated(&after, &Velocity::default(), 0.05);
        assert!(near(at[0], 0.01) && near(rotation.vector()[1], 0.12));
    }

    #[test]
    fn noise_counts_less_the_longer_the_baseline() {
        let at = |us: i64| Instant(us * 1000);
        let mut track = PoseTrack::default();
        assert_eq!(track.moved(at(0), &turned(0.0, 0.0)), Velocity::default());
        // The tracker turns by 1 radian a second and sends 500 poses a second, with an alternating error of ±0.001
        // radians.
        let mut worst = 0.0_f32;
        for n in 1..200_i16 {
            let noise = if n % 2 == 0 { 0.001 } else { -0.001 };
            let pose = turned(0.0, f32::from(n) * 0.002 + noise);
            let velocity = track.moved(at(i64::from(n) * 2000), &pose);
            let turns = velocity.angular.expect("there is a previous pose");
            if n > 20 {
                worst = worst.max((turns[1] - 1.0).abs());
            }
            assert!(track.0.len() <= KEPT);
        }
        // An estimate from two consecutive poses would have an error as large as the velocity.
        assert!(worst < 0.11, "{worst}");
    }

    #[test]
    fn few_poses_have_a_velocity_and_a_jump_has_none() {
        let at = |ms: i64| Instant(ms * 1_000_000);
        let mut track = PoseTrack::default();
        track.moved(at(0), &turned(0.0, 0.0));
        let slow = track.moved(at(50), &turned(0.0, 0.05)).angular;
        assert!((slow.expect("one before")[1] - 1.0).abs() < 1e-3);
        // The estimate uses the pose of 10 ms ago, not the pose of 60 ms ago.
        let faster = track.moved(at(60), &turned(0.0, 0.1)).angular;
        assert!((faster.expect("one before")[1] - 5.0).abs() < 1e-2);
        assert_eq!(track.moved(at(60), &turned(0.0, 0.2)), Velocity::default());
        assert_eq!(track.moved(at(10), &turned(0.0, 0.3)), Velocity::default());
        assert_eq!(track.moved(at(500), &turned(0.0, 0.3)), Velocity::default());
        track.jumped();
        assert_eq!(track.moved(at(510), &turned(0.0, 0.4)), Velocity::default());
    }
}
