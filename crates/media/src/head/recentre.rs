//! A head's pose relative to the direction that its user has chosen as straight ahead.
//!
//! A sensor's yaw drifts, so the user looks ahead and recentres. Pitch and roll are determined by gravity, and do not
//! change.

use openuvr_proto::pose::Pose;
use openuvr_proto::rotation::Rotation;

/// The direction of a head that has not turned.
pub(super) const AHEAD: [f32; 3] = [0.0, 0.0, -1.0];

/// Minimum horizontal component of a direction that has a yaw: 6° from vertical. Closer to vertical, the yaw is noise.
const LEVEL: f32 = 0.1;

/// The rotation around the vertical axis after which this direction has the yaw of [`AHEAD`]. `None` if the direction
/// is almost vertical.
pub(super) fn heading([x, _, z]: [f32; 3]) -> Option<Rotation> {
    let yaw = (-x).atan2(-z);
    (x.hypot(z) >= LEVEL).then(|| Rotation::around([0.0, -yaw, 0.0]))
}

/// The direction that counts as ahead.
#[derive(Clone, Copy, Debug)]
pub struct Recentre {
    heading: Rotation,
}

impl Default for Recentre {
    /// The source's own direction.
    fn default() -> Recentre {
        Recentre {
            heading: Rotation::NONE,
        }
    }
}

impl Recentre {
    /// From now on, the direction of this pose counts as ahead. The pose is in the source's frame. If the direction is
    /// almost vertical, nothing changes.
    pub fn set(&mut self, pose: &Pose) {
        if let Some(heading) = heading(Rotation::of(pose).turn(AHEAD)) {
            self.heading = heading;
        }
    }

    /// The pose relative to the direction that counts as ahead. Position and velocities are rotated accordingly.
    #[must_use]
    pub fn apply(&self, pose: &Pose) -> Pose {
        if self.heading == Rotation::NONE {
            return *pose;
        }
        let turn = |vector| self.heading.turn(vector);
        let turned = self.heading.after(Rotation::of(pose));
        let moved = Pose::new(turn(pose.position()), turned.0);
        let moved = moved.and_then(|moved| {
            moved.moving(
                pose.linear_velocity().map(turn),
                pose.angular_velocity().map(turn),
            )
        });
        // The rotation overflows only for vectors near the largest finite value. The pose then stays unchanged.
        moved.unwrap_or(*pose)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ahead_is_the_direction_of_the_last_recentring() {
        let pose = |yaw: f32, pitch: f32| {
            let Rotation(turned) = Rotation::of_head(yaw, pitch, 0.0);
            let pose = Pose::new([0.0, 1.0, -1.0], turned).expect("a pose");
            pose.moving(None, Some([0.0, 0.0, 1.0])).expect("finite")
        };
        let mut recentre = Recentre::default();
        assert_eq!(recentre.apply(&pose(1.0, 0.2)), pose(1.0, 0.2));
        recentre.set(&pose(std::f32::consts::FRAC_PI_2, 0.5));
        let applied = recentre.apply(&pose(std::f32::consts::FRAC_PI_2, 0.5));
        let near = |a: [f32; 3], b: [f32; 3]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5);
        assert!(near(Rotation::of(&applied).vector(), [0.5, 0.0, 0.0]));
        // The head looked to the left. A position ahead in the source's frame is therefore to the right after
        // recentring.
        assert!(near(applied.position(), [1.0, 1.0, 0.0]), "{applied:?}");
        let velocity = applied.angular_velocity().expect("kept");
        assert!(near(velocity, [-1.0, 0.0, 0.0]), "{velocity:?}");
        let before = recentre.heading;
        recentre.set(&pose(0.3, std::f32::consts::FRAC_PI_2));
        assert_eq!(recentre.heading, before, "straight up has no direction");
    }
}
