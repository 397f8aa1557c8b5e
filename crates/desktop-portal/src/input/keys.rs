//! Chooses which keys of the session to press for the user's keys and characters. This module opens no device.
//!
//! As in the other sinks, a key is pressed as the physical key, unless it carries a character that the map has on
//! another key. A character that the map lacks is passed on as its X symbol (keysym). The desktop types the character
//! if it supports symbols.

use std::collections::{BTreeMap, BTreeSet};

use openuvr_media::input_sink::typing::Typing;
use openuvr_media::keyboard::XkbKeyboard;
use openuvr_media::keyboard::keymap::{COMMAND, symbol_of};
use openuvr_proto::input::event::KeyCode;

/// `KEY_RIGHTALT`, which is AltGr on many layouts.
const RIGHT_ALT: KeyCode = KeyCode(100);

/// The difference between the key codes of X and of evdev (xkb-data, `keycodes/evdev`).
const EVDEV_OFFSET: u8 = 8;

/// The symbols of keys that lock their modifier (keysymdef.h): `XK_Num_Lock`, `XK_Caps_Lock`.
const LOCKS: [u32; 2] = [0xff7f, 0xffe5];

/// A press or release of a key of the session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// A key by its Linux code.
    Key(KeyCode, bool),
    /// A key by its X symbol.
    Symbol(u32, bool),
}

/// The session's key that is held down for a key of the user.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Down {
    /// A key by its X code.
    Key(u8),
    /// A key by its Linux code, if the map does not contain it.
    Unmapped(KeyCode),
    Symbol(u32),
}

/// The state of the keys.
#[derive(Default)]
pub(super) struct Keys {
    /// The first layout of the session; `None` if it is unknown.
    keyboard: Option<XkbKeyboard>,
    held: BTreeMap<KeyCode, Down>,
    /// Modifiers that have been pressed or lifted to type a character. They are restored at the next key event.
    pressed: Vec<u8>,
    lifted: Vec<u8>,
    /// Modifiers locked by CapsLock and NumLock.
    locked: u8,
}

impl Keys {
    pub(super) fn new(keyboard: Option<XkbKeyboard>) -> Keys {
        Keys {
            keyboard,
            ..Keys::default()
        }
    }

    /// Handles a key press by the user. `text` is the character that the key types at the client.
    pub(super) fn press(&mut self, code: KeyCode, text: Option<char>) -> Vec<Step> {
        if self.held.contains_key(&code) {
            return Vec::new();
        }
        let mut steps = self.restore_modifiers();
        let down = match text {
            Some(ch) => self.key_for(ch, code, &mut steps),
            None => Some(self.physical(code)),
        };
        let Some(down) = down else {
            return steps;
        };
        if self.held.values().any(|held| *held == down) {
            // Another held key of the user already presses this key, which is therefore released and pressed again.
            steps.push(step(down, false));
        }
        steps.push(step(down, true));
        self.held.insert(code, down);
        if let (Down::Key(keycode), Some(keyboard)) = (down, &self.keyboard) {
            let symbol = keyboard.map.symbol(keycode, 0, 0);
            if symbol.is_some_and(|symbol| LOCKS.contains(&symbol)) {
                self.locked ^= keyboard.map.modifiers_of(keycode);
            }
        }
        steps
    }

    /// Handles a key release by the user.
    pub(super) fn release(&mut self, code: KeyCode) -> Vec<Step> {
        let mut steps = self.restore_modifiers();
        if let Some(down) = self.held.remove(&code)
            && !self.held.values().any(|held| *held == down)
        {
            steps.push(step(down, false));
        }
        steps
    }

    pub(super) fn release_all(&mut self) -> Vec<Step> {
        let lifted = std::mem::take(&mut self.lifted);
        let pressed = std::mem::take(&mut self.pressed).into_iter().map(Down::Key);
        // Modifiers that were lifted for a character are already up.
        let held = std::mem::take(&mut self.held).into_values();
        let held = held.filter(|down| !matches!(down, Down::Key(key) if lifted.contains(key)));
        let all: BTreeSet<Down> = held.chain(pressed).collect();
        all.into_iter().map(|down| step(down, false)).collect()
    }

    fn physical(&self, code: KeyCode) -> Down {
        let keycode = self
            .keyboard
            .as_ref()
            .and_then(|keyboard| keyboard.keycode(code));
        keycode.map_or(Down::Unmapped(code), Down::Key)
    }

    /// The key that types `ch` after changes of modifiers, which are added to `steps`. `None` if there is no such key.
    fn key_for(&mut self, ch: char, code: KeyCode, steps: &mut Vec<Step>) -> Option<Down> {
        let Some(keyboard) = &self.keyboard else {
            return (code != KeyCode::NONE).then_some(Down::Unmapped(code));
        };
        let held = self.held.values().filter_map(|down| match down {
            Down::Key(keycode) => Some(*keycode),
            _ => None,
        });
        let held: BTreeSet<u8> = held.collect();
        let depressed = held.iter().filter(|key| {
            let symbol = keyboard.map.symbol(**key, 0, 0);
            !symbol.is_some_and(|symbol| LOCKS.contains(&symbol))
        });
        let depressed = depressed.fold(0, |all, key| all | keyboard.map.modifiers_of(*key));
        let mods = depressed | self.locked;
        let typing = Typing {
            map: &keyboard.map,
            mods,
            group: 0,
            held: &held,
            // A held AltGr serves to type a character, even if that key has another meaning in this layout.
            command: mods & COMMAND != 0 && !self.held.contains_key(&RIGHT_ALT),
        };
        let plan = typing.plan(ch, keyboard.keycode(code));
        steps.extend(plan.lift.iter().map(|key| step(Down::Key(*key), false)));
        steps.extend(plan.press.iter().map(|key| step(Down::Key(*key), true)));
        (self.pressed, self.lifted) = (plan.press, plan.lift);
        Some(match plan.keycode {
            Some(keycode) => Down::Key(keycode),
            None => Down::Symbol(symbol_of(ch)),
        })
    }

