//! Translates keys of an XKB keyboard to key events of the protocol, for the windows of all display
//! servers.
//!
//! Keys are sent in the mode ([`Keys`]) that the user has chosen, otherwise in the mode of the host's application. If
//! the user has not chosen a mode, [`Keys::Position`] replaces [`Keys::Symbol`] while the mouse is grabbed. In the mode
//! [`Keys::Symbol`], only the resulting character of a dead key or a compose sequence is sent. In each mode, a key
//! without an evdev code is sent as the PC key with the same symbol, such as an arrow key. If there is no such PC key,
//! the key's character is sent.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use openuvr_proto::input::event::{InputEvent, KeyCode};
use openuvr_proto::input::keys::Keys;

use super::SourceEvent;
use super::already_held::AlreadyHeld;
use super::shortcuts::{self, Action, HELD};
use crate::keyboard::compose::{ComposeStep, Composer};
use crate::keyboard::keymap::{COMMAND, LOCK, symbol_of};
use crate::keyboard::{XkbKeyboard, codes};

/// The keys of one window.
pub struct KeyTranslator {
    /// Keys reported to the host as down, by XKB key code. A layout change may map the code to a different key before
    /// its release.
    down: BTreeMap<u8, KeyCode>,
    /// Keys that are down but were not sent to the host, such as the keys of shortcuts.
    swallowed: BTreeSet<u8>,
    /// Keys pressed before the window had the keyboard focus.
    already_held: AlreadyHeld,
    pub(crate) composer: Composer,
    /// The key mode chosen by the user, and the key mode of the host's application.
    chosen: Option<Keys>,
    usual: Keys,
}

/// A key press.
#[derive(Clone, Copy)]
pub struct KeyPress {
    /// The XKB key code.
    pub keycode: u8,
    /// The real modifiers before the press, as in core X.
    pub state: u8,
    /// The effective group (layout).
    pub group: u8,
    /// Whether the pointer is grabbed.
    pub grabbed: bool,
}

impl KeyTranslator {
    /// A translator without keys down. `chosen` is the user's key mode.
    pub fn new(chosen: Option<Keys>) -> KeyTranslator {
        KeyTranslator {
            down: BTreeMap::new(),
            swallowed: BTreeSet::new(),
            already_held: AlreadyHeld::default(),
            composer: Composer::of_locale(),
            chosen,
            usual: Keys::Symbol,
        }
    }

    /// Appends the events of a press, or returns the action of a shortcut.
    pub fn press(
        &mut self,
        keyboard: &XkbKeyboard,
        press: KeyPress,
        events: &mut VecDeque<SourceEvent>,
    ) -> Option<Action> {
        let KeyPress { keycode, state, .. } = press;
        if self.is_known(keycode) {
            return None;
        }
        self.already_held.forget(keycode);
        let by_symbol = || codes::by_symbol(keyboard.map.symbol(keycode, state, press.group)?);
        let Some(code) = keyboard.code(keycode).or_else(by_symbol) else {
            self.press_already_held(keyboard, state, press.grabbed, events);
            self.type_without_key(keyboard, press, events);
            return None;
        };
        if state & HELD == HELD
            && let Some(own) = shortcuts::own(code)
        {
            self.swallowed.insert(keycode);
            return Some(own);
        }
        self.press_already_held(keyboard, state, press.grabbed, events);
        let mode = self.mode(press.grabbed);
        if mode == Keys::Symbol
            && let Some(symbol) = keyboard.map.symbol(keycode, state, press.group)
            && let Some(other) = codes::without_num_lock(symbol)
        {
            // At the host, NumLock may affect a keypad's key differently.
            match other {
                Some(code) => {
                    self.down.insert(keycode, code);
                    send(events, code, None, true);
                }
                None => _ = self.swallowed.insert(keycode),
            }
            return None;
        }
        let text = match mode {
            Keys::Position => String::new(),
            Keys::Both => self.typed(keyboard, press).unwrap_or_default(),
            Keys::Symbol => match self.typed(keyboard, press) {
                Some(text) => text,
                None => {
                    self.swallowed.insert(keycode);
                    return None;
                }
            },
        };
        let mut text = text.chars().rev();
        let last = text.next();
        // A compose sequence may type several characters.
        for ch in text.rev() {
            send(events, code, Some(ch), true);
            send(events, code, None, false);
        }
        self.down.insert(keycode, code);
        send(events, code, last, true);
        None
    }

    /// Appends the event of a release.
    pub fn release(&mut self, keycode: u8, events: &mut VecDeque<SourceEvent>) {
        self.already_held.forget(keycode);
        self.swallowed.remove(&keycode);
        if let Some(code) = self.down.remove(&keycode) {
            send(events, code, None, false);
        }
    }

