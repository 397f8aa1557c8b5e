//! Rumble messages for the player's pads, sent on a change and repeated while a motor runs.
//!
//! Messages may be lost. A message that starts a motor is therefore repeated, and its effect expires. A message that
//! stops a motor is sent several times. A motor thus always stops soon, even if the session ends.

use std::time::Duration;

use crate::input::pad::{MAX_PADS, PadId, Rumble};
use crate::time::Instant;
use crate::wire::control::Message;

/// Repetition interval while a motor runs.
const REPEAT_EVERY: Duration = Duration::from_millis(100);

/// Duration of the rumble that one message starts, in milliseconds. The motor keeps running if two consecutive messages
/// are lost (guess).
const HOLD_MS: u16 = 350;

/// Minimum interval between two messages for one pad (guess: a motor takes about ten times as long to start).
const SPACING: Duration = Duration::from_millis(5);

/// Number of transmissions of a stop, each four times [`SPACING`] after the previous one.
const STOPS: u8 = 3;

#[derive(Clone, Copy, Default)]
struct Motors {
    rumble: Rumble,
    /// When the next message is due.
    due: Option<Instant>,
    /// When the last message was sent.
    sent_at: Option<Instant>,
    /// Remaining transmissions of a stop.
    stops: u8,
}

/// A message for one pad.
pub(super) struct RumbleMessage {
    serial: u32,
    pub(super) pad: PadId,
    pub(super) rumble: Rumble,
    pub(super) millis: u16,
}

impl RumbleMessage {
    /// The control message for a session.
    pub(super) fn message(&self) -> Message<'static> {
        Message::Rumble {
            serial: self.serial,
            pad: self.pad,
            rumble: self.rumble,
            millis: self.millis,
        }
    }
}

/// The state of all pads.
#[derive(Default)]
pub(super) struct Rumbles {
    pads: [Motors; MAX_PADS as usize],
    serial: u32,
}

impl Rumbles {
    /// Sets a pad's rumble.
    pub(super) fn set(&mut self, now: Instant, pad: PadId, rumble: Rumble) {
        let motors = &mut self.pads[pad.index()];
        if std::mem::replace(&mut motors.rumble, rumble) == rumble {
            return;
        }
        motors.stops = STOPS;
        motors.due = Some(motors.sent_at.map_or(now, |sent| now.max(sent + SPACING)));
    }

    /// The next message that is due.
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

    /// When [`Rumbles::poll`] next returns a message.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.pads.iter().filter_map(|motors| motors.due).min()
    }

    /// Resets the state for a new player.
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

    /// The messages until `end`, with their times in milliseconds.
    fn messages(rumbles: &mut Rumbles, end: u32) -> Vec<(u32, u8, Rumble, u16)> {
        let mut all = Vec::new();
        for now in 0..=end {
            while let Some(update) = rumbles.poll(at(now)) {
                all.push((now, update.pad.number(), update.rumble, update.millis));
            }
        }
        all
    }

    #[test]
    fn a_running_motor_is_repeated_and_its_stop_sent_thrice() {
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
    fn the_latest_of_many_changes_is_sent_at_a_bounded_rate() {
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
        let rumble = rumbles.poll(at(1000)).expect("the latest is sent").rumble;
        assert_eq!(rumble.weak, 10_000);
        // Setting an unchanged value sends nothing.
        rumbles.set(at(1001), PadId(0), rumble);
        assert_eq!(rumbles.next_timeout(), Some(at(1100)));
    }
}
