//! How the layers of a frame become one picture: which can be copied as they are, and where the corners of the
//! others lie in each eye.
//!
//! The picture has both eyes side by side, as the application drew them: it is shown with the pose and the field
//! of view of the first projection layer, which is therefore the measure of all. Another projection layer lies
//! infinitely far away (its pose is turned into that of the measure); a quad lies where it lies.

use openuvr_proto::units::Size;
use openuvr_proto::wire::video::{FieldOfView, View};
use openxr_sys as xr;

use super::pose::{Pose, Vector};

/// The nearest that something is drawn, in metres (guess: nobody looks at what is closer).
const NEAR: f32 = 0.01;

/// A part of an image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    pub(crate) x: u32,
    pub(crate) y: u32,
    pub(crate) size: Size,
}

/// How the colours of a layer are joined with what lies behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Blend {
    /// The image's alpha counts.
    pub(crate) alpha: bool,
    /// Its colours are not multiplied by it yet.
    pub(crate) straight: bool,
}

/// What one eye sees, and from where; the pose is one in the player's space.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Eye {
    pub(crate) pose: Pose,
    pub(crate) fov: xr::Fovf,
}

impl Eye {
    /// As frames say it; `None` for numbers beyond what they can.
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

/// A layer in one eye.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Surface<I> {
    /// Which image, of whoever asks.
    pub(crate) image: I,
    pub(crate) part: Part,
    pub(crate) blend: Blend,
    pub(crate) shape: Shape,
}

/// Where it lies.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Shape {
    /// Around this eye.
    View(Eye),
    /// A rectangle of this size in metres, whose middle is at the pose in the player's space.
    Quad(Pose, [f32; 2]),
}

/// The corners of a surface in the clip space of Vulkan: left and right below, left and right above.
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

/// Whether a field of view has an inside that can be drawn.
pub(crate) fn is_sensible(fov: xr::Fovf) -> bool {
    let [left, right, up, down] = tangents(fov);
    let angles = [
        fov.angle_left,
        fov.angle_right,
        fov.angle_up,
        fov.angle_down,
    ];
    let half = std::f32::consts::FRAC_PI_2;
    // Also false for what is not a number.
    angles.iter().all(|angle| angle.abs() < half) && left != right && up != down
}

impl Shape {
    /// Where its corners lie for an eye.
    pub(crate) fn corners(&self, eye: &Eye) -> Corners {
        let points: [Vector; 4] = match *self {
            Shape::View(view) => {
                let [left, right, up, down] = tangents(view.fov);
                // Infinitely far away: only how it is turned counts.
                let turned = eye.pose.turned.inverse().after(view.pose.turned);
                [(left, down), (right, down), (left, up), (right, up)]
                    .map(|(x, y)| turned.turn([x, y, -1.0]))
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

/// A point in front of an eye, in clip space; y goes down there.
fn project([x, y, z]: Vector, fov: xr::Fovf) -> [f32; 4] {
    let [left, right, up, down] = tangents(fov);
    [
        (2.0 * x + z * (right + left)) / (right - left),
        -(2.0 * y + z * (up + down)) / (up - down),
        // Far away is depth 1, NEAR is 0; nothing is compared, only cut off in front.
        -z - NEAR,
        -z,
    ]
}

/// Whether a surface fills this eye exactly as it is, pixel for pixel, so that it can be copied.
pub(crate) fn is_exact<I>(surface: &Surface<I>, eye: &Eye, size: Size) -> bool {
    let Shape::View(view) = surface.shape else {
        return false;
    };
    surface.blend == Blend::default()
        && surface.part.size == size
        && view.fov == eye.fov
        && view.pose.turned == eye.pose.turned
}

/// The eye that sees the same with its image upside down, if `fov` is one of those that are: an application
/// that draws bottom up says so with up and down exchanged.
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
                turned: Rotation::around([0.1, 0.4, 0.0]),
                at: [3.0, 1.0, 0.0],
            },
            fov: views::fov(),
        }
    }

