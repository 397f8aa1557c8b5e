//! Rigid transforms. Right-handed, y up, in metres, as in OpenXR.

use openuvr_proto::pose;
pub(crate) use openuvr_proto::rotation::{Rotation, Vector};
use openxr_sys as xr;

use crate::ffi::Outcome;

/// Tolerance of a quaternion's length (OpenXR 1.0, section 2.16).
const TOLERANCE: f32 = 0.01;

/// A pose in a parent space: rotation, then translation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Pose {
    pub(crate) orientation: Rotation,
    pub(crate) at: Vector,
}

impl Pose {
    pub(crate) const IDENTITY: Pose = Pose {
        orientation: Rotation::NONE,
        at: [0.0; 3],
    };

    /// A pure translation.
    pub(crate) const fn translation(at: Vector) -> Pose {
        Pose {
            orientation: Rotation::NONE,
            at,
        }
    }

    /// Reads a pose that the application passes.
    ///
    /// # Errors
    /// Returns an error if the values are not a valid pose.
    pub(crate) fn read(pose: &xr::Posef) -> Outcome<Pose> {
        let (o, p) = (pose.orientation, pose.position);
        let (orientation, at) = ([o.x, o.y, o.z, o.w], [p.x, p.y, p.z]);
        let length = orientation.iter().map(|v| v * v).sum::<f32>().sqrt();
        let finite = at.iter().all(|v| v.is_finite());
        // Also false for NaN.
        let unit = (length - 1.0).abs() <= TOLERANCE;
        if !finite || !unit {
            return Err(xr::Result::ERROR_POSE_INVALID);
        }
        Ok(Pose {
            orientation: Rotation(orientation.map(|v| v / length)),
            at,
        })
    }

    /// The wire representation; `None` if a value is out of its range.
    pub(crate) fn to_wire(self) -> Option<pose::Pose> {
        pose::Pose::new(self.at, self.orientation.0).ok()
    }

    pub(crate) fn raw(self) -> xr::Posef {
        let ([x, y, z, w], [px, py, pz]) = (self.orientation.0, self.at);
        xr::Posef {
            orientation: xr::Quaternionf { x, y, z, w },
            position: vector(px, py, pz),
        }
    }

    /// Transforms a pose from this space to the parent space.
    pub(crate) fn of(self, inner: Pose) -> Pose {
        Pose {
            orientation: self.orientation.after(inner.orientation),
            at: self.point(inner.at),
        }
    }

    /// The pose of the parent space in this space.
    pub(crate) fn inverse(self) -> Pose {
        let orientation = self.orientation.inverse();
        Pose {
            orientation,
            at: orientation.turn(self.at).map(|v| -v),
        }
    }

    /// Transforms a point from this space to the parent space.
    pub(crate) fn point(self, point: Vector) -> Vector {
        add(self.orientation.turn(point), self.at)
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
    fn poses_can_be_combined_and_inverted() {
        let pose = Pose {
            orientation: Rotation::around([0.1, 0.7, -0.3]),
            at: [1.0, 2.0, 3.0],
        };
        let other = Pose {
            orientation: Rotation::around([-0.5, 0.2, 0.4]),
            at: [-4.0, 0.5, 0.25],
        };
        let point = [0.3, -0.6, 0.9];
        let joined = pose.of(other).point(point);
        assert!(near(&joined, &pose.point(other.point(point))));
        let back = pose.of(pose.inverse());
        assert!(near(&back.at, &[0.0; 3]) && near(&back.orientation.vector(), &[0.0; 3]));
    }

    #[test]
    fn invalid_poses_are_rejected() {
        let read = |x, w| {
            let mut raw = Pose::IDENTITY.raw();
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