    /// Presses the modifiers in `state` that were pressed before the window had the keyboard focus,
    /// because the next event needs them.
    pub fn press_already_held(
        &mut self,
        keyboard: &XkbKeyboard,
        state: u8,
        grabbed: bool,
        events: &mut VecDeque<SourceEvent>,
    ) {
        let by_position = self.mode(grabbed) == Keys::Position;
        for keycode in self.already_held.take(&keyboard.map, state, by_position) {
            if let Some(code) = keyboard.code(keycode) {
                self.down.insert(keycode, code);
                send(events, code, None, true);
            }
        }
    }

    /// Records keys that were down when the window got the keyboard focus.
    pub fn already_down(&mut self, keys: impl IntoIterator<Item = u8>) {
        self.already_held = AlreadyHeld::of(keys, |keycode| self.is_known(keycode));
    }

    /// Discards all keys, because the focus was lost.
    pub fn clear(&mut self) {
        self.down.clear();
        self.swallowed.clear();
        self.already_held = AlreadyHeld::default();
        self.composer.reset();
    }

    /// Whether no key is down at the host.
    pub fn is_idle(&self) -> bool {
        self.down.is_empty()
    }

    /// Drops an unfinished compose sequence.
    pub fn reset_composition(&mut self) {
        self.composer.reset();
    }

    /// Sets how the host's application reads keys.
    pub fn follow(&mut self, keys: Keys) {
        self.usual = keys;
    }

    /// Switches the key mode at the user's request. Returns the new mode.
    pub fn switch_mode(&mut self, grabbed: bool) -> Keys {
        self.composer.reset();
        let other = match self.mode(grabbed) {
            Keys::Symbol => Keys::Position,
            Keys::Position | Keys::Both => Keys::Symbol,
        };
        self.chosen = Some(other);
        other
    }

    fn mode(&self, grabbed: bool) -> Keys {
        let game = grabbed && self.usual == Keys::Symbol;
        let usual = if game { Keys::Position } else { self.usual };
        self.chosen.unwrap_or(usual)
    }

    fn is_known(&self, keycode: u8) -> bool {
        self.down.contains_key(&keycode) || self.swallowed.contains(&keycode)
    }

    /// Types the character of a key without an evdev code. A program has created this key for the character. Each press
    /// and each repeat is sent with its release, because several such keys may be down, and the host can't distinguish
    /// them.
    fn type_without_key(
        &mut self,
        keyboard: &XkbKeyboard,
        press: KeyPress,
        events: &mut VecDeque<SourceEvent>,
    ) {
        let text = self.typed(keyboard, press).unwrap_or_default();
        for ch in text.chars() {
            send(events, KeyCode::NONE, Some(ch), true);
            send(events, KeyCode::NONE, None, false);
        }
    }

    /// The text typed by a key. It is empty for keys without text. `None` if the key is not sent: it belongs to a
    /// sequence that types text later, or it only chooses the level of other keys.
    fn typed(&mut self, keyboard: &XkbKeyboard, press: KeyPress) -> Option<String> {
        let KeyPress {
            keycode,
            state,
            group,
            ..
        } = press;
        let character = keyboard.map.character(keycode, state, group);
        let symbol = keyboard.map.symbol(keycode, state, group);
        let Some(symbol) = character.map(symbol_of).or(symbol) else {
            return Some(String::new());
        };
        if chooses_level(symbol) {
            return None;
        }
        if state & COMMAND != 0 {
            self.composer.reset();
            // Right Alt may be a different key at the host, so keys pressed while it is held are sent by position.
            let beside = self.down.values().any(|code| *code == RIGHT_ALT);
            // Lock does not change a command.
            let letter = keyboard.map.character(keycode, state & !LOCK, group);
            return Some(letter.filter(|_| !beside).into_iter().collect());
        }
        match self.composer.press(symbol) {
            ComposeStep::Alone => Some(character.into_iter().collect()),
            ComposeStep::Typed(text) => Some(text),
            ComposeStep::Waiting | ComposeStep::Discarded => None,
        }
    }
}

fn send(events: &mut VecDeque<SourceEvent>, code: KeyCode, text: Option<char>, pressed: bool) {
    events.push_back(SourceEvent::Input(InputEvent::Key {
        code,
        text,
        pressed,
    }));
}

/// `KEY_RIGHTALT`, which is AltGr on many layouts.
const RIGHT_ALT: KeyCode = KeyCode(100);

/// `XK_ISO_Level2_Latch` to `XK_ISO_Level3_Lock`, the symbols of the fifth level, and `XK_Mode_switch` of
/// `keysymdef.h`. The host does not need these keys, because the other keys carry characters. In the host's layout,
/// such a key may even be a command.
fn chooses_level(symbol: u32) -> bool {
    matches!(symbol, 0xfe02..=0xfe05 | 0xfe11..=0xfe13 | 0xff7e)
}
