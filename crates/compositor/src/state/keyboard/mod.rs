//! The display's keyboard. It presses the player's keys. It also types characters that the layout has on another key or
//! lacks.
//!
//! As with X11 ([`openuvr_media::input_sink::xtest`]), a key event presses the same physical key if the layout maps the
//! event's character to this key, or if the event has no character. Otherwise, the character is typed with another key,
//! with modifiers that are changed until the next key event, or with an unused key code to which a new keymap binds the
//! character. Applications get the new keymap before the key event.

mod table;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use openuvr_clock as clock;
use openuvr_media::input_sink::typing::Typing;
use openuvr_media::keyboard::keymap::{COMMAND, Keymap};
use openuvr_proto::input::event::KeyCode;
use smithay::backend::input::KeyState;
use smithay::input::Seat;
use smithay::input::keyboard::{FilterResult, KeyboardHandle, Keycode, XkbConfig, xkb};
use smithay::utils::SERIAL_COUNTER;

use crate::error::DisplayError;
use crate::state::State;
use crate::state::frames::milliseconds;

/// The delay before a held key repeats, in ms, and the repetitions per second. Most compositors, such as those based on
/// wlroots, use these values.
const REPEAT_DELAY: i32 = 600;
const REPEAT_RATE: i32 = 25;

/// `KEY_RIGHTALT`, which is AltGr on many layouts.
const RIGHT_ALT: KeyCode = KeyCode(100);

/// The difference between the key codes of evdev and XKB.
const EVDEV: u32 = 8;

/// The keyboard's map, and the pressed keys.
pub(crate) struct Typist {
    /// The layout's keymap, as text.
    base: String,
    /// The same keymap as a table, with the bindings.
    map: Keymap,
    names: BTreeMap<u8, String>,
    bindings: VecDeque<(u8, char)>,
    /// The XKB key code that was pressed for each physical key.
    held: BTreeMap<KeyCode, u32>,
    /// Modifiers that have been pressed or lifted to type a character. They are restored at the next key event.
    pressed: Vec<u8>,
    lifted: Vec<u8>,
}

impl Typist {
    /// Adds a keyboard to the seat. The environment (`XKB_DEFAULT_LAYOUT`) sets its layout; the default is English
    /// (US).
    ///
    /// # Errors
    /// Returns an error if there is no such layout.
    pub(crate) fn open(
        seat: &mut Seat<State>,
    ) -> Result<(Typist, KeyboardHandle<State>), DisplayError> {
        let layout = || std::env::var("XKB_DEFAULT_LAYOUT").unwrap_or_else(|_| "us".to_owned());
        let unknown = || DisplayError::Keyboard(layout());
        let config = XkbConfig::default();
        let context = xkb::Context::new(xkb::CONTEXT_NO_FLAGS);
        let keymap = xkb::Keymap::new_from_names(
            &context,
            config.rules,
            config.model,
            config.layout,
            config.variant,
            config.options.clone(),
            xkb::KEYMAP_COMPILE_NO_FLAGS,
        );
        let keymap = keymap.ok_or_else(unknown)?;
        let handle = seat
            .add_keyboard(config, REPEAT_DELAY, REPEAT_RATE)
            .map_err(|_| unknown())?;
        let typist = Typist {
            base: keymap.get_as_string(xkb::KEYMAP_FORMAT_TEXT_V1),
            map: table::of(&keymap),
            names: table::names(&keymap),
            bindings: VecDeque::new(),
            held: BTreeMap::new(),
            pressed: Vec::new(),
            lifted: Vec::new(),
        };
        Ok((typist, handle))
    }

    /// Binds a character to an unused key code. If there is none, replaces the oldest binding whose key is not held.
    /// Returns the key code and the new keymap.
    fn bind(&mut self, wanted: char, held: &BTreeSet<u8>) -> Option<(u8, String)> {
        let named = |code: &u8| self.names.contains_key(code) && !held.contains(code);
        let code = match self.map.unused().find(named) {
            Some(code) => code,
            None => {
                let free = |(code, _): &(u8, char)| !held.contains(code);
                self.bindings
                    .remove(self.bindings.iter().position(free)?)?
                    .0
            }
        };
        self.bindings.push_back((code, wanted));
        let (begin, rest) = self.base.split_once("xkb_symbols")?;
        let (name, rest) = rest.split_once('{')?;
        let keys = self.bindings.iter().filter_map(|(code, ch)| {
            let name = self.names.get(code)?;
            Some(format!("key <{name}> {{ [ U{:04X} ] }};\n", *ch as u32))
        });
        let keys: String = keys.collect();
        let text = format!("{begin}xkb_symbols{name}{{\n{keys}{rest}");
        let context = xkb::Context::new(xkb::CONTEXT_NO_FLAGS);
        let keymap = xkb::Keymap::new_from_string(
            &context,
            text.clone(),
            xkb::KEYMAP_FORMAT_TEXT_V1,
            xkb::KEYMAP_COMPILE_NO_FLAGS,
        )?;
        self.map = table::of(&keymap);
        Some((code, text))
    }

