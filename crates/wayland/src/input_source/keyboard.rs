//! The keyboard: its map, and the keys that the window receives while it has the focus.

use openuvr_proto::input::event::InputEvent;
use openuvr_proto::input::keys::Keys;
use wayland_client::protocol::wl_keyboard::{self, KeyState, KeymapFormat, WlKeyboard};
use wayland_client::protocol::wl_seat::WlSeat;
use wayland_client::{Connection, Dispatch, QueueHandle, WEnum};

use super::State;
use crate::xkbcommon;
use openuvr_media::input_source::SourceEvent;
use openuvr_media::input_source::keys::{KeyPress, KeyTranslator};
use openuvr_media::keyboard::XkbKeyboard;

/// The keyboard's state.
pub(super) struct Keyboard {
    proxy: Option<WlKeyboard>,
    /// The key map; `None` until the compositor has sent a readable one.
    map: Option<XkbKeyboard>,
    pub(super) keys: KeyTranslator,
    /// The real modifiers and the group, as last reported.
    state: u8,
    group: u8,
    /// Whether the window has the focus.
    focused: bool,
}

/// The difference between a key's number in XKB and in evdev (`wl_keyboard.keymap`).
const EVDEV_OFFSET: u32 = 8;

impl Keyboard {
    pub(super) fn new(chosen: Option<Keys>) -> Keyboard {
        Keyboard {
            proxy: None,
            map: None,
            keys: KeyTranslator::new(chosen),
            state: 0,
            group: 0,
            focused: false,
        }
    }

    /// Whether the window has the focus.
    pub(super) fn has_focus(&self) -> bool {
        self.focused
    }

    /// The real modifiers.
    pub(super) fn modifiers(&self) -> u8 {
        self.state
    }
}

impl State {
    /// Handles the arrival or the removal of the seat's keyboard.
    pub(super) fn keyboard_present(&mut self, seat: &WlSeat, present: bool) {
        match (present, self.keyboard.proxy.is_some()) {
            (true, false) => {
                let proxy = seat.get_keyboard(&self.queue, ());
                self.keyboard.proxy = Some(proxy);
            }
            (false, true) => {
                if let Some(proxy) = self.keyboard.proxy.take() {
                    proxy.release();
                }
                self.focus_lost();
            }
            _ => {}
        }
    }

    /// Sends presses of the modifiers that were held before the window got the focus, because the next event needs
    /// them.
    pub(super) fn press_already_held(&mut self) {
        let grabbed = self.grab.is_active();
        let Keyboard {
            map, keys, state, ..
        } = &mut self.keyboard;
        if let Some(map) = map {
            keys.press_already_held(map, *state, grabbed, &mut self.ready);
        }
    }

    fn key(&mut self, key: u32, state: KeyState) {
        let Ok(keycode) = u8::try_from(key.saturating_add(EVDEV_OFFSET)) else {
            // X11 has no key codes above 255, and the compiled map contains none.
            return;
        };
        let grabbed = self.grab.is_active();
        let keyboard = &mut self.keyboard;
        match state {
            KeyState::Pressed => {
                let Some(map) = &keyboard.map else { return };
                let press = KeyPress {
                    keycode,
                    state: keyboard.state,
                    group: keyboard.group,
                    grabbed,
                };
                if let Some(action) = keyboard.keys.press(map, press, &mut self.ready) {
                    self.own(action);
                }
            }
            KeyState::Released => keyboard.keys.release(keycode, &mut self.ready),
            _ => {}
        }
    }

    fn focus_gained(&mut self, held: &[u8]) {
        let before = std::mem::replace(&mut self.keyboard.focused, true);
        let held = held.chunks_exact(4).filter_map(|bytes| {
            let key = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            u8::try_from(key.checked_add(EVDEV_OFFSET)?).ok()
        });
        self.keyboard.keys.already_down(held);
        if !before {
            self.ready.push_back(SourceEvent::Focused(true));
        }
        self.follow_request();
    }

    fn focus_lost(&mut self) {
        if !std::mem::take(&mut self.keyboard.focused) {
            return;
        }
        self.keyboard.keys.clear();
        self.send(InputEvent::ReleaseAll);
        self.ready.push_back(SourceEvent::Focused(false));
        self.release();
    }
}

impl Dispatch<WlKeyboard, ()> for State {
    fn event(
        state: &mut State,
        _: &WlKeyboard,
        event: wl_keyboard::Event,
        (): &(),
        _: &Connection,
        _: &QueueHandle<State>,
    ) {
        match event {
            wl_keyboard::Event::Keymap {
                format: WEnum::Value(KeymapFormat::XkbV1),
                fd,
                size,
            } => match xkbcommon::read(fd, size) {
                Ok(map) => state.keyboard.map = Some(map),
                Err(why) => tracing::warn!("keys can't be sent: {why}"),
            },
            wl_keyboard::Event::Enter { keys, .. } => state.focus_gained(&keys),
            wl_keyboard::Event::Leave { .. } => state.focus_lost(),
            wl_keyboard::Event::Key {
                key,
                state: WEnum::Value(pressed),
                ..
            } => state.key(key, pressed),
            wl_keyboard::Event::Modifiers {
                mods_depressed,
                mods_latched,
                mods_locked,
                group,
                ..
            } => {
                // The real modifiers are the first eight; virtual ones follow.
                let mods = mods_depressed | mods_latched | mods_locked;
                state.keyboard.state = mods.to_le_bytes()[0];
                state.keyboard.group = u8::try_from(group).unwrap_or(0);
            }
            // Repeat settings are ignored, because the host's window system repeats keys.
            _ => {}
        }
    }
}
