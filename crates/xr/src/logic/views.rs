//! The player's views: poses and fields of view of the eyes.

use std::f32::consts::FRAC_PI_4;

use openuvr_proto::display::Eyes;
use openuvr_proto::wire::video::FieldOfView;
use openxr_sys as xr;

use super::composition::Eye;
use super::pose::Pose;

/// Default interpupillary distance in metres (the average of adults, and the default of most headsets).
const DEFAULT_IPD: f32 = 0.063;

/// Default field of view to each side, in radians. The total is 90°, about the same as in most headsets.
const DEFAULT_HALF_FOV: f32 = FRAC_PI_4;

/// Maximum number of layers of a frame. The specification requires at least 16.
pub(crate) const MAX_LAYERS: u32 = 16;

/// Parameters of a display: field of view of each eye, and interpupillary distance.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Headset {
    fov: [xr::Fovf; 2],
    ipd: f32,
}

impl Headset {
    pub(crate) fn of(eyes: Option<Eyes>) -> Headset {
        let Some(eyes) = eyes else {
            return Headset {
                fov: [default_fov(); 2],
                ipd: DEFAULT_IPD,
            };
        };
        let raw = |fov: FieldOfView| {
            let [angle_left, angle_right, angle_up, angle_down] = fov.angles();
            xr::Fovf {
                angle_left,
                angle_right,
                angle_up,
                angle_down,
            }
        };
        Headset {
            fov: eyes.fov.map(raw),
            ipd: eyes.between,
        }
    }

    /// The eyes of a head: the left and the right eye, or a single eye in the middle with the union of both fields of
    /// view.
    pub(crate) fn eyes(&self, head: Pose, count: usize) -> Vec<Eye> {
        let [left, right] = self.fov;
        let eye = |side: f32, fov| Eye {
            pose: head.of(Pose::translation([side * self.ipd, 0.0, 0.0])),
            fov,
        };
        match count {
            2 => vec![eye(-0.5, left), eye(0.5, right)],
            _ => vec![eye(
                0.0,
                xr::Fovf {
                    angle_left: left.angle_left.min(right.angle_left),
                    angle_right: left.angle_right.max(right.angle_right),
                    angle_up: left.angle_up.max(right.angle_up),
                    angle_down: left.angle_down.min(right.angle_down),
                },
            )],
        }
    }
}

pub(crate) fn default_fov() -> xr::Fovf {
    xr::Fovf {
        angle_left: -DEFAULT_HALF_FOV,
        angle_right: DEFAULT_HALF_FOV,
        angle_up: DEFAULT_HALF_FOV,
        angle_down: -DEFAULT_HALF_FOV,
    }
}

#[cfg(test)]
mod tests {
    use super::super::pose::tests::near;
    use super::*;

    #[test]
    fn the_clients_eye_parameters_are_used() {
        let eyes = Headset::of(None).eyes(Pose::IDENTITY, 2);
        assert!(near(&eyes[0].pose.at, &[-0.0315, 0.0, 0.0]));
        assert_eq!(eyes[1].fov, default_fov());
        let left = FieldOfView::new(-0.9, 0.7, 0.6, -0.8).unwrap();
        let right = FieldOfView::new(-0.7, 0.9, 0.5, -0.85).unwrap();
        let headset = Headset::of(Some(Eyes {
            fov: [left, right],
            between: 0.07,
        }));
        let eyes = headset.eyes(Pose::translation([1.0, 0.0, 0.0]), 2);
        assert!(near(&eyes[1].pose.at, &[1.035, 0.0, 0.0]));
        assert_eq!(
            (eyes[0].fov.angle_left, eyes[1].fov.angle_down),
            (-0.9, -0.85)
        );
        let one = headset.eyes(Pose::IDENTITY, 1)[0].fov;
        let all = [
            one.angle_left,
            one.angle_right,
            one.angle_up,
            one.angle_down,
        ];
        assert_eq!(all, [-0.9, 0.9, 0.6, -0.85]);
    }
}
