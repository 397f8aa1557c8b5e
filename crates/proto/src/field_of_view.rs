//! The field of view of an eye or a view, as angles.

use serde::{Deserialize, Serialize};

use crate::bytes::{Reader, Reject, Writer};
use crate::pose::PoseError;

/// A field of view: the angles between the view's axis and its four sides, in radians, as in OpenXR's
/// `XrFovf`. Left and down are usually negative.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(try_from = "[f32; 4]", into = "[f32; 4]")]
pub struct FieldOfView {
    left: f32,
    right: f32,
    up: f32,
    down: f32,
}

impl TryFrom<[f32; 4]> for FieldOfView {
    type Error = PoseError;

    fn try_from([left, right, up, down]: [f32; 4]) -> Result<FieldOfView, PoseError> {
        FieldOfView::new(left, right, up, down)
    }
}

impl From<FieldOfView> for [f32; 4] {
    fn from(view: FieldOfView) -> [f32; 4] {
        view.angles()
    }
}

// All fields are finite, so equality is reflexive.
impl Eq for FieldOfView {}

impl FieldOfView {
    /// Its encoded size in bytes.
    pub(crate) const LEN: usize = 4 * 4;

    /// Creates a field of view from the angles to the left, to the right, up and down, in radians.
    ///
    /// # Errors
    /// [`PoseError::NotFinite`] if an angle is not finite, or if its magnitude is 90° or more.
    pub fn new(left: f32, right: f32, up: f32, down: f32) -> Result<FieldOfView, PoseError> {
        let within = |angle: f32| angle.is_finite() && angle.abs() < std::f32::consts::FRAC_PI_2;
        let view = FieldOfView {
            left,
            right,
            up,
            down,
        };
        match view.angles().into_iter().all(within) {
            true => Ok(view),
            false => Err(PoseError::NotFinite),
        }
    }

    /// The angles to the left, to the right, up and down, in radians.
    #[must_use]
    pub fn angles(&self) -> [f32; 4] {
        [self.left, self.right, self.up, self.down]
    }

    pub(crate) fn write(&self, w: &mut Writer<'_>) {
        for angle in self.angles() {
            w.f32(angle);
        }
    }

    /// Returns `None` for invalid angles.
    pub(crate) fn parse(r: &mut Reader<'_>) -> Result<Option<FieldOfView>, Reject> {
        let [left, right] = [r.f32()?, r.f32()?];
        Ok(FieldOfView::new(left, right, r.f32()?, r.f32()?).ok())
    }
}
