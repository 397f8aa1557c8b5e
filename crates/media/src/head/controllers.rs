//! Emulated controllers: two hands held in front of the head. Mouse buttons and keys press the
//! controllers' buttons while the window has grabbed the mouse.
//!
//! The hands keep their position relative to the head, and point in the head's direction.

use std::collections::BTreeSet;

use openuvr_proto::controller::{Buttons, ControllerState, Controllers, Hand};
use openuvr_proto::input::event::{Button, InputEvent, KeyCode};
use openuvr_proto::pose::Pose;
use openuvr_proto::rotation::Rotation;

use super::HeadPoseInput;

/// Position of the right hand relative to the head, in metres: to the right, up, and back (guess: elbows on a table).
const REST_POSITION: [f32; 3] = [0.2, -0.3, -0.4];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Control {
    Trigger,
    Squeeze,
    Button(Buttons),
}

/// Maps an input to a control of a hand's controller.
struct Binding {
    by: InputKey,
    hand: Hand,
    part: Control,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum InputKey {
    Button(Button),
    Key(KeyCode),
}

const fn bind(by: InputKey, hand: Hand, part: Control) -> Binding {
    Binding { by, hand, part }
}

/// Key codes of `linux/input-event-codes.h`: KEY_R, KEY_F, KEY_TAB.
const BINDINGS: &[Binding] = &[
    bind(
        InputKey::Button(Button::LEFT),
        Hand::Right,
        Control::Trigger,
    ),
    bind(
        InputKey::Button(Button::RIGHT),
        Hand::Right,
        Control::Squeeze,
    ),
    bind(
        InputKey::Button(Button::MIDDLE),
        Hand::Left,
        Control::Trigger,
    ),
    bind(
        InputKey::Key(KeyCode(19)),
        Hand::Right,
        Control::Button(Buttons::A_X),
    ),
    bind(
        InputKey::Key(KeyCode(33)),
        Hand::Right,
        Control::Button(Buttons::B_Y),
    ),
    bind(
        InputKey::Key(KeyCode(15)),
        Hand::Left,
        Control::Button(Buttons::MENU_SYSTEM),
    ),
];

/// Both controllers.
#[derive(Debug, Default)]
pub struct EmulatedControllers {
    grabbed: bool,
    held: BTreeSet<InputKey>,
}

impl EmulatedControllers {
    /// The controllers for a head with this pose.
    #[must_use]
    pub fn controllers(&self, head: &Pose) -> Controllers {
        Hand::ALL.map(|hand| {
            let mut state = ControllerState::new(hand);
            let looks = Rotation::of(head);
            let side = if hand == Hand::Left { -1.0 } else { 1.0 };
            let from_head =
                looks.turn([REST_POSITION[0] * side, REST_POSITION[1], REST_POSITION[2]]);
            let [x, y, z] = head.position();
            let at = [x + from_head[0], y + from_head[1], z + from_head[2]];
            let pose = Pose::new(at, looks.0).ok();
            (state.grip, state.aim) = (pose, pose);
            for bind in BINDINGS {
                if bind.hand == hand && self.held.contains(&bind.by) {
                    match bind.part {
                        Control::Trigger => state.trigger = u16::MAX,
                        Control::Squeeze => state.squeeze = u16::MAX,
                        Control::Button(button) => state.buttons = state.buttons.with(button),
                    }
                }
            }
            Some(state)
        })
    }
}

impl HeadPoseInput for EmulatedControllers {
    fn take(&mut self, event: &InputEvent) -> bool {
        let (by, pressed) = match *event {
            InputEvent::Key { code, pressed, .. } => (InputKey::Key(code), pressed),
            InputEvent::Button { button, pressed } => (InputKey::Button(button), pressed),
            _ => return false,
        };
        if !pressed {
            // A release is consumed if its press was consumed and the grab has not ended since.
            return self.held.remove(&by);
        }
        let takes = self.grabbed && BINDINGS.iter().any(|bind| bind.by == by);
        if takes {
            self.held.insert(by);
        }
        takes
    }

    fn grabbed(&mut self, grabbed: bool) {
        self.grabbed = grabbed;
        if !grabbed {
            self.held.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buttons_and_keys_press_their_bound_controls() {
        let mut controllers = EmulatedControllers::default();
        let looks = Rotation::of_head(std::f32::consts::FRAC_PI_2, 0.0, 0.0);
        let head = Pose::new([0.0, 1.6, 0.0], looks.0).expect("a rotation");
        let click = |pressed| InputEvent::Button {
            button: Button::LEFT,
            pressed,
        };
        assert!(!controllers.take(&click(true)), "the mouse is not grabbed");
        controllers.grabbed(true);
        assert!(controllers.take(&click(true)));
        let [left, right] = controllers
            .controllers(&head)
            .map(|state| state.expect("held"));
        assert_eq!((left.trigger, right.trigger), (0, u16::MAX));
        // The head looks to the left. Seen from the first head pose, the right hand is therefore farther ahead than the
        // left hand.
        let grip = right.grip.expect("tracked").position();
        let expected = [-0.4, 1.3, -0.2];
        assert!(
            grip.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5),
            "{grip:?}"
        );
        let key = |code, pressed| InputEvent::Key {
            code: KeyCode(code),
            text: None,
            pressed,
        };
        assert!(controllers.take(&key(19, true)) && controllers.take(&key(15, true)));
        assert!(
            !controllers.take(&key(57, true)),
            "the space bar is for the host"
        );
        let [left, right] = controllers
            .controllers(&head)
            .map(|state| state.expect("held"));
        assert_eq!(
            (left.buttons, right.buttons),
            (Buttons::MENU_SYSTEM, Buttons::A_X)
        );
        assert!(controllers.take(&click(false)) && !controllers.take(&click(false)));
        controllers.grabbed(false);
        assert!(
            !controllers.take(&key(19, false)),
            "it was released with the grab"
        );
        let [_, right] = controllers
            .controllers(&head)
            .map(|state| state.expect("held"));
        assert_eq!((right.trigger, right.buttons), (0, Buttons::default()));
    }
}
