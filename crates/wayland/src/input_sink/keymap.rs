//! The key map of the virtual keyboard: the session's key map, extended by keys for additional characters.
//!
//! Most clients read a changed map at once, but some only when the next key arrives. Therefore, a binding is kept as
//! long as possible: the oldest binding is replaced only if all key codes are used.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, memfd_create};

use openuvr_media::keyboard::XkbKeyboard;
use openuvr_media::keyboard::keymap::symbol_of;

use crate::session_keyboard::default_map;
use crate::xkbcommon;

/// A key map, and its text for the compositor.
pub(super) struct SessionKeymap {
    /// The session's map, without the bindings.
    base: String,
    /// The extended map.
    pub(super) keyboard: XkbKeyboard,
    /// X key codes bound to a character, oldest first.
    bindings: VecDeque<(u8, char)>,
}

impl SessionKeymap {
    /// The map with this text. `None` means that the session has no keyboard or no readable map, and selects the
    /// default map.
    ///
    /// # Errors
    /// Returns a one-line error if libxkbcommon or its files are missing, or the text is not a map.
    pub(super) fn of(text: Option<Vec<u8>>) -> Result<SessionKeymap, String> {
        let text = text.map(|text| String::from_utf8_lossy(&text).into_owned());
        let base = text.unwrap_or_else(default_map);
        Ok(SessionKeymap {
            keyboard: xkbcommon::compile(base.as_bytes())?,
            base,
            bindings: VecDeque::new(),
        })
    }

    /// Binds `wanted` to an unused key code. If all key codes are used, replaces the oldest binding whose key code is
    /// not `held`.
    ///
    /// # Errors
    /// Returns a one-line error if no key code is left, or if the extended map is invalid.
    pub(super) fn bind(&mut self, wanted: char, held: &BTreeSet<u8>) -> Result<u8, String> {
        let free = |keycode: &u8| !held.contains(keycode);
        let unused = self.keyboard.map.unused().find(free);
        let keycode = unused.or_else(|| {
            let oldest = self.bindings.iter().position(|(keycode, _)| free(keycode));
            oldest
                .and_then(|at| self.bindings.remove(at))
                .map(|(keycode, _)| keycode)
        });
        let keycode = keycode.ok_or_else(|| {
            format!("the key map has no free key code for the character {wanted:?}")
        })?;
        self.bindings.push_back((keycode, wanted));
        self.keyboard = xkbcommon::compile(self.text().as_bytes())?;
        Ok(keycode)
    }

    /// The extended map in a file, for the compositor, and its length.
    ///
    /// # Errors
    /// Returns a one-line error if there is no memory.
    pub(super) fn file(&self) -> Result<(OwnedFd, u32), String> {
        let mut text = self.text().into_bytes();
        text.push(0);
        let failed = |cause: rustix::io::Errno| format!("can't share a key map: {cause}");
        let file = memfd_create("openuvr-keymap", MemfdFlags::CLOEXEC).map_err(failed)?;
        let mut rest = text.as_slice();
        while !rest.is_empty() {
            let written = rustix::io::write(&file, rest).map_err(failed)?;
            rest = rest.get(written..).unwrap_or_default();
        }
        Ok((file, u32::try_from(text.len()).unwrap_or(0)))
    }

    fn text(&self) -> String {
        if self.bindings.is_empty() {
            return self.base.clone();
        }
        let (mut codes, mut symbols) = (String::new(), String::new());
        for (keycode, ch) in &self.bindings {
            // Writing to a string can't fail.
            let _ = writeln!(codes, "<OV{keycode}> = {keycode};");
            let symbol = symbol_of(*ch);
            // The symbol is the same with and without Shift, so that the modifier state is irrelevant.
            let _ = writeln!(
                symbols,
                "key <OV{keycode}> {{ [ {symbol:#x}, {symbol:#x} ] }};"
            );
        }
        let text = extended(&self.base, "xkb_keycodes", &codes);
        extended(&text, "xkb_symbols", &symbols)
    }
}

/// The text with `lines` at the end of a section; unchanged if it has no such section.
fn extended(text: &str, section: &str, lines: &str) -> String {
    let end = text.find(section).and_then(|from| {
        let mut depth = 0;
        let braces = text[from..].char_indices().find(|(_, ch)| {
            depth += match ch {
                '{' => 1,
                '}' => -1,
                _ => 0,
            };
            *ch == '}' && depth == 0
        });
        braces.map(|(at, _)| from + at)
    });
    match end {
        Some(end) => format!("{}\n{lines}{}", &text[..end], &text[end..]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_that_the_map_lacks_gets_a_key() {
        let mut keymap = SessionKeymap::of(None).unwrap();
        let none = BTreeSet::new();
        let euro = keymap.bind('€', &none).unwrap();
        let cyrillic = keymap.bind('ж', &none).unwrap();
        assert_ne!(euro, cyrillic);
        let map = &keymap.keyboard.map;
        assert_eq!(map.character(euro, 0, 0), Some('€'));
        assert_eq!(map.character(cyrillic, 0, 0), Some('ж'));
        // The other keys stay unchanged.
        let q = keymap
            .keyboard
            .keycode(openuvr_proto::input::event::KeyCode(16))
            .unwrap();
        assert_eq!(map.character(q, 0, 0), Some('q'));
    }

    #[test]
    fn key_codes_are_used_in_rotation_and_held_ones_stay() {
        let mut keymap = SessionKeymap::of(None).unwrap();
        let first = keymap.bind('一', &BTreeSet::new()).unwrap();
        let held = BTreeSet::from([first]);
        let unused = keymap.keyboard.map.unused().count();
        for ch in ('丁'..).take(unused + 3) {
            assert_ne!(keymap.bind(ch, &held).unwrap(), first);
        }
        let map = &keymap.keyboard.map;
        assert_eq!(map.character(first, 0, 0), Some('一'));
    }
}
