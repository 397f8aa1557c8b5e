//! Injects input into a Wayland compositor with a virtual keyboard and a virtual pointer.
//!
//! The virtual keyboard has its own key map: the session's key map, extended by keys for characters that it lacks
//! (module `keymap`). As in [`xtest`](openuvr_media::input_sink::xtest), a key event presses the same physical key,
//! unless the event carries a character that the map has on another key. The compositor keeps no modifier state for a
//! virtual keyboard, so each change of the modifiers is sent, too. The compositor's clients repeat held keys
//! themselves.
//!
//! Spec: `virtual-keyboard-unstable-v1`, `wlr-virtual-pointer-unstable-v1` (version 2), as
//! implemented by wlroots.

mod keymap;
mod seat;

use std::collections::{BTreeMap, BTreeSet};

use openuvr_clock as clock;
use openuvr_proto::input::event::{Button, InputEvent, KeyCode};
use openuvr_proto::units::Size;
use wayland_client::protocol::wl_keyboard::KeymapFormat;
use wayland_client::protocol::wl_pointer::{Axis, AxisSource, ButtonState};

use self::keymap::SessionKeymap;
use self::seat::VirtualSeat;
use openuvr_media::input_sink::typing::Typing;
use openuvr_media::input_sink::{InputError, InputSink};
use openuvr_media::keyboard::codes;
use openuvr_media::keyboard::keymap::COMMAND;

/// `KEY_RIGHTALT`, which is AltGr on many layouts.
const RIGHT_ALT: KeyCode = KeyCode(100);

/// One notch of the wheel in units of `REL_WHEEL_HI_RES`.
const NOTCH: i32 = 120;

/// The distance that one notch scrolls, as libinput reports it, in the unit of `wl_pointer.axis`.
const NOTCH_DISTANCE: f64 = 15.0;

/// The difference between the key codes of X and those of evdev (xkb-data, `keycodes/evdev`).
const EVDEV_OFFSET: u8 = 8;

/// The symbols of keys that lock their modifier (keysymdef.h): `XK_Num_Lock`, `XK_Caps_Lock`.
const LOCKS: [u32; 2] = [0xff7f, 0xffe5];

/// Presses keys and buttons in a compositor, and releases all of them when dropped.
pub struct WaylandInput {
    seat: VirtualSeat,
    keymap: SessionKeymap,
    /// The X key code pressed for each physical key.
    held: BTreeMap<KeyCode, u8>,
    buttons: BTreeSet<u16>,
    borrowed: TemporaryModifiers,
    /// Modifiers locked by CapsLock and NumLock.
    locked: u8,
    /// Pending wheel motion of less than a notch, in 1/120 notch.
    wheel: (i32, i32),
}

/// Modifiers whose state differs from the user's modifiers while a character key is down.
#[derive(Debug, Default)]
struct TemporaryModifiers {
    pressed: Vec<u8>,
    lifted: Vec<u8>,
}

impl WaylandInput {
    /// Opens `display`. `None` selects the display in the environment variable `WAYLAND_DISPLAY`. Absolute positions
    /// are relative to the output with this name. With `None`, or if there is no such output, they are relative to the
    /// area of all outputs together.
    ///
    /// # Errors
    /// [`InputError`] if the display cannot be reached or lacks the protocols.
    pub fn open(display: Option<&str>, output: Option<&str>) -> Result<WaylandInput, InputError> {
        let (seat, text) = VirtualSeat::open(display, output)?;
        let keymap = SessionKeymap::of(text).map_err(|why| seat.failed(&why))?;
        let mut input = WaylandInput {
            seat,
            keymap,
            held: BTreeMap::new(),
            buttons: BTreeSet::new(),
            borrowed: TemporaryModifiers::default(),
            locked: 0,
            wheel: (0, 0),
        };
        input.upload()?;
        input.seat.round_trip()?;
        Ok(input)
    }

    /// Sends the key map to the compositor.
    fn upload(&mut self) -> Result<(), InputError> {
        let file = self.keymap.file();
        let (file, length) = file.map_err(|why| self.seat.failed(&why))?;
        (self.seat.keyboard).keymap(
            KeymapFormat::XkbV1.into(),
            std::os::fd::AsFd::as_fd(&file),
            length,
        );
        self.send_modifiers();
        // The file descriptor stays open until the flush has sent it.
        self.seat.flush()
    }

