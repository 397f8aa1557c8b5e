//! The set of pressed keys and buttons.

use super::event::{Button, EV_KEY, InputEvent, KeyCode};
use crate::id::DeviceId;

/// `BTN_MISC` of `linux/input-event-codes.h`. Codes from here on, up to the code before `KEY_OK` (0x160), are buttons.
const FIRST_BUTTON: u16 = 0x100;
const FIRST_KEY_BEHIND_BUTTONS: u16 = 0x160;

/// Maximum number of pressed keys and buttons in a snapshot: twice ten fingers, rounded up to a power of two.
pub const MAX_PRESSED: usize = 32;

/// A pressed key or button.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PressedKey {
    /// The registered device of the key; `None` for the keyboard and the pointer of the client's window.
    pub device: Option<DeviceId>,
    /// `KEY_*` or `BTN_*` of Linux, below 0x8000.
    pub code: u16,
}

impl PressedKey {
    /// Its release.
    #[must_use]
    pub fn release(self) -> InputEvent {
        match (self.device, self.code) {
            (Some(device), code) => InputEvent::Device {
                device,
                kind: EV_KEY,
                code,
                value: 0,
            },
            (None, code @ FIRST_BUTTON..FIRST_KEY_BEHIND_BUTTONS) => InputEvent::Button {
                button: Button(code),
                pressed: false,
            },
            (None, code) => InputEvent::Key {
                code: KeyCode(code),
                text: None,
                pressed: false,
            },
        }
    }
}

/// The pressed keys and buttons, in the order in which they were pressed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Pressed(Vec<PressedKey>);

impl Pressed {
    /// Applies one event.
    pub fn note(&mut self, event: &InputEvent) {
        let (device, code, down) = match *event {
            InputEvent::Key { code, pressed, .. } => (None, code.0, pressed),
            InputEvent::Button { button, pressed } => (None, button.0, pressed),
            InputEvent::Device {
                device,
                kind: EV_KEY,
                code,
                value,
            } => (Some(device), code, value != 0),
            InputEvent::ReleaseAll => return self.0.clear(),
            _ => return,
        };
        let held = PressedKey { device, code };
        self.0.retain(|h| *h != held);
        if down && self.0.len() < MAX_PRESSED {
            self.0.push(held);
        }
    }

    /// The pressed keys and buttons.
    #[must_use]
    pub fn held(&self) -> &[PressedKey] {
        &self.0
    }

    /// The releases of the keys that are pressed in this set but not in `wanted`.
    #[must_use]
    pub fn releases(&self, wanted: &[PressedKey]) -> Vec<InputEvent> {
        self.0
            .iter()
            .filter(|held| !wanted.contains(held))
            .map(|held| held.release())
            .collect()
    }
}
