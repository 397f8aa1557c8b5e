//! The deflection of a stick from two angles.

use super::Effect;

/// Size of a deflection's steps. 512 steps in each direction are at least as fine as those of a pad's stick (8 to 10
/// bits), and keep a sensor's noise off the link.
const STEP: f64 = 64.0;

/// A stick that follows two angles.
#[derive(Clone, Debug)]
pub(super) struct Stick {
    /// Degrees for full deflection, at least one more than the dead zone.
    range: f64,
    /// The dead zone in degrees.
    dead_zone: f64,
    deflection: [i16; 2],
}

impl Stick {
    /// A released stick.
    pub(super) fn new(range: f32, dead_zone: f32) -> Stick {
        let dead_zone = f64::from(dead_zone);
        Stick {
            range: f64::from(range).max(dead_zone + 1.0),
            dead_zone,
            deflection: [0; 2],
        }
    }

    /// The deflection at these angles from the centre, if it differs from the last deflection.
    pub(super) fn deflect(&mut self, angles: [f64; 2]) -> Option<Effect> {
        let deflection = angles.map(|angle| {
            let excess = (angle.abs() - self.dead_zone).max(0.0);
            let part = (excess / (self.range - self.dead_zone)).min(1.0);
            let steps = (part * 32768.0 / STEP).round() * STEP;
            #[allow(
                clippy::cast_possible_truncation,
                reason = "values out of range saturate"
            )]
            let deflection = steps.copysign(angle) as i16;
            deflection
        });
        self.change(deflection)
    }

    /// Releases the stick. `None` if it was not deflected.
    pub(super) fn release(&mut self) -> Option<Effect> {
        self.change([0; 2])
    }

    fn change(&mut self, deflection: [i16; 2]) -> Option<Effect> {
        let before = std::mem::replace(&mut self.deflection, deflection);
        (before != deflection).then_some(Effect::Stick(deflection))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dead_zone_and_the_range_are_its_ends() {
        let mut stick = Stick::new(30.0, 2.0);
        assert_eq!(stick.deflect([2.0, -2.0]), None);
        let full = Some(Effect::Stick([i16::MAX, i16::MIN]));
        assert_eq!(stick.deflect([30.0, -30.0]), full);
        assert_eq!(stick.deflect([500.0, -31.0]), None, "it is at its end");
        assert_eq!(stick.deflect([16.0, 0.0]), Some(Effect::Stick([16384, 0])));
        assert_eq!(stick.release(), Some(Effect::Stick([0, 0])));
        assert_eq!(stick.release(), None);
        let narrow = Stick::new(1.0, 5.0).deflect([5.5, 0.0]);
        assert_eq!(narrow, Some(Effect::Stick([16384, 0])));
    }
}
