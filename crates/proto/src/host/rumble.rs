//! What the player's pads are to feel: said when it changes, and again while it lasts.
//!
//! A message may be lost. One that starts a motor is said again, and holds for a while only; one that stops it
//! is said some times: a motor stands still soon, whatever is lost, and also where the session ends.

use std::time::Duration;

use crate::input::pad::{MAX_PADS, PadId, Rumble};
use crate::time::Instant;
use crate::wire::control::Message;

/// While a motor runs this is said again …
const REPEAT_EVERY: Duration = Duration::from_millis(100);

/// … and holds for so many milliseconds (guess: two of three may be lost).
const HOLD_MS: u16 = 350;

/// No two messages of a pad are closer (guess: a motor takes some ten times as long to start).
const SPACING: Duration = Duration::from_millis(5);

/// That it stands still is said so often, [`SPACING`] · 4 apart.
const STOPS: u8 = 3;

#[derive(Clone, Copy, Default)]
struct Motors {
    rumble: Rumble,
    /// When something is to be said next.
    due: Option<Instant>,
    /// When something was said last.
    sent_at: Option<Instant>,
    /// How often a stop is still to be said.
    stops: u8,
}

/// What is said of a pad.
pub(super) struct RumbleMessage {
    serial: u32,
    pub(super) pad: PadId,
    pub(super) rumble: Rumble,
    pub(super) millis: u16,
}

impl RumbleMessage {
    /// To a client of our own.
    pub(super) fn message(&self) -> Message<'static> {
        Message::Rumble {
            serial: self.serial,
            pad: self.pad,
            rumble: self.rumble,
            millis: self.millis,
        }
    }
}

/// Of all pads.
#[derive(Default)]
pub(super) struct Rumbles {
    pads: [Motors; MAX_PADS as usize],
    serial: u32,
}

impl Rumbles {
    /// From now on a pad is to feel this.
    pub(super) fn set(&mut self, now: Instant, pad: PadId, rumble: Rumble) {
        let motors = &mut self.pads[pad.index()];
        if std::mem::replace(&mut motors.rumble, rumble) == rumble {
            return;
        }
        motors.stops = STOPS;
        motors.due = Some(motors.sent_at.map_or(now, |sent| now.max(sent + SPACING)));
    }

    /// What is to be said next, if it is due.
    pub(super) fn poll(&mut self, now: Instant) -> Option<RumbleMessage> {
        let is_due = |motors: &Motors| motors.due.is_some_and(|due| due <= now);
        let pad = PadId::all().find(|pad| is_due(&self.pads[pad.index()]))?;
        let motors = &mut self.pads[pad.index()];
        motors.sent_at = Some(now);
        let (after, millis) = match motors.rumble {
            Rumble::OFF => {
                motors.stops = motors.stops.saturating_sub(1);
                ((motors.stops > 0).then_some(SPACING * 4), 0)
            }
            _ => (Some(REPEAT_EVERY), HOLD_MS),
        };
        motors.due = after.map(|after| now + after);
        self.serial = self.serial.wrapping_add(1);
        Some(RumbleMessage {
            serial: self.serial,
            pad,
            rumble: motors.rumble,
            millis,
        })
    }

    /// When [`Rumbles::poll`] has something.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.pads.iter().filter_map(|motors| motors.due).min()
    }

    /// Another plays: it was told nothing yet, and the one before is told nothing more.
    pub(super) fn forget(&mut self) {
        self.pads = Default::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HARD: Rumble = Rumble {
        strong: 65_535,
        weak: 7,
    };

    fn at(millis: u32) -> Instant {
        Instant(0) + Duration::from_millis(millis.into())
    }

    /// What is said until `end`, with the milliseconds at which it is.
    fn messages(rumbles: &mut Rumbles, end: u32) -> Vec<(u32, u8, Rumble, u16)> {
        let mut all = Vec::new();
        for now in 0..=end {
            while let Some(said) = rumbles.poll(at(now)) {
                all.push((now, said.pad.number(), said.rumble, said.millis));
            }
        }
        all
    }

    #[test]
    fn a_motor_that_runs_is_said_again_and_its_stop_thrice() {
        let (mut rumbles, pad) = (Rumbles::default(), PadId(1));
        rumbles.set(at(0), pad, HARD);
        let run = [(0, 1, HARD, 350), (100, 1, HARD, 350), (200, 1, HARD, 350)];
        assert_eq!(messages(&mut rumbles, 250), run);
        rumbles.set(at(250), pad, Rumble::OFF);
        let off = |at| (at, 1, Rumble::OFF, 0);
        let stops: Vec<_> = messages(&mut rumbles, 1000);
        assert_eq!(stops, [off(250), off(270), off(290)]);
        assert_eq!(rumbles.next_timeout(), None);
    }

    #[test]
    fn of_many_changes_the_latest_is_said_at_a_bounded_rate() {
        let mut rumbles = Rumbles::default();
        let mut heard = 0;
        for now in 0..1000 {
            for step in 0..10 {
                let weak = u16::try_from(now * 10 + step).unwrap() + 1;
                rumbles.set(at(now), PadId(0), Rumble { strong: 1, weak });
            }
            while rumbles.poll(at(now)).is_some() {
                heard += 1;
            }
        }
        assert_eq!(heard, 200);
        let rumble = rumbles.poll(at(1000)).expect("the latest is said").rumble;
        assert_eq!(rumble.weak, 10_000);
        // What does not change is not said because it is set.
        rumbles.set(at(1001), PadId(0), rumble);
        assert_eq!(rumbles.next_timeout(), Some(at(1100)));
    }
}
