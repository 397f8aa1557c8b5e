//! Injects input into an X server through its XTEST extension.
//!
//! Usually, the physical key is pressed. The key may carry a character to which this server's layout does not map the
//! physical key. The character is then typed in one of three ways: with a different key, with modifiers that are
//! changed while a key is held, or with a key code that is bound to the character for the session. A command (Ctrl and
//! a letter) is sent with the key that has this letter in this layout. The server's own pointer and auto-repeat are
//! used, except as described in `repeat`.
//!
//! Spec: XTEST Extension Protocol 2.2.

mod bindings;
mod held;
mod repeat;
mod target;
#[cfg(test)]
#[cfg(feature = "client")]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use openuvr_proto::input::event::{Button, InputEvent, KeyCode};
use openuvr_proto::units::Size;
use x11rb::connection::{Connection, RequestConnection};
use x11rb::protocol::Event;
use x11rb::protocol::xkb::ConnectionExt as _;
use x11rb::protocol::xproto::{self, ConnectionExt as _};
use x11rb::protocol::xtest::{self, ConnectionExt as _};
use x11rb::rust_connection::RustConnection;

use super::typing::Typing;
use super::{InputError, InputSink};
use crate::application::WindowScope;
use crate::display;
use crate::keyboard::keymap::COMMAND;
use crate::keyboard::{CORE_KEYBOARD, XkbKeyboard, codes};
use bindings::Bindings;
pub use held::release_held;
use repeat::Repeat;
use target::{InputTarget, Target};

/// Presses keys and buttons of an X server, and releases all of them when dropped.
pub struct Xtest {
    conn: RustConnection,
    display: String,
    root: xproto::Window,
    keyboard: XkbKeyboard,
    bindings: Bindings,
    /// The X key code that was pressed for each physical key.
    held: BTreeMap<KeyCode, u8>,
    buttons: BTreeSet<u8>,
    borrowed: TemporaryModifiers,
    repeat: Repeat,
    /// Pending wheel motion of less than a notch, in 1/120 notch.
    wheel: (i32, i32),
    viewport: (i32, i32, Size),
    target: Target,
}

/// Modifiers that differ from the user's modifiers while a character key is down.
#[derive(Debug, Default)]
struct TemporaryModifiers {
    pressed: Vec<u8>,
    lifted: Vec<u8>,
}

impl Xtest {
    /// Opens `display` (`None`: the environment variable DISPLAY), and releases the keys and buttons that XTEST holds
    /// there. Until a viewport is set, absolute positions are relative to the complete screen.
    ///
    /// # Errors
    /// [`InputError`] if the display can't be reached or lacks XTEST or XKB.
    pub fn open(display: Option<&str>) -> Result<Xtest, InputError> {
        let display = display.map_or_else(display::from_environment, str::to_owned);
        let (conn, screen) = display::connect(&display).map_err(InputError)?;
        let gone = |cause: &dyn std::fmt::Display| gone(&display, cause);
        let present = conn.extension_information(xtest::X11_EXTENSION_NAME);
        if present.map_err(|cause| gone(&cause))?.is_none() {
            return Err(InputError(format!(
                "the X server of display {display} lacks the XTEST extension: enable it, or use \
                 another input sink"
            )));
        }
        display::ignore_grabs(&conn).map_err(|cause| gone(&cause))?;
        // A host that was killed has not released its keys.
        if let Err(e) = held::release(&conn) {
            tracing::debug!(error = %e, "keys held by XTEST can't be released");
        }
        let keyboard =
            XkbKeyboard::open(&conn).map_err(|cause| InputError(format!("{display}: {cause}")))?;
        let screen = conn
            .setup()
            .roots
            .get(screen)
            .ok_or_else(|| gone(&"no such screen"))?;
        let size = Size::new(
            u32::from(screen.width_in_pixels),
            u32::from(screen.height_in_pixels),
        );
        let root = screen.root;
        Ok(Xtest {
            conn,
            display,
            root,
            keyboard,
            bindings: Bindings::default(),
            held: BTreeMap::new(),
            buttons: BTreeSet::new(),
            borrowed: TemporaryModifiers::default(),
            repeat: Repeat::default(),
            wheel: (0, 0),
            viewport: (0, 0, size),
            target: Target::default(),
        })
    }