    /// The modifiers that the held keys set. Keys that lock their modifier, such as CapsLock, are excluded.
    fn depressed(&self) -> u8 {
        let lifted = &self.borrowed.lifted;
        let held = self.held.values().filter(|key| !lifted.contains(key));
        let down = held.chain(&self.borrowed.pressed);
        let map = &self.keymap.keyboard.map;
        let mods = down.filter(|key| !self.is_lock(**key));
        mods.fold(0, |all, key| all | map.modifiers_of(*key))
    }

    fn is_lock(&self, keycode: u8) -> bool {
        let symbol = self.keymap.keyboard.map.symbol(keycode, 0, 0);
        symbol.is_some_and(|symbol| LOCKS.contains(&symbol))
    }

    fn send_modifiers(&self) {
        let (depressed, locked) = (self.depressed(), self.locked);
        (self.seat.keyboard).modifiers(depressed.into(), 0, locked.into(), 0);
    }

    fn key(&self, keycode: u8, pressed: bool) {
        let code = keycode.saturating_sub(EVDEV_OFFSET);
        (self.seat.keyboard).key(milliseconds(), code.into(), pressed.into());
    }

    fn press(&mut self, code: KeyCode, text: Option<char>) -> Result<(), InputError> {
        if self.held.contains_key(&code) {
            return Ok(());
        }
        self.restore_modifiers();
        let physical = self.keymap.keyboard.keycode(code);
        let keycode = match text {
            Some(ch) => self.key_for(ch, physical)?,
            None => physical.ok_or_else(|| {
                let name = codes::name(code).unwrap_or("an unnamed key");
                self.seat
                    .failed(&format!("the key map has no key {} ({name})", code.0))
            })?,
        };
        if self.held.values().any(|held| *held == keycode) {
            // Two of the user's keys map to the same key here, so this key is released first and then pressed again.
            self.key(keycode, false);
        }
        self.key(keycode, true);
        self.held.insert(code, keycode);
        let mods = self.keymap.keyboard.map.modifiers_of(keycode);
        if self.is_lock(keycode) {
            self.locked ^= mods;
        }
        if mods != 0 {
            self.send_modifiers();
        }
        Ok(())
    }

    /// Returns the key code that types `ch` now. If necessary, changes the modifiers or binds a new key in the map.
    fn key_for(&mut self, ch: char, physical: Option<u8>) -> Result<u8, InputError> {
        let held: BTreeSet<u8> = self.held.values().copied().collect();
        let mods = self.depressed() | self.locked;
        let typing = Typing {
            map: &self.keymap.keyboard.map,
            mods,
            group: 0,
            held: &held,
            // In every map, Right Alt counts as AltGr: the user holds it to type a character, not for a shortcut.
            command: mods & COMMAND != 0 && !self.held.contains_key(&RIGHT_ALT),
        };
        let plan = typing.plan(ch, physical);
        let keycode = match plan.keycode {
            Some(keycode) => keycode,
            None => {
                let bound = self.keymap.bind(ch, &held);
                let keycode = bound.map_err(|why| self.seat.failed(&why))?;
                self.upload()?;
                keycode
            }
        };
        if plan.lift.is_empty() && plan.press.is_empty() {
            return Ok(keycode);
        }
        for &modifier in &plan.lift {
            self.key(modifier, false);
        }
        for &modifier in &plan.press {
            self.key(modifier, true);
        }
        self.borrowed = TemporaryModifiers {
            pressed: plan.press,
            lifted: plan.lift,
        };
        self.send_modifiers();
        Ok(keycode)
    }

    fn release(&mut self, code: KeyCode) {
        self.restore_modifiers();
        if let Some(keycode) = self.held.remove(&code)
            && !self.held.values().any(|held| *held == keycode)
        {
            self.key(keycode, false);
            if self.keymap.keyboard.map.modifiers_of(keycode) != 0 {
                self.send_modifiers();
            }
        }
    }

    /// Ends the temporary modifiers of a character key. This is done at the next key event. A held key can thus repeat
    /// its character, and no other key is affected by these modifiers.
    fn restore_modifiers(&mut self) {
        let TemporaryModifiers { pressed, lifted } = std::mem::take(&mut self.borrowed);
        if pressed.is_empty() && lifted.is_empty() {
            return;
        }
        for modifier in pressed {
            self.key(modifier, false);
        }
        for modifier in lifted {
            self.key(modifier, true);
        }
        self.send_modifiers();
    }

