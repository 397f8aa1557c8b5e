//! Keys pressed before the window had the keyboard focus, for example if a user holds Ctrl, clicks
//! into the window, and presses C.
//!
//! A modifier among these keys is pressed at the host before the first event that needs it, not when the window gets
//! the focus. For example, if the user has focused the window with Alt+Tab, the held Alt is not meant for the host.
//!
//! Spec: X protocol, `KeymapNotify`; Wayland, `wl_keyboard.enter`.

use std::collections::BTreeSet;

use crate::keyboard::keymap::Keymap;

/// The keys that were held already, by X key code.
#[derive(Debug, Default)]
pub(super) struct AlreadyHeld(BTreeSet<u8>);

impl AlreadyHeld {
    /// The keys of `down` that are not `known`.
    pub(super) fn of(
        down: impl IntoIterator<Item = u8>,
        known: impl Fn(u8) -> bool,
    ) -> AlreadyHeld {
        AlreadyHeld(down.into_iter().filter(|key| !known(*key)).collect())
    }

    /// Discards this key, because it was released or pressed again.
    pub(super) fn forget(&mut self, keycode: u8) {
        self.0.remove(&keycode);
    }

    /// Removes and returns the keys that hold modifiers of `state`. A key that only chooses a level
    /// is sent to the host only if keys are sent by position.
    pub(super) fn take(&mut self, map: &Keymap, state: u8, by_position: bool) -> Vec<u8> {
        let carried = |keycode: &u8| {
            let symbol = map.symbol(*keycode, 0, 0).unwrap_or(0);
            let holds = is_modifier(symbol) || (by_position && symbol == LEVEL3_SHIFT);
            holds && map.modifiers_of(*keycode) & state != 0
        };
        let keys: Vec<u8> = self.0.iter().copied().filter(carried).collect();
        for key in &keys {
            self.0.remove(key);
        }
        keys
    }
}

/// `XK_ISO_Level3_Shift` of `keysymdef.h`.
const LEVEL3_SHIFT: u32 = 0xfe03;

/// `XK_Shift_L` to `XK_Hyper_R` of `keysymdef.h`, without Caps Lock and Shift Lock.
fn is_modifier(symbol: u32) -> bool {
    matches!(symbol, 0xffe1..=0xffee) && !matches!(symbol, 0xffe5 | 0xffe6)
}