    fn gone(&self, cause: &dyn std::fmt::Display) -> InputError {
        gone(&self.display, cause)
    }

    fn fake(&self, kind: u8, detail: u8, x: i16, y: i16) -> Result<(), InputError> {
        let root = match kind {
            xproto::MOTION_NOTIFY_EVENT => self.root,
            _ => x11rb::NONE,
        };
        let sent = self
            .conn
            .xtest_fake_input(kind, detail, x11rb::CURRENT_TIME, root, x, y, 0);
        sent.map(drop).map_err(|cause| self.gone(&cause))
    }

    fn key(&self, keycode: u8, pressed: bool) -> Result<(), InputError> {
        let kind = match pressed {
            true => xproto::KEY_PRESS_EVENT,
            false => xproto::KEY_RELEASE_EVENT,
        };
        self.fake(kind, keycode, 0, 0)
    }

    /// Processes the server's events. Reloads the keyboard map if it has changed.
    fn follow(&mut self) -> Result<(), InputError> {
        let mut changed = false;
        while let Some(event) = self
            .conn
            .poll_for_event()
            .map_err(|cause| self.gone(&cause))?
        {
            match event {
                Event::MappingNotify(_)
                | Event::XkbMapNotify(_)
                | Event::XkbNewKeyboardNotify(_) => changed = true,
                Event::Error(error) => {
                    tracing::warn!(
                        display = self.display,
                        ?error,
                        "the server refused XTEST input"
                    );
                }
                _ => {}
            }
        }
        if changed {
            self.keyboard = XkbKeyboard::read(&self.conn).map_err(|cause| self.gone(&cause))?;
            self.bindings.keep_those_in(&self.keyboard.map);
        }
        Ok(())
    }

    /// Whether a press reaches the target window.
    fn admits(&mut self, goes: InputTarget) -> Result<bool, InputError> {
        let admitted = (self.target).admits(&self.conn, self.root, self.viewport, goes);
        admitted.map_err(|cause| gone(&self.display, &cause))
    }

    fn press(&mut self, code: KeyCode, text: Option<char>) -> Result<(), InputError> {
        if self.held.contains_key(&code) || !self.admits(InputTarget::Keyboard)? {
            return Ok(());
        }
        self.restore_modifiers()?;
        let physical = self.keyboard.keycode(code);
        let keycode = match text {
            Some(ch) => self.key_for(ch, physical)?,
            None => physical.ok_or_else(|| {
                let name = codes::name(code).unwrap_or("an unnamed key");
                InputError(format!(
                    "the keyboard of display {} lacks the key code {} ({name})",
                    self.display, code.0
                ))
            })?,
        };
        if self.held.values().any(|held| *held == keycode) {
            // Another of the user's keys maps to this key and holds it down, so it is released and pressed again.
            self.key(keycode, false)?;
        }
        self.key(keycode, true)?;
        self.held.insert(code, keycode);
        self.repeat.pressed(keycode);
        Ok(())
    }

    /// The key code that types `ch` now, with changed modifiers or a new binding.
    fn key_for(&mut self, ch: char, physical: Option<u8>) -> Result<u8, InputError> {
        let state = self
            .conn
            .xkb_get_state(CORE_KEYBOARD)
            .map_err(|cause| self.gone(&cause))?;
        let state = state.reply().map_err(|cause| self.gone(&cause))?;
        let held: BTreeSet<u8> = self.held.values().copied().collect();
        let mods = u16::from(state.mods).to_le_bytes()[0];
        let typing = Typing {
            map: &self.keyboard.map,
            mods,
            group: u8::from(state.group),
            held: &held,
            // AltGr is held to type a character, regardless of that key's meaning here.
            command: mods & COMMAND != 0 && !self.held.contains_key(&RIGHT_ALT),
        };
        let plan = typing.plan(ch, physical);
        let keycode = match plan.keycode {
            Some(keycode) => keycode,
            None => self.bind(ch, &held)?,
        };
        for &modifier in &plan.lift {
            self.key(modifier, false)?;
        }
        for &modifier in &plan.press {
            self.key(modifier, true)?;
        }
        self.borrowed = TemporaryModifiers {
            pressed: plan.press,
            lifted: plan.lift,
        };
        Ok(keycode)
    }

