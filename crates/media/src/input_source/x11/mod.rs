//! The input thread's part of the client's window: keyboard, pointer, and window events.
//!
//! It translates X events to protocol events. It also handles resizes, exposures and the close
//! button, repaints the picture, and executes the shortcuts of [`SHORTCUTS`], which are not sent to
//! the host.
//!
//! Keys are sent by position while the mouse is grabbed, or if the user or the host's application
//! chooses so; otherwise with the character that they type. For a dead key or a compose sequence,
//! only the resulting character is sent. A key without an evdev code is sent by its character.

mod already_held;
mod grab;
mod shortcuts;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use openuvr_proto::input::event::{Button, InputEvent, KeyCode};
use openuvr_proto::input::keys::Keys;
use openuvr_proto::units::Size;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use x11rb::connection::Connection;
use x11rb::protocol::Event;
use x11rb::protocol::xkb::{self, ConnectionExt as _};
use x11rb::protocol::xproto::{self, ConnectionExt as _};
use x11rb::rust_connection::RustConnection;

use super::{InputSource, SourceError, SourceEvent};
use crate::keyboard::compose::{ComposeStep, Composer};
use crate::keyboard::keymap::{COMMAND, LOCK, symbol_of};
use crate::keyboard::{CORE_KEYBOARD, XkbKeyboard, codes};
use crate::window::painter::Painter;
use crate::window::placement::Placement;
use crate::window::scene::{Scene, SharedWindow};
use crate::window::toplevel::Window;
use crate::window::{WindowConfig, WindowError};
use already_held::AlreadyHeld;
use grab::Grab;
use shortcuts::{Action, HELD};
pub use shortcuts::{SHORTCUTS, Shortcut};

/// Reads the keyboard and the pointer of the client's window.
pub struct X11InputSource {
    conn: RustConnection,
    window: Window,
    stage: Arc<SharedWindow>,
    painter: Painter,
    keyboard: XkbKeyboard,
    grab: Grab,
    /// Whether to grab the pointer once the window is viewable: before, X refuses.
    grab_at_start: bool,
    /// Whether the grab was requested by the host's application, and whether the user has released
    /// it since.
    for_host: bool,
    declined: bool,
    /// Keys reported to the host as down, by X key code, which may map to another key when
    /// released; and keys of shortcuts.
    down: BTreeMap<u8, KeyCode>,
    swallowed: BTreeSet<u8>,
    /// Keys pressed before the window had the keyboard focus.
    already_held: AlreadyHeld,
    /// The focus was lost and has not returned.
    away: bool,
    composer: Composer,
    /// The user's choice, and that of the host's application.
    chosen: Option<Keys>,
    usual: Keys,
    pointer_sent: Option<(u16, u16)>,
    /// An event read too far while merging motion.
    unread: Option<Event>,
    ready: VecDeque<SourceEvent>,
}

impl X11InputSource {
    pub(crate) fn new(
        conn: RustConnection,
        window: Window,
        stage: Arc<SharedWindow>,
        config: &WindowConfig,
    ) -> Result<X11InputSource, WindowError> {
        let keyboard = XkbKeyboard::open(&conn).map_err(|cause| WindowError(cause.to_string()))?;
        // With it a held key repeats as presses without releases, which are easy to drop. Every
        // current XKB server supports it.
        let flag = xkb::PerClientFlag::DETECTABLE_AUTO_REPEAT;
        let none = xkb::BoolCtrl::default();
        conn.xkb_per_client_flags(CORE_KEYBOARD, flag, flag, none, none, none)
            .map_err(|cause| stage.gone(&cause))?
            .reply()
            .map_err(|cause| stage.gone(&cause))?;
        let painter = Painter::new(&conn, Arc::clone(&stage))?;
        let grab = Grab::new(&conn, &window).map_err(|cause| stage.gone(&cause))?;
        let size = stage.scene().window;
        Ok(X11InputSource {
            conn,
            window,
            stage,
            painter,
            keyboard,
            grab,
            grab_at_start: config.grab,
            for_host: false,
            declined: false,
            down: BTreeMap::new(),
            swallowed: BTreeSet::new(),
            already_held: AlreadyHeld::default(),
            away: false,
            composer: Composer::of_locale(),
            chosen: config.keys,
            usual: Keys::Symbol,
            pointer_sent: None,
            unread: None,
            ready: VecDeque::from([SourceEvent::Resized(size)]),
        })
    }

    fn gone(&self, cause: &dyn std::fmt::Display) -> SourceError {
        SourceError(self.stage.gone(cause).0)
    }

