//! Gamepads: identity, capabilities and state.
//!
//! Buttons and sticks are those of the "standard gamepad" of the W3C's Gamepad specification, in its order;
//! the client maps the buttons of its device to them. A state is complete and absolute, so repeating or
//! replacing one is harmless.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::printable::is_printable;
use crate::validated::Invalid;

/// Maximum number of gamepads of a player: the number that games for several players on one screen support.
pub const MAX_PADS: u8 = 4;

/// Number of buttons of a gamepad, including the two triggers: 0 to 16 of the W3C's standard gamepad.
pub const PAD_BUTTONS: u8 = 17;

/// A gamepad of a client: 0 to [`MAX_PADS`] - 1. A new gamepad gets the lowest free number.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(try_from = "u8", into = "u8")]
pub struct PadId(pub(crate) u8);

impl TryFrom<u8> for PadId {
    type Error = Invalid;

    fn try_from(number: u8) -> Result<PadId, Invalid> {
        PadId::new(number).ok_or(Invalid("pad"))
    }
}

impl From<PadId> for u8 {
    fn from(pad: PadId) -> u8 {
        pad.0
    }
}

impl PadId {
    /// The gamepad with this number; `None` if the number is [`MAX_PADS`] or more.
    #[must_use]
    pub fn new(number: u8) -> Option<PadId> {
        (number < MAX_PADS).then_some(PadId(number))
    }

    /// All gamepads.
    pub fn all() -> impl Iterator<Item = PadId> {
        (0..MAX_PADS).map(PadId)
    }

    /// Its number.
    #[must_use]
    pub fn number(self) -> u8 {
        self.0
    }

    /// Its index in an array of all gamepads.
    #[must_use]
    pub fn index(self) -> usize {
        self.0.into()
    }
}

/// A button of the W3C's standard gamepad, with its number there. Buttons are named by position, because letters differ
/// between manufacturers: south is A for Microsoft, the cross for Sony, and B for Nintendo.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum PadButton {
    /// The lower of the four buttons on the right.
    South = 0,
    /// The right one of the four buttons on the right.
    East = 1,
    /// The left one of the four buttons on the right.
    West = 2,
    /// The upper one of the four buttons on the right.
    North = 3,
    /// The left shoulder.
    LeftShoulder = 4,
    /// The right shoulder.
    RightShoulder = 5,
    /// Back, select.
    Back = 8,
    /// Start.
    Start = 9,
    /// The left stick, pressed.
    LeftStick = 10,
    /// The right stick, pressed.
    RightStick = 11,
    /// D-pad up.
    Up = 12,
    /// D-pad down.
    Down = 13,
    /// D-pad left.
    Left = 14,
    /// D-pad right.
    Right = 15,
    /// The centre button, with the manufacturer's logo.
    Guide = 16,
}

impl PadButton {
    /// All buttons except the triggers (6 and 7), which are analogue: [`PadState::triggers`].
    pub const ALL: [PadButton; 15] = [
        PadButton::South,
        PadButton::East,
        PadButton::West,
        PadButton::North,
        PadButton::LeftShoulder,
        PadButton::RightShoulder,
        PadButton::Back,
        PadButton::Start,
        PadButton::LeftStick,
        PadButton::RightStick,
        PadButton::Up,
        PadButton::Down,
        PadButton::Left,
        PadButton::Right,
        PadButton::Guide,
    ];

    /// Its bit in [`PadState::buttons`].
    #[must_use]
    pub fn bit(self) -> u32 {
        1 << self as u8
    }
}

/// The state of a gamepad.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct PadState {
    /// Bit n: button n of the standard gamepad is pressed. The bits of the triggers (6 and 7) are 0. Bits without a button
    /// are ignored.
    pub buttons: u32,
    /// Horizontal and vertical axis of the left stick, then of the right stick: -32 768 is left (up), 0 is the centre, and
    /// 32 767 is right (down).
    pub sticks: [i16; 4],
    /// The left and the right trigger: 0 is released, 65 535 is fully pulled.
    pub triggers: [u16; 2],
}

impl PadState {
    /// No button pressed, sticks centred.
    pub const NEUTRAL: PadState = PadState {
        buttons: 0,
        sticks: [0; 4],
        triggers: [0; 2],
    };

    /// Whether a button is pressed.
    #[must_use]
    pub fn is_down(&self, button: PadButton) -> bool {
        self.buttons & button.bit() != 0
    }

    /// This state, with a button pressed or released.
    #[must_use]
    pub fn with(mut self, button: PadButton, down: bool) -> PadState {
        self.buttons &= !button.bit();
        if down {
            self.buttons |= button.bit();
        }
        self
    }
}

/// Maximum length of a gamepad's name in bytes. The longest name in today's kernel drivers has 60.
pub const MAX_PAD_NAME: usize = 64;

/// The name of a gamepad: printable text of at most [`MAX_PAD_NAME`] bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct PadName {
    bytes: [u8; MAX_PAD_NAME],
    length: u8,
}

impl From<String> for PadName {
    fn from(name: String) -> PadName {
        PadName::new(&name)
    }
}

impl From<PadName> for String {
    fn from(name: PadName) -> String {
        name.as_str().to_owned()
    }
}

impl PadName {
    /// The printable part of `name`, truncated to the maximum length.
    #[must_use]
    pub fn new(name: &str) -> PadName {
        let (mut bytes, mut length) = ([0; MAX_PAD_NAME], 0);
        for c in name.chars().filter(|c| is_printable(*c)) {
            let end = length + c.len_utf8();
            let Some(room) = bytes.get_mut(length..end) else {
                break;
            };
            c.encode_utf8(room);
            length = end;
        }
        PadName {
            bytes,
            length: u8::try_from(length).unwrap_or(0),
        }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // Always valid UTF-8, because it was built from characters.
        std::str::from_utf8(&self.bytes[..self.length.into()]).unwrap_or_default()
    }
}

impl fmt::Debug for PadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl fmt::Display for PadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The identity and capabilities of a gamepad.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct PadIdentity {
    /// Its name from the driver.
    pub name: PadName,
    /// USB or Bluetooth vendor id; 0 if unknown.
    pub vendor: u16,
    /// Product id; 0 if unknown.
    pub product: u16,
    /// Its buttons: bits as in [`PadState::buttons`], with 6 and 7 for its triggers.
    pub buttons: u32,
    /// Whether it has the left and the right stick.
    pub sticks: [bool; 2],
    /// Whether it can rumble.
    pub rumbles: bool,
}

/// The strength of a gamepad's motors.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Rumble {
    /// The heavy, slow motor: 0 is off, 65 535 the maximum.
    pub strong: u16,
    /// The light, fast motor.
    pub weak: u16,
}

impl Rumble {
    /// Both motors off.
    pub const OFF: Rumble = Rumble { strong: 0, weak: 0 };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_complete_printable_characters() {
        assert_eq!(PadName::new("Pad\u{1b}[2J\n").as_str(), "Pad[2J");
        let long = "ä".repeat(40);
        assert_eq!(PadName::new(&long).as_str(), "ä".repeat(32));
        let odd = format!("x{long}");
        assert_eq!(PadName::new(&odd).as_str(), format!("x{}", "ä".repeat(31)));
    }
}
