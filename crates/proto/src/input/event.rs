//! Input events: physical keys, independent of the keyboard layout, and pointer positions, normalised to the picture.
//! There are also events of devices that an application registered, as read from the kernel.

use serde::{Deserialize, Serialize};

use super::pad::{PadId, PadIdentity, PadState};
use crate::id::DeviceId;

/// A physical key, as a Linux input event code (`KEY_*` of `linux/input-event-codes.h`, 1–767).
/// An X11 server with evdev key codes numbers the same key eight higher.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct KeyCode(pub u16);

impl KeyCode {
    /// `KEY_RESERVED`: not a key of a keyboard. A program typed the character (an on-screen keyboard, a password manager). A
    /// press is followed immediately by its release.
    pub const NONE: KeyCode = KeyCode(0);
}

/// A pointer button, as a Linux input event code (`BTN_LEFT` = 0x110 …).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Button(pub u16);

impl Button {
    /// `BTN_LEFT`
    pub const LEFT: Button = Button(0x110);
    /// `BTN_RIGHT`
    pub const RIGHT: Button = Button(0x111);
    /// `BTN_MIDDLE`
    pub const MIDDLE: Button = Button(0x112);
    /// `BTN_SIDE`
    pub const SIDE: Button = Button(0x113);
    /// `BTN_EXTRA`
    pub const EXTRA: Button = Button(0x114);
}

/// An input event.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum InputEvent {
    /// A key was pressed or released. `text` is the character of the key in the client's layout, if there is one. The host
    /// types that character if its own layout would produce another. While Ctrl, Alt or Super is held, `text` is the letter
    /// of the shortcut, which is not typed. Auto-repeat is not sent, because the host's window system repeats.
    Key {
        /// The physical key.
        code: KeyCode,
        /// The typed character, on a press.
        text: Option<char>,
        /// Pressed or released.
        pressed: bool,
    },
    /// The absolute pointer position in the picture: 0 is the left (top) edge of the first pixel, 65 535 the
    /// right (bottom) edge of the last.
    PointerAbsolute {
        /// Horizontal position.
        x: u16,
        /// Vertical position.
        y: u16,
    },
    /// Relative pointer motion in pixels of the picture (for games).
    PointerRelative {
        /// To the right.
        dx: i16,
        /// Downwards.
        dy: i16,
    },
    /// A pointer button was pressed or released.
    Button {
        /// The button.
        button: Button,
        /// Pressed or released.
        pressed: bool,
    },
    /// The wheel turned, in 1/120 of a notch (the unit of `REL_WHEEL_HI_RES`); positive is to the right and
    /// up (away from the user).
    Wheel {
        /// Horizontally.
        dx: i16,
        /// Vertically.
        dy: i16,
    },
    /// An event of a registered device: type, code and value of `struct input_event` (`linux/input.h`). Simultaneous
    /// events end with [`EV_SYN`] and code 0, as in the kernel. Auto-repeat (a key event with value 2) is not sent.
    Device {
        /// The device.
        device: DeviceId,
        /// `EV_*`
        kind: u16,
        /// `KEY_*`, `BTN_*`, `REL_*`, `ABS_*`, …, depending on the kind.
        code: u16,
        /// Depending on the kind: 1 for pressed and 0 for released, a distance, or a position.
        value: i32,
    },
    /// A gamepad was connected. It replaces a previous gamepad with the same number, and its state is neutral.
    PadConnected {
        /// The gamepad.
        pad: PadId,
        /// Its identity.
        identity: PadIdentity,
    },
    /// A gamepad was disconnected. Its buttons are released.
    PadDisconnected {
        /// The gamepad.
        pad: PadId,
    },
    /// The complete state of a gamepad.
    Pad {
        /// The gamepad; ignored if it is not connected.
        pad: PadId,
        /// The state.
        state: PadState,
    },
    /// The client's window lost the focus or its pointer grab. All keys and buttons are released, including those of
    /// gamepads, which stay connected.
    ReleaseAll,
}

impl InputEvent {
    /// The gamepad of the event, if there is one.
    #[must_use]
    pub fn pad(&self) -> Option<PadId> {
        match *self {
            InputEvent::PadConnected { pad, .. }
            | InputEvent::PadDisconnected { pad }
            | InputEvent::Pad { pad, .. } => Some(pad),
            _ => None,
        }
    }
}

/// `EV_SYN` of `linux/input-event-codes.h`: with code 0 (`SYN_REPORT`) the end of simultaneous events.
pub const EV_SYN: u16 = 0;
/// `EV_KEY`: a key or button.
pub const EV_KEY: u16 = 1;
/// `EV_REL`: a relative motion.
pub const EV_REL: u16 = 2;
/// `EV_ABS`: a position on an axis.
pub const EV_ABS: u16 = 3;