    fn send(&mut self, event: InputEvent) {
        self.ready.push_back(SourceEvent::Input(event));
    }

    fn poll_event(&mut self) -> Result<Option<Event>, SourceError> {
        match self.unread.take() {
            Some(event) => Ok(Some(event)),
            None => self
                .conn
                .poll_for_event()
                .map_err(|cause| self.gone(&cause)),
        }
    }

    fn handle(&mut self, event: Event) -> Result<(), SourceError> {
        match event {
            Event::KeyPress(event) => return self.key_pressed(&event),
            Event::KeyRelease(event) => self.key_released(event.detail),
            Event::MotionNotify(event) => return self.pointer_moved(event),
            Event::ButtonPress(event) => self.button(&event, true),
            Event::ButtonRelease(event) => self.button(&event, false),
            Event::XinputRawMotion(event) if self.grab.is_active() => {
                let motion = self.grab.motion(&self.conn, &event);
                if let Some((dx, dy)) = motion.map_err(|cause| self.gone(&cause))? {
                    self.send(InputEvent::PointerRelative { dx, dy });
                }
            }
            Event::EnterNotify(event) => {
                // The pointer may have entered by a warp, without a motion event.
                self.pointer_at(event.event_x.into(), event.event_y.into());
                return self.change(|scene| scene.pointer_inside = true);
            }
            Event::LeaveNotify(event) if event.mode == xproto::NotifyMode::NORMAL => {
                return self.change(|scene| scene.pointer_inside = false);
            }
            Event::FocusIn(_) => {
                if std::mem::take(&mut self.away) {
                    self.ready.push_back(SourceEvent::Focused(true));
                }
                return self.follow_request();
            }
            // Follows each FocusIn and EnterNotify.
            Event::KeymapNotify(event) => {
                let known = |keycode: &u8| {
                    self.down.contains_key(keycode) || self.swallowed.contains(keycode)
                };
                self.already_held = AlreadyHeld::of(&event.keys, known);
            }
            Event::FocusOut(event) if loses_keys(event.detail) => {
                return self.focus_out(event.mode);
            }
            Event::ConfigureNotify(event) if event.window == self.window.id => {
                let size = Size::new(event.width.into(), event.height.into());
                if self.stage.scene().window != size {
                    self.ready.push_back(SourceEvent::Resized(size));
                }
                return self.change(|scene| {
                    scene.window = size;
                    scene
                        .following
                        .take_if(|following| !following.on_resized(size));
                });
            }
            Event::Expose(event) if event.count == 0 => {
                if std::mem::take(&mut self.grab_at_start) && !self.grab.is_active() {
                    self.own(Action::Grab)?;
                }
                self.follow_request()?;
                return self.repaint().map_err(|cause| SourceError(cause.0));
            }
            Event::ClientMessage(event) => return self.message(&event),
            Event::DestroyNotify(event) if event.window == self.window.id => {
                self.ready.push_back(SourceEvent::Closed);
            }
            Event::MappingNotify(_) | Event::XkbMapNotify(_) | Event::XkbNewKeyboardNotify(_) => {
                self.keyboard = XkbKeyboard::read(&self.conn).map_err(|cause| self.gone(&cause))?;
            }
            // A repaint may use a picture that the presenter has just replaced, which repainted it.
            Event::Error(error) => tracing::debug!(?error, "the X server refused a request"),
            _ => {}
        }
        Ok(())
    }

    fn message(&mut self, event: &xproto::ClientMessageEvent) -> Result<(), SourceError> {
        let atoms = &self.window.atoms;
        let asked = event.data.as_data32()[0];
        if event.type_ == atoms.WM_PROTOCOLS && asked == atoms.WM_DELETE_WINDOW {
            self.ready.push_back(SourceEvent::Closed);
        }
        if event.type_ == atoms._OPENUVR_RELATIVE_MOUSE {
            self.declined = false;
            return self.follow_request();
        }
        Ok(())
    }

