//! The state of the controllers in a user's hands: poses, buttons and axes; and haptic effects for the hands.
//!
//! Names and conventions are those of OpenXR (1.0, sections 2.16 and 6.4). A state is not an input event: as with
//! poses, only the newest state matters, and lost states are not retransmitted. A press or touch that is shorter than
//! the interval between two states may go unreported.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};

use crate::bytes::{Reader, Reject, Writer, range};
use crate::id::SubscriberId;
use crate::pose::Pose;
use crate::time::{Instant, Mapped, PeerInstant};
use crate::validated::span;

/// One of a user's hands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[repr(u8)]
pub enum Hand {
    /// `/user/hand/left`.
    Left = 0,
    /// `/user/hand/right`.
    Right = 1,
}

impl Hand {
    /// Both hands.
    pub const ALL: [Hand; 2] = [Hand::Left, Hand::Right];

    /// The hand's index in arrays of both hands.
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }

    /// The hand with this number on the wire.
    ///
    /// # Errors
    /// [`Reject`] if no hand has this number.
    pub(crate) fn parse(number: u8) -> Result<Hand, Reject> {
        let hand = Hand::ALL.get(usize::from(number));
        hand.copied().ok_or(Reject::Range("hand"))
    }
}

/// Pressed and touched buttons of a controller, one bit each.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Buttons(pub u16);

impl Buttons {
    /// `x/click` of the left hand, `a/click` of the right one.
    pub const A_X: Buttons = Buttons(1);
    /// `y/click` of the left hand, `b/click` of the right one.
    pub const B_Y: Buttons = Buttons(1 << 1);
    /// `menu/click` of the left hand, `system/click` of the right one.
    pub const MENU_SYSTEM: Buttons = Buttons(1 << 2);
    /// `thumbstick/click`.
    pub const THUMBSTICK: Buttons = Buttons(1 << 3);
    /// `x/touch` of the left hand, `a/touch` of the right one.
    pub const A_X_TOUCH: Buttons = Buttons(1 << 4);
    /// `y/touch` of the left hand, `b/touch` of the right one.
    pub const B_Y_TOUCH: Buttons = Buttons(1 << 5);
    /// `trigger/touch`.
    pub const TRIGGER_TOUCH: Buttons = Buttons(1 << 6);
    /// `thumbstick/touch`.
    pub const THUMBSTICK_TOUCH: Buttons = Buttons(1 << 7);
    /// `thumbrest/touch`.
    pub const THUMBREST_TOUCH: Buttons = Buttons(1 << 8);

    /// Whether it contains all of `others`.
    #[must_use]
    pub fn contains(self, others: Buttons) -> bool {
        self.0 & others.0 == others.0
    }

    /// The union with `others`.
    #[must_use]
    pub fn with(self, others: Buttons) -> Buttons {
        Buttons(self.0 | others.0)
    }
}

/// The state of a controller at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ControllerState {
    /// The hand that holds the controller.
    pub hand: Hand,
    /// `grip/pose`: the centre of the palm, in the space of the head poses; `None` if it is not tracked.
    pub grip: Option<Pose>,
    /// `aim/pose`: the origin and direction for pointing.
    pub aim: Option<Pose>,
    /// Pressed and touched buttons.
    pub buttons: Buttons,
    /// `trigger/value`: from 0 to 65 535 (fully pulled). See [`ControllerState::pull`].
    pub trigger: u16,
    /// `squeeze/value`: from 0 to 65 535 (maximum force).
    pub squeeze: u16,
    /// `thumbstick/x` and `/y`: positive to the right and up, ±32 767 at the rim. See [`ControllerState::deflection`].
    pub thumbstick: (i16, i16),
}

impl ControllerState {
    /// A controller at rest, with unknown poses.
    #[must_use]
    pub fn new(hand: Hand) -> ControllerState {
        ControllerState {
            hand,
            grip: None,
            aim: None,
            buttons: Buttons::default(),
            trigger: 0,
            squeeze: 0,
            thumbstick: (0, 0),
        }
    }

    /// Encodes a trigger, squeeze or amplitude value of 0 to 1. NaN counts as 0.
    #[must_use]
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "within its range"
    )]
    pub fn pull(fraction: f32) -> u16 {
        (fraction.clamp(0.0, 1.0) * f32::from(u16::MAX)).round() as u16
    }

    /// Encodes a thumbstick axis value of -1 to 1. NaN counts as 0.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "within its range")]
    pub fn deflection(fraction: f32) -> i16 {
        (fraction.clamp(-1.0, 1.0) * f32::from(i16::MAX)).round() as i16
    }

    fn write(&self, w: &mut Writer<'_>) {
        let tracked = u8::from(self.grip.is_some()) | u8::from(self.aim.is_some()) << 1;
        w.u8(tracked);
        for pose in self.grip.iter().chain(&self.aim) {
            pose.write(w);
        }
        w.u16(self.buttons.0).u16(self.trigger).u16(self.squeeze);
        w.i16(self.thumbstick.0).i16(self.thumbstick.1);
    }

    fn parse(hand: Hand, r: &mut Reader<'_>) -> Result<ControllerState, Reject> {
        let tracked = r.u8()?;
        range(tracked <= 3, "tracked poses of a controller")?;
        // An invalid pose counts as not tracked.
        let [grip, aim] = [1, 2].map(|bit| match tracked & bit {
            0 => Ok(None),
            _ => Pose::parse(r),
        });
        Ok(ControllerState {
            hand,
            grip: grip?,
            aim: aim?,
            buttons: Buttons(r.u16()?),
            trigger: r.u16()?,
            squeeze: r.u16()?,
            thumbstick: (r.i16()?, r.i16()?),
        })
    }
}

