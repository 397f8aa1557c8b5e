//! Physical keys by name: Linux event codes, their names, and the XKB names of the same keys.
//!
//! Sources: `linux/input-event-codes.h`; the `evdev` key code file of xkeyboard-config.

use openuvr_proto::input::event::KeyCode;

/// A physical key.
struct Key {
    code: u16,
    /// The key's name in `linux/input-event-codes.h`.
    name: &'static str,
    /// The key's name in XKB key code files; empty if the key has no name there.
    xkb: &'static str,
}

const fn key(code: u16, name: &'static str, xkb: &'static str) -> Key {
    Key { code, name, xkb }
}

/// The event code of a name such as `KEY_A`.
#[must_use]
pub fn by_name(name: &str) -> Option<KeyCode> {
    KEYS.iter()
        .find(|key| key.name == name)
        .map(|key| KeyCode(key.code))
}

/// The name of an event code, such as `KEY_A`.
#[must_use]
pub fn name(code: KeyCode) -> Option<&'static str> {
    KEYS.iter()
        .find(|key| key.code == code.0)
        .map(|key| key.name)
}

/// The name of an event code in XKB key code files, such as `AC01`.
#[must_use]
pub fn xkb_name(code: KeyCode) -> Option<&'static str> {
    let key = KEYS.iter().find(|key| key.code == code.0)?;
    Some(key.xkb).filter(|name| !name.is_empty())
}

/// The event code of an XKB key name such as `AC01` (trailing zero bytes are ignored).
#[must_use]
pub fn by_xkb_name(name: &str) -> Option<KeyCode> {
    if name.is_empty() {
        return None;
    }
    let alias = XKB_ALIASES.iter().find(|(alias, _)| *alias == name);
    alias
        .map(|(_, code)| *code)
        .or_else(|| KEYS.iter().find(|key| key.xkb == name).map(|key| key.code))
        .map(KeyCode)
}

/// The key that types `ch` on the US layout, and whether it needs Shift. Used for scripted text.
#[must_use]
pub fn us_key(ch: char) -> Option<(KeyCode, bool)> {
    for (first, plain, shifted) in US_ROWS {
        for (row, shift) in [(plain, false), (shifted, true)] {
            if let Some(at) = row.chars().position(|each| each == ch) {
                let code = first.saturating_add(u16::try_from(at).ok()?);
                return Some((KeyCode(code), shift));
            }
        }
    }
    None
}

/// The characters of a key on the US layout, without and with Shift.
#[must_use]
pub fn us_text(code: KeyCode) -> Option<(char, char)> {
    US_ROWS.iter().find_map(|(first, plain, shifted)| {
        let at = usize::from(code.0.checked_sub(*first)?);
        let typed = plain.chars().nth(at)?;
        Some((typed, shifted.chars().nth(at).unwrap_or(typed)))
    })
}

/// The key outside of the keypad that has the same effect as a keypad key without NumLock. `symbol` is the keypad key's
/// symbol without NumLock (`keysymdef.h`). `Some(None)` if no key outside of the keypad has this effect; `None` if
/// `symbol` belongs to a key that does not depend on NumLock.
#[must_use]
pub fn without_num_lock(symbol: u32) -> Option<Option<KeyCode>> {
    let code = match symbol {
        0xff95 => 102,               // XK_KP_Home
        0xff96 => 105,               // XK_KP_Left
        0xff97 => 103,               // XK_KP_Up
        0xff98 => 106,               // XK_KP_Right
        0xff99 => 108,               // XK_KP_Down
        0xff9a => 104,               // XK_KP_Prior
        0xff9b => 109,               // XK_KP_Next
        0xff9c => 107,               // XK_KP_End
        0xff9d => return Some(None), // XK_KP_Begin
        0xff9e => 110,               // XK_KP_Insert
        0xff9f => 111,               // XK_KP_Delete
        _ => return None,
    };
    Some(Some(KeyCode(code)))
}

