//! Where a head or hand will be: the newest pose, carried on with constant velocity, of the position in metres and
//! of the orientation along the logarithm of its quaternion.
//!
//! How far that is off is measured by `openuvr bench prediction`. A value: whoever asks says what time it is.

use crate::pose::Pose;
use crate::rotation::{Rotation, Vector};

/// A pose is carried on by at most this many seconds: further the guess is worse than standing still (guess: a
/// head changes its mind in less).
pub const FURTHEST: f32 = 0.1;

/// Two poses further apart than this say nothing of a velocity, in seconds.
const APART: f32 = 0.1;

/// How something moves, in the outer space.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Velocity {
    /// Metres a second.
    pub linear: Option<Vector>,
    /// Radians a second around each axis.
    pub angular: Option<Vector>,
}

impl Velocity {
    /// What a pose says of itself.
    #[must_use]
    pub fn of(pose: &Pose) -> Velocity {
        Velocity {
            linear: pose.linear_velocity(),
            angular: pose.angular_velocity(),
        }
    }

    /// This, or where it says nothing the other.
    #[must_use]
    pub fn or(self, other: Velocity) -> Velocity {
        Velocity {
            linear: self.linear.or(other.linear),
            angular: self.angular.or(other.angular),
        }
    }

    /// From one pose to another `span` seconds later; nothing where that is no time at all, or too long.
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

/// Where a pose is `later` seconds later, before or after it by [`FURTHEST`] at most.
#[must_use]
pub fn carried(pose: &Pose, velocity: &Velocity, later: f32) -> (Vector, Rotation) {
    let later = later.clamp(-FURTHEST, FURTHEST);
    let angular = velocity.angular.unwrap_or_default().map(|v| v * later);
    let linear = velocity.linear.unwrap_or_default();
    (
        plus(pose.position(), linear, later),
        // The velocity is given in the outer space.
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
    fn a_steady_motion_is_foretold_and_not_too_far() {
        let (before, after) = (turned(0.0, 0.1), turned(0.01, 0.12));
        let velocity = Velocity::between(&before, &after, 0.01);
        let near = |a: f32, b: f32| (a - b).abs() < 1e-4;
        let (at, rotation) = carried(&after, &velocity, 0.05);
        assert!(near(at[0], 0.06) && near(rotation.vector()[1], 0.22));
        let (at, rotation) = carried(&after, &velocity, 7.0);
        assert!(near(at[0], 0.11) && near(rotation.vector()[1], 0.32));
        for span in [0.0, -0.01, 0.2, f32::NAN] {
            assert_eq!(
                Velocity::between(&before, &after, span),
                Velocity::default()
            );
        }
        let (at, rotation) = carried(&after, &Velocity::default(), 0.05);
        assert!(near(at[0], 0.01) && near(rotation.vector()[1], 0.12));
    }
}
