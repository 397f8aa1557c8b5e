//! Matrices for transformations and projection.

/// A 4×4 matrix in column-major order, as OpenGL expects it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Matrix(pub(super) [f32; 16]);

impl Matrix {
    /// `self` applied after `other`.
    pub(super) fn times(&self, other: &Matrix) -> Matrix {
        Matrix(std::array::from_fn(|index| {
            let (column, row) = (index / 4, index % 4);
            (0..4)
                .map(|k| self.0[k * 4 + row] * other.0[column * 4 + k])
                .sum()
        }))
    }

    /// Translation.
    pub(super) fn shift(x: f32, y: f32, z: f32) -> Matrix {
        Matrix([1., 0., 0., 0., 0., 1., 0., 0., 0., 0., 1., 0., x, y, z, 1.])
    }

    /// Uniform scaling.
    pub(super) fn scale(by: f32) -> Matrix {
        Matrix([
            by, 0., 0., 0., 0., by, 0., 0., 0., 0., by, 0., 0., 0., 0., 1.,
        ])
    }

    /// Rotation about the vertical axis, counter-clockwise from above.
    pub(super) fn turn_y(angle: f32) -> Matrix {
        let (s, c) = angle.sin_cos();
        Matrix([c, 0., -s, 0., 0., 1., 0., 0., s, 0., c, 0., 0., 0., 0., 1.])
    }

    /// Rotation about the axis to the right; positive angles look up.
    pub(super) fn turn_x(angle: f32) -> Matrix {
        let (s, c) = angle.sin_cos();
        Matrix([1., 0., 0., 0., 0., c, s, 0., 0., -s, c, 0., 0., 0., 0., 1.])
    }

    /// View space to clip space: a vertical field of view of `angle` radians, an aspect ratio of `aspect`, and depths
    /// from 5 cm to 40 m.
    pub(super) fn perspective(angle: f32, aspect: f32) -> Matrix {
        let (near, far) = (0.05, 40.0);
        let f = 1.0 / (angle / 2.0).tan();
        let (a, b) = ((far + near) / (near - far), 2.0 * far * near / (near - far));
        Matrix([
            f / aspect,
            0.,
            0.,
            0.,
            0.,
            f,
            0.,
            0.,
            0.,
            0.,
            a,
            -1.,
            0.,
            0.,
            b,
            0.,
        ])
    }
}
