//! Rigid motions: how one place lies in another. Right-handed, y up, metres, as OpenXR has it.

use openuvr_proto::pose;
pub(crate) use openuvr_proto::rotation::{Rotation, Vector};
use openxr_sys as xr;

use crate::border::Outcome;

/// By how much a quaternion's length may differ from 1 (OpenXR 1.0, section 2.16).
const TOLERANCE: f32 = 0.01;

/// How a place lies in another: turned, then moved.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Pose {
    pub(crate) turned: Rotation,
    pub(crate) at: Vector,
}

impl Pose {
    /// Where the other is.
    pub(crate) const SAME: Pose = Pose {
        turned: Rotation::NONE,
        at: [0.0; 3],
    };

    /// Moved only.
    pub(crate) const fn moved(at: Vector) -> Pose {
        Pose {
            turned: Rotation::NONE,
            at,
        }
    }

    /// What the application says.
    ///
    /// # Errors
    /// Its numbers are no pose.
    pub(crate) fn read(pose: &xr::Posef) -> Outcome<Pose> {
        let (o, p) = (pose.orientation, pose.position);
        let (turned, at) = ([o.x, o.y, o.z, o.w], [p.x, p.y, p.z]);
        let length = turned.iter().map(|v| v * v).sum::<f32>().sqrt();
        let finite = at.iter().all(|v| v.is_finite());
        // Also false for what is not a number.
        let unit = (length - 1.0).abs() <= TOLERANCE;
        if !finite || !unit {
            return Err(xr::Result::ERROR_POSE_INVALID);
        }
        Ok(Pose {
            turned: Rotation(turned.map(|v| v / length)),
            at,
        })
    }

    /// As frames say it; `None` for numbers beyond what they can.
    pub(crate) fn to_wire(self) -> Option<pose::Pose> {
        pose::Pose::new(self.at, self.turned.0).ok()
    }

    pub(crate) fn raw(self) -> xr::Posef {
        let ([x, y, z, w], [px, py, pz]) = (self.turned.0, self.at);
        xr::Posef {
            orientation: xr::Quaternionf { x, y, z, w },
            position: vector(px, py, pz),
        }
    }

    /// What lies at `inner` in this place, in the place that this lies in.
    pub(crate) fn of(self, inner: Pose) -> Pose {
        Pose {
            turned: self.turned.after(inner.turned),
            at: self.point(inner.at),
        }
    }

    /// The other way round: how the outer place lies in this one.
    pub(crate) fn inverse(self) -> Pose {
        let turned = self.turned.inverse();
        Pose {
            turned,
            at: turned.turn(self.at).map(|v| -v),
        }
    }

    /// A point of this place, in the outer one.
    pub(crate) fn point(self, point: Vector) -> Vector {
        add(self.turned.turn(point), self.at)
    }
}

pub(crate) fn add(a: Vector, b: Vector) -> Vector {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
}

pub(crate) fn cross(a: Vector, b: Vector) -> Vector {
    [
        a[1] * b[2] - a[2] * b[1],
        a[2] * b[0] - a[0] * b[2],
        a[0] * b[1] - a[1] * b[0],
    ]
}

pub(crate) fn vector(x: f32, y: f32, z: f32) -> xr::Vector3f {
    xr::Vector3f { x, y, z }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::logic) fn near(a: &[f32], b: &[f32]) -> bool {
        a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5)
    }

    #[test]
    fn poses_can_be_joined_and_undone() {
        let pose = Pose {
            turned: Rotation::around([0.1, 0.7, -0.3]),
            at: [1.0, 2.0, 3.0],
        };
        let other = Pose {
            turned: Rotation::around([-0.5, 0.2, 0.4]),
            at: [-4.0, 0.5, 0.25],
        };
        let point = [0.3, -0.6, 0.9];
        let joined = pose.of(other).point(point);
        assert!(near(&joined, &pose.point(other.point(point))));
        let back = pose.of(pose.inverse());
        assert!(near(&back.at, &[0.0; 3]) && near(&back.turned.vector(), &[0.0; 3]));
    }

    #[test]
    fn numbers_that_are_no_pose_are_refused() {
        let read = |x, w| {
            let mut raw = Pose::SAME.raw();
            (raw.position.x, raw.orientation.w) = (x, w);
            Pose::read(&raw)
        };
        assert!(read(1e9, 1.005).is_ok());
        for (x, w) in [
            (f32::NAN, 1.0),
            (f32::INFINITY, 1.0),
            (0.0, 0.5),
            (0.0, f32::NAN),
        ] {
            assert_eq!(read(x, w), Err(xr::Result::ERROR_POSE_INVALID));
        }
    }
}
