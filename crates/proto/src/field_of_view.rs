//! What an eye sees, or a view shows, as angles.

use crate::bytes::{Reader, Reject, Writer};
use crate::pose::PoseError;

/// What a view shows: the angles between its axis and its four sides, in radians, as OpenXR's
/// `XrFovf` has them. Left and down are usually negative.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FieldOfView {
    left: f32,
    right: f32,
    up: f32,
    down: f32,
}

// Its numbers are finite, and so equal to themselves.
impl Eq for FieldOfView {}

impl FieldOfView {
    /// Bytes that it takes.
    pub(crate) const LEN: usize = 4 * 4;

    /// Half angles to the left, to the right, up and down, in radians.
    ///
    /// # Errors
    /// [`PoseError::NotFinite`], also for an angle of 90° or more: nothing is seen there.
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

    /// Left, right, up, down, in radians.
    #[must_use]
    pub fn angles(&self) -> [f32; 4] {
        [self.left, self.right, self.up, self.down]
    }

    pub(crate) fn write(&self, w: &mut Writer<'_>) {
        for angle in self.angles() {
            w.f32(angle);
        }
    }

    /// `None` if the numbers are no such angles.
    pub(crate) fn parse(r: &mut Reader<'_>) -> Result<Option<FieldOfView>, Reject> {
        let [left, right] = [r.f32()?, r.f32()?];
        Ok(FieldOfView::new(left, right, r.f32()?, r.f32()?).ok())
    }
}
