//! Input for games from the rotation of a head or hand: relative pointer motion, or a stick of a game pad. This input
//! makes an unmodified game turn its view.
//!
//! Angles are yaw, pitch and roll of a pose (rotations around y, x and z, in this order) relative
//! to the centre, which is the pose at the start or at the last recentring. There is no smoothing,
//! because it would add latency.
//!
//! This module has no clock and no devices.

mod angles;
pub mod pad;
mod pointer;
mod stick;

use openuvr_proto::input::event::InputEvent;
use openuvr_proto::pose::Pose;

pub use self::angles::{Axes, Axis, InvalidAxes, SignedAxis};

use self::angles::AngleTracker;
use self::pointer::Pointer;
use self::stick::Stick;

/// The effect of a rotation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Output {
    /// Relative pointer motion, in counts per degree.
    Mouse(f32),
    /// The right stick of a game pad, and the head rotation in degrees at which it is fully deflected.
    Pad(f32),
}

/// The settings of a mapping.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MotionSettings {
    /// The effect of the rotation.
    pub output: Output,
    /// The angles that control the output.
    pub axes: Axes,
    /// Size of the dead zone in degrees. A pad's stick stays released within this angle of the centre. After each
    /// change of direction, the pointer stays still for twice this angle.
    pub dead_zone: f32,
}

impl MotionSettings {
    /// Counts of a mouse per degree: a full turn is 3600 counts. This is the inverse of the factor
    /// of the emulated head ([`crate::head::mouse`]).
    pub const USUAL_GAIN: f32 = 10.0;

    /// Rotation in degrees for full deflection of the stick: a comfortable turn of a head (guess).
    pub const USUAL_RANGE: f32 = 30.0;

    /// The dead zone of a pad in degrees: a head at rest moves by a degree or two (guess).
    pub const USUAL_PAD_DEAD_ZONE: f32 = 2.0;
}

/// An effect of a pose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// An event for the host.
    Pointer(InputEvent),
    /// The deflection of the stick, for [`pad::MotionPad`].
    Stick([i16; 2]),
}

/// Maps poses to input.
#[derive(Clone, Debug)]
pub struct Motion {
    angles: AngleTracker,
    axes: Axes,
    output: Mapping,
}

#[derive(Clone, Debug)]
enum Mapping {
    Pointer(Pointer),
    Stick(Stick),
}

impl Motion {
    /// A mapping whose centre is the first pose.
    #[must_use]
    pub fn new(settings: &MotionSettings) -> Motion {
        let dead_zone = settings.dead_zone;
        Motion {
            angles: AngleTracker::default(),
            axes: settings.axes,
            output: match settings.output {
                Output::Mouse(gain) => Mapping::Pointer(Pointer::new(gain, dead_zone)),
                Output::Pad(range) => Mapping::Stick(Stick::new(range, dead_zone)),
            },
        }
    }

    /// The effect of a pose; `None` if it changes nothing.
    pub fn pose(&mut self, pose: &Pose) -> Option<Effect> {
        let angles = self.axes.select(self.angles.follow(pose));
        match &mut self.output {
            Mapping::Pointer(pointer) => pointer.move_to(angles),
            Mapping::Stick(stick) => stick.deflect(angles),
        }
    }

    /// Follows a pose while input is not for the host: the pointer does not move. Returns the effect that releases the
    /// stick, if the stick is deflected.
    pub fn pause(&mut self, pose: &Pose) -> Option<Effect> {
        let angles = self.axes.select(self.angles.follow(pose));
        match &mut self.output {
            Mapping::Pointer(pointer) => {
                pointer.skip_to(angles);
                None
            }
            Mapping::Stick(stick) => stick.release(),
        }
    }

    /// Ends the effect of the last pose, because its source sends no poses any more. Returns the effect that releases
    /// the stick, if the stick is deflected.
    pub fn release(&mut self) -> Option<Effect> {
        match &mut self.output {
            Mapping::Pointer(_) => None,
            Mapping::Stick(stick) => stick.release(),
        }
    }

