//! Key and button codes of SDL, X11 and USB, for applications that use one of those.
//!
//! Sources: HID Usage Tables 1.4, sections 10 (keyboard), 12 (button) and 15 (consumer); SDL's
//! `SDL_scancode.h`, which numbers keys as the HID tables do; `linux/input-event-codes.h`.

use std::ffi::{c_char, c_int};

use openuvr_media::keyboard::codes;
use openuvr_proto::input::event::KeyCode;

use crate::error::Failure;
use crate::ffi::{Sized32, give_text, plain, read, write};

/// A key of a keyboard, or a button of a mouse. Set `size` to `sizeof(struct openuvr_key)`. Missing codes and
/// names are 0 or empty.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct openuvr_key {
    /// Bytes of this structure.
    pub size: u32,
    /// The number in linux/input-event-codes.h, as in `openuvr_input`.
    pub code: u32,
    /// The `SDL_Scancode`, if SDL 2 and 3 agree; for a mouse button, the SDL button (`SDL_BUTTON_LEFT` …).
    pub sdl: u32,
    /// The key code in X11 and Wayland (XKB); for a mouse button, the X11 button.
    pub xkb: u32,
    /// The USB HID usage: the page is in the upper 16 bits (7 keyboard, 9 button, 12 consumer), the ID in the lower 16.
    pub usb: u32,
    /// The character on a US keyboard without Shift: a Unicode scalar value.
    pub us_text: u32,
    /// The character with Shift.
    pub us_text_shift: u32,
    /// Unused.
    pub unused: u32,
    /// The name in linux/input-event-codes.h, such as `KEY_A`.
    pub name: [c_char; 32],
    /// The name in XKB, such as `AC01`.
    pub xkb_name: [c_char; 8],
}

// SAFETY: the type is `repr(C)` and contains only numbers, for which every bit pattern is valid.
unsafe impl Sized32 for openuvr_key {}

impl Default for openuvr_key {
    fn default() -> openuvr_key {
        openuvr_key {
            size: crate::size_of32::<openuvr_key>(),
            code: 0,
            sdl: 0,
            xkb: 0,
            usb: 0,
            us_text: 0,
            us_text_shift: 0,
            unused: 0,
            name: [0; 32],
            xkb_name: [0; 8],
        }
    }
}

/// Retrieves the codes and names of the key or button `code` into `*key` (set its `size` first). Valid codes are 1 to 767.
/// Returns `OPENUVR_ERROR_ARGUMENT` if no keyboard or mouse has the code. From any thread.
///
/// # Safety
/// `key` is NULL or writable for its `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_key_of(code: u32, key: *mut openuvr_key) -> c_int {
    plain(|| {
        // The result is not used. The call checks the structure, so that an invalid structure is reported rather than
        // an unknown code.
        // SAFETY: the caller upholds this function's requirements, which include those of the called function.
        unsafe { read(key, openuvr_key::default(), "the key")? };
        let found = u16::try_from(code).ok().and_then(find);
        let found = found.ok_or_else(|| Failure::argument("unknown key or button"))?;
        // SAFETY: the caller upholds this function's requirements, which include those of the called function.
        unsafe { write(key, &found, "the key") }
    })
}

fn find(code: u16) -> Option<openuvr_key> {
    let mut key = openuvr_key {
        code: code.into(),
        ..openuvr_key::default()
    };
    if let Some(button) = BUTTONS.iter().find(|button| button.code == code) {
        (key.sdl, key.xkb) = (button.sdl, button.x11);
        key.usb = 9 << 16 | button.usb;
        put(button.name, &mut key.name);
        return Some(key);
    }
    let name = codes::name(KeyCode(code))?;
    let usage = usage(code);
    let usage_of = |page| usage.filter(|usage| usage >> 16 == page);
    key.sdl = usage_of(7).map_or(0, |usage| usage & 0xffff);
    key.usb = usage.unwrap_or(0);
    // X11 key codes are 8 higher than Linux key codes.
    key.xkb = u32::from(code) + 8;
    let (us_text, us_text_shift) = codes::us_text(KeyCode(code)).unwrap_or_default();
    (key.us_text, key.us_text_shift) = (us_text.into(), us_text_shift.into());
    put(name, &mut key.name);
    put(
        codes::xkb_name(KeyCode(code)).unwrap_or_default(),
        &mut key.xkb_name,
    );
    Some(key)
}

