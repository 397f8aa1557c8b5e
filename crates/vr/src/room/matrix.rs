//! Column-major matrices from room space to an eye's clip space.

use openxr as xr;

/// Four columns.
pub(super) type Matrix = [[f32; 4]; 4];

/// The clip planes, in metres.
const NEAR: f32 = 0.05;
const FAR: f32 = 30.0;

/// The product: applies `b`, then `a`.
pub(super) fn multiply(a: &Matrix, b: &Matrix) -> Matrix {
    b.map(|column| std::array::from_fn(|row| (0..4).map(|at| a[at][row] * column[at]).sum()))
}

/// The matrix from view space (-z ahead, y up) to Vulkan's clip space (y down, depths from 0 to 1).
pub(super) fn projection(fov: xr::Fovf) -> Matrix {
    let [left, right] = [fov.angle_left.tan(), fov.angle_right.tan()];
    let [up, down] = [fov.angle_up.tan(), fov.angle_down.tan()];
    let (wide, high) = (right - left, down - up);
    [
        [2.0 / wide, 0.0, 0.0, 0.0],
        [0.0, 2.0 / high, 0.0, 0.0],
        [
            (right + left) / wide,
            (up + down) / high,
            FAR / (NEAR - FAR),
            -1.0,
        ],
        [0.0, 0.0, FAR * NEAR / (NEAR - FAR), 0.0],
    ]
}

/// The matrix from the local space of an object to the space in which its `pose` is given.
pub(super) fn model_matrix(pose: xr::Posef) -> Matrix {
    let [x, y, z] = axes(pose.orientation);
    let at = pose.position;
    let column = |[a, b, c]: [f32; 3]| [a, b, c, 0.0];
    [column(x), column(y), column(z), [at.x, at.y, at.z, 1.0]]
}

/// The inverse of [`model_matrix`].
pub(super) fn view_matrix(pose: xr::Posef) -> Matrix {
    let [x, y, z] = axes(pose.orientation);
    let at = pose.position;
    let back = |axis: [f32; 3]| -(axis[0] * at.x + axis[1] * at.y + axis[2] * at.z);
    [
        [x[0], y[0], z[0], 0.0],
        [x[1], y[1], z[1], 0.0],
        [x[2], y[2], z[2], 0.0],
        [back(x), back(y), back(z), 1.0],
    ]
}

/// A pose at `position`, rotated about the y axis.
pub(super) fn rotated_about_y(position: [f32; 3], radians: f32) -> xr::Posef {
    let (sin, cos) = (radians / 2.0).sin_cos();
    let [x, y, z] = position;
    xr::Posef {
        orientation: xr::Quaternionf {
            x: 0.0,
            y: sin,
            z: 0.0,
            w: cos,
        },
        position: xr::Vector3f { x, y, z },
    }
}

/// The directions of the three axes.
fn axes(q: xr::Quaternionf) -> [[f32; 3]; 3] {
    let xr::Quaternionf { x, y, z, w } = q;
    [
        [
            1.0 - 2.0 * (y * y + z * z),
            2.0 * (x * y + z * w),
            2.0 * (x * z - y * w),
        ],
        [
            2.0 * (x * y - z * w),
            1.0 - 2.0 * (x * x + z * z),
            2.0 * (y * z + x * w),
        ],
        [
            2.0 * (x * z + y * w),
            2.0 * (y * z - x * w),
            1.0 - 2.0 * (x * x + y * y),
        ],
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(matrix: &Matrix, position: [f32; 3]) -> [f32; 3] {
        let [x, y, z] = position;
        let clip = multiply(matrix, &[[x, y, z, 1.0]; 4])[0];
        [clip[0] / clip[3], clip[1] / clip[3], clip[2] / clip[3]]
    }

    fn assert_close(a: [f32; 3], b: [f32; 3]) {
        assert!(
            a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-4),
            "{a:?} {b:?}"
        );
    }

    const FOV: xr::Fovf = xr::Fovf {
        angle_left: -0.8,
        angle_right: 0.6,
        angle_up: 0.5,
        angle_down: -0.7,
    };

    #[test]
    fn the_field_of_view_fills_the_image() {
        let projection = projection(FOV);
        let position = |across: f32, up: f32, far: f32| [across.tan() * far, up.tan() * far, -far];
        assert_close(
            project(&projection, position(-0.8, 0.5, NEAR)),
            [-1.0, -1.0, 0.0],
        );
        assert_close(
            project(&projection, position(0.6, -0.7, FAR)),
            [1.0, 1.0, 1.0],
        );
    }

    #[test]
    fn view_inverts_model() {
        let pose = rotated_about_y([1.0, 2.0, 3.0], 0.7);
        let both = multiply(&view_matrix(pose), &model_matrix(pose));
        assert_close(project(&both, [0.3, -0.4, 0.5]), [0.3, -0.4, 0.5]);
        // After a turn to the left, the former front is on the right.
        let ahead = project(
            &view_matrix(rotated_about_y([0.0; 3], 0.5)),
            [0.0, 0.0, -1.0],
        );
        assert!(ahead[0] > 0.4 && ahead[2] < 0.0, "{ahead:?}");
    }
}
