//! Matrices, column by column, from the room to an eye's picture.

use openxr as xr;

/// Four columns.
pub(super) type Matrix = [[f32; 4]; 4];

/// Distances of what is seen, in metres.
const NEAR: f32 = 0.05;
const FAR: f32 = 30.0;

/// First `b`, then `a`.
pub(super) fn times(a: &Matrix, b: &Matrix) -> Matrix {
    b.map(|column| std::array::from_fn(|row| (0..4).map(|at| a[at][row] * column[at]).sum()))
}

/// From an eye's own space (-z ahead, y up) to the clip space of Vulkan: y down, depths from 0 to 1.
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

/// From what is at `pose` to the space in which that is.
pub(super) fn placed(pose: xr::Posef) -> Matrix {
    let [x, y, z] = axes(pose.orientation);
    let at = pose.position;
    let column = |[a, b, c]: [f32; 3]| [a, b, c, 0.0];
    [column(x), column(y), column(z), [at.x, at.y, at.z, 1.0]]
}

/// The other way.
pub(super) fn seen_from(pose: xr::Posef) -> Matrix {
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

/// Half a turn's cosine and sine around the axis y, at a place.
pub(super) fn turned(place: [f32; 3], radians: f32) -> xr::Posef {
    let (sin, cos) = (radians / 2.0).sin_cos();
    let [x, y, z] = place;
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

/// Where the three axes point to.
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

    fn seen(matrix: &Matrix, place: [f32; 3]) -> [f32; 3] {
        let [x, y, z] = place;
        let clip = times(matrix, &[[x, y, z, 1.0]; 4])[0];
        [clip[0] / clip[3], clip[1] / clip[3], clip[2] / clip[3]]
    }

    fn close(a: [f32; 3], b: [f32; 3]) {
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
    fn the_edges_of_the_field_of_view_are_those_of_the_picture() {
        let projection = projection(FOV);
        let place = |across: f32, up: f32, far: f32| [across.tan() * far, up.tan() * far, -far];
        close(seen(&projection, place(-0.8, 0.5, NEAR)), [-1.0, -1.0, 0.0]);
        close(seen(&projection, place(0.6, -0.7, FAR)), [1.0, 1.0, 1.0]);
    }

    #[test]
    fn what_is_at_a_pose_is_seen_from_it_in_the_origin() {
        let pose = turned([1.0, 2.0, 3.0], 0.7);
        let both = times(&seen_from(pose), &placed(pose));
        close(seen(&both, [0.3, -0.4, 0.5]), [0.3, -0.4, 0.5]);
        // Who has turned to the left sees on the right what was ahead.
        let ahead = seen(&seen_from(turned([0.0; 3], 0.5)), [0.0, 0.0, -1.0]);
        assert!(ahead[0] > 0.4 && ahead[2] < 0.0, "{ahead:?}");
    }
}