    fn key_pressed(&mut self, event: &xproto::KeyPressEvent) -> Result<(), SourceError> {
        let keycode = event.detail;
        if self.down.contains_key(&keycode) || self.swallowed.contains(&keycode) {
            return Ok(());
        }
        self.already_held.forget(keycode);
        let [state, group] = u16::from(event.state).to_le_bytes();
        // Bits 13 and 14 of the state are the group (XKB section 11.1.1).
        let group = (group >> 5) & 3;
        let Some(code) = self.keyboard.code(keycode) else {
            self.press_already_held(state);
            self.type_without_key(keycode, state, group);
            return Ok(());
        };
        if state & HELD == HELD
            && let Some(own) = shortcuts::own(code)
        {
            self.swallowed.insert(keycode);
            return self.own(own);
        }
        self.press_already_held(state);
        if self.keys() == Keys::Symbol
            && let Some(symbol) = self.keyboard.map.symbol(keycode, state, group)
            && let Some(other) = codes::without_num_lock(symbol)
        {
            // NumLock may change a keypad's key differently at the host.
            match other {
                Some(code) => {
                    self.down.insert(keycode, code);
                    self.send(key(code, None, true));
                }
                None => _ = self.swallowed.insert(keycode),
            }
            return Ok(());
        }
        let text = match self.keys() {
            Keys::Position => String::new(),
            Keys::Both => self.typed(keycode, state, group).unwrap_or_default(),
            Keys::Symbol => match self.typed(keycode, state, group) {
                Some(text) => text,
                None => {
                    self.swallowed.insert(keycode);
                    return Ok(());
                }
            },
        };
        let mut text = text.chars().rev();
        let last = text.next();
        // A compose sequence may type several characters.
        for ch in text.rev() {
            self.send(key(code, Some(ch), true));
            self.send(key(code, None, false));
        }
        self.down.insert(keycode, code);
        self.send(key(code, last, true));
        Ok(())
    }

    /// Types the character of a key without an evdev code, created by a program for this character.
    /// Each press is sent with its release, and so is each repeat, since many such keys may be
    /// down.
    fn type_without_key(&mut self, keycode: u8, state: u8, group: u8) {
        let text = self.typed(keycode, state, group).unwrap_or_default();
        for ch in text.chars() {
            self.send(key(KeyCode::NONE, Some(ch), true));
            self.send(key(KeyCode::NONE, None, false));
        }
    }

    /// Presses the modifiers in `state` that were pressed before the window had the keyboard focus:
    /// the next event needs them.
    fn press_already_held(&mut self, state: u8) {
        let by_position = self.keys() == Keys::Position;
        let keys = self
            .already_held
            .take(&self.keyboard.map, state, by_position);
        for keycode in keys {
            if let Some(code) = self.keyboard.code(keycode) {
                self.down.insert(keycode, code);
                self.send(key(code, None, true));
            }
        }
    }

    /// The current key mode.
    fn keys(&self) -> Keys {
        let game = self.grab.is_active() && self.usual == Keys::Symbol;
        let usual = if game { Keys::Position } else { self.usual };
        self.chosen.unwrap_or(usual)
    }

    /// The text typed by a key: empty for keys without text; `None` if the key is not sent, because
    /// it belongs to a sequence that types text later, or only chooses the level of other keys.
    fn typed(&mut self, keycode: u8, state: u8, group: u8) -> Option<String> {
        let character = self.keyboard.map.character(keycode, state, group);
        let symbol = self.keyboard.map.symbol(keycode, state, group);
        let Some(symbol) = character.map(symbol_of).or(symbol) else {
            return Some(String::new());
        };
        if chooses_level(symbol) {
            return None;
        }
        if state & COMMAND != 0 {
            self.composer.reset();
            // Right Alt may be another key at the host: keys held with it are sent by position.
            let beside = self.down.values().any(|code| *code == RIGHT_ALT);
            // Lock does not change a command.
            let letter = self.keyboard.map.character(keycode, state & !LOCK, group);
            return Some(letter.filter(|_| !beside).into_iter().collect());
        }
        match self.composer.press(symbol) {
            ComposeStep::Alone => Some(character.into_iter().collect()),
            ComposeStep::Typed(text) => Some(text),
            ComposeStep::Waiting | ComposeStep::Discarded => None,
        }
    }

    fn key_released(&mut self, keycode: u8) {
        self.already_held.forget(keycode);
        self.swallowed.remove(&keycode);
        if let Some(code) = self.down.remove(&keycode) {
            self.send(key(code, None, false));
        }
    }

