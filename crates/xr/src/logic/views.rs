//! The views of a person: where the eyes are, and what they see.

use std::f32::consts::FRAC_PI_4;

use openxr_sys as xr;

use super::pose::Pose;

/// Between the eyes, in metres (the mean of adults, and what most headsets come with).
const BETWEEN_EYES: f32 = 0.063;

/// Each eye sees so far to each side, up and down, in radians: a right angle in all, as headsets about have it.
const SIDE: f32 = FRAC_PI_4;

/// Layers of one frame at most; the specification asks for 16 at least.
pub(crate) const MOST_LAYERS: u32 = 16;

/// What an eye sees: the angles to the left, right, up and down, in radians.
pub(crate) fn fov() -> xr::Fovf {
    xr::Fovf {
        angle_left: -SIDE,
        angle_right: SIDE,
        angle_up: SIDE,
        angle_down: -SIDE,
    }
}

/// Where the eyes of a head are: the left before the right, or the one between them.
pub(crate) fn eyes(head: Pose, count: usize) -> Vec<Pose> {
    let sides: &[f32] = match count {
        2 => &[-0.5, 0.5],
        _ => &[0.0],
    };
    let eye = |side: &f32| head.of(Pose::moved([side * BETWEEN_EYES, 0.0, 0.0]));
    sides.iter().map(eye).collect()
}