    /// On the screen: -1 to 1, y down.
    fn screen(corners: Corners) -> [[f32; 2]; 4] {
        corners.map(|[x, y, _, w]| [x / w, y / w])
    }

    const WHOLE: [[f32; 2]; 4] = [[-1.0, 1.0], [1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]];

    fn like(seen: Corners, wanted: [[f32; 2]; 4]) -> bool {
        (screen(seen).iter().zip(wanted)).all(|(a, b)| near(a, &b))
    }

    #[test]
    fn a_view_from_the_same_eye_fills_it() {
        let eye = eye();
        assert!(like(Shape::View(eye).corners(&eye), WHOLE));
        // Wherever it stood: it is far away.
        let elsewhere = Eye {
            pose: Pose {
                at: [-50.0, 0.0, 9.0],
                ..eye.pose
            },
            ..eye
        };
        assert!(like(Shape::View(elsewhere).corners(&eye), WHOLE));
    }

    #[test]
    fn a_view_from_a_turned_eye_is_moved() {
        let eye = eye();
        let turned = Eye {
            pose: Pose {
                turned: eye
                    .pose
                    .turned
                    .after(Rotation::around([0.0, FRAC_PI_4, 0.0])),
                ..eye.pose
            },
            ..eye
        };
        // What lay at its right edge, 45° to the right of its middle, lies in the middle.
        let [below, .., above] = screen(Shape::View(turned).corners(&eye));
        assert!(above[0].abs() < 1e-4, "{above:?} {below:?}");
    }

    #[test]
    fn a_quad_lies_where_it_lies() {
        let eye = eye();
        let ahead = eye.pose.of(Pose::moved([0.0, 0.0, -2.0]));
        let filling = Shape::Quad(ahead, [4.0, 4.0]).corners(&eye);
        assert!(like(filling, WHOLE), "{filling:?}");
        let aside = eye.pose.of(Pose::moved([1.0, 1.0, -2.0]));
        let seen = screen(Shape::Quad(aside, [2.0, 2.0]).corners(&eye));
        assert!(near(&seen[0], &[0.0, 0.0]) && near(&seen[3], &[1.0, -1.0]));
        // Behind the eye: every corner is cut off.
        let behind = eye.pose.of(Pose::moved([0.0, 0.0, 2.0]));
        let seen = Shape::Quad(behind, [1.0, 1.0]).corners(&eye);
        assert!(seen.iter().all(|[.., z, _]| *z < 0.0));
    }

    #[test]
    fn only_what_needs_no_drawing_is_copied() {
        let eye = eye();
        let size = Size::new(64, 32);
        let exact = Surface {
            image: (),
            part: Part { x: 5, y: 0, size },
            blend: Blend::default(),
            shape: Shape::View(eye),
        };
        assert!(is_exact(&exact, &eye, size));
        assert!(!is_exact(&exact, &eye, Size::new(64, 64)));
        let blend = Blend {
            alpha: true,
            straight: false,
        };
        assert!(!is_exact(&Surface { blend, ..exact }, &eye, size));
        let shape = Shape::Quad(eye.pose, [1.0, 1.0]);
        assert!(!is_exact(&Surface { shape, ..exact }, &eye, size));
    }

    #[test]
    fn a_view_upside_down_is_turned_over() {
        let eye = eye();
        let down = xr::Fovf {
            angle_up: eye.fov.angle_down,
            angle_down: eye.fov.angle_up,
            ..eye.fov
        };
        assert!(is_sensible(down) && upright(down) == eye.fov);
        let [below, _, above, _] = screen(Shape::View(Eye { fov: down, ..eye }).corners(&eye));
        assert!(near(&below, &[-1.0, -1.0]) && near(&above, &[-1.0, 1.0]));
        for bad in [f32::NAN, 1.6, f32::INFINITY] {
            let angle_up = bad;
            assert!(!is_sensible(xr::Fovf {
                angle_up,
                ..eye.fov
            }));
        }
    }
}
