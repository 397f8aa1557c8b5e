//! Reprojection: maps the pixels of a drawn picture to the display after the head has turned.
//!
//! A picture shows the view of an eye from one position. If the head only turns, the same rays hit the same objects,
//! and the new picture is the old one under a homography: H = K · R · K'⁻¹, with K and K' the cameras of the drawn and
//! of the displayed picture, and R the rotation from the current eye to the eye for which the picture was drawn.
//! Reprojection compensates for the rotation between the pose and the display. It is not exact if the head also changes
//! its position, because a correction would require the depth of each pixel. It does not compensate for moving objects,
//! because that would require their motion.
//!
//! Conventions are those of OpenXR: right-handed, y up, -z forward. The centre of the first pixel is at 0.5, 0.5; rows
//! are counted from the top.

use crate::rotation::Rotation;
use crate::units::Size;
use crate::wire::video::FieldOfView;

/// Minimum difference between the tangents of the angles to two opposite sides of a view. Smaller views have no
/// picture.
const LEAST_SPAN: f64 = 1e-3;

/// Minimum fraction of a view's angle that remains, regardless of the overscan.
const LEAST_SHOWN: f32 = 0.25;

/// A camera: a field of view and its size in pixels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Camera {
    /// The angles to its sides.
    pub view: FieldOfView,
    /// Its pixels.
    pub size: Size,
}

type Matrix = [[f64; 3]; 3];

impl Camera {
    /// Horizontal and vertical pixels per unit of the plane one metre ahead, and the tangents of the angles to the left
    /// and upper side; `None` if there is no picture between the sides. The pixels per unit are negative for mirrored
    /// views, which OpenXR allows.
    fn plane(&self) -> Option<[f64; 4]> {
        let [left, right, up, down] = self.view.angles().map(|angle| f64::from(angle).tan());
        let (across, high) = (right - left, up - down);
        if across.abs() < LEAST_SPAN || high.abs() < LEAST_SPAN || !self.size.is_valid() {
            return None;
        }
        let (width, height) = (f64::from(self.size.width), f64::from(self.size.height));
        Some([width / across, height / high, left, up])
    }

    /// Maps directions to pixels.
    fn projection(&self) -> Option<Matrix> {
        let [x, y, left, up] = self.plane()?;
        Some([[x, 0.0, x * left], [0.0, -y, -y * up], [0.0, 0.0, -1.0]])
    }

    /// Maps pixels to directions.
    fn rays(&self) -> Option<Matrix> {
        let [x, y, left, up] = self.plane()?;
        Some([[1.0 / x, 0.0, left], [0.0, -1.0 / y, up], [0.0, 0.0, -1.0]])
    }
}

/// Maps positions of one picture to positions of another, both in pixels.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Homography(Matrix);

impl Homography {
    /// The identity.
    pub const SAME: Homography = Homography([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]);

    /// Maps the displayed picture to the drawn picture, for an eye that has turned: `turned` is its current orientation
    /// relative to the eye for which the picture was drawn. `None` if a camera has an empty view.
    #[must_use]
    pub fn re_aimed(drawn: &Camera, shown: &Camera, turned: Rotation) -> Option<Homography> {
        let columns = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
        let columns = columns.map(|axis| turned.turn(axis).map(f64::from));
        let mut rotation = [[0.0; 3]; 3];
        for (row, line) in rotation.iter_mut().enumerate() {
            for (to, column) in line.iter_mut().zip(&columns) {
                *to = column[row];
            }
        }
        let rays = product(&rotation, &shown.rays()?);
        Some(Homography(product(&drawn.projection()?, &rays)))
    }

    /// The matrix's rows. A position x, y of the displayed picture maps to the position X / Z, Y / Z of the drawn
    /// picture, where (X, Y, Z) is this matrix times (x, y, 1). For Z ≤ 0, the position is behind the eye for which the
    /// picture was drawn.
    #[must_use]
    pub fn rows(&self) -> [[f64; 3]; 3] {
        self.0
    }