    fn bind(&mut self, ch: char, held: &BTreeSet<u8>) -> Result<u8, InputError> {
        let bound = self.bindings.bind(&self.conn, &self.keyboard.map, held, ch);
        let keycode = bound.map_err(|cause| self.gone(&cause))?.ok_or_else(|| {
            InputError(format!(
                "display {} has no unused key code to type {ch:?}",
                self.display
            ))
        })?;
        // All clients, including this one, are notified of the new map before the key arrives.
        x11rb::wrapper::ConnectionExt::sync(&self.conn).map_err(|cause| self.gone(&cause))?;
        self.follow()?;
        Ok(keycode)
    }

    fn release(&mut self, code: KeyCode) -> Result<(), InputError> {
        self.restore_modifiers()?;
        match self.held.remove(&code) {
            Some(keycode) if !self.held.values().any(|held| *held == keycode) => {
                self.repeat.released(keycode);
                self.key(keycode, false)
            }
            _ => Ok(()),
        }
    }

    /// Ends the temporary modifiers of a character key. The modifiers stay until the next key event, so that a held key
    /// repeats its character. They then end, so that they do not affect other keys.
    fn restore_modifiers(&mut self) -> Result<(), InputError> {
        let TemporaryModifiers { pressed, lifted } = std::mem::take(&mut self.borrowed);
        for modifier in pressed {
            self.key(modifier, false)?;
        }
        for modifier in lifted {
            self.key(modifier, true)?;
        }
        Ok(())
    }

    fn point(&self, x: u16, y: u16) -> Result<(), InputError> {
        let (left, top, size) = self.viewport;
        let along = |from: i32, place: u16, length: u32| {
            let last = i64::from(length.max(1)) - 1;
            let offset = (i64::from(place) * i64::from(length) / 65_535).min(last);
            let at = (i64::from(from) + offset).clamp(i16::MIN.into(), i16::MAX.into());
            i16::try_from(at).unwrap_or(0)
        };
        self.go_to(along(left, x, size.width), along(top, y, size.height))
    }

    /// Moves the pointer to a position by a relative motion. For XTEST's absolute motion, the server would report the
    /// position as the raw motion. A game that reads raw motion would interpret the position as a distance, and its
    /// view would jump by hundreds of pixels. XTEST's relative motion is not accelerated, so the pointer ends exactly
    /// on the requested pixel.
    fn go_to(&self, x: i16, y: i16) -> Result<(), InputError> {
        let from = self.conn.query_pointer(self.root);
        let from = from.map_err(|cause| self.gone(&cause))?.reply();
        let from = from.map_err(|cause| self.gone(&cause))?;
        match (x.checked_sub(from.root_x), y.checked_sub(from.root_y)) {
            (Some(0), Some(0)) if from.same_screen => Ok(()),
            (Some(dx), Some(dy)) if from.same_screen => {
                self.fake(xproto::MOTION_NOTIFY_EVENT, RELATIVE, dx, dy)
            }
            _ => self.fake(xproto::MOTION_NOTIFY_EVENT, ABSOLUTE, x, y),
        }
    }

    fn button(&mut self, button: Button, pressed: bool) -> Result<(), InputError> {
        let number = match button {
            Button::LEFT => 1,
            Button::MIDDLE => 2,
            Button::RIGHT => 3,
            // BTN_SIDE to BTN_TASK are the X buttons 8 to 12, because X uses 4 to 7 for the wheel.
            Button(code @ 0x113..=0x117) => 8 + code.to_le_bytes()[0] - 0x13,
            Button(code) => {
                return Err(InputError(format!("X pointers have no button {code:#x}")));
            }
        };
        if pressed && !self.admits(InputTarget::Pointer)? {
            return Ok(());
        }
        let changes = match pressed {
            true => self.buttons.insert(number),
            false => self.buttons.remove(&number),
        };
        match (changes, pressed) {
            (false, _) => Ok(()),
            (true, true) => self.fake(xproto::BUTTON_PRESS_EVENT, number, 0, 0),
            (true, false) => self.fake(xproto::BUTTON_RELEASE_EVENT, number, 0, 0),
        }
    }

