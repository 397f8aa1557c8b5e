//! Reads an X server's keyboard: its map, and the physical keys of its key codes.

use std::collections::HashMap;

use openuvr_proto::input::event::KeyCode;
use x11rb::connection::RequestConnection;
use x11rb::protocol::xkb::{self, ConnectionExt as _};
use x11rb::rust_connection::RustConnection;

use super::codes;
use super::keymap::{Key, KeyType, Keymap, OutOfRange};

/// The core keyboard of an X server.
#[derive(Clone, Debug)]
pub struct XkbKeyboard {
    /// The keyboard's map.
    pub map: Keymap,
    to_code: HashMap<u8, KeyCode>,
    from_code: HashMap<KeyCode, u8>,
}

/// Why a server's keyboard can't be read.
#[derive(Debug, thiserror::Error)]
pub enum XkbError {
    /// The server lacks XKB. All servers of the last 25 years have XKB unless it is disabled.
    #[error("the X server lacks the XKEYBOARD extension: start it without `-kb`")]
    Missing,
    /// The connection is broken.
    #[error("can't read the X server's keyboard map: {0}")]
    Connection(#[from] x11rb::errors::ConnectionError),
    /// The server has refused the request or sent invalid data.
    #[error("can't read the X server's keyboard map: {0}")]
    Reply(#[from] x11rb::errors::ReplyError),
}

impl XkbKeyboard {
    /// Enables XKB on this connection (once), selects map change events, and reads the map.
    ///
    /// # Errors
    /// [`XkbError`] if the server lacks XKB or the connection is broken.
    pub fn open(conn: &RustConnection) -> Result<XkbKeyboard, XkbError> {
        if conn
            .extension_information(xkb::X11_EXTENSION_NAME)?
            .is_none()
        {
            return Err(XkbError::Missing);
        }
        if !conn.xkb_use_extension(1, 0)?.reply()?.supported {
            return Err(XkbError::Missing);
        }
        let events = xkb::EventType::NEW_KEYBOARD_NOTIFY | xkb::EventType::MAP_NOTIFY;
        conn.xkb_select_events(
            CORE_KEYBOARD,
            xkb::EventType::default(),
            events,
            all_parts(),
            all_parts(),
            &xkb::SelectEventsAux::new(),
        )?
        .check()?;
        XkbKeyboard::read(conn)
    }

    /// Reads the map again.
    ///
    /// # Errors
    /// [`XkbError`] if the connection is broken.
    pub fn read(conn: &RustConnection) -> Result<XkbKeyboard, XkbError> {
        let none = xkb::MapPart::default();
        let parts = xkb::MapPart::KEY_TYPES | xkb::MapPart::KEY_SYMS | xkb::MapPart::MODIFIER_MAP;
        let names = conn.xkb_get_names(CORE_KEYBOARD, xkb::NameDetail::KEY_NAMES)?;
        let map = conn.xkb_get_map(
            CORE_KEYBOARD,
            parts,
            none,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            xkb::VMod::default(),
            0,
            0,
            0,
            0,
            0,
            0,
        )?;
        let (names, map) = (names.reply()?, map.reply()?);

        let key_names = names.value_list.key_names.unwrap_or_default();
        let named = (names.first_key..=u8::MAX)
            .zip(key_names)
            .map(|(keycode, key)| (keycode, text(key.name)));
        Ok(XkbKeyboard::new(keymap(&map), named))
    }

    /// A keyboard with this map and these key names.
    pub fn new(map: Keymap, named: impl Iterator<Item = (u8, String)>) -> XkbKeyboard {
        let mut keyboard = XkbKeyboard {
            map,
            to_code: HashMap::new(),
            from_code: HashMap::new(),
        };
        let named: Vec<(u8, String)> = named.collect();
        // Key code 111 is the up arrow only in the evdev set of key codes. In the older `xfree86` set, it is Print.
        let evdev = named
            .iter()
            .any(|(keycode, name)| *keycode == 111 && name == "UP");
        for (keycode, name) in named {
            let code = match evdev {
                true => Some(KeyCode(u16::from(keycode.saturating_sub(EVDEV_OFFSET)))),
                false => codes::by_xkb_name(&name),
            };
            if let Some(code) = code.filter(|code| code.0 != 0) {
                keyboard.to_code.insert(keycode, code);
                keyboard.from_code.entry(code).or_insert(keycode);
            }
        }
        keyboard
    }

    /// The physical key of an X key code.
    #[must_use]
    pub fn code(&self, keycode: u8) -> Option<KeyCode> {
        self.to_code.get(&keycode).copied()
    }

    /// The X key code of a physical key.
    #[must_use]
    pub fn keycode(&self, code: KeyCode) -> Option<u8> {
        self.from_code.get(&code).copied()
    }
}

/// X key codes start at 8 (X protocol, section 8, "Setup"); evdev drivers add this offset to the
/// code.
const EVDEV_OFFSET: u8 = 8;

/// Selects the core keyboard in XKB requests (`XkbUseCoreKbd`).
pub(crate) const CORE_KEYBOARD: u16 = 0x100;

fn all_parts() -> xkb::MapPart {
    xkb::MapPart::KEY_TYPES | xkb::MapPart::KEY_SYMS | xkb::MapPart::MODIFIER_MAP
}

fn text(name: [u8; 4]) -> String {
    String::from_utf8_lossy(&name)
        .trim_end_matches('\0')
        .to_owned()
}

fn low_byte(mods: x11rb::protocol::xproto::ModMask) -> u8 {
    u16::from(mods).to_le_bytes()[0]
}

fn keymap(reply: &xkb::GetMapReply) -> Keymap {
    let types = reply.map.types_rtrn.iter().flatten().map(|kind| KeyType {
        mask: low_byte(kind.mods_mask),
        levels: (kind.map.iter())
            .filter(|entry| entry.active)
            .map(|entry| (low_byte(entry.mods_mask), entry.level))
            .collect(),
    });
    let keys = reply.map.syms_rtrn.iter().flatten().map(|key| {
        let width = usize::from(key.width);
        let groups = usize::from(key.group_info & 0x0f).min(key.kt_index.len());
        Key {
            groups: (0..groups)
                .map(|group| {
                    let from = (group * width).min(key.syms.len());
                    let to = (from + width).min(key.syms.len());
                    (key.kt_index[group], key.syms[from..to].to_vec())
                })
                .collect(),
            out_of_range: match key.group_info & 0xc0 {
                0x40 => OutOfRange::Clamp,
                0x80 => OutOfRange::Redirect((key.group_info & 0x30) >> 4),
                _ => OutOfRange::Wrap,
            },
        }
    });
    Keymap {
        types: types.collect(),
        keys: (reply.first_key_sym..=u8::MAX).zip(keys).collect(),
        modifiers: (reply.map.modmap_rtrn.iter().flatten())
            .map(|entry| (entry.keycode, low_byte(entry.mods)))
            .collect(),
    }
}