    fn own(&mut self, own: Action) -> Result<(), SourceError> {
        match own {
            Action::Quit => self.ready.push_back(SourceEvent::Closed),
            Action::Overlay => self.ready.push_back(SourceEvent::ToggleOverlay),
            Action::Eyes => self.ready.push_back(SourceEvent::NextEyes),
            Action::Sound(wish) => self.ready.push_back(SourceEvent::Sound(wish)),
            Action::FullScreen => {
                let toggled = self.window.toggle_full_screen(&self.conn);
                toggled.map_err(|cause| self.gone(&cause))?;
                if let Some(following) = &mut self.stage.scene().following {
                    following.full_screen = self.window.full_screen;
                }
            }
            Action::Grab if self.grab.is_active() => {
                self.declined = true;
                return self.release();
            }
            Action::Grab => {
                self.composer.reset();
                (self.declined, self.for_host) = (false, false);
                return self.take_pointer();
            }
            Action::Keys => {
                self.composer.reset();
                let other = match self.keys() {
                    Keys::Symbol => Keys::Position,
                    Keys::Position | Keys::Both => Keys::Symbol,
                };
                self.chosen = Some(other);
                self.ready.push_back(SourceEvent::Keys(other));
            }
        }
        Ok(())
    }

    fn take_pointer(&mut self) -> Result<(), SourceError> {
        let taken = self
            .grab
            .take(&self.conn)
            .map_err(|cause| self.gone(&cause))?;
        self.ready.push_back(SourceEvent::Grabbed(taken));
        self.change(|scene| scene.grabbed = taken)
    }

    /// Grabs or releases the pointer as the host's application requests: while the user plays in
    /// this window, and has not released it manually since the request.
    fn follow_request(&mut self) -> Result<(), SourceError> {
        let wanted = {
            let scene = self.stage.scene();
            scene.relative && !scene.observer
        };
        if self.grab.is_active() {
            return match !wanted && self.for_host {
                true => self.release(),
                false => Ok(()),
            };
        }
        if !wanted || self.declined {
            return Ok(());
        }
        let focus = self.conn.get_input_focus().map_err(|e| self.gone(&e))?;
        let focus = focus.reply().map_err(|e| self.gone(&e))?.focus;
        if focus != self.window.id && focus != u32::from(xproto::InputFocus::POINTER_ROOT) {
            return Ok(());
        }
        self.for_host = true;
        self.take_pointer()
    }

    fn release(&mut self) -> Result<(), SourceError> {
        self.grab
            .release(&self.conn)
            .map_err(|cause| self.gone(&cause))?;
        self.ready.push_back(SourceEvent::Grabbed(false));
        self.change(|scene| scene.grabbed = false)
    }

    /// A `FocusOut` also reports the start or end of a grab, as if the focus moved to the grab
    /// window and back.
    fn focus_out(&mut self, mode: xproto::NotifyMode) -> Result<(), SourceError> {
        match mode {
            // Our own grab: no other client can have one meanwhile.
            xproto::NotifyMode::GRAB if self.grab.holds_keyboard() => Ok(()),
            // With the focus elsewhere, key releases are not received.
            xproto::NotifyMode::UNGRAB if self.down.is_empty() || self.has_focus()? => Ok(()),
            _ => self.focus_lost(),
        }
    }

    fn has_focus(&self) -> Result<bool, SourceError> {
        let focus = xproto::get_input_focus(&self.conn).map_err(|cause| self.gone(&cause))?;
        let focus = focus.reply().map_err(|cause| self.gone(&cause))?.focus;
        Ok(focus == self.window.id || focus == u32::from(xproto::InputFocus::POINTER_ROOT))
    }

    fn focus_lost(&mut self) -> Result<(), SourceError> {
        self.down.clear();
        self.swallowed.clear();
        self.already_held = AlreadyHeld::default();
        self.composer.reset();
        self.send(InputEvent::ReleaseAll);
        self.away = true;
        self.ready.push_back(SourceEvent::Focused(false));
        match self.grab.is_active() {
            true => self.release(),
            false => Ok(()),
        }
    }

    /// Sends the newest of the motion events that have arrived: older positions are outdated.
    fn pointer_moved(&mut self, first: xproto::MotionNotifyEvent) -> Result<(), SourceError> {
        let mut newest = first;
        loop {
            match self.poll_event()? {
                Some(Event::MotionNotify(event)) => newest = event,
                other => {
                    self.unread = other;
                    break;
                }
            }
        }
        self.pointer_at(newest.event_x.into(), newest.event_y.into());
        Ok(())
    }

    fn pointer_at(&mut self, x: i32, y: i32) {
        if self.grab.is_active() {
            return;
        }
        let place = {
            let scene = self.stage.scene();
            let whole = Placement::fit(scene.window, scene.window);
            scene.placement().unwrap_or(whole).place(x, y)
        };
        if self.pointer_sent.replace(place) != Some(place) {
            self.send(InputEvent::PointerAbsolute {
                x: place.0,
                y: place.1,
            });
        }
    }