    fn turn(&mut self, dx: i16, dy: i16) -> Result<(), InputError> {
        let (x, y) = (self.wheel.0 + i32::from(dx), self.wheel.1 + i32::from(dy));
        self.wheel = (x % NOTCH, y % NOTCH);
        if (x / NOTCH, y / NOTCH) != (0, 0) && !self.admits(InputTarget::Pointer)? {
            return Ok(());
        }
        for (notches, back, forth) in [(x / NOTCH, 6, 7), (y / NOTCH, 5, 4)] {
            let button = if notches < 0 { back } else { forth };
            for _ in 0..notches.unsigned_abs() {
                self.fake(xproto::BUTTON_PRESS_EVENT, button, 0, 0)?;
                self.fake(xproto::BUTTON_RELEASE_EVENT, button, 0, 0)?;
            }
        }
        Ok(())
    }

    fn release_keys(&mut self) -> Result<(), InputError> {
        // Modifiers that were lifted for a character are already up.
        let borrowed = std::mem::take(&mut self.borrowed);
        let keys: BTreeSet<u8> = std::mem::take(&mut self.held)
            .into_values()
            .chain(borrowed.pressed)
            .collect();
        self.repeat = Repeat::default();
        for keycode in keys {
            self.key(keycode, false)?;
        }
        for button in std::mem::take(&mut self.buttons) {
            self.fake(xproto::BUTTON_RELEASE_EVENT, button, 0, 0)?;
        }
        self.wheel = (0, 0);
        self.conn.flush().map_err(|cause| self.gone(&cause))
    }
}

impl InputSink for Xtest {
    fn apply(&mut self, event: &InputEvent) -> Result<(), InputError> {
        self.follow()?;
        match *event {
            InputEvent::Key {
                code,
                text,
                pressed: true,
            } => self.press(code, text)?,
            InputEvent::Key {
                code,
                pressed: false,
                ..
            } => self.release(code)?,
            InputEvent::PointerAbsolute { x, y } => self.point(x, y)?,
            InputEvent::PointerRelative { dx, dy } => {
                self.fake(xproto::MOTION_NOTIFY_EVENT, RELATIVE, dx, dy)?;
            }
            InputEvent::Button { button, pressed } => self.button(button, pressed)?,
            InputEvent::Wheel { dx, dy } => self.turn(dx, dy)?,
            InputEvent::ReleaseAll => self.release_keys()?,
            // XTEST supports only key and mouse events of a device, which have been translated before.
            InputEvent::Device { .. } => {}
            // `pads` handles these.
            InputEvent::PadConnected { .. }
            | InputEvent::PadDisconnected { .. }
            | InputEvent::Pad { .. } => {}
        }
        self.conn.flush().map_err(|cause| self.gone(&cause))
    }

    fn release_all(&mut self) -> Result<(), InputError> {
        self.release_keys()
    }

    fn allow_repeat(&mut self, may: bool) -> Result<(), InputError> {
        let changed = match may {
            true => self.repeat.resume(&self.conn),
            false => self.repeat.stop(&self.conn),
        };
        changed.map_err(|cause| self.gone(&cause))
    }

    fn set_viewport(&mut self, x: i32, y: i32, size: Size) {
        self.viewport = (x, y, size);
    }

    fn set_window(&mut self, window: Option<u32>, scope: WindowScope) {
        self.target.set(window.map(|window| (window, scope)));
    }

    fn suppressed(&self) -> Option<&'static str> {
        self.target.suppressed()
    }
}

impl Drop for Xtest {
    fn drop(&mut self) {
        // A server that is gone holds no keys.
        let _ = self.release_keys();
        let _ = self.bindings.restore(&self.conn);
        let _ = x11rb::wrapper::ConnectionExt::sync(&self.conn);
    }
}

/// `KEY_RIGHTALT`, which is AltGr on many layouts.
const RIGHT_ALT: KeyCode = KeyCode(100);
/// XTEST's `detail` of an absolute motion.
const ABSOLUTE: u8 = 0;
/// XTEST's `detail` of a relative motion.
const RELATIVE: u8 = 1;
/// One notch of the wheel in units of `REL_WHEEL_HI_RES`.
const NOTCH: i32 = 120;

fn gone(display: &str, cause: &dyn std::fmt::Display) -> InputError {
    InputError(format!(
        "the X server of display {display} is gone: {cause}"
    ))
}