/// The PC key of a symbol that is not a character (`keysymdef.h`).
///
/// This is for keys without a known physical name. On-screen keyboards and programs that simulate typing use such keys,
/// in separate key maps.
#[must_use]
pub fn by_symbol(symbol: u32) -> Option<KeyCode> {
    let code = match symbol {
        0xff08 => 14,                                                 // XK_BackSpace
        0xff09 => 15,                                                 // XK_Tab
        0xff0d => 28,                                                 // XK_Return
        0xff13 => 119,                                                // XK_Pause
        0xff14 => 70,                                                 // XK_Scroll_Lock
        0xff1b => 1,                                                  // XK_Escape
        0xff50 => 102,                                                // XK_Home
        0xff51 => 105,                                                // XK_Left
        0xff52 => 103,                                                // XK_Up
        0xff53 => 106,                                                // XK_Right
        0xff54 => 108,                                                // XK_Down
        0xff55 => 104,                                                // XK_Prior
        0xff56 => 109,                                                // XK_Next
        0xff57 => 107,                                                // XK_End
        0xff61 => 99,                                                 // XK_Print
        0xff63 => 110,                                                // XK_Insert
        0xff67 => 127,                                                // XK_Menu
        0xff8d => 96,                                                 // XK_KP_Enter
        0xffbe..=0xffc7 => u16::try_from(symbol - 0xffbe).ok()? + 59, // XK_F1 to XK_F10
        0xffc8 => 87,                                                 // XK_F11
        0xffc9 => 88,                                                 // XK_F12
        0xffe1 => 42,                                                 // XK_Shift_L
        0xffe2 => 54,                                                 // XK_Shift_R
        0xffe3 => 29,                                                 // XK_Control_L
        0xffe4 => 97,                                                 // XK_Control_R
        0xffe9 => 56,                                                 // XK_Alt_L
        0xffea => 100,                                                // XK_Alt_R
        0xffeb => 125,                                                // XK_Super_L
        0xffec => 126,                                                // XK_Super_R
        0xffff => 111,                                                // XK_Delete
        _ => return None,
    };
    Some(KeyCode(code))
}

/// Names in other key code files (`xfree86`) for keys of [`KEYS`].
const XKB_ALIASES: &[(&str, u16)] = &[
    ("BRK", 119),
    ("KPDC", 121),
    ("MENU", 127),
    ("NFER", 94),
    ("XFER", 92),
];

/// Runs of consecutive codes: first code, plain characters, characters with Shift.
const US_ROWS: &[(u16, &str, &str)] = &[
    (2, "1234567890-=", "!@#$%^&*()_+"),
    (16, "qwertyuiop[]", "QWERTYUIOP{}"),
    (28, "\n", ""),
    (30, "asdfghjkl;'`", "ASDFGHJKL:\"~"),
    (43, "\\zxcvbnm,./", "|ZXCVBNM<>?"),
    (57, " ", ""),
    (15, "\t", ""),
];

