//! The angles of a pose relative to a centre pose, and the choice of two angles for the two axes of input.

use std::str::FromStr;

use openuvr_proto::pose::Pose;
use openuvr_proto::rotation::Rotation;

/// Maximum pitch in radians at which the yaw is known: 85°. Closer to vertical, yaw and roll can't be separated.
const MAX_PITCH: f32 = 85.0 * std::f32::consts::PI / 180.0;

/// An angle of a pose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Axis {
    /// Looking to the right.
    Yaw,
    /// Looking down.
    Pitch,
    /// Leaning to the right shoulder.
    Roll,
}

/// An angle, or its negative.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SignedAxis {
    /// The angle.
    pub axis: Axis,
    /// Whether it is inverted.
    pub inverted: bool,
}

/// The angles that move input to the right and downwards; `None` if no angle does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Axes(pub [Option<SignedAxis>; 2]);

impl Default for Axes {
    /// `yaw,pitch`
    fn default() -> Axes {
        let plain = |axis| {
            Some(SignedAxis {
                axis,
                inverted: false,
            })
        };
        Axes([plain(Axis::Yaw), plain(Axis::Pitch)])
    }
}

/// The text does not specify valid axes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected two of yaw, pitch, roll and none, such as yaw,-pitch")]
pub struct InvalidAxes;

impl FromStr for Axes {
    type Err = InvalidAxes;

    /// Parses two of `yaw`, `pitch`, `roll` and `none`, each with `-` in front if it is inverted. `-none` and
    /// `none,none` are invalid.
    fn from_str(text: &str) -> Result<Axes, InvalidAxes> {
        let (horizontal, vertical) = text.split_once(',').ok_or(InvalidAxes)?;
        let axis = |text: &str| {
            let (name, inverted) = match text.strip_prefix('-') {
                Some(name) => (name, true),
                None => (text, false),
            };
            let axis = match name {
                "yaw" => Axis::Yaw,
                "pitch" => Axis::Pitch,
                "roll" => Axis::Roll,
                "none" if !inverted => return Ok(None),
                _ => return Err(InvalidAxes),
            };
            Ok(Some(SignedAxis { axis, inverted }))
        };
        let axes = Axes([axis(horizontal)?, axis(vertical)?]);
        (axes.0 != [None; 2]).then_some(axes).ok_or(InvalidAxes)
    }
}

impl Axes {
    /// The two angles that control the input.
    pub(super) fn select(&self, angles: Angles) -> [f64; 2] {
        self.0.map(|selected| {
            selected.map_or(0.0, |selected| {
                let angle = match selected.axis {
                    Axis::Yaw => angles.yaw,
                    Axis::Pitch => angles.pitch,
                    Axis::Roll => angles.roll,
                };
                if selected.inverted { -angle } else { angle }
            })
        })
    }
}

/// Angles relative to the centre pose, in degrees: yaw to the right, pitch down, and roll to the right shoulder. Full
/// turns are counted.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Angles {
    yaw: f64,
    pitch: f64,
    roll: f64,
}

/// Follows the angles of poses.
#[derive(Clone, Debug, Default)]
pub(super) struct AngleTracker {
    /// Yaw, pitch and roll of the last pose, in radians as in [`Rotation::of_head`]. The yaw and roll of an almost
    /// vertical pose are not used.
    last: Option<[f32; 3]>,
    /// Whether the last pose was almost vertical: its pitch exceeded [`MAX_PITCH`] upwards or downwards.
    vertical: bool,
    angles: Angles,
}

impl AngleTracker {
    /// The angles of a pose; the first pose is the centre. While the head looks almost straight up or down, yaw and
    /// roll do not change.
    pub(super) fn follow(&mut self, pose: &Pose) -> Angles {
        let angles = head_angles(Rotation::of(pose));
        let last = self.last.replace(angles).unwrap_or(angles);
        let vertical = angles[1].abs() > MAX_PITCH;
        let was_vertical = std::mem::replace(&mut self.vertical, vertical);
        let turned = |axis: usize| f64::from(wrapped(last[axis] - angles[axis]).to_degrees());
        self.angles.pitch += turned(1);
        if !vertical && !was_vertical {
            self.angles.yaw += turned(0);
            self.angles.roll += turned(2);
        }
        self.angles
    }

    /// Makes the last pose the centre.
    pub(super) fn recentre(&mut self) {
        self.angles = Angles::default();
    }
}

/// Yaw, pitch and roll in radians: the inverse of [`Rotation::of_head`].
fn head_angles(rotation: Rotation) -> [f32; 3] {
    let [back_x, back_y, back_z] = rotation.turn([0.0, 0.0, 1.0]);
    let (right, up) = (
        rotation.turn([1.0, 0.0, 0.0]),
        rotation.turn([0.0, 1.0, 0.0]),
    );
    let pitch = (-back_y).clamp(-1.0, 1.0).asin();
    [back_x.atan2(back_z), pitch, right[1].atan2(up[1])]
}

/// The same angle, from minus half a turn to half a turn.
fn wrapped(angle: f32) -> f32 {
    let turn = std::f32::consts::TAU;
    angle - (angle / turn).round() * turn
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn axes_are_selected_swapped_and_inverted() {
        let angles = Angles {
            yaw: 1.0,
            pitch: 2.0,
            roll: 3.0,
        };
        let select = |text: &str| text.parse::<Axes>().expect("axes").select(angles);
        assert_eq!(Axes::default(), "yaw,pitch".parse().expect("axes"));
        assert_eq!(select("yaw,pitch"), [1.0, 2.0]);
        assert_eq!(select("pitch,-yaw"), [2.0, -1.0]);
        assert_eq!(select("-roll,none"), [-3.0, 0.0]);
        for bad in [
            "",
            "yaw",
            "yaw,",
            "x,y",
            "yaw,pitch,roll",
            "none,none",
            "-none,yaw",
            "--yaw,roll",
        ] {
            assert_eq!(bad.parse::<Axes>(), Err(InvalidAxes), "{bad}");
        }
    }

    #[test]
    fn full_turns_count_and_the_zenith_does_not_spin() {
        let pose = |yaw: f32, pitch: f32| {
            let Rotation(turned) = Rotation::of_head(yaw.to_radians(), pitch.to_radians(), 0.0);
            Pose::new([0.0; 3], turned).expect("a pose")
        };
        let mut tracker = AngleTracker::default();
        let mut angles = Angles::default();
        for n in 0..=36_i16 {
            angles = tracker.follow(&pose(f32::from(n) * 20.0, 0.0));
        }
        assert!((angles.yaw + 720.0).abs() < 0.01, "{angles:?}");
        tracker.recentre();
        // The head turns up, across the zenith and down behind: the pitch returns to 0, and the yaw does not jump by
        // half a turn.
        for n in 0..=180_i16 {
            angles = tracker.follow(&pose(0.0, f32::from(n)));
        }
        assert!(
            angles.yaw.abs() < 1.0 && angles.pitch.abs() < 1.0,
            "{angles:?}"
        );
    }

    proptest! {
        #[test]
        fn angles_are_those_of_the_head(
            yaw in -3.1_f32..3.1,
            pitch in -1.4_f32..1.4,
            roll in -3.1_f32..3.1,
        ) {
            let found = head_angles(Rotation::of_head(yaw, pitch, roll));
            for (found, expected) in found.into_iter().zip([yaw, pitch, roll]) {
                prop_assert!((found - expected).abs() < 2e-3, "{found} {expected}");
            }
        }
    }
}
