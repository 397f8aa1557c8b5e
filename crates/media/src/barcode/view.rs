//! The bar code of one eye's picture in virtual reality: frame, eye, view direction, and predicted
//! display time.
//!
//! It has the layout of [`barcode`](super), with 80 cells across the eye's picture. Its 96 bits, most significant
//! first, are: frame (24), predicted display time (40), yaw (16), pitch (15), eye (1).

use openuvr_proto::units::Size;

use super::{CELLS, Form, cells_of, draw_cells, read_body};
use crate::picture::Picture;

const FRAME_BITS: u32 = 24;
const TIME_BITS: u32 = 40;
const YAW_BITS: u32 = 16;
const PITCH_BITS: u32 = 15;

/// One step of yaw or pitch, in degrees: 0.0055.
pub const STEP: f32 = 360.0 / 65_536.0;

/// The contents of an eye's code.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ViewStamp {
    /// Frames drawn so far, including this one, modulo 2^24: two days at 90 Hz.
    pub frame: u32,
    /// Predicted display time: microseconds of `CLOCK_MONOTONIC`, 40 bits, which are 12.7 days.
    pub display_us: u64,
    /// Steps of [`STEP`] to the left of straight ahead (-z); 65 536 steps are a full turn.
    pub yaw: u16,
    /// Steps of [`STEP`] upwards, from -16384 (straight down) to 16383.
    pub pitch: i16,
    /// Whether the picture is for the right eye.
    pub right: bool,
}

impl ViewStamp {
    /// The yaw in degrees, from -180 to 180: positive to the left, like rotations around y.
    #[must_use]
    pub fn yaw_degrees(&self) -> f32 {
        f32::from(self.yaw.cast_signed()) * STEP
    }

    /// The pitch in degrees, from -90 to 90: positive upwards.
    #[must_use]
    pub fn pitch_degrees(&self) -> f32 {
        f32::from(self.pitch) * STEP
    }

    /// Sets the view direction from an eye's orientation (a unit quaternion x, y, z, w). For
    /// straight up and straight down, the yaw is arbitrary.
    #[must_use]
    pub fn looking(self, [x, y, z, w]: [f32; 4]) -> ViewStamp {
        // The rotated vector -z.
        let ahead = [
            -2.0 * (x * z + w * y),
            -2.0 * (y * z - w * x),
            2.0 * (x * x + y * y) - 1.0,
        ];
        let yaw = (-ahead[0]).atan2(-ahead[2]).to_degrees();
        let pitch = ahead[1].clamp(-1.0, 1.0).asin().to_degrees();
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "yaw wraps after a whole turn, and pitch is clamped to a quarter turn"
        )]
        let (yaw, pitch) = (
            (yaw / STEP).round() as i32 as u16,
            (pitch / STEP).round().clamp(-16_384.0, 16_383.0) as i16,
        );
        ViewStamp { yaw, pitch, ..self }
    }

    /// The predicted display time with all bits. The dropped upper bits are chosen so that the time is nearest to
    /// `now_us`.
    #[must_use]
    pub fn display_us_near(&self, now_us: u64) -> u64 {
        let round = 1_u64 << TIME_BITS;
        let behind = now_us.wrapping_sub(self.display_us) % round;
        match behind > round / 2 {
            true => now_us.saturating_add(round - behind),
            false => now_us.saturating_sub(behind),
        }
    }
}

/// The cells for `stamp`, row by row; `true` is white.
#[must_use]
pub fn cells(stamp: &ViewStamp) -> [bool; CELLS] {
    cells_of(Form::View, body(stamp))
}

/// Draws `stamp`, as [`barcode::draw`](super::draw) draws the code of an ordinary picture.
#[must_use]
pub fn draw(data: &mut [u8], stride: usize, size: Size, stamp: &ViewStamp) -> bool {
    draw_cells(data, stride, size, &cells(stamp))
}