    /// The position in the drawn picture that corresponds to a position in the displayed picture; `None` if it is
    /// behind the eye for which the picture was drawn.
    #[must_use]
    pub fn source(&self, x: f64, y: f64) -> Option<[f64; 2]> {
        let [x, y, z] = self.0.map(|[a, b, c]| a * x + b * y + c);
        (z > f64::EPSILON).then(|| [x / z, y / z])
    }
}

fn product(a: &Matrix, b: &Matrix) -> Matrix {
    a.map(|row| [0, 1, 2].map(|column| (0..3).map(|i| row[i] * b[i][column]).sum()))
}

/// The current orientation of an eye relative to the eye for which the picture was drawn. `head` and `eye` are the
/// orientations for which the picture was drawn, and `now` is the current orientation of the head; the eye turns with
/// the head.
#[must_use]
pub fn turned(head: Rotation, eye: Rotation, now: Rotation) -> Rotation {
    let eye_now = now.after(head.inverse()).after(eye);
    eye.inverse().after(eye_now)
}

/// The view without `margin` radians at each side: the displayed part of a picture with overscan. At least a quarter of
/// each angle remains.
#[must_use]
pub fn without_margin(view: &FieldOfView, margin: f32) -> FieldOfView {
    let [left, right, up, down] = view.angles();
    let cut = |low: f32, high: f32| {
        let most = (high - low).abs() * (1.0 - LEAST_SHOWN) / 2.0;
        let margin = margin.clamp(0.0, most) * (high - low).signum();
        (low + margin, high - margin)
    };
    let ((left, right), (down, up)) = (cut(left, right), cut(down, up));
    // The new angles lie between valid angles, so they are valid too.
    FieldOfView::new(left, right, up, down).unwrap_or(*view)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A camera that is a right angle wide and high.
    fn square() -> Camera {
        camera([-45.0, 45.0, 45.0, -45.0], 640)
    }

    fn camera(degrees: [f32; 4], side: u32) -> Camera {
        let [left, right, up, down] = degrees.map(f32::to_radians);
        Camera {
            view: FieldOfView::new(left, right, up, down).expect("a view"),
            size: Size::new(side, side),
        }
    }

    fn yaw(degrees: f32) -> Rotation {
        Rotation::of_head(degrees.to_radians(), 0.0, 0.0)
    }

    fn at(found: Option<[f64; 2]>, expected: [f64; 2]) -> bool {
        found.is_some_and(|found| (0..2).all(|i| (found[i] - expected[i]).abs() < 1e-2))
    }

    #[test]
    fn without_a_turn_reprojection_is_the_identity() {
        let camera = camera([-50.0, 40.0, 35.0, -55.0], 640);
        let same = Homography::re_aimed(&camera, &camera, Rotation::NONE).expect("a picture");
        for place in [[0.0, 0.0], [320.0, 12.5], [640.0, 640.0]] {
            assert!(at(same.source(place[0], place[1]), place), "{place:?}");
        }
    }

    #[test]
    fn known_angles_map_to_the_expected_pixels() {
        // Half a right angle to the left: the left edge moves to the centre.
        let to_left = Homography::re_aimed(&square(), &square(), yaw(45.0)).expect("a picture");
        assert!(at(to_left.source(320.0, 320.0), [0.0, 320.0]));
        // 10 degrees up: the centre shows the pixel that is 320 · tan 10° above the middle.
        let up = Rotation::of_head(0.0, 10f32.to_radians(), 0.0);
        let up = Homography::re_aimed(&square(), &square(), up).expect("a picture");
        let above = 320.0 * (1.0 - 10f64.to_radians().tan());
        assert!(at(up.source(320.0, 320.0), [320.0, above]));
        // Leaning to the left shoulder: the picture turns clockwise, its left edge goes up.
        let roll = Rotation::of_head(0.0, 0.0, 90f32.to_radians());
        let roll = Homography::re_aimed(&square(), &square(), roll).expect("a picture");
        assert!(at(roll.source(320.0, 0.0), [0.0, 320.0]));
        // A head that has turned round sees no part of the picture.
        let round = Homography::re_aimed(&square(), &square(), yaw(180.0)).expect("a picture");
        assert_eq!(round.source(320.0, 320.0), None);
    }

    #[test]
    fn a_margin_becomes_visible_when_the_head_turns() {
        let drawn = square();
        let shown = Camera {
            view: without_margin(&drawn.view, 10f32.to_radians()),
            ..drawn
        };
        let [left, ..] = shown.view.angles();
        assert!((left.to_degrees() + 35.0).abs() < 1e-3);
        let turned = Homography::re_aimed(&drawn, &shown, yaw(10.0)).expect("a picture");
        assert!(at(turned.source(0.0, 320.0), [0.0, 320.0]));
        // A large margin is limited. A mirrored view stays mirrored.
        let [left, right, ..] = without_margin(&drawn.view, 3.0).angles();
        assert!((right - left).to_degrees() > 22.0);
        let mirrored = camera([45.0, -45.0, 45.0, -45.0], 64).view;
        let [left, right, ..] = without_margin(&mirrored, 0.1).angles();
        assert!(left < 45f32.to_radians() && left > right);
    }

    #[test]
    fn a_view_without_a_picture_is_refused() {
        let flat = camera([-20.0, -20.0, 30.0, -30.0], 64);
        assert_eq!(Homography::re_aimed(&flat, &square(), yaw(1.0)), None);
        assert_eq!(Homography::re_aimed(&square(), &flat, yaw(1.0)), None);
        let none = Camera {
            size: Size::new(0, 0),
            ..square()
        };
        assert_eq!(Homography::re_aimed(&none, &square(), yaw(1.0)), None);
    }

    #[test]
    fn an_eye_turns_with_its_head() {
        // An eye that looks 10 degrees outwards, in a head that turned by 30.
        let found = turned(yaw(20.0), yaw(30.0), yaw(50.0));
        assert!((found.vector()[1].to_degrees() - 30.0).abs() < 1e-3);
    }

    fn rotations() -> impl Strategy<Value = Rotation> {
        let angle = -0.6f32..0.6;
        (angle.clone(), angle.clone(), angle)
            .prop_map(|(yaw, pitch, roll)| Rotation::of_head(yaw, pitch, roll))
    }

    proptest! {
        #[test]
        fn the_inverse_maps_back_to_the_same_position(
            by in rotations(),
            x in 0.0f64..640.0,
            y in 0.0f64..640.0,
            sides in prop::array::uniform4(20.0f32..60.0),
        ) {
            let [left, right, up, down] = sides;
            let (drawn, shown) = (camera([-left, right, up, -down], 640), square());
            let there = Homography::re_aimed(&drawn, &shown, by).expect("a picture");
            let back = Homography::re_aimed(&shown, &drawn, by.inverse()).expect("a picture");
            if let Some([u, v]) = there.source(x, y)
                && u.abs() < 1e4
                && v.abs() < 1e4
            {
                let [rx, ry] = back.source(u, v).expect("the inverse maps it back");
                prop_assert!((rx - x).abs() < 0.05 && (ry - y).abs() < 0.05, "{rx} {ry}");
            }
        }

        #[test]
        fn a_direction_maps_to_the_pixel_of_the_turned_eye(by in rotations()) {
            // The centre of the displayed picture is the drawn picture's pixel in the direction of the eye.
            let camera = square();
            let seen = Homography::re_aimed(&camera, &camera, by).expect("a picture");
            let [x, y, z] = by.turn([0.0, 0.0, -1.0]).map(f64::from);
            prop_assume!(z < -0.1);
            let expected = [320.0 - 320.0 * x / z, 320.0 + 320.0 * y / z];
            prop_assert!(at(seen.source(320.0, 320.0), expected));
        }
    }
}
