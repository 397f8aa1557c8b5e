//! Which keys and buttons are down.

use super::event::{Button, InputEvent, KeyCode};
use crate::wire::control::MAX_PRESSED;

/// `BTN_MISC` of `linux/input-event-codes.h`: codes from here to `KEY_OK` are buttons.
const FIRST_BUTTON: u16 = 0x100;
const FIRST_KEY_BEHIND_BUTTONS: u16 = 0x160;

/// The codes of pressed keys and buttons, in the order in which they were pressed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Pressed(Vec<u16>);

impl Pressed {
    /// Follows one event.
    pub fn note(&mut self, event: &InputEvent) {
        let (code, down) = match *event {
            InputEvent::Key { code, pressed, .. } => (code.0, pressed),
            InputEvent::Button { button, pressed } => (button.0, pressed),
            InputEvent::ReleaseAll => return self.0.clear(),
            _ => return,
        };
        self.0.retain(|c| *c != code);
        if down && self.0.len() < MAX_PRESSED {
            self.0.push(code);
        }
    }

    /// The codes.
    #[must_use]
    pub fn codes(&self) -> &[u16] {
        &self.0
    }

    /// The releases that lead from here to `wanted`: what is down here and not there.
    #[must_use]
    pub fn releases(&self, wanted: &[u16]) -> Vec<InputEvent> {
        self.0
            .iter()
            .filter(|c| !wanted.contains(c))
            .map(|c| release(*c))
            .collect()
    }
}

fn release(code: u16) -> InputEvent {
    if (FIRST_BUTTON..FIRST_KEY_BEHIND_BUTTONS).contains(&code) {
        InputEvent::Button {
            button: Button(code),
            pressed: false,
        }
    } else {
        InputEvent::Key {
            code: KeyCode(code),
            text: None,
            pressed: false,
        }
    }
}
