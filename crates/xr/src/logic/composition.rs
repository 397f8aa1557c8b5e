//! Layer composition: decides which layers can be copied, and projects the corners of the other layers into each eye.
//!
//! The streamed picture contains both eyes side by side. The pose and field of view of the first projection layer are
//! the reference of each eye. Other projection layers are treated as infinitely far away and are only rotated. Quad
//! layers are projected according to their position.

use openuvr_proto::units::Size;
use openuvr_proto::wire::video::{FieldOfView, View};
use openxr_sys as xr;

use super::pose::{Pose, Vector};

/// Near plane, in metres (guess: closer content is not viewed).
const NEAR: f32 = 0.01;

/// A rectangle of an image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ImageRect {
    pub(crate) x: u32,
    pub(crate) y: u32,
    pub(crate) size: Size,
}

/// How a layer is blended with the layers behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Blend {
    /// Whether the image's alpha is used.
    pub(crate) alpha: bool,
    /// Whether the colours are not premultiplied by alpha.
    pub(crate) unpremultiplied: bool,
}

/// Pose (in the player's space) and field of view of one eye.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Eye {
    pub(crate) pose: Pose,
    pub(crate) fov: xr::Fovf,
}

impl Eye {
    /// The wire representation; `None` if a value is out of its range.
    pub(crate) fn to_wire(self) -> Option<View> {
        let xr::Fovf {
            angle_left,
            angle_right,
            angle_up,
            angle_down,
        } = self.fov;
        let fov = FieldOfView::new(angle_left, angle_right, angle_up, angle_down).ok()?;
        Some(View {
            pose: self.pose.to_wire()?,
            fov,
        })
    }
}

/// A layer as one eye sees it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Surface<I> {
    /// The image, in the caller's representation.
    pub(crate) image: I,
    pub(crate) rect: ImageRect,
    pub(crate) blend: Blend,
    pub(crate) shape: Shape,
}

/// Shape and position of a surface.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Shape {
    /// The whole view of this eye, infinitely far away.
    View(Eye),
    /// A rectangle, centred at the pose in the player's space, with this size in metres.
    Quad(Pose, [f32; 2]),
}

/// The corners of a surface in Vulkan's clip space: bottom left, bottom right, top left, top right.
pub(crate) type Corners = [[f32; 4]; 4];

/// The tangents of a field of view: left, right, up, down.
fn tangents(fov: xr::Fovf) -> [f32; 4] {
    [
        fov.angle_left,
        fov.angle_right,
        fov.angle_up,
        fov.angle_down,
    ]
    .map(f32::tan)
}

/// Whether a field of view has a drawable area.
pub(crate) fn is_valid_fov(fov: xr::Fovf) -> bool {
    let [left, right, up, down] = tangents(fov);
    let angles = [
        fov.angle_left,
        fov.angle_right,
        fov.angle_up,
        fov.angle_down,
    ];
    let half = std::f32::consts::FRAC_PI_2;
    // Also false for NaN.
    angles.iter().all(|angle| angle.abs() < half) && left != right && up != down
}

impl Shape {
    /// Projects the corners for an eye.
    pub(crate) fn corners(&self, eye: &Eye) -> Corners {
        let points: [Vector; 4] = match *self {
            Shape::View(view) => {
                let [left, right, up, down] = tangents(view.fov);
                // Infinitely far away: only the rotation matters.
                let orientation = eye.pose.orientation.inverse().after(view.pose.orientation);
                [(left, down), (right, down), (left, up), (right, up)]
                    .map(|(x, y)| orientation.turn([x, y, -1.0]))
            }
            Shape::Quad(pose, [width, height]) => {
                let seen = eye.pose.inverse().of(pose);
                [(-0.5, -0.5), (0.5, -0.5), (-0.5, 0.5), (0.5, 0.5)]
                    .map(|(x, y)| seen.point([x * width, y * height, 0.0]))
            }
        };
        points.map(|point| project(point, eye.fov))
    }
}

/// Projects a point from eye space to clip space. In clip space, y points down.
fn project([x, y, z]: Vector, fov: xr::Fovf) -> [f32; 4] {
    let [left, right, up, down] = tangents(fov);
    [
        (2.0 * x + z * (right + left)) / (right - left),
        -(2.0 * y + z * (up + down)) / (up - down),
        // Depth is 0 at NEAR and 1 at infinity. It is used for clipping only, not for a depth test.
        -z - NEAR,
        -z,
    ]
}

/// Whether each pixel of a surface is exactly one pixel of this eye's picture, so that the surface can be copied.
pub(crate) fn is_exact<I>(surface: &Surface<I>, eye: &Eye, size: Size) -> bool {
    let Shape::View(view) = surface.shape else {
        return false;
    };
    surface.blend == Blend::default()
        && surface.rect.size == size
        && view.fov == eye.fov
        && view.pose.orientation == eye.pose.orientation
}

