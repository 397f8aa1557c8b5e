//! Converts the key codes of `linux/input-event-codes.h` to Bevy's keys. Bevy names its keys after the `code` and `key`
//! values of the W3C's `KeyboardEvent`.

use bevy::input::keyboard::{Key, KeyCode, NativeKey, NativeKeyCode};
use openuvr_media::keyboard::codes;
use openuvr_proto::input::event::KeyCode as LinuxKey;

/// Runs of physical keys with consecutive Linux codes. Each run starts with the code of its first key.
const PHYSICAL: &[(u16, &[KeyCode])] = {
    use KeyCode::*;
    &[
        (
            1,
            &[
                Escape,
                Digit1,
                Digit2,
                Digit3,
                Digit4,
                Digit5,
                Digit6,
                Digit7,
                Digit8,
                Digit9,
                Digit0,
                Minus,
                Equal,
                Backspace,
                Tab,
                KeyQ,
                KeyW,
                KeyE,
                KeyR,
                KeyT,
                KeyY,
                KeyU,
                KeyI,
                KeyO,
                KeyP,
                BracketLeft,
                BracketRight,
                Enter,
                ControlLeft,
                KeyA,
                KeyS,
                KeyD,
                KeyF,
                KeyG,
                KeyH,
                KeyJ,
                KeyK,
                KeyL,
                Semicolon,
                Quote,
                Backquote,
                ShiftLeft,
                Backslash,
                KeyZ,
                KeyX,
                KeyC,
                KeyV,
                KeyB,
                KeyN,
                KeyM,
                Comma,
                Period,
                Slash,
                ShiftRight,
                NumpadMultiply,
                AltLeft,
                Space,
                CapsLock,
                F1,
                F2,
                F3,
                F4,
                F5,
                F6,
                F7,
                F8,
                F9,
                F10,
                NumLock,
                ScrollLock,
                Numpad7,
                Numpad8,
                Numpad9,
                NumpadSubtract,
                Numpad4,
                Numpad5,
                Numpad6,
                NumpadAdd,
                Numpad1,
                Numpad2,
                Numpad3,
                Numpad0,
                NumpadDecimal,
            ],
        ),
        (86, &[IntlBackslash, F11, F12, IntlRo]),
        (92, &[Convert, KanaMode, NonConvert]),
        (
            96,
            &[
                NumpadEnter,
                ControlRight,
                NumpadDivide,
                PrintScreen,
                AltRight,
            ],
        ),
        (
            102,
            &[
                Home, ArrowUp, PageUp, ArrowLeft, ArrowRight, End, ArrowDown, PageDown, Insert,
                Delete,
            ],
        ),
        (113, &[AudioVolumeMute, AudioVolumeDown, AudioVolumeUp]),
        (117, &[NumpadEqual]),
        (119, &[Pause]),
        (
            121,
            &[
                NumpadComma,
                Lang1,
                Lang2,
                IntlYen,
                SuperLeft,
                SuperRight,
                ContextMenu,
            ],
        ),
        (138, &[Help]),
        (
            163,
            &[
                MediaTrackNext,
                MediaPlayPause,
                MediaTrackPrevious,
                MediaStop,
            ],
        ),
        (
            183,
            &[F13, F14, F15, F16, F17, F18, F19, F20, F21, F22, F23, F24],
        ),
    ]
};

/// The physical key of a Linux code.
pub(crate) fn physical(code: u16) -> KeyCode {
    let row = PHYSICAL.iter().rev().find(|(first, _)| *first <= code);
    let key = row.and_then(|(first, keys)| keys.get(usize::from(code - first)));
    // XKB's key codes are Linux's plus 8.
    key.copied()
        .unwrap_or(KeyCode::Unidentified(NativeKeyCode::Xkb(
            u32::from(code) + 8,
        )))
}

/// The logical key: the key's name if it has one, otherwise the character that the player's layout types or, without such a
/// character, the character of a US keyboard.
pub(crate) fn logical(physical: KeyCode, code: LinuxKey, text: Option<char>) -> Key {
    if let Some(key) = named(physical) {
        return key;
    }
    let us_text = || codes::us_text(code).map(|(plain, _)| plain);
    match text.or_else(us_text).filter(|text| !text.is_control()) {
        Some(text) => Key::Character(text.to_string().into()),
        None => Key::Unidentified(NativeKey::Unidentified),
    }
}

