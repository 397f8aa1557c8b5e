//! Maps virtual-key codes to physical keys.
//!
//! Clients send the code that Windows assigns to the key at the same position on a US keyboard ("Virtual-Key Codes" of
//! the Windows documentation), even if the user has another layout. The result is the physical key at this position.

use openuvr_proto::input::event::KeyCode;

/// Virtual-key codes, and `KEY_*` of `linux/input-event-codes.h`.
const KEYS: &[(u8, u16)] = &[
    // Backspace, Tab, Clear, Enter.
    (0x08, 14),
    (0x09, 15),
    (0x0c, 0x163),
    (0x0d, 28),
    // Shift, Ctrl and Alt (left or right not stated), Pause, Caps Lock.
    (0x10, 42),
    (0x11, 29),
    (0x12, 56),
    (0x13, 119),
    (0x14, 58),
    // Kana or Hangul, Hanja, Esc, Convert, Nonconvert.
    (0x15, 122),
    (0x19, 123),
    (0x1b, 1),
    (0x1c, 92),
    (0x1d, 94),
    // Space, Page Up, Page Down, End, Home, Left, Up, Right, Down.
    (0x20, 57),
    (0x21, 104),
    (0x22, 109),
    (0x23, 107),
    (0x24, 102),
    (0x25, 105),
    (0x26, 103),
    (0x27, 106),
    (0x28, 108),
    // Select, Print, Print Screen, Insert, Delete, Help.
    (0x29, 0x161),
    (0x2a, 210),
    (0x2c, 99),
    (0x2d, 110),
    (0x2e, 111),
    (0x2f, 138),
    // 0 to 9.
    (0x30, 11),
    (0x31, 2),
    (0x32, 3),
    (0x33, 4),
    (0x34, 5),
    (0x35, 6),
    (0x36, 7),
    (0x37, 8),
    (0x38, 9),
    (0x39, 10),
    // A to Z.
    (0x41, 30),
    (0x42, 48),
    (0x43, 46),
    (0x44, 32),
    (0x45, 18),
    (0x46, 33),
    (0x47, 34),
    (0x48, 35),
    (0x49, 23),
    (0x4a, 36),
    (0x4b, 37),
    (0x4c, 38),
    (0x4d, 50),
    (0x4e, 49),
    (0x4f, 24),
    (0x50, 25),
    (0x51, 16),
    (0x52, 19),
    (0x53, 31),
    (0x54, 20),
    (0x55, 22),
    (0x56, 47),
    (0x57, 17),
    (0x58, 45),
    (0x59, 21),
    (0x5a, 44),
    // Left and right Windows, Menu, Sleep.
    (0x5b, 125),
    (0x5c, 126),
    (0x5d, 127),
    (0x5f, 142),
    // The keypad: 0 to 9, multiply, add, separator, subtract, decimal, divide.
    (0x60, 82),
    (0x61, 79),
    (0x62, 80),
    (0x63, 81),
    (0x64, 75),
    (0x65, 76),
    (0x66, 77),
    (0x67, 71),
    (0x68, 72),
    (0x69, 73),
    (0x6a, 55),
    (0x6b, 78),
    (0x6c, 121),
    (0x6d, 74),
    (0x6e, 83),
    (0x6f, 98),
    // F1 to F24.
    (0x70, 59),
    (0x71, 60),
    (0x72, 61),
    (0x73, 62),
    (0x74, 63),
    (0x75, 64),
    (0x76, 65),
    (0x77, 66),
    (0x78, 67),
    (0x79, 68),
    (0x7a, 87),
    (0x7b, 88),
    (0x7c, 183),
    (0x7d, 184),
    (0x7e, 185),
    (0x7f, 186),
    (0x80, 187),
    (0x81, 188),
    (0x82, 189),
    (0x83, 190),
    (0x84, 191),
    (0x85, 192),
    (0x86, 193),
    (0x87, 194),
    // Num Lock, Scroll Lock.
    (0x90, 69),
    (0x91, 70),
    // Shift, Ctrl and Alt, left and right.
    (0xa0, 42),
    (0xa1, 54),
    (0xa2, 29),
    (0xa3, 97),
    (0xa4, 56),
    (0xa5, 100),
    // Browser: back, forward, refresh, stop, search, favourites, home.
    (0xa6, 158),
    (0xa7, 159),
    (0xa8, 173),
    (0xa9, 128),
    (0xaa, 217),
    (0xab, 156),
    (0xac, 172),
    // Mute, volume down and up; next, previous, stop, play; mail.
    (0xad, 113),
    (0xae, 114),
    (0xaf, 115),
    (0xb0, 163),
    (0xb1, 165),
    (0xb2, 166),
    (0xb3, 164),
    (0xb4, 155),
    // ; = , - . / ` [ \ ] ' and the key next to the left Shift.
    (0xba, 39),
    (0xbb, 13),
    (0xbc, 51),
    (0xbd, 12),
    (0xbe, 52),
    (0xbf, 53),
    (0xc0, 41),
    (0xdb, 26),
    (0xdc, 43),
    (0xdd, 27),
    (0xde, 40),
    (0xe2, 86),
];

/// The physical key for a virtual-key code.
#[must_use]
pub fn key_of(code: u8) -> Option<KeyCode> {
    let at = KEYS.binary_search_by_key(&code, |(known, _)| *known);
    at.ok().map(|at| KeyCode(KEYS[at].1))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_table_is_sorted_and_only_sides_share_keys() {
        assert!(KEYS.is_sorted_by(|one, other| one.0 < other.0));
        let mut codes: BTreeMap<u16, Vec<u8>> = BTreeMap::new();
        for (code, key) in KEYS {
            codes.entry(*key).or_default().push(*code);
        }
        codes.retain(|_, codes| codes.len() > 1);
        let shared: Vec<Vec<u8>> = codes.into_values().collect();
        assert_eq!(shared, [[0x11, 0xa2], [0x10, 0xa0], [0x12, 0xa4]]);
    }

    #[test]
    fn keys_are_found_by_code() {
        // The keys are KEY_A, KEY_LEFTSHIFT and KEY_F12. KEY_KPENTER has no virtual-key code of its own.
        assert_eq!(key_of(0x41), Some(KeyCode(30)));
        assert_eq!(key_of(0xa0), Some(KeyCode(42)));
        assert_eq!(key_of(0x7b), Some(KeyCode(88)));
        for unknown in [0, 1, 0x07, 0xff] {
            assert_eq!(key_of(unknown), None);
        }
    }
}