const KEYS: &[Key] = &[
    key(1, "KEY_ESC", "ESC"),
    key(2, "KEY_1", "AE01"),
    key(3, "KEY_2", "AE02"),
    key(4, "KEY_3", "AE03"),
    key(5, "KEY_4", "AE04"),
    key(6, "KEY_5", "AE05"),
    key(7, "KEY_6", "AE06"),
    key(8, "KEY_7", "AE07"),
    key(9, "KEY_8", "AE08"),
    key(10, "KEY_9", "AE09"),
    key(11, "KEY_0", "AE10"),
    key(12, "KEY_MINUS", "AE11"),
    key(13, "KEY_EQUAL", "AE12"),
    key(14, "KEY_BACKSPACE", "BKSP"),
    key(15, "KEY_TAB", "TAB"),
    key(16, "KEY_Q", "AD01"),
    key(17, "KEY_W", "AD02"),
    key(18, "KEY_E", "AD03"),
    key(19, "KEY_R", "AD04"),
    key(20, "KEY_T", "AD05"),
    key(21, "KEY_Y", "AD06"),
    key(22, "KEY_U", "AD07"),
    key(23, "KEY_I", "AD08"),
    key(24, "KEY_O", "AD09"),
    key(25, "KEY_P", "AD10"),
    key(26, "KEY_LEFTBRACE", "AD11"),
    key(27, "KEY_RIGHTBRACE", "AD12"),
    key(28, "KEY_ENTER", "RTRN"),
    key(29, "KEY_LEFTCTRL", "LCTL"),
    key(30, "KEY_A", "AC01"),
    key(31, "KEY_S", "AC02"),
    key(32, "KEY_D", "AC03"),
    key(33, "KEY_F", "AC04"),
    key(34, "KEY_G", "AC05"),
    key(35, "KEY_H", "AC06"),
    key(36, "KEY_J", "AC07"),
    key(37, "KEY_K", "AC08"),
    key(38, "KEY_L", "AC09"),
    key(39, "KEY_SEMICOLON", "AC10"),
    key(40, "KEY_APOSTROPHE", "AC11"),
    key(41, "KEY_GRAVE", "TLDE"),
    key(42, "KEY_LEFTSHIFT", "LFSH"),
    key(43, "KEY_BACKSLASH", "BKSL"),
    key(44, "KEY_Z", "AB01"),
    key(45, "KEY_X", "AB02"),
    key(46, "KEY_C", "AB03"),
    key(47, "KEY_V", "AB04"),
    key(48, "KEY_B", "AB05"),
    key(49, "KEY_N", "AB06"),
    key(50, "KEY_M", "AB07"),
    key(51, "KEY_COMMA", "AB08"),
    key(52, "KEY_DOT", "AB09"),
    key(53, "KEY_SLASH", "AB10"),
    key(54, "KEY_RIGHTSHIFT", "RTSH"),
    key(55, "KEY_KPASTERISK", "KPMU"),
    key(56, "KEY_LEFTALT", "LALT"),
    key(57, "KEY_SPACE", "SPCE"),
    key(58, "KEY_CAPSLOCK", "CAPS"),
    key(59, "KEY_F1", "FK01"),
    key(60, "KEY_F2", "FK02"),
    key(61, "KEY_F3", "FK03"),
    key(62, "KEY_F4", "FK04"),
    key(63, "KEY_F5", "FK05"),
    key(64, "KEY_F6", "FK06"),
    key(65, "KEY_F7", "FK07"),
    key(66, "KEY_F8", "FK08"),
    key(67, "KEY_F9", "FK09"),
    key(68, "KEY_F10", "FK10"),
    key(69, "KEY_NUMLOCK", "NMLK"),
    key(70, "KEY_SCROLLLOCK", "SCLK"),
    key(71, "KEY_KP7", "KP7"),
    key(72, "KEY_KP8", "KP8"),
    key(73, "KEY_KP9", "KP9"),
    key(74, "KEY_KPMINUS", "KPSU"),
    key(75, "KEY_KP4", "KP4"),
    key(76, "KEY_KP5", "KP5"),
    key(77, "KEY_KP6", "KP6"),
    key(78, "KEY_KPPLUS", "KPAD"),
    key(79, "KEY_KP1", "KP1"),
    key(80, "KEY_KP2", "KP2"),
    key(81, "KEY_KP3", "KP3"),
    key(82, "KEY_KP0", "KP0"),
    key(83, "KEY_KPDOT", "KPDL"),
    key(85, "KEY_ZENKAKUHANKAKU", ""),
    key(86, "KEY_102ND", "LSGT"),
    key(87, "KEY_F11", "FK11"),
    key(88, "KEY_F12", "FK12"),
    key(89, "KEY_RO", "AB11"),
    key(90, "KEY_KATAKANA", "KATA"),
    key(91, "KEY_HIRAGANA", "HIRA"),
    key(92, "KEY_HENKAN", "HENK"),
    key(93, "KEY_KATAKANAHIRAGANA", "HKTG"),
    key(94, "KEY_MUHENKAN", "MUHE"),
    key(95, "KEY_KPJPCOMMA", "JPCM"),
    key(96, "KEY_KPENTER", "KPEN"),
    key(97, "KEY_RIGHTCTRL", "RCTL"),
    key(98, "KEY_KPSLASH", "KPDV"),
    key(99, "KEY_SYSRQ", "PRSC"),
    key(100, "KEY_RIGHTALT", "RALT"),
    key(101, "KEY_LINEFEED", "LNFD"),
    key(102, "KEY_HOME", "HOME"),
    key(103, "KEY_UP", "UP"),
    key(104, "KEY_PAGEUP", "PGUP"),
    key(105, "KEY_LEFT", "LEFT"),
    key(106, "KEY_RIGHT", "RGHT"),
    key(107, "KEY_END", "END"),
    key(108, "KEY_DOWN", "DOWN"),
    key(109, "KEY_PAGEDOWN", "PGDN"),
    key(110, "KEY_INSERT", "INS"),
    key(111, "KEY_DELETE", "DELE"),
    key(112, "KEY_MACRO", ""),
    key(113, "KEY_MUTE", "MUTE"),
    key(114, "KEY_VOLUMEDOWN", "VOL-"),
    key(115, "KEY_VOLUMEUP", "VOL+"),
    key(116, "KEY_POWER", "POWR"),
    key(117, "KEY_KPEQUAL", "KPEQ"),
    key(118, "KEY_KPPLUSMINUS", ""),
    key(119, "KEY_PAUSE", "PAUS"),
    key(120, "KEY_SCALE", ""),
    key(121, "KEY_KPCOMMA", ""),
    key(122, "KEY_HANGEUL", "HNGL"),
    key(123, "KEY_HANJA", "HJCV"),
    key(124, "KEY_YEN", "AE13"),
    key(125, "KEY_LEFTMETA", "LWIN"),
    key(126, "KEY_RIGHTMETA", "RWIN"),
    key(127, "KEY_COMPOSE", "COMP"),
    key(128, "KEY_STOP", "STOP"),
    key(129, "KEY_AGAIN", "AGAI"),
    key(130, "KEY_PROPS", "PROP"),
    key(131, "KEY_UNDO", "UNDO"),
    key(132, "KEY_FRONT", "FRNT"),
    key(133, "KEY_COPY", "COPY"),
    key(134, "KEY_OPEN", "OPEN"),
    key(135, "KEY_PASTE", "PAST"),
    key(136, "KEY_FIND", "FIND"),
    key(137, "KEY_CUT", "CUT"),
    key(138, "KEY_HELP", "HELP"),
    key(139, "KEY_MENU", ""),
    key(140, "KEY_CALC", ""),
    key(141, "KEY_SETUP", ""),
    key(142, "KEY_SLEEP", ""),
    key(143, "KEY_WAKEUP", ""),
    key(144, "KEY_FILE", ""),
    key(145, "KEY_SENDFILE", ""),
    key(146, "KEY_DELETEFILE", ""),
    key(147, "KEY_XFER", ""),
    key(148, "KEY_PROG1", ""),
    key(149, "KEY_PROG2", ""),
    key(150, "KEY_WWW", ""),
    key(151, "KEY_MSDOS", ""),
    key(152, "KEY_COFFEE", ""),
    key(153, "KEY_ROTATE_DISPLAY", ""),
    key(154, "KEY_CYCLEWINDOWS", ""),
    key(155, "KEY_MAIL", ""),
    key(156, "KEY_BOOKMARKS", ""),
    key(157, "KEY_COMPUTER", ""),
    key(158, "KEY_BACK", ""),
    key(159, "KEY_FORWARD", ""),
    key(160, "KEY_CLOSECD", ""),
    key(161, "KEY_EJECTCD", ""),
    key(162, "KEY_EJECTCLOSECD", ""),
    key(163, "KEY_NEXTSONG", ""),
    key(164, "KEY_PLAYPAUSE", ""),
    key(165, "KEY_PREVIOUSSONG", ""),
    key(166, "KEY_STOPCD", ""),
    key(167, "KEY_RECORD", ""),
    key(168, "KEY_REWIND", ""),
    key(169, "KEY_PHONE", ""),
    key(170, "KEY_ISO", ""),
    key(171, "KEY_CONFIG", ""),
    key(172, "KEY_HOMEPAGE", ""),
    key(173, "KEY_REFRESH", ""),
    key(174, "KEY_EXIT", ""),
    key(175, "KEY_MOVE", ""),
    key(176, "KEY_EDIT", ""),
    key(177, "KEY_SCROLLUP", ""),
    key(178, "KEY_SCROLLDOWN", ""),
    key(179, "KEY_KPLEFTPAREN", ""),
    key(180, "KEY_KPRIGHTPAREN", ""),
    key(181, "KEY_NEW", ""),
    key(182, "KEY_REDO", ""),
    key(183, "KEY_F13", "FK13"),
    key(184, "KEY_F14", "FK14"),
    key(185, "KEY_F15", "FK15"),
    key(186, "KEY_F16", "FK16"),
    key(187, "KEY_F17", "FK17"),
    key(188, "KEY_F18", "FK18"),
    key(189, "KEY_F19", "FK19"),
    key(190, "KEY_F20", "FK20"),
    key(191, "KEY_F21", "FK21"),
    key(192, "KEY_F22", "FK22"),
    key(193, "KEY_F23", "FK23"),
    key(194, "KEY_F24", "FK24"),
    key(200, "KEY_PLAYCD", ""),
    key(201, "KEY_PAUSECD", ""),
    key(202, "KEY_PROG3", ""),
    key(203, "KEY_PROG4", ""),
    key(204, "KEY_ALL_APPLICATIONS", ""),
    key(205, "KEY_SUSPEND", ""),
    key(206, "KEY_CLOSE", ""),
    key(207, "KEY_PLAY", ""),
    key(208, "KEY_FASTFORWARD", ""),
    key(209, "KEY_BASSBOOST", ""),
    key(210, "KEY_PRINT", ""),
    key(211, "KEY_HP", ""),
    key(212, "KEY_CAMERA", ""),
    key(213, "KEY_SOUND", ""),
    key(214, "KEY_QUESTION", ""),
    key(215, "KEY_EMAIL", ""),
    key(216, "KEY_CHAT", ""),
    key(217, "KEY_SEARCH", ""),
    key(218, "KEY_CONNECT", ""),
    key(219, "KEY_FINANCE", ""),
    key(220, "KEY_SPORT", ""),
    key(221, "KEY_SHOP", ""),
    key(222, "KEY_ALTERASE", ""),
    key(223, "KEY_CANCEL", ""),
    key(224, "KEY_BRIGHTNESSDOWN", ""),
    key(225, "KEY_BRIGHTNESSUP", ""),
    key(226, "KEY_MEDIA", ""),
    key(227, "KEY_SWITCHVIDEOMODE", ""),
    key(228, "KEY_KBDILLUMTOGGLE", ""),
    key(229, "KEY_KBDILLUMDOWN", ""),
    key(230, "KEY_KBDILLUMUP", ""),
    key(231, "KEY_SEND", ""),
    key(232, "KEY_REPLY", ""),
    key(233, "KEY_FORWARDMAIL", ""),
    key(234, "KEY_SAVE", ""),
    key(235, "KEY_DOCUMENTS", ""),
    key(236, "KEY_BATTERY", ""),
    key(237, "KEY_BLUETOOTH", ""),
    key(238, "KEY_WLAN", ""),
    key(239, "KEY_UWB", ""),
    key(240, "KEY_UNKNOWN", ""),
    key(241, "KEY_VIDEO_NEXT", ""),
    key(242, "KEY_VIDEO_PREV", ""),
    key(243, "KEY_BRIGHTNESS_CYCLE", ""),
    key(244, "KEY_BRIGHTNESS_AUTO", ""),
    key(245, "KEY_DISPLAY_OFF", ""),
    key(246, "KEY_WWAN", ""),
    key(247, "KEY_RFKILL", ""),
    key(248, "KEY_MICMUTE", ""),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_codes_agree_both_ways() {
        for key in KEYS {
            assert_eq!(by_name(key.name), Some(KeyCode(key.code)), "{}", key.name);
            assert_eq!(name(KeyCode(key.code)), Some(key.name));
            if !key.xkb.is_empty() {
                assert_eq!(by_xkb_name(key.xkb), Some(KeyCode(key.code)), "{}", key.xkb);
                assert_eq!(xkb_name(KeyCode(key.code)), Some(key.xkb));
            }
        }
        assert_eq!(by_xkb_name(""), None);
    }

    #[test]
    fn symbols_have_the_keys_of_a_pc_board() {
        for (symbol, key) in [
            (xkeysym::key::Return, "KEY_ENTER"),
            (xkeysym::key::BackSpace, "KEY_BACKSPACE"),
            (xkeysym::key::Delete, "KEY_DELETE"),
            (xkeysym::key::Prior, "KEY_PAGEUP"),
            (xkeysym::key::Next, "KEY_PAGEDOWN"),
            (xkeysym::key::Up, "KEY_UP"),
            (xkeysym::key::Down, "KEY_DOWN"),
            (xkeysym::key::Left, "KEY_LEFT"),
            (xkeysym::key::Right, "KEY_RIGHT"),
            (xkeysym::key::F1, "KEY_F1"),
            (xkeysym::key::F10, "KEY_F10"),
            (xkeysym::key::F11, "KEY_F11"),
            (xkeysym::key::F12, "KEY_F12"),
            (xkeysym::key::KP_Enter, "KEY_KPENTER"),
            (xkeysym::key::Super_L, "KEY_LEFTMETA"),
            (xkeysym::key::Alt_R, "KEY_RIGHTALT"),
        ] {
            assert_eq!(by_symbol(symbol), by_name(key), "{key}");
        }
        assert_eq!(by_symbol(xkeysym::key::a), None);
    }

    #[test]
    fn text_becomes_the_keys_of_a_us_board() {
        assert_eq!(us_key('a'), by_name("KEY_A").map(|code| (code, false)));
        assert_eq!(
            us_key('|'),
            by_name("KEY_BACKSLASH").map(|code| (code, true))
        );
        assert_eq!(us_key('?'), by_name("KEY_SLASH").map(|code| (code, true)));
        assert_eq!(us_key('~'), by_name("KEY_GRAVE").map(|code| (code, true)));
        assert_eq!(us_key('\u{e4}'), None);
        let question = us_key('?').expect("it is on a US board").0;
        assert_eq!(us_text(question), Some(('/', '?')));
        assert_eq!(us_text(KeyCode(57)), Some((' ', ' ')));
        assert_eq!(us_text(KeyCode(59)), None, "F1");
    }
}
