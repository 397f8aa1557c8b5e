//! Rigid motions: how one place lies in another. Right-handed, y up, metres, as OpenXR has it.

use openuvr_proto::pose;
use openxr_sys as xr;

use crate::border::Outcome;

/// By how much a quaternion's length may differ from 1 (OpenXR 1.0, section 2.16).
const TOLERANCE: f32 = 0.01;

/// A vector x, y, z.
pub(crate) type Vector = [f32; 3];

/// A rotation as a quaternion x, y, z, w of length 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Rotation(pub(crate) [f32; 4]);

impl Rotation {
    /// None.
    pub(crate) const NONE: Rotation = Rotation([0.0, 0.0, 0.0, 1.0]);

    /// By the length of `vector` in radians around it: the exponential of half of it.
    pub(crate) fn around(vector: Vector) -> Rotation {
        let angle = vector.iter().map(|v| v * v).sum::<f32>().sqrt();
        if angle < 1e-8 {
            return Rotation::NONE;
        }
        let (sin, cos) = (angle / 2.0).sin_cos();
        let [x, y, z] = vector.map(|v| v / angle * sin);
        Rotation([x, y, z, cos])
    }

    /// The vector that [`Rotation::around`] makes this of, at most half a turn long.
    pub(crate) fn vector(self) -> Vector {
        let [x, y, z, w] = self.0;
        let sin = (x * x + y * y + z * z).sqrt();
        if sin < 1e-8 {
            return [0.0; 3];
        }
        // Of the two quaternions of a rotation the one that turns less.
        let sign = if w < 0.0 { -1.0 } else { 1.0 };
        let angle = 2.0 * sin.atan2(w * sign);
        [x, y, z].map(|v| v / sin * angle * sign)
    }

    /// First `other`, then this.
    pub(crate) fn after(self, other: Rotation) -> Rotation {
        let ([ax, ay, az, aw], [bx, by, bz, bw]) = (self.0, other.0);
        let product = [
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
            aw * bw - ax * bx - ay * by - az * bz,
        ];
        let length = product.iter().map(|v| v * v).sum::<f32>().sqrt();
        Rotation(product.map(|v| v / length))
    }

    /// Back.
    pub(crate) fn inverse(self) -> Rotation {
        let [x, y, z, w] = self.0;
        Rotation([-x, -y, -z, w])
    }

    /// A vector, turned.
    pub(crate) fn turn(self, [x, y, z]: Vector) -> Vector {
        let [qx, qy, qz, w] = self.0;
        // v + 2 q × (q × v + w v)
        let inner = [
            qy * z - qz * y + w * x,
            qz * x - qx * z + w * y,
            qx * y - qy * x + w * z,
        ];
        [
            x + 2.0 * (qy * inner[2] - qz * inner[1]),
            y + 2.0 * (qz * inner[0] - qx * inner[2]),
            z + 2.0 * (qx * inner[1] - qy * inner[0]),
        ]
    }
}

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

pub(crate) fn scaled(vector: Vector, by: f32) -> Vector {
    vector.map(|v| v * by)
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
    use std::f32::consts::{FRAC_PI_2, PI};

    use super::*;

    pub(in crate::logic) fn near(a: &[f32], b: &[f32]) -> bool {
        a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5)
    }

    #[test]
    fn a_turn_is_right_handed() {
        let left = Rotation::around([0.0, FRAC_PI_2, 0.0]);
        assert!(near(&left.turn([0.0, 0.0, -1.0]), &[-1.0, 0.0, 0.0]));
        let up = Rotation::around([FRAC_PI_2, 0.0, 0.0]);
        assert!(near(&up.turn([0.0, 0.0, -1.0]), &[0.0, 1.0, 0.0]));
        // First up, then left.
        let both = left.after(up);
        assert!(near(&both.turn([0.0, 0.0, -1.0]), &[0.0, 1.0, 0.0]));
        assert!(near(&both.turn([0.0, 1.0, 0.0]), &[1.0, 0.0, 0.0]));
    }

    #[test]
    fn exponential_and_logarithm_undo_each_other() {
        let vectors = [
            [0.0; 3],
            [1e-4, 0.0, 0.0],
            [0.3, -0.2, 1.0],
            [0.0, PI - 1e-3, 0.0],
        ];
        for vector in vectors {
            let rotation = Rotation::around(vector);
            assert!(near(&rotation.vector(), &vector), "{vector:?}");
            let other = Rotation(rotation.0.map(|v| -v));
            assert!(near(&other.vector(), &vector), "its other quaternion");
        }
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
