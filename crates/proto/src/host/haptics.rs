//! Haptic messages for the player's controllers.
//!
//! A message may be lost, and a short vibration ends before a retransmission could arrive. Each message is therefore sent
//! three times with the same serial, and the client plays it once.

use std::time::Duration;

use crate::controller::{Hand, Haptic};
use crate::time::Instant;
use crate::wire::control::Message;

/// Number of transmissions of a vibration.
const REPEATS: u8 = 3;

/// Interval between the transmissions (guess: longer than a burst of losses, too short to feel).
const SPACING: Duration = Duration::from_millis(8);

#[derive(Clone, Copy)]
struct PendingHaptic {
    serial: u32,
    haptic: Haptic,
    due: Instant,
    left: u8,
}

/// A message for one controller.
pub(super) struct HapticMessage {
    serial: u32,
    pub(super) haptic: Haptic,
    /// Whether this is the first transmission.
    pub(super) is_new: bool,
}

impl HapticMessage {
    /// The control message for a session.
    pub(super) fn message(&self) -> Message<'static> {
        let (serial, haptic) = (self.serial, self.haptic);
        Message::Haptic { serial, haptic }
    }
}

/// The pending vibrations of both controllers.
#[derive(Default)]
pub(super) struct Haptics {
    hands: [Option<PendingHaptic>; 2],
    serial: u32,
}

impl Haptics {
    /// Starts a vibration, which replaces the previous vibration of this hand.
    pub(super) fn set(&mut self, now: Instant, haptic: Haptic) {
        self.serial = self.serial.wrapping_add(1);
        self.hands[haptic.hand.index()] = Some(PendingHaptic {
            serial: self.serial,
            haptic,
            due: now,
            left: REPEATS,
        });
    }

    /// The next message that is due.
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

    /// When [`Haptics::poll`] next returns a message.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.hands.iter().flatten().map(|pending| pending.due).min()
    }

    /// Cancels all vibrations for a new player.
    pub(super) fn forget(&mut self) {
        self.hands = [None; 2];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_sent_three_times_and_the_latest_counts() {
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
