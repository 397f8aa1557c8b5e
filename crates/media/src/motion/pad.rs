//! The game pad whose right stick a motion deflects. It is the player's first pad or, if the player has no pad, a
//! separate pad.

use openuvr_proto::input::event::InputEvent;
use openuvr_proto::input::pad::{PAD_BUTTONS, PadId, PadIdentity, PadName, PadState};

/// A pad's state without the motion, and the motion's deflection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MotionPad {
    deflection: [i16; 2],
    /// The player's pad, if it is connected.
    player: Option<PadState>,
}

impl MotionPad {
    /// The number of the pad, which is also the number of a player's first pad.
    fn number() -> PadId {
        PadId::default()
    }

    /// The event that connects the separate pad. This pad has all buttons and both sticks, because games ignore pads
    /// with fewer controls.
    #[must_use]
    pub fn connected() -> InputEvent {
        InputEvent::PadConnected {
            pad: MotionPad::number(),
            identity: PadIdentity {
                name: PadName::new("OpenUVR motion sensor"),
                vendor: 0,
                product: 0,
                buttons: (1 << PAD_BUTTONS) - 1,
                sticks: [true; 2],
                rumbles: false,
            },
        }
    }

    /// The state for the host.
    fn state(&self) -> InputEvent {
        let mut state = self.player.unwrap_or(PadState::NEUTRAL);
        for (axis, deflection) in state.sticks[2..].iter_mut().zip(self.deflection) {
            *axis = axis.saturating_add(deflection);
        }
        InputEvent::Pad {
            pad: MotionPad::number(),
            state,
        }
    }

    /// Deflects the stick. Returns the event for the host.
    pub fn deflect(&mut self, deflection: [i16; 2]) -> InputEvent {
        self.deflection = deflection;
        self.state()
    }

    /// The events for the host that replace this event of one of the player's pads.
    pub fn replace(&mut self, event: InputEvent) -> [Option<InputEvent>; 2] {
        let ours = event.pad() == Some(MotionPad::number());
        let (first, second) = match event {
            InputEvent::PadConnected { .. } if ours => {
                self.player = Some(PadState::NEUTRAL);
                (event, self.deflected())
            }
            InputEvent::PadDisconnected { .. } if ours => {
                self.player = None;
                (MotionPad::connected(), self.deflected())
            }
            InputEvent::Pad { state, .. } if ours && self.player.is_some() => {
                self.player = Some(state);
                (self.state(), None)
            }
            event => (event, None),
        };
        [Some(first), second]
    }

    /// The state to send after a connection event, which resets the pad to neutral. `None` if the stick is released.
    fn deflected(&self) -> Option<InputEvent> {
        (self.deflection != [0; 2]).then(|| self.state())
    }
}

#[cfg(test)]
mod tests {
    use openuvr_proto::input::pad::PadButton;

    use super::*;

    fn pad(number: u8) -> PadId {
        PadId::new(number).expect("a pad")
    }

    fn sticks(event: &InputEvent) -> [i16; 4] {
        match event {
            InputEvent::Pad { state, .. } => state.sticks,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_motion_is_added_to_the_players_pad() {
        let mut motion = MotionPad::default();
        assert_eq!(sticks(&motion.deflect([100, -200])), [0, 0, 100, -200]);
        let InputEvent::PadConnected { identity, .. } = MotionPad::connected() else {
            panic!("a connection");
        };
        let plugged = InputEvent::PadConnected {
            pad: pad(0),
            identity: PadIdentity {
                name: PadName::new("the player's"),
                ..identity
            },
        };
        let [first, second] = motion.replace(plugged);
        assert_eq!(first, Some(plugged));
        assert_eq!(sticks(&second.expect("its state")), [0, 0, 100, -200]);
        let state = PadState {
            sticks: [7, 8, 32_700, 0],
            ..PadState::NEUTRAL.with(PadButton::South, true)
        };
        let pressed = InputEvent::Pad { pad: pad(0), state };
        let [first, second] = motion.replace(pressed);
        assert_eq!(sticks(&first.expect("its state")), [7, 8, i16::MAX, -200]);
        assert_eq!(second, None);
        let InputEvent::Pad { state, .. } = motion.deflect([0, 0]) else {
            panic!("a state");
        };
        assert!(state.is_down(PadButton::South) && state.sticks == [7, 8, 32_700, 0]);
        // Without the player's pad, the separate pad is back.
        let unplugged = InputEvent::PadDisconnected { pad: pad(0) };
        let events = motion.replace(unplugged);
        assert_eq!(events, [Some(MotionPad::connected()), None]);
        assert_eq!(sticks(&motion.deflect([1, 1])), [0, 0, 1, 1]);
        // A different pad is not changed.
        let other = InputEvent::Pad { pad: pad(1), state };
        assert_eq!(motion.replace(other), [Some(other), None]);
        let other = InputEvent::PadDisconnected { pad: pad(1) };
        assert_eq!(motion.replace(other), [Some(other), None]);
    }
}