    /// Makes the newest pose the centre. The stick is released, and the pointer moves back by its total motion since
    /// the start or the last recentring, up to 2^15 counts per event.
    pub fn recentre(&mut self) -> Vec<Effect> {
        self.angles.recentre();
        match &mut self.output {
            Mapping::Pointer(pointer) => pointer.recentre(),
            Mapping::Stick(stick) => stick.release().into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use openuvr_proto::rotation::Rotation;
    use proptest::prelude::*;

    use super::*;

    fn pose(yaw: f32, pitch: f32) -> Pose {
        let Rotation(turned) = Rotation::of_head(yaw.to_radians(), pitch.to_radians(), 0.0);
        Pose::new([0.0; 3], turned).expect("a pose")
    }

    fn mouse(gain: f32, dead_zone: f32) -> Motion {
        Motion::new(&MotionSettings {
            output: Output::Mouse(gain),
            axes: Axes::default(),
            dead_zone,
        })
    }

    /// The sum of the pointer's motions.
    fn sum(effects: impl IntoIterator<Item = Effect>) -> [i64; 2] {
        effects
            .into_iter()
            .fold([0; 2], |sum, effect| match effect {
                Effect::Pointer(InputEvent::PointerRelative { dx, dy }) => {
                    [sum[0] + i64::from(dx), sum[1] + i64::from(dy)]
                }
                other => panic!("{other:?}"),
            })
    }

    #[test]
    fn looking_right_and_down_moves_right_and_down() {
        let mut motion = mouse(10.0, 0.0);
        assert_eq!(motion.pose(&pose(20.0, 5.0)), None, "the centre");
        let moved = motion.pose(&pose(10.0, 2.0));
        assert_eq!(sum(moved), [100, 30]);
        assert_eq!(motion.pose(&pose(10.0, 2.0)), None);
        // Steps below one count add up and are not lost.
        let steps =
            (1..=1000_i16).filter_map(|n| motion.pose(&pose(10.0 - f32::from(n) * 0.003, 2.0)));
        assert_eq!(sum(steps.collect::<Vec<_>>()), [30, 0]);
    }

    #[test]
    fn recentring_returns_the_pointer() {
        let mut motion = mouse(500.0, 0.0);
        motion.pose(&pose(0.0, 0.0));
        // Two turns to the right.
        let turns = (1..=72_i16).filter_map(|n| motion.pose(&pose(-10.0 * f32::from(n), 0.0)));
        assert_eq!(sum(turns.collect::<Vec<_>>()), [360_000, 0]);
        let back = motion.recentre();
        assert_eq!(back.len(), 11);
        assert_eq!(sum(back), [-360_000, 0]);
        assert_eq!(motion.recentre(), []);
        assert_eq!(motion.pose(&pose(0.0, 0.0)), None);
        let [x, y] = sum(motion.pose(&pose(-1.0, 0.0)));
        assert!((499..=501).contains(&x) && y == 0, "{x} {y}");
    }

    #[test]
    fn a_pause_has_no_effect_afterwards() {
        let mut motion = mouse(10.0, 0.0);
        motion.pose(&pose(0.0, 0.0));
        assert_eq!(motion.pause(&pose(-90.0, 10.0)), None);
        assert_eq!(motion.pose(&pose(-90.0, 10.0)), None);
        assert_eq!(sum(motion.pose(&pose(-91.0, 10.0))), [10, 0]);
    }

    #[test]
    fn a_stick_follows_the_angle_from_the_centre() {
        let mut motion = Motion::new(&MotionSettings {
            output: Output::Pad(30.0),
            axes: "roll,-pitch".parse().expect("axes"),
            dead_zone: 0.0,
        });
        let lean = |roll: f32, pitch: f32| {
            let [roll, pitch] = [roll, pitch].map(f32::to_radians);
            let Rotation(turned) = Rotation::of_head(1.0, pitch, roll);
            Pose::new([0.0; 3], turned).expect("a pose")
        };
        assert_eq!(motion.pose(&lean(0.0, 0.0)), None);
        let Some(Effect::Stick([x, y])) = motion.pose(&lean(-15.0, 30.0)) else {
            panic!("it is deflected");
        };
        assert!((x - 16384).abs() <= 64 && y == i16::MAX, "{x} {y}");
        assert_eq!(motion.recentre(), [Effect::Stick([0, 0])]);
        assert_eq!(motion.pose(&lean(-15.0, 30.0)), None);
        assert!(motion.pose(&lean(0.0, 30.0)).is_some());
        assert_eq!(motion.pause(&lean(0.0, 30.0)), Some(Effect::Stick([0, 0])));
        let deflected = motion.pose(&lean(0.0, 30.0));
        assert!(deflected.is_some());
        assert_eq!(motion.release(), Some(Effect::Stick([0, 0])));
        assert_eq!(motion.release(), None);
        assert_eq!(motion.pose(&lean(0.0, 30.0)), deflected, "the poses resume");
        assert_eq!(mouse(10.0, 0.0).release(), None);
    }

    proptest! {
        /// On every path, the pointer ends where the head looks, within one count and the dead zone.
        #[test]
        fn no_path_loses_counts(
            path in proptest::collection::vec((-60.0_f32..60.0, -60.0_f32..60.0), 1..60),
            gain in 0.1_f32..100.0,
            dead_zone in 0.0_f32..3.0,
        ) {
            let mut motion = mouse(gain, dead_zone);
            motion.pose(&pose(0.0, 0.0));
            let mut effects = Vec::new();
            for (yaw, pitch) in &path {
                effects.extend(motion.pose(&pose(*yaw, *pitch)));
            }
            let (yaw, pitch) = path[path.len() - 1];
            let [x, y] = sum(effects.clone());
            let tolerance = gain * (dead_zone + 0.01) + 1.0;
            prop_assert!((x as f32 + yaw * gain).abs() <= tolerance, "{x} {yaw}");
            prop_assert!((y as f32 + pitch * gain).abs() <= tolerance, "{y} {pitch}");
            effects.extend(motion.recentre());
            prop_assert_eq!(sum(effects), [0, 0]);
        }
    }
}
