//! Input events: physical, layout-independent, normalised to the picture; and those of devices
//! that an application registered, as the kernel gave them.

use super::pad::{PadId, PadIdentity, PadState};
use crate::id::DeviceId;

/// A physical key, as a Linux input event code (`KEY_*` of `linux/input-event-codes.h`, 1–767).
/// An X11 server with evdev key codes numbers the same key eight higher.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct KeyCode(pub u16);

impl KeyCode {
    /// `KEY_RESERVED`: no key that keyboards have. A program typed the character (an on-screen keyboard, a
    /// password manager); a press is followed by its release at once.
    pub const NONE: KeyCode = KeyCode(0);
}

/// A pointer button, as a Linux input event code (`BTN_LEFT` = 0x110 …).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
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

/// One thing that a person did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InputEvent {
    /// A key went down or up. `text` is the character that it produced on the client's layout,
    /// if it produced one: the host types that character if its own layout would make another. With
    /// Ctrl, Alt or Super held it is the letter of the command, which is no text.
    /// Auto-repeat is not sent; the host's window system repeats by itself.
    Key {
        /// Which physical key.
        code: KeyCode,
        /// What it typed there, on a press.
        text: Option<char>,
        /// Down or up.
        pressed: bool,
    },
    /// The pointer is at this place of the picture: 0 is the left (top) edge of the first pixel,
    /// 65 535 the right (bottom) edge of the last.
    PointerAbsolute {
        /// Horizontal place.
        x: u16,
        /// Vertical place.
        y: u16,
    },
    /// The pointer moved, in pixels of the picture (relative mouse, for games).
    PointerRelative {
        /// To the right.
        dx: i16,
        /// Downwards.
        dy: i16,
    },
    /// A pointer button went down or up.
    Button {
        /// Which one.
        button: Button,
        /// Down or up.
        pressed: bool,
    },
    /// The wheel turned, in 1/120 of a notch (the unit of `REL_WHEEL_HI_RES`); positive is to
    /// the right and up (away from the person).
    Wheel {
        /// Horizontally.
        dx: i16,
        /// Vertically.
        dy: i16,
    },
    /// A registered device said this: type, code and value of `struct input_event`
    /// (`linux/input.h`). What belongs together ends with [`EV_SYN`] and code 0, as it does there.
    /// Auto-repeat (a key of value 2) is not sent.
    Device {
        /// Which device.
        device: DeviceId,
        /// `EV_*`
        kind: u16,
        /// `KEY_*`, `BTN_*`, `REL_*`, `ABS_*`, … by kind.
        code: u16,
        /// Down 1 and up 0; how far; where.
        value: i32,
    },
    /// A game pad was plugged in, in place of what had its number before. Nothing on it is held yet.
    PadConnected {
        /// Which one.
        pad: PadId,
        /// What it is.
        identity: PadIdentity,
    },
    /// A game pad was unplugged: what was held on it is not any more.
    PadDisconnected {
        /// Which one.
        pad: PadId,
    },
    /// Everything on a game pad is held like this now.
    Pad {
        /// Which one; of one that is not plugged in it means nothing.
        pad: PadId,
        /// How.
        state: PadState,
    },
    /// The client's window lost the focus, or its pointer grab: everything that is pressed is
    /// released, on game pads too, which stay plugged in.
    ReleaseAll,
}

impl InputEvent {
    /// The game pad that it is about, if it is about one.
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

/// `EV_SYN` of `linux/input-event-codes.h`: with code 0 (`SYN_REPORT`) the end of what happened
/// at once.
pub const EV_SYN: u16 = 0;
/// `EV_KEY`: a key or button.
pub const EV_KEY: u16 = 1;
/// `EV_REL`: a movement.
pub const EV_REL: u16 = 2;
/// `EV_ABS`: a place on an axis.
pub const EV_ABS: u16 = 3;
