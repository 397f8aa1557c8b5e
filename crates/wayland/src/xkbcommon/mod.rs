//! Keyboards of Wayland compositors: key maps in XKB's text format, compiled by libxkbcommon.
//!
//! Only the compiled map is kept. It has the same form as the map of an X server's keyboard.
//!
//! Spec: Wayland, `wl_keyboard.keymap`; xkbcommon/xkbcommon.h.

mod sys;

use std::ffi::CString;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;

use openuvr_media::keyboard::XkbKeyboard;
use openuvr_media::keyboard::keymap::{Key, KeyType, Keymap, OutOfRange};

/// The maximum length of a map's text, in bytes. A usual map has 65 kB.
const MAX_TEXT: u32 = 1 << 20;

/// Reads and compiles the map in `file`, whose first `size` bytes hold its text.
///
/// # Errors
/// Returns a one-line error if libxkbcommon is missing or the text is not a key map.
pub(crate) fn read(file: OwnedFd, size: u32) -> Result<XkbKeyboard, String> {
    compile(&read_text(file, size)?)
}

/// Reads the text of the map in `file`. The text has `size` bytes.
///
/// # Errors
/// Returns a one-line error if the text is too long or cannot be read.
pub(crate) fn read_text(file: OwnedFd, size: u32) -> Result<Vec<u8>, String> {
    if size > MAX_TEXT {
        return Err(format!(
            "the compositor's key map of {size} bytes is too long"
        ));
    }
    let mut text = vec![0; usize::try_from(size).unwrap_or(0)];
    // The file is read instead of mapped, because another process may truncate it.
    (File::from(file).read_exact_at(&mut text, 0))
        .map_err(|cause| format!("can't read the compositor's key map: {cause}"))?;
    let end = text.iter().position(|byte| *byte == 0);
    text.truncate(end.unwrap_or(text.len()));
    Ok(text)
}

/// Compiles the text of a map.
///
/// # Errors
/// Returns a one-line error if libxkbcommon is missing or the text is not a key map.
pub(crate) fn compile(text: &[u8]) -> Result<XkbKeyboard, String> {
    Ok(keyboard_of(sys::keys(text)?))
}

/// Compiles the map for these names of rules, model, layouts, variants and options (xkeyboard-config(7)).
///
/// # Errors
/// Returns a one-line error if libxkbcommon is missing or there is no such layout.
pub(crate) fn compile_names(names: [Option<&str>; 5]) -> Result<XkbKeyboard, String> {
    let texts = names.map(|name| name.map(CString::new).transpose());
    let mut strings: [Option<CString>; 5] = Default::default();
    for (to, text) in strings.iter_mut().zip(texts) {
        *to = text.map_err(|_| "the name of a keyboard layout contains a zero byte".to_owned())?;
    }
    let names = strings.each_ref().map(|string| string.as_deref());
    Ok(keyboard_of(sys::keys_of_names(names)?))
}

fn keyboard_of(keys: Vec<sys::RawKey>) -> XkbKeyboard {
    let mut map = Keymap::default();
    for key in &keys {
        let groups = key.groups.iter().map(|levels| {
            let kind = key_type(levels);
            let symbols = levels.iter().map(|level| level.symbol).collect();
            (number_of(&mut map.types, kind), symbols)
        });
        let groups = groups.collect();
        map.keys.insert(
            key.keycode,
            Key {
                groups,
                out_of_range: OutOfRange::Wrap,
            },
        );
        if key.modifiers != 0 {
            map.modifiers.insert(key.keycode, key.modifiers);
        }
    }
    let named = keys.into_iter().map(|key| (key.keycode, key.name));
    XkbKeyboard::new(map, named)
}

fn key_type(levels: &[sys::Level]) -> KeyType {
    let mut kind = KeyType::default();
    for (level, each) in (0..=u8::MAX).zip(levels) {
        for mask in &each.masks {
            kind.mask |= mask;
            kind.levels.push((*mask, level));
        }
    }
    kind
}

/// The index of a type in the list. A new type is appended. In practice, no map has more than 256 types; further types
/// would count as the last one.
fn number_of(types: &mut Vec<KeyType>, kind: KeyType) -> u8 {
    let same = |known: &KeyType| known.mask == kind.mask && known.levels == kind.levels;
    let at = types.iter().position(same).unwrap_or_else(|| {
        if types.len() <= usize::from(u8::MAX) {
            types.push(kind);
        }
        types.len() - 1
    });
    u8::try_from(at).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use openuvr_proto::input::event::KeyCode;

    use super::*;
    use openuvr_media::keyboard::keymap::{CONTROL, LOCK, MOD1, SHIFT};

    /// A map of the layouts `layouts`, such as `de+us:2`, from the files of xkb-data.
    fn layout(layouts: &str) -> XkbKeyboard {
        let text = format!(
            "xkb_keymap {{\nxkb_keycodes {{ include \"evdev+aliases(qwerty)\" }};\n\
             xkb_types {{ include \"complete\" }};\nxkb_compat {{ include \"complete\" }};\n\
             xkb_symbols {{ include \"pc+{layouts}+inet(evdev)\" }};\n}};"
        );
        compile(text.as_bytes()).unwrap()
    }

    #[test]
    fn symbols_levels_and_modifiers_are_those_of_the_layout() {
        let keyboard = layout("de+us:2");
        let map = &keyboard.map;
        let of = |code| keyboard.keycode(KeyCode(code)).unwrap();
        let (z, two, q, shift, right_alt) = (of(21), of(3), of(16), of(42), of(100));
        assert_eq!(map.character(z, 0, 0), Some('z'), "KEY_Y types z");
        assert_eq!(map.character(z, 0, 1), Some('y'), "in the second layout y");
        assert_eq!(map.character(z, SHIFT, 0), Some('Z'));
        assert_eq!(map.character(z, LOCK, 0), Some('Z'));
        assert_eq!(map.character(two, SHIFT, 0), Some('"'));
        assert_eq!(map.modifiers_of(shift), SHIFT);
        assert_eq!(map.modifiers_of(of(29)), CONTROL);
        assert_eq!(map.modifiers_of(of(56)), MOD1);
        let third = map.modifiers_of(right_alt);
        assert_ne!(third, 0);
        assert_eq!(map.character(q, third, 0), Some('@'));
    }

    #[test]
    fn names_select_layouts_variants_and_options() {
        let names = [None, None, Some("us,de"), Some(",neo"), Some("ctrl:nocaps")];
        let keyboard = compile_names(names).unwrap();
        let (map, of) = (&keyboard.map, |code| {
            keyboard.keycode(KeyCode(code)).unwrap()
        });
        assert_eq!(map.character(of(16), 0, 0), Some('q'));
        assert_eq!(map.character(of(16), 0, 1), Some('x'), "Neo has x at KEY_Q");
        assert_eq!(map.modifiers_of(of(58)), CONTROL, "Caps Lock is Control");
        let why = compile_names([None, None, Some("klingon"), None, None]);
        assert!(!why.err().unwrap().contains('\n'));
        assert!(compile_names([None, None, Some("u\0s"), None, None]).is_err());
    }

    #[test]
    fn other_text_is_refused_in_one_line() {
        for text in ["", "xkb_keymap {", "\u{0}"] {
            let why = compile(text.as_bytes()).err().unwrap();
            assert!(!why.is_empty() && !why.contains('\n'), "{why}");
        }
        let null = File::open("/dev/null").unwrap();
        assert!(read(null.into(), 100).is_err());
        let null = File::open("/dev/null").unwrap();
        assert!(read(null.into(), u32::MAX).is_err());
    }
}