/// The controllers of the left and of the right hand; `None` if a controller is not present.
pub type Controllers = [Option<ControllerState>; 2];

/// Writes both states, left hand first. The index of a state determines its hand.
pub(crate) fn write_both(states: &Controllers, w: &mut Writer<'_>) {
    let held = u8::from(states[0].is_some()) | u8::from(states[1].is_some()) << 1;
    w.u8(held);
    for state in states.iter().flatten() {
        state.write(w);
    }
}

pub(crate) fn parse_both(r: &mut Reader<'_>) -> Result<Controllers, Reject> {
    let held = r.u8()?;
    range(held <= 3, "hands")?;
    let [left, right] = Hand::ALL.map(|hand| match held & 1 << hand as u8 {
        0 => Ok(None),
        _ => ControllerState::parse(hand, r).map(Some),
    });
    Ok([left?, right?])
}

/// Sets the hand of each state to the hand of its index.
#[must_use]
pub(crate) fn in_place(states: Controllers) -> Controllers {
    Hand::ALL.map(|hand| states[hand.index()].map(|state| ControllerState { hand, ..state }))
}

/// The newest controller states received from the player.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceivedControllers {
    /// The player.
    pub subscriber: SubscriberId,
    /// The number of the state. It increases by one for each state: a client counts the states that it sends, and the
    /// host counts the states of an external subscriber.
    pub number: u32,
    /// Left and right.
    pub states: Controllers,
    /// Sampling time (client clock).
    pub sampled: PeerInstant,
    /// Sampling time on the host's clock; `None` until the clocks are synchronised.
    pub sampled_here: Option<Mapped<Instant>>,
    /// Receive time.
    pub received: Instant,
}

/// A haptic effect for one hand. A new effect replaces the current effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Haptic {
    /// The hand.
    pub hand: Hand,
    /// Strength, from 0 (stop) to 65 535 (maximum). See [`ControllerState::pull`].
    pub amplitude: u16,
    /// Frequency in Hz; with 0, the device chooses it.
    pub frequency: u16,
    /// Duration. Zero with a nonzero amplitude means the shortest effect of the device.
    #[serde(serialize_with = "span::serialize", deserialize_with = "truncated")]
    pub duration: Duration,
}

fn truncated<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    Ok(span::deserialize(deserializer)?.min(LONGEST))
}

/// Maximum duration of an effect. Longer effects are truncated (guess: no application intends a longer one).
const LONGEST: Duration = Duration::from_secs(60);

impl Haptic {
    /// The haptic message that stops the current effect.
    #[must_use]
    pub fn stop(hand: Hand) -> Haptic {
        Haptic {
            hand,
            amplitude: 0,
            frequency: 0,
            duration: Duration::ZERO,
        }
    }

    pub(crate) fn write(&self, w: &mut Writer<'_>) {
        let micros = self.duration.min(LONGEST).as_micros();
        w.u8(self.hand as u8)
            .u16(self.amplitude)
            .u16(self.frequency)
            .u32(u32::try_from(micros).unwrap_or(u32::MAX));
    }

    pub(crate) fn parse(r: &mut Reader<'_>) -> Result<Haptic, Reject> {
        let haptic = Haptic {
            hand: Hand::parse(r.u8()?)?,
            amplitude: r.u16()?,
            frequency: r.u16()?,
            duration: Duration::from_micros(r.u32()?.into()),
        };
        range(haptic.duration <= LONGEST, "duration of a vibration")?;
        Ok(haptic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_outside_their_range_are_brought_into_it() {
        let pulls = [-1.0, 0.0, 0.5, 1.0, 7.0, f32::NAN].map(ControllerState::pull);
        assert_eq!(pulls, [0, 0, 32_768, 65_535, 65_535, 0]);
        let sticks = [-2.0, -1.0, 0.0, 1.0, f32::NAN].map(ControllerState::deflection);
        assert_eq!(sticks, [-32_767, -32_767, 0, 32_767, 0]);
    }

    #[test]
    fn invalid_hands_and_durations_are_rejected() {
        let mut bytes = Vec::new();
        Haptic::stop(Hand::Right).write(&mut Writer(&mut bytes));
        assert_eq!(
            Haptic::parse(&mut Reader::new(&bytes)),
            Ok(Haptic::stop(Hand::Right))
        );
        let hand = [&[2], &bytes[1..]].concat();
        assert!(Haptic::parse(&mut Reader::new(&hand)).is_err());
        let long = [&bytes[..5], &[0xff; 4]].concat();
        assert!(Haptic::parse(&mut Reader::new(&long)).is_err());
        assert!(parse_both(&mut Reader::new(&[4])).is_err());
        assert!(parse_both(&mut Reader::new(&[1, 9])).is_err());
        assert_eq!(parse_both(&mut Reader::new(&[0])), Ok([None, None]));
    }
}