fn put(text: &str, to: &mut [c_char]) {
    // SAFETY: `to` is writable for its length.
    unsafe { give_text(text, to.as_mut_ptr(), to.len()) };
}

struct Button {
    code: u16,
    name: &'static str,
    sdl: u32,
    x11: u32,
    usb: u32,
}

const fn button(code: u16, name: &'static str, sdl: u32, x11: u32, usb: u32) -> Button {
    Button {
        code,
        name,
        sdl,
        x11,
        usb,
    }
}

const BUTTONS: [Button; 5] = [
    button(0x110, "BTN_LEFT", 1, 1, 1),
    button(0x111, "BTN_RIGHT", 3, 3, 2),
    button(0x112, "BTN_MIDDLE", 2, 2, 3),
    button(0x113, "BTN_SIDE", 4, 8, 4),
    button(0x114, "BTN_EXTRA", 5, 9, 5),
];

/// The HID usage of a key.
fn usage(code: u16) -> Option<u32> {
    let row = KEYBOARD
        .iter()
        .rev()
        .find(|(first, _)| *first <= code)
        .and_then(|(first, usages)| usages.get(usize::from(code - first)));
    if let Some(usage) = row.filter(|usage| **usage != 0) {
        return Some(7 << 16 | u32::from(*usage));
    }
    let consumer = CONSUMER.iter().find(|(known, _)| *known == code);
    consumer.map(|(_, usage)| 12 << 16 | *usage)
}

/// Usages of the keyboard page. Each entry has a first key code, and the usages of consecutive key codes from this one
/// on; 0: none.
const KEYBOARD: &[(u16, &[u8])] = &[
    (
        1,
        &[
            0x29, 0x1e, 0x1f, 0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x2d, 0x2e, 0x2a,
        ],
    ),
    (
        15,
        &[
            0x2b, 0x14, 0x1a, 0x08, 0x15, 0x17, 0x1c, 0x18, 0x0c, 0x12, 0x13, 0x2f, 0x30, 0x28,
        ],
    ),
    (
        29,
        &[
            0xe0, 0x04, 0x16, 0x07, 0x09, 0x0a, 0x0b, 0x0d, 0x0e, 0x0f, 0x33, 0x34, 0x35,
        ],
    ),
    (
        42,
        &[
            0xe1, 0x31, 0x1d, 0x1b, 0x06, 0x19, 0x05, 0x11, 0x10, 0x36, 0x37, 0x38, 0xe5,
        ],
    ),
    (55, &[0x55, 0xe2, 0x2c, 0x39]),
    (
        59,
        &[
            0x3a, 0x3b, 0x3c, 0x3d, 0x3e, 0x3f, 0x40, 0x41, 0x42, 0x43, 0x53, 0x47,
        ],
    ),
    (
        71,
        &[
            0x5f, 0x60, 0x61, 0x56, 0x5c, 0x5d, 0x5e, 0x57, 0x59, 0x5a, 0x5b, 0x62, 0x63,
        ],
    ),
    (
        85,
        &[
            0x94, 0x64, 0x44, 0x45, 0x87, 0x92, 0x93, 0x8a, 0x88, 0x8b, 0x8c,
        ],
    ),
    (96, &[0x58, 0xe4, 0x54, 0x46, 0xe6]),
    (
        102,
        &[0x4a, 0x52, 0x4b, 0x50, 0x4f, 0x4d, 0x51, 0x4e, 0x49, 0x4c],
    ),
    (113, &[0x7f, 0x81, 0x80, 0x66, 0x67, 0xd7, 0x48]),
    (121, &[0x85, 0x90, 0x91, 0x89, 0xe3, 0xe7, 0x65]),
    (
        128,
        &[
            0x78, 0x79, 0x76, 0x7a, 0x77, 0x7c, 0x74, 0x7d, 0x7e, 0x7b, 0x75,
        ],
    ),
    (179, &[0xb6, 0xb7]),
    (
        183,
        &[
            0x68, 0x69, 0x6a, 0x6b, 0x6c, 0x6d, 0x6e, 0x6f, 0x70, 0x71, 0x72, 0x73,
        ],
    ),
];

