//! The state of the keyboard: the modifiers and the layout in effect, as a display server would track them.
//!
//! The type does no I/O. Key codes are XKB's, which are evdev's plus eight. Latches of sticky keys are not supported.

use std::collections::BTreeMap;

use openuvr_media::keyboard::XkbKeyboard;
use openuvr_media::keyboard::keymap::{CONTROL, Key, KeyType, Keymap, LOCK, MOD1, SHIFT};
use openuvr_proto::input::event::KeyCode;

/// XKB numbers a key eight higher than evdev.
pub(super) const EVDEV_OFFSET: u16 = 8;

/// Symbols of `keysymdef.h`.
const CAPS_LOCK: u32 = 0xffe5;
const NUM_LOCK: u32 = 0xff7f;
const NEXT_GROUP: u32 = 0xfe08;
const PREVIOUS_GROUP: u32 = 0xfe0a;

/// The state of all keyboards together, as on a desktop.
#[derive(Debug)]
pub(super) struct KeyboardState {
    pub(super) keyboard: XkbKeyboard,
    /// The keys that are down, with the modifiers that they hold.
    held: BTreeMap<u8, u8>,
    locked: u8,
    group: u8,
    groups: u8,
    num_lock: u8,
}

impl KeyboardState {
    pub(super) fn new(keyboard: XkbKeyboard) -> KeyboardState {
        let groups = keyboard.map.keys.values().map(|key| key.groups.len()).max();
        // KEY_NUMLOCK
        let num_lock = keyboard.keycode(KeyCode(69));
        let num_lock = num_lock.map_or(0, |key| keyboard.map.modifiers_of(key));
        KeyboardState {
            keyboard,
            held: BTreeMap::new(),
            locked: 0,
            group: 0,
            groups: groups
                .and_then(|groups| u8::try_from(groups).ok())
                .unwrap_or(1)
                .max(1),
            num_lock,
        }
    }

    /// The effective modifiers.
    pub(super) fn modifiers(&self) -> u8 {
        self.held.values().fold(self.locked, |all, held| all | held)
    }

    /// The effective layout.
    pub(super) fn group(&self) -> u8 {
        self.group
    }

    /// Whether Caps Lock and Num Lock are on.
    pub(super) fn locks(&self) -> (bool, bool) {
        let on = |bit: u8| bit != 0 && self.locked & bit == bit;
        (on(LOCK), on(self.num_lock))
    }

    /// Handles a key that was pressed.
    pub(super) fn press(&mut self, keycode: u8) {
        let map = &self.keyboard.map;
        let modifiers = map.modifiers_of(keycode);
        let holds = match map.symbol(keycode, self.modifiers(), self.group) {
            Some(CAPS_LOCK) => {
                self.locked ^= LOCK;
                0
            }
            Some(NUM_LOCK) => {
                self.locked ^= modifiers;
                0
            }
            Some(NEXT_GROUP) => {
                self.group = (self.group + 1) % self.groups;
                0
            }
            Some(PREVIOUS_GROUP) => {
                self.group = (self.group + self.groups - 1) % self.groups;
                0
            }
            _ => modifiers,
        };
        self.held.insert(keycode, holds);
    }

    /// Handles a key that was released.
    pub(super) fn release(&mut self, keycode: u8) {
        self.held.remove(&keycode);
    }

    /// Replaces the set of keys that are down, after the console was in the background.
    pub(super) fn replace(&mut self, down: impl IntoIterator<Item = u8>) {
        let map = &self.keyboard.map;
        let locks = |keycode| matches!(map.symbol(keycode, 0, 0), Some(CAPS_LOCK | NUM_LOCK));
        let holds = |keycode: u8| {
            (
                keycode,
                if locks(keycode) {
                    0
                } else {
                    map.modifiers_of(keycode)
                },
            )
        };
        self.held = down.into_iter().map(holds).collect();
    }
}

