//! The pad presented to games, regardless of the player's pad: an Xbox 360 pad like that of the kernel's driver xpad.
//! Games and pad databases support this pad most widely.
//!
//! It has the name of the player's pad and all buttons of the standard gamepad, but not the IDs of the player's pad;
//! `docs/adr/0012-game-pads.md` explains why.

use openuvr_proto::input::pad::{PadButton, PadId, PadIdentity, PadState};

use super::OWN_LOCATION;
use super::codes::*;
use super::description::{Axis, Description};

/// USB, Microsoft, Xbox 360 pad, version 1.10: `struct input_id`.
pub const ID: [u16; 4] = [BUS_USB, 0x045e, 0x028e, 0x0110];

/// Number of effects that games may upload: the kernel's `FF_MEMLESS_EFFECTS`.
pub const EFFECTS: u16 = 16;

/// The code of each button that is a key; the D-pad is a hat, the triggers are axes.
const KEYS: [(PadButton, u16); 11] = [
    (PadButton::South, BTN_SOUTH),
    (PadButton::East, BTN_EAST),
    // xpad reports X and Y with the codes of north and west, regardless of their position.
    (PadButton::West, BTN_NORTH),
    (PadButton::North, BTN_WEST),
    (PadButton::LeftShoulder, BTN_TL),
    (PadButton::RightShoulder, BTN_TR),
    (PadButton::Back, BTN_SELECT),
    (PadButton::Start, BTN_START),
    (PadButton::Guide, BTN_MODE),
    (PadButton::LeftStick, BTN_THUMBL),
    (PadButton::RightStick, BTN_THUMBR),
];

const STICKS: [u16; 4] = [ABS_X, ABS_Y, ABS_RX, ABS_RY];
const TRIGGERS: [u16; 2] = [ABS_Z, ABS_RZ];

pub(crate) fn keys() -> impl Iterator<Item = u16> {
    KEYS.into_iter().map(|(_, code)| code)
}

pub(crate) fn axes() -> impl Iterator<Item = (u16, Axis)> {
    let axis = |minimum, maximum, fuzz, flat| Axis {
        value: 0,
        minimum,
        maximum,
        fuzz,
        flat,
    };
    let stick = axis(-32_768, 32_767, 16, 128);
    let sticks = STICKS.into_iter().map(move |code| (code, stick));
    let triggers = TRIGGERS
        .into_iter()
        .map(move |code| (code, axis(0, 255, 0, 0)));
    let hat = [ABS_HAT0X, ABS_HAT0Y].map(|code| (code, axis(-1, 1, 0, 0)));
    sticks.chain(triggers).chain(hat)
}

/// The physical location of a player's pad.
pub(crate) fn location(pad: PadId) -> String {
    format!("{OWN_LOCATION}pad{}", pad.number())
}

/// The presented device of a player's pad.
#[must_use]
pub fn description(pad: PadId, identity: &PadIdentity) -> Description {
    let name = match identity.name.as_str() {
        "" => "OpenUVR pad",
        name => name,
    };
    let mut shown = Description::new(name, ID).at(&location(pad));
    for key in keys() {
        shown = shown.with_key(key);
    }
    for (code, axis) in axes() {
        shown = shown.with_axis(code, axis);
    }
    shown
        .with_force(FF_RUMBLE, EFFECTS.into())
        .with_force(FF_GAIN, EFFECTS.into())
}

/// The device's events for a change from `before` to `now`, followed by a report. Empty if the
/// device does not change.
pub fn events(before: &PadState, now: &PadState) -> Vec<(u16, u16, i32)> {
    let mut events = Vec::new();
    for (button, code) in KEYS {
        let down = now.is_down(button);
        if before.is_down(button) != down {
            events.push((EV_KEY, code, i32::from(down)));
        }
    }
    for ((code, was), is) in places(before).into_iter().zip(places(now)) {
        if was != is.1 {
            events.push((EV_ABS, code, is.1));
        }
    }
    if !events.is_empty() {
        events.push((EV_SYN, 0, 0));
    }
    events
}

/// The value of each axis.
fn places(state: &PadState) -> [(u16, i32); 8] {
    let [x, y, rx, ry] = state.sticks.map(i32::from);
    // There are 256 steps, as on the pad.
    let [left, right] = state.triggers.map(|trigger| i32::from(trigger >> 8));
    let between = |low, high| i32::from(state.is_down(high)) - i32::from(state.is_down(low));
    [
        (ABS_X, x),
        (ABS_Y, y),
        (ABS_RX, rx),
        (ABS_RY, ry),
        (ABS_Z, left),
        (ABS_RZ, right),
        (ABS_HAT0X, between(PadButton::Left, PadButton::Right)),
        (ABS_HAT0Y, between(PadButton::Up, PadButton::Down)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_is_sent_once_with_a_report() {
        let rest = PadState::NEUTRAL;
        assert_eq!(events(&rest, &rest), []);
        let held = PadState {
            sticks: [i16::MIN, 0, 0, i16::MAX],
            triggers: [0x80ff, 0xffff],
            ..rest
        }
        .with(PadButton::West, true)
        .with(PadButton::Up, true)
        .with(PadButton::Right, true);
        let expected = [
            (EV_KEY, 0x133, 1),
            (EV_ABS, ABS_X, -32_768),
            (EV_ABS, ABS_RY, 32_767),
            (EV_ABS, ABS_Z, 128),
            (EV_ABS, ABS_RZ, 255),
            (EV_ABS, ABS_HAT0X, 1),
            (EV_ABS, ABS_HAT0Y, -1),
            (EV_SYN, 0, 0),
        ];
        assert_eq!(events(&rest, &held), expected);
        assert_eq!(events(&held, &held), []);
        assert_eq!(events(&held, &rest).len(), expected.len());
        // This change is below the device's resolution.
        let finer = PadState {
            triggers: [0x8000, 0xffff],
            ..held
        };
        assert_eq!(events(&held, &finer), []);
    }

    #[test]
    fn all_buttons_of_a_pad_are_mapped() {
        let rest = PadState::NEUTRAL;
        for button in PadButton::ALL {
            assert_eq!(
                events(&rest, &rest.with(button, true)).len(),
                2,
                "{button:?}"
            );
        }
    }
}
