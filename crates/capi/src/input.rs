//! What a person did, for programs in C.

use openuvr_proto::input::event::{Button, InputEvent, KeyCode};
use openuvr_runtime::guest::ForApplication;

use crate::border::Sized32;
use crate::error::{Failure, Outcome};

/// What an `openuvr_input` tells.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OPENUVR_INPUT_KIND {
    /// A key went down (`value` 1) or up (0): `code` is its number in linux/input-event-codes.h
    /// (`KEY_A` …), whatever the keyboard's layout; `text` is the character that it typed at the
    /// MUD, 0 if none. Repeats are not sent.
    OPENUVR_INPUT_KEY = 1,
    /// A button of the mouse went down (`value` 1) or up (0): `code` is `BTN_LEFT` …
    OPENUVR_INPUT_BUTTON = 2,
    /// The pointer is at `x` and `y` of the picture: 0 is its left or upper edge, 65535 the other.
    OPENUVR_INPUT_POINTER = 3,
    /// The pointer moved by `x` to the right and `y` downwards, in pixels of the picture.
    OPENUVR_INPUT_MOTION = 4,
    /// The wheel turned by `x` to the right and `y` upwards, in 1/120 of a notch.
    OPENUVR_INPUT_WHEEL = 5,
    /// Everything that is pressed is released: the MUD lost its focus, or the player left.
    OPENUVR_INPUT_RELEASE_ALL = 6,
}

use OPENUVR_INPUT_KIND::*;

/// Something that a person did. Set `size` to `sizeof(struct openuvr_input)`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct openuvr_input {
    /// Bytes of this structure.
    pub size: u32,
    /// An `OPENUVR_INPUT_KIND`: which of the fields below count.
    pub kind: u32,
    /// A key or a button.
    pub code: u32,
    /// 1: pressed; 0: released.
    pub value: i32,
    /// To the right.
    pub x: i32,
    /// Downwards; of the wheel upwards.
    pub y: i32,
    /// A Unicode scalar value, or 0.
    pub text: u32,
    /// At the host: whose it is, for applications that tell players apart.
    pub session: u32,
    /// At the host: when it arrived, in nanoseconds of CLOCK_MONOTONIC.
    pub received_ns: i64,
}

// SAFETY: `repr(C)`; numbers.
unsafe impl Sized32 for openuvr_input {}

impl Default for openuvr_input {
    fn default() -> openuvr_input {
        openuvr_input {
            size: crate::size_of32::<openuvr_input>(),
            kind: 0,
            code: 0,
            value: 0,
            x: 0,
            y: 0,
            text: 0,
            session: 0,
            received_ns: 0,
        }
    }
}

impl From<ForApplication> for openuvr_input {
    fn from(input: ForApplication) -> openuvr_input {
        openuvr_input {
            session: input.taken.session.0,
            received_ns: input.taken.received.0,
            ..of_event(input.event)
        }
    }
}

fn of_event(event: InputEvent) -> openuvr_input {
    let kind = |kind: OPENUVR_INPUT_KIND| openuvr_input {
        kind: kind as u32,
        ..openuvr_input::default()
    };
    let (x, y, told) = match event {
        InputEvent::Key {
            code,
            text,
            pressed,
        } => {
            return openuvr_input {
                code: code.0.into(),
                value: pressed.into(),
                text: text.map_or(0, u32::from),
                ..kind(OPENUVR_INPUT_KEY)
            };
        }
        InputEvent::Button { button, pressed } => {
            return openuvr_input {
                code: button.0.into(),
                value: pressed.into(),
                ..kind(OPENUVR_INPUT_BUTTON)
            };
        }
        InputEvent::PointerAbsolute { x, y } => (x.into(), y.into(), OPENUVR_INPUT_POINTER),
        InputEvent::PointerRelative { dx, dy } => (dx.into(), dy.into(), OPENUVR_INPUT_MOTION),
        InputEvent::Wheel { dx, dy } => (dx.into(), dy.into(), OPENUVR_INPUT_WHEEL),
        InputEvent::ReleaseAll => (0, 0, OPENUVR_INPUT_RELEASE_ALL),
    };
    openuvr_input { x, y, ..kind(told) }
}

/// What a program says that a person did.
pub(crate) fn event_of(input: &openuvr_input) -> Outcome<InputEvent> {
    let wrong = |what: &str, value: i64| Failure::argument(format!("input: {what} {value}"));
    let code = |most: u16| {
        let code = u16::try_from(input.code).ok().filter(|c| (1..=most).contains(c));
        code.ok_or_else(|| wrong("there is no key or button", input.code.into()))
    };
    let pressed = match input.value {
        0 => false,
        1 => true,
        other => return Err(wrong("its value is neither 0 nor 1 but", other.into())),
    };
    let far = |value: i32| {
        i16::try_from(value).map_err(|_| wrong("it is farther than 32767:", value.into()))
    };
    let place = |value: i32| {
        u16::try_from(value).map_err(|_| wrong("a place is 0 to 65535, not", value.into()))
    };
    let is = |kind: OPENUVR_INPUT_KIND| input.kind == kind as u32;
    Ok(if is(OPENUVR_INPUT_KEY) {
        let text = match input.text {
            0 => None,
            text => Some(char::from_u32(text).ok_or_else(|| wrong("no character is", text.into()))?),
        };
        InputEvent::Key {
            code: KeyCode(code(MOST_KEYS)?),
            text: text.filter(|_| pressed),
            pressed,
        }
    } else if is(OPENUVR_INPUT_BUTTON) {
        InputEvent::Button {
            button: Button(code(MOST_KEYS)?),
            pressed,
        }
    } else if is(OPENUVR_INPUT_POINTER) {
        InputEvent::PointerAbsolute {
            x: place(input.x)?,
            y: place(input.y)?,
        }
    } else if is(OPENUVR_INPUT_MOTION) {
        InputEvent::PointerRelative {
            dx: far(input.x)?,
            dy: far(input.y)?,
        }
    } else if is(OPENUVR_INPUT_WHEEL) {
        InputEvent::Wheel {
            dx: far(input.x)?,
            dy: far(input.y)?,
        }
    } else if is(OPENUVR_INPUT_RELEASE_ALL) {
        InputEvent::ReleaseAll
    } else {
        return Err(wrong("none of OPENUVR_INPUT_KIND is", input.kind.into()));
    })
}

/// `KEY_MAX` of linux/input-event-codes.h.
const MOST_KEYS: u16 = 0x2ff;