    /// Ends the temporary modifiers of a character key. It is called at the next key event. Until then, a held key
    /// repeats its character.
    fn restore_modifiers(&mut self) -> Vec<Step> {
        let pressed = std::mem::take(&mut self.pressed).into_iter();
        let lifted = std::mem::take(&mut self.lifted).into_iter();
        let up = pressed.map(|key| step(Down::Key(key), false));
        up.chain(lifted.map(|key| step(Down::Key(key), true)))
            .collect()
    }
}

fn step(down: Down, pressed: bool) -> Step {
    match down {
        Down::Key(keycode) => Step::Key(
            KeyCode(keycode.saturating_sub(EVDEV_OFFSET).into()),
            pressed,
        ),
        Down::Unmapped(code) => Step::Key(code, pressed),
        Down::Symbol(symbol) => Step::Symbol(symbol, pressed),
    }
}

#[cfg(test)]
mod tests {
    use openuvr_wayland::session_keyboard;

    use super::*;

    const A: KeyCode = KeyCode(30);
    const TWO: KeyCode = KeyCode(3);
    const Y: KeyCode = KeyCode(21);
    const LEFT_SHIFT: KeyCode = KeyCode(42);
    const LEFT_CONTROL: KeyCode = KeyCode(29);

    fn keys(layout: &str) -> Keys {
        Keys::new(Some(session_keyboard::layout(layout).unwrap()))
    }

    #[test]
    fn a_key_of_the_same_layout_is_itself() {
        let mut keys = keys("us");
        assert_eq!(keys.press(A, Some('a')), [Step::Key(A, true)]);
        assert_eq!(keys.press(A, Some('a')), [], "it is down");
        assert_eq!(keys.release(A), [Step::Key(A, false)]);
        assert_eq!(keys.press(LEFT_SHIFT, None), [Step::Key(LEFT_SHIFT, true)]);
        assert_eq!(keys.press(A, Some('A')), [Step::Key(A, true)]);
        assert_eq!(
            keys.release_all(),
            [Step::Key(A, false), Step::Key(LEFT_SHIFT, false)]
        );
        assert_eq!(keys.release_all(), []);
    }

    #[test]
    fn a_character_is_typed_where_the_layout_has_it() {
        // The client's layout is German, and the desktop's layout is American.
        let mut keys = keys("us");
        let z = KeyCode(44);
        assert_eq!(keys.press(Y, Some('z')), [Step::Key(z, true)]);
        assert_eq!(keys.release(Y), [Step::Key(z, false)]);
        // Shift+2 types a quotation mark on the German layout. The American layout has it on another key, also with
        // Shift.
        keys.press(LEFT_SHIFT, None);
        assert_eq!(keys.press(TWO, Some('"')), [Step::Key(KeyCode(40), true)]);
        keys.release(TWO);
        keys.release(LEFT_SHIFT);
        // The character needs Shift on the American layout, but the user types it without Shift.
        let steps = keys.press(KeyCode(13), Some('?'));
        let question = KeyCode(53);
        assert_eq!(steps.last(), Some(&Step::Key(question, true)));
        assert!(matches!(steps[0], Step::Key(_, true)), "{steps:?}");
        // The modifier is released at the next key event.
        let steps = keys.release(KeyCode(13));
        assert_eq!(steps.len(), 2, "{steps:?}");
        assert!(steps.iter().all(|step| matches!(step, Step::Key(_, false))));
    }

    #[test]
    fn a_character_that_the_layout_lacks_is_a_symbol() {
        let mut keys = keys("us");
        let ya = symbol_of('я');
        assert_eq!(keys.press(KeyCode(44), Some('я')), [Step::Symbol(ya, true)]);
        assert_eq!(keys.release(KeyCode(44)), [Step::Symbol(ya, false)]);
        assert_eq!(
            keys.press(KeyCode::NONE, Some('é')),
            [Step::Symbol(symbol_of('é'), true)]
        );
        assert_eq!(keys.release_all(), [Step::Symbol(symbol_of('é'), false)]);
    }

    #[test]
    fn a_shortcut_keeps_its_modifiers_and_its_letter() {
        let mut keys = keys("de");
        keys.press(LEFT_CONTROL, None);
        // Ctrl+Z on an American layout: the key that types z on the desktop's German layout is pressed.
        assert_eq!(keys.press(KeyCode(44), Some('z')), [Step::Key(Y, true)]);
    }

    #[test]
    fn without_a_map_keys_are_pressed_as_they_are() {
        let mut keys = Keys::new(None);
        assert_eq!(keys.press(Y, Some('z')), [Step::Key(Y, true)]);
        assert_eq!(keys.press(KeyCode::NONE, Some('é')), []);
        assert_eq!(keys.release_all(), [Step::Key(Y, false)]);
    }
}
