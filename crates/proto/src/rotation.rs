//! Rotations of space as unit quaternions, right-handed, as in OpenXR (1.0, section 2.16).
//!
//! Values from peers are validated in [`Pose`], not here.

use crate::pose::Pose;

/// A vector x, y, z.
pub type Vector = [f32; 3];

/// A rotation as a quaternion x, y, z, w of length 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rotation(pub [f32; 4]);

impl Rotation {
    /// The identity.
    pub const NONE: Rotation = Rotation([0.0, 0.0, 0.0, 1.0]);

    /// The orientation of a pose, normalised to length 1.
    #[must_use]
    pub fn of(pose: &Pose) -> Rotation {
        let turned = pose.orientation();
        let length = turned.iter().map(|v| v * v).sum::<f32>().sqrt();
        Rotation(turned.map(|v| v / length))
    }

    /// A rotation around `vector` by its length in radians: the exponential of half the vector.
    #[must_use]
    pub fn around(vector: Vector) -> Rotation {
        let angle = vector.iter().map(|v| v * v).sum::<f32>().sqrt();
        if angle < 1e-8 {
            return Rotation::NONE;
        }
        let (sin, cos) = (angle / 2.0).sin_cos();
        let [x, y, z] = vector.map(|v| v / angle * sin);
        Rotation([x, y, z, cos])
    }

    /// The rotation of a head that first turns to the left by `yaw`, then looks up by `pitch`, then leans to
    /// its left shoulder by `roll`: intrinsic rotations around y, x and z, in radians.
    #[must_use]
    pub fn of_head(yaw: f32, pitch: f32, roll: f32) -> Rotation {
        let [yaw, pitch, roll] = [[0.0, yaw, 0.0], [pitch, 0.0, 0.0], [0.0, 0.0, roll]];
        let [yaw, pitch, roll] = [yaw, pitch, roll].map(Rotation::around);
        yaw.after(pitch).after(roll)
    }

    /// The rotation vector, the inverse of [`Rotation::around`], at most half a turn long.
    #[must_use]
    pub fn vector(self) -> Vector {
        let [x, y, z, w] = self.0;
        let sin = (x * x + y * y + z * z).sqrt();
        if sin < 1e-8 {
            return [0.0; 3];
        }
        // There are two quaternions for a rotation; this uses the one with the smaller angle.
        let sign = if w < 0.0 { -1.0 } else { 1.0 };
        let angle = 2.0 * sin.atan2(w * sign);
        [x, y, z].map(|v| v / sin * angle * sign)
    }

    /// The rotation by `other`, followed by this rotation.
    #[must_use]
    pub fn after(self, other: Rotation) -> Rotation {
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

    /// The inverse rotation.
    #[must_use]
    pub fn inverse(self) -> Rotation {
        let [x, y, z, w] = self.0;
        Rotation([-x, -y, -z, w])
    }

    /// A rotated vector.
    #[must_use]
    pub fn turn(self, [x, y, z]: Vector) -> Vector {
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

#[cfg(test)]
mod tests {
    use std::f32::consts::{FRAC_PI_2, PI};

    use super::*;

    fn near(a: &[f32], b: &[f32]) -> bool {
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
    fn exponential_and_logarithm_are_inverse() {
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
    fn head_angles_rotate_the_view_axis() {
        let ahead = |yaw: f32, pitch: f32, roll: f32| {
            let [yaw, pitch, roll] = [yaw, pitch, roll].map(f32::to_radians);
            Rotation::of_head(yaw, pitch, roll).turn([0.0, 0.0, -1.0])
        };
        assert!(near(&ahead(90.0, 0.0, 30.0), &[-1.0, 0.0, 0.0]), "left");
        assert!(near(&ahead(90.0, 90.0, 0.0), &[0.0, 1.0, 0.0]), "up");
        let half = std::f32::consts::FRAC_1_SQRT_2;
        assert!(near(&ahead(90.0, 45.0, 0.0), &[-half, half, 0.0]));
        let leans = Rotation::of_head(0.0, 0.0, FRAC_PI_2).turn([0.0, 1.0, 0.0]);
        assert!(near(&leans, &[-1.0, 0.0, 0.0]), "to the left shoulder");
    }
}