/// Reads the code of one eye's `picture`, as [`barcode::read`](super::read) reads the code of an ordinary picture. Each
/// of the two functions rejects the codes that the other function reads.
#[must_use]
pub fn read(picture: &Picture<'_>) -> Option<ViewStamp> {
    let mut body = read_body(Form::View, picture)?;
    let mut field = |bits: u32| {
        let value = body & ((1 << bits) - 1);
        body >>= bits;
        u64::try_from(value).ok()
    };
    let right = field(1)? == 1;
    let pitch = u16::try_from(field(PITCH_BITS)?).ok()?;
    let yaw = u16::try_from(field(YAW_BITS)?).ok()?;
    let display_us = field(TIME_BITS)?;
    Some(ViewStamp {
        frame: u32::try_from(field(FRAME_BITS)?).ok()?,
        display_us,
        yaw,
        // Sign extension of 15 bits.
        pitch: (pitch << 1).cast_signed() >> 1,
        right,
    })
}

fn body(stamp: &ViewStamp) -> u128 {
    let fields = [
        (u64::from(stamp.frame), FRAME_BITS),
        (stamp.display_us, TIME_BITS),
        (u64::from(stamp.yaw), YAW_BITS),
        (u64::from(stamp.pitch.cast_unsigned()), PITCH_BITS),
        (u64::from(stamp.right), 1),
    ];
    fields.iter().fold(0, |body, (value, bits)| {
        (body << bits) | (u128::from(*value) & ((1 << bits) - 1))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::barcode;

    const SIZE: Size = Size::new(640, 16);

    prop_compose! {
        fn any_stamp()(
            frame in 0..1_u32 << 24,
            display_us in 0..1_u64 << 40,
            yaw: u16,
            pitch in -16_384..16_384_i16,
            right: bool,
        ) -> ViewStamp {
            ViewStamp { frame, display_us, yaw, pitch, right }
        }
    }

    fn drawn(stamp: &ViewStamp) -> Vec<u8> {
        let mut data = vec![99; SIZE.pixels() * 4];
        assert!(draw(&mut data, SIZE.width as usize * 4, SIZE, stamp));
        data
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn any_stamp_is_read_back(stamp in any_stamp()) {
            let data = drawn(&stamp);
            let picture = Picture::bgrx(SIZE, &data, SIZE.width as usize * 4);
            prop_assert_eq!(read(&picture), Some(stamp));
            prop_assert_eq!(barcode::read(&picture), None);
        }
    }

    #[test]
    fn the_other_code_is_rejected() {
        let mut data = vec![0; SIZE.pixels() * 4];
        let stride = SIZE.width as usize * 4;
        assert!(barcode::draw(
            &mut data,
            stride,
            SIZE,
            &barcode::Stamp::default()
        ));
        assert_eq!(read(&Picture::bgrx(SIZE, &data, stride)), None);
    }

    #[test]
    fn yaw_and_pitch_are_those_of_the_rotation() {
        for (yaw, pitch) in [(0.0, 0.0), (30.0, 10.0), (-100.0, -60.0), (179.0, 45.0)] {
            let (sin, cos) = (f32::to_radians(yaw) / 2.0).sin_cos();
            let (up, across) = (f32::to_radians(pitch) / 2.0).sin_cos();
            // A rotation around x, followed by a rotation around y.
            let stamp =
                ViewStamp::default().looking([cos * up, sin * across, -sin * up, cos * across]);
            assert!((stamp.yaw_degrees() - yaw).abs() < 0.01, "{stamp:?}");
            assert!((stamp.pitch_degrees() - pitch).abs() < 0.01, "{stamp:?}");
        }
    }

    #[test]
    fn the_display_time_is_the_nearest() {
        let whole = (7_u64 << 40) + 5;
        let stamp = |us: u64| ViewStamp {
            display_us: us % (1 << 40),
            ..ViewStamp::default()
        };
        for us in [whole - 20_000, whole, whole + 20_000] {
            assert_eq!(stamp(us).display_us_near(whole), us);
        }
    }
}