    /// The held key codes that the map contains.
    fn held_codes(&self) -> BTreeSet<u8> {
        let codes = self.held.values();
        codes.filter_map(|code| u8::try_from(*code).ok()).collect()
    }
}

impl State {
    /// Applies a key of the player.
    pub(crate) fn key(&mut self, code: KeyCode, text: Option<char>, pressed: bool) {
        match pressed {
            true => self.press(code, text),
            false => self.release(code),
        }
    }

    fn press(&mut self, code: KeyCode, text: Option<char>) {
        if self.typist.held.contains_key(&code) {
            return;
        }
        self.restore_modifiers();
        let physical = (code != KeyCode::NONE).then_some(u32::from(code.0) + EVDEV);
        let typed = text.and_then(|ch| self.key_for(ch, physical).map(u32::from));
        let Some(keycode) = typed.or(physical) else {
            tracing::debug!("no key of the display types {text:?}");
            return;
        };
        if self.typist.held.values().any(|held| *held == keycode) {
            // Another held key of the player already presses this key code, which is therefore released and pressed
            // again.
            self.send_key(keycode, KeyState::Released);
        }
        self.send_key(keycode, KeyState::Pressed);
        self.typist.held.insert(code, keycode);
    }

    /// The key code that types `ch`, after this call has changed modifiers or added a binding if necessary.
    fn key_for(&mut self, ch: char, physical: Option<u32>) -> Option<u8> {
        let mods = self.keyboard.modifier_state().serialized;
        let held = self.typist.held_codes();
        let bits = (mods.depressed | mods.latched | mods.locked).to_le_bytes()[0];
        let typing = Typing {
            map: &self.typist.map,
            mods: bits,
            group: mods.layout_effective.to_le_bytes()[0],
            held: &held,
            // A held AltGr serves to type a character, even if that key has another meaning in this layout.
            command: bits & COMMAND != 0 && !self.typist.held.contains_key(&RIGHT_ALT),
        };
        let plan = typing.plan(ch, physical.and_then(|code| u8::try_from(code).ok()));
        let keycode = match plan.keycode {
            Some(keycode) => keycode,
            None => {
                let (keycode, keymap) = self.typist.bind(ch, &held)?;
                let keyboard = self.keyboard.clone();
                keyboard.set_keymap_from_string(self, keymap).ok()?;
                keycode
            }
        };
        for modifier in &plan.lift {
            self.send_key(u32::from(*modifier), KeyState::Released);
        }
        for modifier in &plan.press {
            self.send_key(u32::from(*modifier), KeyState::Pressed);
        }
        (self.typist.pressed, self.typist.lifted) = (plan.press, plan.lift);
        Some(keycode)
    }

    fn release(&mut self, code: KeyCode) {
        self.restore_modifiers();
        if let Some(keycode) = self.typist.held.remove(&code)
            && !self.typist.held.values().any(|held| *held == keycode)
        {
            self.send_key(keycode, KeyState::Released);
        }
    }

    /// Ends the temporary modifiers of a character's key. It is called at the next key event. Until then, a held key
    /// repeats its character; other keys are not affected by these modifiers.
    fn restore_modifiers(&mut self) {
        for modifier in std::mem::take(&mut self.typist.pressed) {
            self.send_key(u32::from(modifier), KeyState::Released);
        }
        for modifier in std::mem::take(&mut self.typist.lifted) {
            self.send_key(u32::from(modifier), KeyState::Pressed);
        }
    }

    pub(crate) fn release_keys(&mut self) {
        // Modifiers that were lifted for a character are already up.
        self.typist.lifted.clear();
        let pressed = std::mem::take(&mut self.typist.pressed);
        let held = std::mem::take(&mut self.typist.held).into_values();
        let codes: BTreeSet<u32> = held.chain(pressed.into_iter().map(u32::from)).collect();
        for code in codes {
            self.send_key(code, KeyState::Released);
        }
    }

    /// Sets whether held keys repeat. The applications themselves generate the repetitions.
    pub(crate) fn allow_repeat(&mut self, may: bool) {
        let rate = if may { REPEAT_RATE } else { 0 };
        self.keyboard.change_repeat_info(rate, REPEAT_DELAY);
    }

    fn send_key(&mut self, code: u32, state: KeyState) {
        let keyboard = self.keyboard.clone();
        let serial = SERIAL_COUNTER.next_serial();
        let time = milliseconds(clock::now());
        keyboard.input::<(), _>(self, Keycode::new(code), state, serial, time, |_, _, _| {
            FilterResult::Forward
        });
    }
}