/// The key, if it has a name of its own.
fn named(physical: KeyCode) -> Option<Key> {
    Some(match physical {
        KeyCode::AltLeft | KeyCode::AltRight => Key::Alt,
        KeyCode::ArrowDown => Key::ArrowDown,
        KeyCode::ArrowLeft => Key::ArrowLeft,
        KeyCode::ArrowRight => Key::ArrowRight,
        KeyCode::ArrowUp => Key::ArrowUp,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::CapsLock => Key::CapsLock,
        KeyCode::ContextMenu => Key::ContextMenu,
        KeyCode::ControlLeft | KeyCode::ControlRight => Key::Control,
        KeyCode::Delete => Key::Delete,
        KeyCode::End => Key::End,
        KeyCode::Enter | KeyCode::NumpadEnter => Key::Enter,
        KeyCode::Escape => Key::Escape,
        KeyCode::F1 => Key::F1,
        KeyCode::F2 => Key::F2,
        KeyCode::F3 => Key::F3,
        KeyCode::F4 => Key::F4,
        KeyCode::F5 => Key::F5,
        KeyCode::F6 => Key::F6,
        KeyCode::F7 => Key::F7,
        KeyCode::F8 => Key::F8,
        KeyCode::F9 => Key::F9,
        KeyCode::F10 => Key::F10,
        KeyCode::F11 => Key::F11,
        KeyCode::F12 => Key::F12,
        KeyCode::Help => Key::Help,
        KeyCode::Home => Key::Home,
        KeyCode::Insert => Key::Insert,
        KeyCode::NumLock => Key::NumLock,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::Pause => Key::Pause,
        KeyCode::PrintScreen => Key::PrintScreen,
        KeyCode::ScrollLock => Key::ScrollLock,
        KeyCode::ShiftLeft | KeyCode::ShiftRight => Key::Shift,
        KeyCode::Space => Key::Space,
        KeyCode::SuperLeft | KeyCode::SuperRight => Key::Super,
        KeyCode::Tab => Key::Tab,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares this table with the key names of `openuvr-media`.
    #[test]
    fn the_codes_are_those_of_the_kernel() {
        for (name, key) in [
            ("KEY_ESC", KeyCode::Escape),
            ("KEY_0", KeyCode::Digit0),
            ("KEY_P", KeyCode::KeyP),
            ("KEY_L", KeyCode::KeyL),
            ("KEY_GRAVE", KeyCode::Backquote),
            ("KEY_M", KeyCode::KeyM),
            ("KEY_SPACE", KeyCode::Space),
            ("KEY_F10", KeyCode::F10),
            ("KEY_KP7", KeyCode::Numpad7),
            ("KEY_KPDOT", KeyCode::NumpadDecimal),
            ("KEY_102ND", KeyCode::IntlBackslash),
            ("KEY_F12", KeyCode::F12),
            ("KEY_KPENTER", KeyCode::NumpadEnter),
            ("KEY_RIGHTALT", KeyCode::AltRight),
            ("KEY_HOME", KeyCode::Home),
            ("KEY_DELETE", KeyCode::Delete),
            ("KEY_PAUSE", KeyCode::Pause),
            ("KEY_COMPOSE", KeyCode::ContextMenu),
            ("KEY_F24", KeyCode::F24),
        ] {
            let code = codes::by_name(name).expect(name);
            assert_eq!(physical(code.0), key, "{name}");
        }
        let unknown = KeyCode::Unidentified(NativeKeyCode::Xkb(263));
        assert_eq!(physical(255), unknown);
    }

    #[test]
    fn a_key_without_text_has_its_us_character() {
        let a = Key::Character("a".into());
        assert_eq!(logical(KeyCode::KeyA, LinuxKey(30), None), a);
        let umlaut = Key::Character("ä".into());
        assert_eq!(logical(KeyCode::Quote, LinuxKey(40), Some('ä')), umlaut);
        assert_eq!(logical(KeyCode::F5, LinuxKey(63), None), Key::F5);
    }
}