/// The console that Ctrl+Alt and this function key select.
pub(super) fn console_of(modifiers: u8, code: u16) -> Option<u32> {
    let held = CONTROL | MOD1;
    let number = match code {
        // KEY_F1 to KEY_F10, KEY_F11, KEY_F12
        59..=68 => u32::from(code) - 58,
        87 | 88 => u32::from(code) - 76,
        _ => return None,
    };
    (modifiers & held == held).then_some(number)
}

/// A keyboard without a layout, for a machine without libxkbcommon: its keys are sent by position, and it has the
/// modifiers of the shortcuts.
pub(super) fn without_layout() -> XkbKeyboard {
    let mut map = Keymap {
        types: vec![KeyType::default()],
        ..Keymap::default()
    };
    // For each key: its evdev code (KEY_LEFTCTRL and so on), its modifier, and its symbol (XK_Control_L and so on).
    let modifiers = [
        (29, CONTROL, 0xffe3),
        (97, CONTROL, 0xffe4),
        (42, SHIFT, 0xffe1),
        (54, SHIFT, 0xffe2),
        (56, MOD1, 0xffe9),
        (100, MOD1, 0xffea),
    ];
    for (code, bit, symbol) in modifiers {
        let keycode = code + 8;
        let groups = vec![(0, vec![symbol])];
        map.keys.insert(
            keycode,
            Key {
                groups,
                ..Key::default()
            },
        );
        map.modifiers.insert(keycode, bit);
    }
    // `XkbKeyboard` recognises evdev's key codes by the name of key code 111.
    let named = (9..=u8::MAX).map(|keycode| {
        let name = if keycode == 111 { "UP" } else { "" };
        (keycode, name.to_owned())
    });
    XkbKeyboard::new(map, named)
}

#[cfg(test)]
mod tests {
    use openuvr_wayland::session_keyboard;

    use super::*;

    fn state(layouts: &str, options: &str) -> KeyboardState {
        let names = [None, None, Some(layouts), None, Some(options)];
        KeyboardState::new(session_keyboard::named(names).unwrap())
    }

    #[test]
    fn modifiers_are_held_and_locked() {
        let mut state = state("us", "");
        let (shift, caps, num) = (42 + 8, 58 + 8, 69 + 8);
        state.press(shift);
        assert_eq!(state.modifiers(), SHIFT);
        state.release(shift);
        for locked in [LOCK, 0] {
            state.press(caps);
            state.release(caps);
            assert_eq!(state.modifiers(), locked);
            assert_eq!(state.locks(), (locked != 0, false));
        }
        state.press(num);
        state.release(num);
        assert_eq!(state.locks(), (false, true));
        state.replace([29 + 8, caps]);
        assert_eq!(state.modifiers() & (CONTROL | LOCK), CONTROL);
    }

    #[test]
    fn a_layouts_own_keys_switch_layouts() {
        let mut state = state("us,de", "grp:menu_toggle");
        let (menu, y) = (127 + 8, 21 + 8);
        let typed = |state: &KeyboardState| {
            (state.keyboard.map).character(y, state.modifiers(), state.group())
        };
        assert_eq!(typed(&state), Some('y'));
        state.press(menu);
        state.release(menu);
        assert_eq!(typed(&state), Some('z'));
        state.press(menu);
        assert_eq!(typed(&state), Some('y'));
    }

    #[test]
    fn function_keys_select_consoles_with_both_modifiers_only() {
        assert_eq!(console_of(CONTROL | MOD1, 59), Some(1));
        assert_eq!(console_of(CONTROL | MOD1 | SHIFT, 68), Some(10));
        assert_eq!(console_of(CONTROL | MOD1, 88), Some(12));
        assert_eq!(console_of(CONTROL, 59), None);
        assert_eq!(console_of(CONTROL | MOD1, 30), None);
    }

    #[test]
    fn without_a_layout_positions_and_shortcuts_remain() {
        let mut state = KeyboardState::new(without_layout());
        assert_eq!(state.keyboard.code(30 + 8), Some(KeyCode(30)));
        state.press(29 + 8);
        state.press(56 + 8);
        assert_eq!(state.modifiers(), CONTROL | MOD1);
    }
}