    fn button(&mut self, event: &xproto::ButtonPressEvent, pressed: bool) {
        self.pointer_at(event.event_x.into(), event.event_y.into());
        if pressed {
            let [state, _] = u16::from(event.state).to_le_bytes();
            self.press_already_held(state);
        }
        if let 4..=7 = event.detail {
            let (dx, dy) =
                [(0, NOTCH), (0, -NOTCH), (-NOTCH, 0), (NOTCH, 0)][usize::from(event.detail) - 4];
            if pressed {
                self.send(InputEvent::Wheel { dx, dy });
            }
            return;
        }
        let button = match event.detail {
            1 => Button::LEFT,
            2 => Button::MIDDLE,
            3 => Button::RIGHT,
            // X counts the side buttons from 8, evdev from BTN_SIDE.
            more @ 8..=12 => Button(Button::SIDE.0 + u16::from(more) - 8),
            _ => return,
        };
        self.send(InputEvent::Button { button, pressed });
    }

    /// Changes the scene and repaints it if the change is visible.
    fn change(&mut self, apply: impl FnOnce(&mut Scene)) -> Result<(), SourceError> {
        let redraw = {
            let mut scene = self.stage.scene();
            let before = (self.stage.overlay(&scene), scene.window, scene.placement());
            apply(&mut scene);
            before != (self.stage.overlay(&scene), scene.window, scene.placement())
        };
        match redraw {
            true => self.repaint().map_err(|cause| SourceError(cause.0)),
            false => Ok(()),
        }
    }

    /// Repaints the scene. The server may execute this after a newer picture of the presenter that
    /// was sent later, so it is repeated if a picture was shown in between; the number of repeats
    /// is limited, since a steady stream of pictures repaints the window as well.
    pub(crate) fn repaint(&mut self) -> Result<(), WindowError> {
        for _ in 0..REPAIRS {
            let drawn = {
                let scene = self.stage.scene();
                self.painter.bars(&self.conn, &scene)?;
                self.painter.everything(&self.conn, &scene, false)?;
                self.conn.flush().map_err(|cause| self.stage.gone(&cause))?;
                scene.shown
            };
            x11rb::wrapper::ConnectionExt::sync(&self.conn)
                .map_err(|cause| self.stage.gone(&cause))?;
            if self.stage.scene().shown == drawn {
                break;
            }
        }
        Ok(())
    }
}

impl InputSource for X11InputSource {
    fn next(&mut self, timeout: Option<Duration>) -> Result<SourceEvent, SourceError> {
        let end = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            while self.ready.is_empty() {
                match self.poll_event()? {
                    Some(event) => self.handle(event)?,
                    None => break,
                }
            }
            if let Some(event) = self.ready.pop_front() {
                return Ok(event);
            }
            self.conn.flush().map_err(|cause| self.gone(&cause))?;
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Ok(SourceEvent::TimedOut);
            }
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            let mut ready = [PollFd::from_borrowed_fd(
                self.conn.stream().as_fd(),
                PollFlags::IN,
            )];
            match poll(&mut ready, left.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(cause) => return Err(self.gone(&cause)),
            }
        }
    }

    fn follow(&mut self, keys: Keys) {
        self.usual = keys;
    }
}

/// Maximum number of repeated repaints.
const REPAIRS: usize = 3;

/// One notch of the wheel in units of `REL_WHEEL_HI_RES`.
const NOTCH: i16 = 120;

/// `KEY_RIGHTALT`, which is AltGr on many layouts.
const RIGHT_ALT: KeyCode = KeyCode(100);

fn key(code: KeyCode, text: Option<char>, pressed: bool) -> InputEvent {
    InputEvent::Key {
        code,
        text,
        pressed,
    }
}

/// `XK_ISO_Level2_Latch` to `XK_ISO_Level3_Lock`, those of the fifth level, and `XK_Mode_switch` of
/// `keysymdef.h`: the host does not need them, since other keys carry characters, and its layout
/// may have a command on such a key.
fn chooses_level(symbol: u32) -> bool {
    matches!(symbol, 0xfe02..=0xfe05 | 0xfe11..=0xfe13 | 0xff7e)
}

/// Whether a `FocusOut` removes the keyboard focus: not when the focus moves into the window itself
/// or only follows the pointer.
fn loses_keys(detail: xproto::NotifyDetail) -> bool {
    detail != xproto::NotifyDetail::INFERIOR && detail != xproto::NotifyDetail::POINTER
}