    fn button(&mut self, button: Button, pressed: bool) {
        let changed = match pressed {
            true => self.buttons.insert(button.0),
            false => self.buttons.remove(&button.0),
        };
        if changed {
            let state = match pressed {
                true => ButtonState::Pressed,
                false => ButtonState::Released,
            };
            (self.seat.pointer).button(milliseconds(), button.0.into(), state);
            self.seat.pointer.frame();
        }
    }

    /// Scrolls smoothly, and reports each full notch.
    fn turn(&mut self, dx: i16, dy: i16) {
        let (time, pointer) = (milliseconds(), &self.seat.pointer);
        pointer.axis_source(AxisSource::Wheel);
        // In Wayland, positive values mean down and to the right.
        let axes = [
            (Axis::HorizontalScroll, i32::from(dx), &mut self.wheel.0),
            (Axis::VerticalScroll, -i32::from(dy), &mut self.wheel.1),
        ];
        for (axis, moved, pending) in axes {
            if moved == 0 {
                continue;
            }
            *pending += moved;
            let notches = *pending / NOTCH;
            *pending %= NOTCH;
            let distance = NOTCH_DISTANCE * f64::from(moved) / f64::from(NOTCH);
            match notches {
                0 => pointer.axis(time, axis, distance),
                notches => pointer.axis_discrete(time, axis, distance, notches),
            }
        }
        pointer.frame();
    }

    fn release_keys(&mut self) -> Result<(), InputError> {
        // Modifiers that were lifted for a character are already up.
        let borrowed = std::mem::take(&mut self.borrowed);
        let held = std::mem::take(&mut self.held).into_values();
        let up = &borrowed.lifted;
        let keys: BTreeSet<u8> = (held.filter(|key| !up.contains(key)))
            .chain(borrowed.pressed)
            .collect();
        for keycode in keys {
            self.key(keycode, false);
        }
        self.send_modifiers();
        for button in std::mem::take(&mut self.buttons) {
            (self.seat.pointer).button(milliseconds(), button.into(), ButtonState::Released);
            self.seat.pointer.frame();
        }
        self.wheel = (0, 0);
        self.seat.flush()
    }
}

impl InputSink for WaylandInput {
    fn apply(&mut self, event: &InputEvent) -> Result<(), InputError> {
        self.seat.dispatch()?;
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
            } => self.release(code),
            InputEvent::PointerAbsolute { x, y } => {
                let extent = u32::from(u16::MAX);
                let (x, y) = (x.into(), y.into());
                (self.seat.pointer).motion_absolute(milliseconds(), x, y, extent, extent);
                self.seat.pointer.frame();
            }
            InputEvent::PointerRelative { dx, dy } => {
                (self.seat.pointer).motion(milliseconds(), dx.into(), dy.into());
                self.seat.pointer.frame();
            }
            InputEvent::Button { button, pressed } => self.button(button, pressed),
            InputEvent::Wheel { dx, dy } => self.turn(dx, dy),
            InputEvent::ReleaseAll => return self.release_keys(),
            // The virtual devices are a keyboard and a mouse.
            InputEvent::Device { .. } => {}
            // Game pads are handled in `openuvr_media::input_sink::pads`.
            InputEvent::PadConnected { .. }
            | InputEvent::PadDisconnected { .. }
            | InputEvent::Pad { .. } => {}
        }
        self.seat.flush()
    }

    fn release_all(&mut self) -> Result<(), InputError> {
        self.release_keys()
    }

    /// Does nothing, because positions are relative to the output, regardless of the output's position.
    fn set_viewport(&mut self, _x: i32, _y: i32, _size: Size) {}
}

impl Drop for WaylandInput {
    fn drop(&mut self) {
        // Errors are ignored: if the compositor is gone, no keys are held.
        let _ = self.release_keys();
        let _ = self.seat.round_trip();
    }
}

/// The current time in milliseconds, modulo 2³², for an event.
fn milliseconds() -> u32 {
    let now = clock::now().0 / 1_000_000;
    u32::try_from(now.rem_euclid(1 << 32)).unwrap_or(0)
}
