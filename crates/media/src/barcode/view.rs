//! The bar code of one eye's picture in virtual reality: which frame and eye this is, where the eye looked when
//! it was drawn, and when it was meant to be seen.
//!
//! Its form is that of [`barcode`](super), 80 cells being the width of the eye's picture. Its 96 bits, the most
//! significant first: frame (24), predicted display time (40), yaw (16), pitch (15), eye (1).

use openuvr_proto::units::Size;

use super::{CELLS, Form, cells_of, draw_cells, read_body};
use crate::picture::Picture;

const FRAME_BITS: u32 = 24;
const TIME_BITS: u32 = 40;
const YAW_BITS: u32 = 16;
const PITCH_BITS: u32 = 15;

/// One step of yaw or pitch, in degrees: 0.0055.
pub const STEP: f32 = 360.0 / 65_536.0;

/// What the code of an eye says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ViewStamp {
    /// Frames drawn so far, this one included; 24 bits, of which higher ones are cut off: two days at 90 Hz.
    pub frame: u32,
    /// When the application was told that it would be seen: microseconds of `CLOCK_MONOTONIC`, 40 bits, which
    /// last 12.7 days.
    pub display_us: u64,
    /// Steps of [`STEP`] to the left of straight ahead (-z), once round.
    pub yaw: u16,
    /// Steps of [`STEP`] upwards, from -16384 (straight down) to 16383.
    pub pitch: i16,
    /// Whether it is the right eye.
    pub right: bool,
}

impl ViewStamp {
    /// The yaw in degrees, from -180 to 180: positive to the left, as rotations around y are.
    #[must_use]
    pub fn yaw_degrees(&self) -> f32 {
        f32::from(self.yaw.cast_signed()) * STEP
    }

    /// The pitch in degrees, from -90 to 90: positive upwards.
    #[must_use]
    pub fn pitch_degrees(&self) -> f32 {
        f32::from(self.pitch) * STEP
    }

    /// The same with the direction in which an eye of this orientation (a quaternion x, y, z, w of length 1)
    /// looks. Straight up and down have a yaw that says nothing.
    #[must_use]
    pub fn looking(self, [x, y, z, w]: [f32; 4]) -> ViewStamp {
        // The rotation of -z.
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
            reason = "a whole turn goes round, and a quarter is clamped"
        )]
        let (yaw, pitch) = (
            (yaw / STEP).round() as i32 as u16,
            (pitch / STEP).round().clamp(-16_384.0, 16_383.0) as i16,
        );
        ViewStamp { yaw, pitch, ..self }
    }

    /// The predicted display time with the bits that were cut off, as they are nearest to `now_us`.
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

/// The cells that say `stamp`, row by row; `true` is white.
#[must_use]
pub fn cells(stamp: &ViewStamp) -> [bool; CELLS] {
    cells_of(Form::View, body(stamp))
}

/// Draws `stamp`, as [`barcode::draw`](super::draw) draws the other code.
#[must_use]
pub fn draw(data: &mut [u8], stride: usize, size: Size, stamp: &ViewStamp) -> bool {
    draw_cells(data, stride, size, &cells(stamp))
}

/// Reads the code of one eye's `picture`, as [`barcode::read`](super::read) reads the other code; neither takes
/// the other's.
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
        // The sign of 15 bits.
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
    fn the_other_code_is_not_taken_for_this_one() {
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
            // Around y, after around x.
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
