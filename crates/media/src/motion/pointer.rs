//! Relative pointer motion from two angles.

use openuvr_proto::input::event::InputEvent;

use super::Effect;

/// Maximum number of events that move the pointer back when recentring; remaining counts are dropped.
const MAX_RETURN: usize = 64;

/// A pointer that follows two angles.
#[derive(Clone, Debug)]
pub(super) struct Pointer {
    /// Counts per degree.
    gain: f64,
    /// The dead zone in degrees.
    dead_zone: f64,
    /// The angles that correspond to the pointer's motion so far, in degrees. They differ from the angles of the newest
    /// pose by at most the dead zone.
    followed: [f64; 2],
    /// Counts not yet sent: fractions, and counts that exceed the largest event.
    rest: [f64; 2],
    /// Counts sent since the start or the last recentring.
    sent: [i64; 2],
}

impl Pointer {
    /// A pointer for a head that has not turned.
    pub(super) fn new(gain: f32, dead_zone: f32) -> Pointer {
        Pointer {
            gain: gain.into(),
            dead_zone: dead_zone.into(),
            followed: [0.0; 2],
            rest: [0.0; 2],
            sent: [0; 2],
        }
    }

    /// The pointer's motion for a pose with these angles. Within the dead zone around `followed`, there is none.
    pub(super) fn move_to(&mut self, angles: [f64; 2]) -> Option<Effect> {
        let mut counts = [0; 2];
        for axis in 0..2 {
            let off = angles[axis] - self.followed[axis];
            let excess = (off.abs() - self.dead_zone).max(0.0).copysign(off);
            self.followed[axis] += excess;
            let exact = self.rest[axis] + excess * self.gain;
            let whole = exact.trunc().clamp(i16::MIN.into(), i16::MAX.into());
            #[allow(
                clippy::cast_possible_truncation,
                reason = "the value is within the range of i16"
            )]
            let whole_count = whole as i16;
            // Counts that exceed the largest event are sent with the next pose.
            self.rest[axis] = exact - whole;
            self.sent[axis] += i64::from(whole_count);
            counts[axis] = whole_count;
        }
        motion(counts)
    }

    /// Treats these angles as followed, without moving the pointer.
    pub(super) fn skip_to(&mut self, angles: [f64; 2]) {
        self.followed = angles;
        self.rest = [0.0; 2];
    }

    /// Moves the pointer back by the counts in `sent`, with at most [`MAX_RETURN`] events. From now on, angles are
    /// relative to the newest pose.
    pub(super) fn recentre(&mut self) -> Vec<Effect> {
        self.skip_to([0.0; 2]);
        let mut left = std::mem::take(&mut self.sent);
        let next = || {
            let counts = left.map(|count| {
                let back = (-count).clamp(i64::from(i16::MIN), i64::from(i16::MAX));
                i16::try_from(back).unwrap_or(0)
            });
            for (left, count) in left.iter_mut().zip(counts) {
                *left += i64::from(count);
            }
            motion(counts)
        };
        std::iter::from_fn(next).take(MAX_RETURN).collect()
    }
}

fn motion([dx, dy]: [i16; 2]) -> Option<Effect> {
    let moves = dx != 0 || dy != 0;
    moves.then_some(Effect::Pointer(InputEvent::PointerRelative { dx, dy }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_within_the_dead_zone_is_no_motion() {
        let mut pointer = Pointer::new(10.0, 0.5);
        for n in 0..1000 {
            let noise = if n % 2 == 0 { 0.49 } else { -0.49 };
            assert_eq!(pointer.move_to([noise, -noise]), None);
        }
        // Beyond the dead zone, the pointer stays half a degree behind the head.
        let expected = InputEvent::PointerRelative { dx: 95, dy: 0 };
        assert_eq!(
            pointer.move_to([10.0, 0.0]),
            Some(Effect::Pointer(expected))
        );
        assert_eq!(pointer.move_to([9.2, 0.0]), None);
    }

    #[test]
    fn a_jump_beyond_one_event_is_sent_in_several() {
        let mut pointer = Pointer::new(1000.0, 0.0);
        let mut sum = 0_i64;
        for _ in 0..3 {
            if let Some(Effect::Pointer(InputEvent::PointerRelative { dx, .. })) =
                pointer.move_to([-80.0, 0.0])
            {
                sum += i64::from(dx);
            }
        }
        assert_eq!(sum, -80_000);
    }
}
