//! Game pads of a client. A pad counts as connected from its first state or its arrival packet on, and as disconnected
//! when its bit is no longer set.

use openuvr_proto::input::event::InputEvent;
use openuvr_proto::input::pad::{MAX_PADS, PadButton, PadId, PadIdentity, PadName, PadState};

/// The protocol's buttons (`Limelight.h` of moonlight-common-c), each with the button of the standard gamepad.
const BUTTONS: [(u32, PadButton); 15] = [
    (0x0001, PadButton::Up),
    (0x0002, PadButton::Down),
    (0x0004, PadButton::Left),
    (0x0008, PadButton::Right),
    (0x0010, PadButton::Start),
    (0x0020, PadButton::Back),
    (0x0040, PadButton::LeftStick),
    (0x0080, PadButton::RightStick),
    (0x0100, PadButton::LeftShoulder),
    (0x0200, PadButton::RightShoulder),
    (0x0400, PadButton::Guide),
    (0x1000, PadButton::South),
    (0x2000, PadButton::East),
    (0x4000, PadButton::West),
    (0x8000, PadButton::North),
];

/// Bits of the triggers in [`PadIdentity::buttons`].
const TRIGGERS: u32 = 1 << 6 | 1 << 7;

/// The ability of a pad to rumble.
const RUMBLES: u16 = 2;

/// USB vendor and product under which each kind of pad appears. Games know these pads: they belong to the Xbox 360, the
/// PlayStation 4 and the Nintendo Switch.
const XBOX: (u16, u16) = (0x045e, 0x028e);
const PLAYSTATION: (u16, u16) = (0x054c, 0x09cc);
const NINTENDO: (u16, u16) = (0x057e, 0x2009);

/// Connected pads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pads {
    connected: [bool; MAX_PADS as usize],
}

impl Pads {
    /// Handles the arrival of a pad.
    pub fn arrived(
        &mut self,
        number: u8,
        kind: u8,
        abilities: u16,
        mut each: impl FnMut(InputEvent),
    ) {
        let Some(pad) = PadId::new(number) else {
            return;
        };
        self.connected[pad.index()] = true;
        each(connected(pad, kind, abilities & RUMBLES != 0));
    }

    /// Handles a pad's state. In `present`, bit n is set while pad n is connected.
    pub fn state(
        &mut self,
        number: u16,
        present: u16,
        state: PadState,
        mut each: impl FnMut(InputEvent),
    ) {
        for pad in PadId::all() {
            let is_present = present >> pad.number() & 1 != 0;
            if self.connected[pad.index()] && !is_present {
                self.connected[pad.index()] = false;
                each(InputEvent::PadDisconnected { pad });
            }
        }
        let pad = u8::try_from(number).ok().and_then(PadId::new);
        // The last state of a disconnected pad is ignored.
        let Some(pad) = pad.filter(|pad| present >> pad.number() & 1 != 0) else {
            return;
        };
        if !std::mem::replace(&mut self.connected[pad.index()], true) {
            // A pad that the client did not announce counts as an Xbox pad.
            each(connected(pad, 1, true));
        }
        each(InputEvent::Pad { pad, state });
    }
}

fn connected(pad: PadId, kind: u8, rumbles: bool) -> InputEvent {
    let (name, (vendor, product)) = match kind {
        2 => ("Moonlight game pad (PlayStation)", PLAYSTATION),
        3 => ("Moonlight game pad (Nintendo)", NINTENDO),
        _ => ("Moonlight game pad", XBOX),
    };
    let buttons = BUTTONS
        .iter()
        .fold(TRIGGERS, |all, (_, button)| all | button.bit());
    InputEvent::PadConnected {
        pad,
        identity: PadIdentity {
            name: PadName::new(name),
            vendor,
            product,
            buttons,
            sticks: [true; 2],
            rumbles,
        },
    }
}

/// Converts a state to the host's form, in which the sticks' vertical axes point downwards.
#[must_use]
pub(super) fn state(buttons: u32, triggers: [u8; 2], sticks: [i16; 4]) -> PadState {
    let [lx, ly, rx, ry] = sticks;
    let down = |up: i16| up.checked_neg().unwrap_or(i16::MAX);
    let pressed = BUTTONS.iter().filter(|(bit, _)| buttons & bit != 0);
    PadState {
        buttons: pressed.fold(0, |all, (_, button)| all | button.bit()),
        sticks: [lx, down(ly), rx, down(ry)],
        // 255 becomes 65 535.
        triggers: triggers.map(|pulled| u16::from(pulled) * 257),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(pads: &mut Pads, number: u16, present: u16) -> Vec<InputEvent> {
        let mut events = Vec::new();
        pads.state(number, present, PadState::NEUTRAL, |event| {
            events.push(event)
        });
        events
    }

    #[test]
    fn pads_come_and_go() {
        let mut pads = Pads::default();
        let [one, two] = [0, 1].map(|number| PadId::new(number).unwrap());
        let neutral = |pad| InputEvent::Pad {
            pad,
            state: PadState::NEUTRAL,
        };
        let first = events(&mut pads, 0, 1);
        assert!(matches!(first[0], InputEvent::PadConnected { pad, .. } if pad == one));
        assert_eq!(first[1..], [neutral(one)]);
        assert_eq!(events(&mut pads, 0, 1), [neutral(one)]);
        let mut arrived = Vec::new();
        pads.arrived(1, 2, RUMBLES, |event| arrived.push(event));
        let InputEvent::PadConnected { identity, .. } = arrived[0] else {
            panic!("{arrived:?}");
        };
        assert_eq!((identity.vendor, identity.rumbles), (0x054c, true));
        assert_eq!(events(&mut pads, 1, 3), [neutral(two)]);
        let gone = InputEvent::PadDisconnected { pad: two };
        assert_eq!(events(&mut pads, 1, 1), [gone]);
    }

    #[test]
    fn numbers_beyond_the_pads_are_ignored() {
        let mut pads = Pads::default();
        assert_eq!(events(&mut pads, 4, 0x10), []);
        assert_eq!(events(&mut pads, u16::MAX, u16::MAX), []);
        pads.arrived(200, 1, 0, |event| panic!("{event:?}"));
    }

    #[test]
    fn states_have_the_directions_of_the_standard_gamepad() {
        let state = state(0x1001, [255, 0], [1, 2, 3, i16::MIN]);
        assert!(state.is_down(PadButton::South) && state.is_down(PadButton::Up));
        assert_eq!(state.sticks, [1, -2, 3, i16::MAX]);
        assert_eq!(state.triggers, [u16::MAX, 0]);
    }
}