/// The same field of view with the image upright. An application that renders bottom-up swaps the up and down
/// angles.
pub(crate) fn upright(fov: xr::Fovf) -> xr::Fovf {
    let swap = |low: f32, high: f32| (low.min(high), low.max(high));
    let (angle_left, angle_right) = swap(fov.angle_left, fov.angle_right);
    let (angle_down, angle_up) = swap(fov.angle_down, fov.angle_up);
    xr::Fovf {
        angle_left,
        angle_right,
        angle_up,
        angle_down,
    }
}

#[cfg(test)]
mod tests {
    use std::f32::consts::FRAC_PI_4;

    use super::super::pose::Rotation;
    use super::super::pose::tests::near;
    use super::super::views;
    use super::*;

    fn eye() -> Eye {
        Eye {
            pose: Pose {
                orientation: Rotation::around([0.1, 0.4, 0.0]),
                at: [3.0, 1.0, 0.0],
            },
            fov: views::default_fov(),
        }
    }

    /// Converts to screen coordinates: -1 to 1, y down.
    fn screen(corners: Corners) -> [[f32; 2]; 4] {
        corners.map(|[x, y, _, w]| [x / w, y / w])
    }

    const FULL: [[f32; 2]; 4] = [[-1.0, 1.0], [1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]];

    fn like(seen: Corners, wanted: [[f32; 2]; 4]) -> bool {
        (screen(seen).iter().zip(wanted)).all(|(a, b)| near(a, &b))
    }

    #[test]
    fn a_view_from_the_same_eye_fills_it() {
        let eye = eye();
        assert!(like(Shape::View(eye).corners(&eye), FULL));
        // The view's position has no effect, because the view is infinitely far away.
        let elsewhere = Eye {
            pose: Pose {
                at: [-50.0, 0.0, 9.0],
                ..eye.pose
            },
            ..eye
        };
        assert!(like(Shape::View(elsewhere).corners(&eye), FULL));
    }

    #[test]
    fn a_view_from_a_rotated_eye_is_shifted() {
        let eye = eye();
        let rotated = Eye {
            pose: Pose {
                orientation: eye
                    .pose
                    .orientation
                    .after(Rotation::around([0.0, FRAC_PI_4, 0.0])),
                ..eye.pose
            },
            ..eye
        };
        // The right edge, 45° to the right of the centre, moves to the centre.
        let [below, .., above] = screen(Shape::View(rotated).corners(&eye));
        assert!(above[0].abs() < 1e-4, "{above:?} {below:?}");
    }

    #[test]
    fn a_quad_is_projected_from_its_pose() {
        let eye = eye();
        let ahead = eye.pose.of(Pose::translation([0.0, 0.0, -2.0]));
        let filling = Shape::Quad(ahead, [4.0, 4.0]).corners(&eye);
        assert!(like(filling, FULL), "{filling:?}");
        let aside = eye.pose.of(Pose::translation([1.0, 1.0, -2.0]));
        let seen = screen(Shape::Quad(aside, [2.0, 2.0]).corners(&eye));
        assert!(near(&seen[0], &[0.0, 0.0]) && near(&seen[3], &[1.0, -1.0]));
        // Behind the eye: every corner is clipped.
        let behind = eye.pose.of(Pose::translation([0.0, 0.0, 2.0]));
        let seen = Shape::Quad(behind, [1.0, 1.0]).corners(&eye);
        assert!(seen.iter().all(|[.., z, _]| *z < 0.0));
    }

    #[test]
    fn only_exact_layers_are_copied() {
        let eye = eye();
        let size = Size::new(64, 32);
        let exact = Surface {
            image: (),
            rect: ImageRect { x: 5, y: 0, size },
            blend: Blend::default(),
            shape: Shape::View(eye),
        };
        assert!(is_exact(&exact, &eye, size));
        assert!(!is_exact(&exact, &eye, Size::new(64, 64)));
        let blend = Blend {
            alpha: true,
            unpremultiplied: false,
        };
        assert!(!is_exact(&Surface { blend, ..exact }, &eye, size));
        let shape = Shape::Quad(eye.pose, [1.0, 1.0]);
        assert!(!is_exact(&Surface { shape, ..exact }, &eye, size));
    }

    #[test]
    fn an_upside_down_view_is_flipped() {
        let eye = eye();
        let down = xr::Fovf {
            angle_up: eye.fov.angle_down,
            angle_down: eye.fov.angle_up,
            ..eye.fov
        };
        assert!(is_valid_fov(down) && upright(down) == eye.fov);
        let [below, _, above, _] = screen(Shape::View(Eye { fov: down, ..eye }).corners(&eye));
        assert!(near(&below, &[-1.0, -1.0]) && near(&above, &[-1.0, 1.0]));
        for bad in [f32::NAN, 1.6, f32::INFINITY] {
            let angle_up = bad;
            assert!(!is_valid_fov(xr::Fovf {
                angle_up,
                ..eye.fov
            }));
        }
    }
}
