//! What the player's hands are to feel, on its way to its client.
//!
//! A message may be lost, and a short vibration is over before anybody could ask: each is said three times, with
//! one number, so that the client plays it once.

use std::time::Duration;

use crate::controller::{Hand, Haptic};
use crate::time::Instant;
use crate::wire::control::Message;

/// How often a vibration is said …
const REPEATS: u8 = 3;

/// … so far apart (guess: a burst of losses is over, and nobody feels the difference).
const SPACING: Duration = Duration::from_millis(8);

#[derive(Clone, Copy)]
struct PendingHaptic {
    serial: u32,
    haptic: Haptic,
    due: Instant,
    left: u8,
}

/// What is said of a hand.
pub(super) struct HapticMessage {
    serial: u32,
    pub(super) haptic: Haptic,
    /// It was not said before.
    pub(super) is_new: bool,
}

impl HapticMessage {
    /// To a client of our own.
    pub(super) fn message(&self) -> Message<'static> {
        let (serial, haptic) = (self.serial, self.haptic);
        Message::Haptic { serial, haptic }
    }
}

/// Of both hands.
#[derive(Default)]
pub(super) struct Haptics {
    hands: [Option<PendingHaptic>; 2],
    serial: u32,
}

impl Haptics {
    /// A hand is to feel this now, in place of what it felt.
    pub(super) fn set(&mut self, now: Instant, haptic: Haptic) {
        self.serial = self.serial.wrapping_add(1);
        self.hands[haptic.hand.index()] = Some(PendingHaptic {
            serial: self.serial,
            haptic,
            due: now,
            left: REPEATS,
        });
    }

    /// What is to be said next, if it is due.
    pub(super) fn poll(&mut self, now: Instant) -> Option<HapticMessage> {
        let is_due =
            |hand: &Hand| self.hands[hand.index()].is_some_and(|pending| pending.due <= now);
        let hand = Hand::ALL.into_iter().find(is_due)?;
        let place = &mut self.hands[hand.index()];
        let pending = (*place)?;
        *place = (pending.left > 1).then_some(PendingHaptic {
            due: now + SPACING,
            left: pending.left - 1,
            ..pending
        });
        Some(HapticMessage {
            serial: pending.serial,
            haptic: pending.haptic,
            is_new: pending.left == REPEATS,
        })
    }

    /// When [`Haptics::poll`] has something.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.hands.iter().flatten().map(|pending| pending.due).min()
    }

    /// Another plays: the one before is told nothing more.
    pub(super) fn forget(&mut self) {
        self.hands = [None; 2];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_said_three_times_and_the_latest_counts() {
        let at = |ms: i64| Instant(ms * 1_000_000);
        let buzz = |amplitude| Haptic {
            amplitude,
            ..Haptic::stop(Hand::Left)
        };
        let mut haptics = Haptics::default();
        haptics.set(at(0), buzz(1));
        let mut pending = Vec::new();
        for now in 0..100 {
            if now == 10 {
                haptics.set(at(now), buzz(2));
            }
            while let Some(next) = haptics.poll(at(now)) {
                pending.push((now, next.serial, next.haptic.amplitude, next.is_new));
            }
        }
        let first = [(0, 1, 1, true), (8, 1, 1, false)];
        let second = [(10, 2, 2, true), (18, 2, 2, false), (26, 2, 2, false)];
        assert_eq!(pending, [&first[..], &second].concat());
        assert_eq!(haptics.next_timeout(), None);
    }
}