/// Usages of the consumer page.
const CONSUMER: &[(u16, u32)] = &[
    (140, 0x192),
    (150, 0x196),
    (155, 0x18a),
    (156, 0x22a),
    (158, 0x224),
    (159, 0x225),
    (161, 0xb8),
    (163, 0xb5),
    (164, 0xcd),
    (165, 0xb6),
    (166, 0xb7),
    (167, 0xb2),
    (168, 0xb4),
    (172, 0x223),
    (173, 0x227),
    (208, 0xb3),
    (217, 0x221),
    (224, 0x70),
    (225, 0x6f),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn text(chars: &[c_char]) -> String {
        let bytes = chars.iter().map(|c| c.to_ne_bytes()[0]);
        let bytes: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn usages_are_unique() {
        let mut seen = BTreeMap::new();
        for code in 1..=0x2ff {
            let Some(key) = find(code) else {
                assert_eq!(usage(code), None, "{code}");
                continue;
            };
            assert!(!text(&key.name).is_empty());
            if key.usb != 0 {
                assert_eq!(seen.insert(key.usb, code), None, "{code}");
            }
        }
        assert!(seen.len() > 150, "{}", seen.len());
    }

    /// Compares with the file that the X server itself reads.
    #[test]
    fn key_codes_and_names_are_those_of_xkeyboard_config() {
        let path = "/usr/share/X11/xkb/keycodes/evdev";
        let Ok(file) = std::fs::read_to_string(path) else {
            assert!(
                std::env::var_os("CI").is_none(),
                "{path}: xkb-data is missing"
            );
            return;
        };
        let mut compared = 0;
        for line in file.lines() {
            // `	<AC01> = 38;`
            let Some((name, number)) = line
                .trim()
                .strip_suffix(';')
                .and_then(|l| l.split_once('='))
            else {
                continue;
            };
            let (Some(name), Ok(number)) = (
                name.trim()
                    .strip_prefix('<')
                    .and_then(|n| n.strip_suffix('>')),
                number.trim().parse::<u16>(),
            ) else {
                continue;
            };
            let Some(key) = number.checked_sub(8).and_then(find) else {
                continue;
            };
            assert_eq!(key.xkb, u32::from(number));
            if !text(&key.xkb_name).is_empty() {
                assert_eq!(text(&key.xkb_name), name);
                compared += 1;
            }
        }
        assert!(compared > 100, "{compared}");
    }

    #[test]
    fn usages_are_those_of_the_tables() {
        let usb = |code| find(code).map(|key| (key.usb >> 16, key.usb & 0xffff, key.sdl));
        assert_eq!(usb(30), Some((7, 4, 4)), "A");
        assert_eq!(usb(44), Some((7, 29, 29)), "Z");
        assert_eq!(usb(2), Some((7, 30, 30)), "1");
        assert_eq!(usb(28), Some((7, 40, 40)), "Enter");
        assert_eq!(usb(88), Some((7, 69, 69)), "F12");
        assert_eq!(usb(108), Some((7, 81, 81)), "Down");
        assert_eq!(usb(126), Some((7, 231, 231)), "right Meta");
        assert_eq!(usb(164), Some((12, 0xcd, 0)), "play");
        assert_eq!(usb(0x111), Some((9, 2, 3)), "the right button");
        let slash = find(53).unwrap();
        assert_eq!((slash.us_text, slash.us_text_shift), (0x2f, 0x3f));
    }
}
