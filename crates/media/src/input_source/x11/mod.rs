//! The input thread's half of the client's window: keyboard, pointer, and the window's upkeep.
//!
//! It turns what the X server reports into events of the wire, and it is the one that notices
//! resizes, exposures and the close button, repairs the picture, and handles four combinations
//! itself, which the host never sees:
//!
//! | keys | what |
//! |---|---|
//! | Ctrl+Alt+Shift+Q | close |
//! | Ctrl+Alt+Shift+F | full screen and back |
//! | Ctrl+Alt+Shift+G | grab the pointer for relative motion, and let it go |
//! | Ctrl+Alt+Shift+L | show figures of the latency over the picture, and hide them |
//!
//! It is no input method: dead keys and compose sequences give no text.

mod grab;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use openuvr_proto::input::event::{Button, InputEvent, KeyCode};
use openuvr_proto::units::Size;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use x11rb::connection::Connection;
use x11rb::protocol::Event;
use x11rb::protocol::xkb::{self, ConnectionExt as _};
use x11rb::protocol::xproto;
use x11rb::rust_connection::RustConnection;

use super::{InputSource, SourceError, SourceEvent};
use crate::keyboard::keymap::{COMMAND, CONTROL, MOD1, SHIFT};
use crate::keyboard::{CORE_KEYBOARD, XkbKeyboard};
use crate::present::PresentError;
use crate::present::x11::Painter;
use crate::present::x11::placement::Placement;
use crate::present::x11::scene::{Scene, Stage};
use crate::present::x11::window::Window;
use grab::Grab;

/// Reads the keyboard and the pointer of the client's window.
pub struct X11InputSource {
    conn: RustConnection,
    window: Window,
    stage: Arc<Stage>,
    painter: Painter,
    keyboard: XkbKeyboard,
    grab: Grab,
    /// Whether the pointer is to be grabbed once the window can be seen: before, X refuses.
    grab_at_start: bool,
    /// Keys that the host was told are down, by X key code, which may stand for another key by the
    /// time it goes up; and keys of our own combinations.
    down: BTreeMap<u8, KeyCode>,
    swallowed: BTreeSet<u8>,
    pointer_sent: Option<(u16, u16)>,
    /// An event that was read too far while motion was joined.
    unread: Option<Event>,
    ready: VecDeque<SourceEvent>,
}

impl X11InputSource {
    pub(crate) fn new(
        conn: RustConnection,
        window: Window,
        stage: Arc<Stage>,
        grab_at_start: bool,
    ) -> Result<X11InputSource, PresentError> {
        let keyboard = XkbKeyboard::open(&conn).map_err(|cause| PresentError(cause.to_string()))?;
        // With it a held key repeats as presses without releases in between, which are easy to
        // drop. Every XKB server of today supports it.
        let flag = xkb::PerClientFlag::DETECTABLE_AUTO_REPEAT;
        let none = xkb::BoolCtrl::default();
        conn.xkb_per_client_flags(CORE_KEYBOARD, flag, flag, none, none, none)
            .map_err(|cause| stage.gone(&cause))?
            .reply()
            .map_err(|cause| stage.gone(&cause))?;
        let painter = Painter::new(&conn, Arc::clone(&stage))?;
        let grab = Grab::new(&conn, &window).map_err(|cause| stage.gone(&cause))?;
        Ok(X11InputSource {
            conn,
            window,
            stage,
            painter,
            keyboard,
            grab,
            grab_at_start,
            down: BTreeMap::new(),
            swallowed: BTreeSet::new(),
            pointer_sent: None,
            unread: None,
            ready: VecDeque::new(),
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
                // The pointer may have come in by a jump, without a motion of its own.
                self.pointer_at(event.event_x.into(), event.event_y.into());
                return self.change(|scene| scene.pointer_inside = true);
            }
            Event::LeaveNotify(event) if event.mode == xproto::NotifyMode::NORMAL => {
                return self.change(|scene| scene.pointer_inside = false);
            }
            Event::FocusOut(event) if loses_keys(event.detail) => return self.focus_lost(),
            Event::ConfigureNotify(event) if event.window == self.window.id => {
                let size = Size::new(event.width.into(), event.height.into());
                return self.change(|scene| scene.window = size);
            }
            Event::Expose(event) if event.count == 0 => {
                if std::mem::take(&mut self.grab_at_start) && !self.grab.is_active() {
                    self.own(Own::Grab)?;
                }
                return self.repaint().map_err(|cause| SourceError(cause.0));
            }
            Event::ClientMessage(event)
                if event.type_ == self.window.atoms.WM_PROTOCOLS
                    && event.data.as_data32()[0] == self.window.atoms.WM_DELETE_WINDOW =>
            {
                self.ready.push_back(SourceEvent::Closed);
            }
            Event::DestroyNotify(event) if event.window == self.window.id => {
                self.ready.push_back(SourceEvent::Closed);
            }
            Event::MappingNotify(_) | Event::XkbMapNotify(_) | Event::XkbNewKeyboardNotify(_) => {
                self.keyboard = XkbKeyboard::read(&self.conn).map_err(|cause| self.gone(&cause))?;
            }
            // A repair may name a picture that the presenter has just replaced: it repaired it.
            Event::Error(error) => tracing::debug!(?error, "the X server refused a request"),
            _ => {}
        }
        Ok(())
    }

    fn key_pressed(&mut self, event: &xproto::KeyPressEvent) -> Result<(), SourceError> {
        let keycode = event.detail;
        if self.down.contains_key(&keycode) || self.swallowed.contains(&keycode) {
            return Ok(());
        }
        let Some(code) = self.keyboard.code(keycode) else {
            return Ok(());
        };
        let [state, group] = u16::from(event.state).to_le_bytes();
        if state & COMBINATION == COMBINATION
            && let Some(own) = Own::of(code)
        {
            self.swallowed.insert(keycode);
            return self.own(own);
        }
        // Bits 13 and 14 of the state are the group (XKB section 11.1.1).
        let group = (group >> 5) & 3;
        let text = match state & COMMAND {
            0 => self.keyboard.map.character(keycode, state, group),
            _ => None,
        };
        self.down.insert(keycode, code);
        self.send(InputEvent::Key {
            code,
            text,
            pressed: true,
        });
        Ok(())
    }

    fn key_released(&mut self, keycode: u8) {
        self.swallowed.remove(&keycode);
        if let Some(code) = self.down.remove(&keycode) {
            self.send(InputEvent::Key {
                code,
                text: None,
                pressed: false,
            });
        }
    }

    fn own(&mut self, own: Own) -> Result<(), SourceError> {
        match own {
            Own::Quit => self.ready.push_back(SourceEvent::Closed),
            Own::Overlay => self.ready.push_back(SourceEvent::ToggleOverlay),
            Own::FullScreen => {
                let toggled = self.window.toggle_full_screen(&self.conn);
                toggled.map_err(|cause| self.gone(&cause))?;
            }
            Own::Grab if self.grab.is_active() => return self.let_go(),
            Own::Grab => {
                let taken = self
                    .grab
                    .take(&self.conn)
                    .map_err(|cause| self.gone(&cause))?;
                return self.change(|scene| scene.grabbed = taken);
            }
        }
        Ok(())
    }

    fn let_go(&mut self) -> Result<(), SourceError> {
        self.grab
            .let_go(&self.conn)
            .map_err(|cause| self.gone(&cause))?;
        self.change(|scene| scene.grabbed = false)
    }

    fn focus_lost(&mut self) -> Result<(), SourceError> {
        self.down.clear();
        self.swallowed.clear();
        self.send(InputEvent::ReleaseAll);
        match self.grab.is_active() {
            true => self.let_go(),
            false => Ok(()),
        }
    }

    /// Sends the newest of the motions that are there already: older places are of no use.
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

    /// Changes the scene and draws it anew if that shows.
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

    /// Draws the scene anew. The server may take this after a newer picture of the presenter's
    /// that was sent later, so it is repeated if a picture came in between; not for ever, since
    /// where pictures keep coming the next one repairs it as well.
    pub(crate) fn repaint(&mut self) -> Result<(), PresentError> {
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
}

/// How often a repair is repeated because a picture came in between.
const REPAIRS: usize = 3;

/// One notch of the wheel in units of `REL_WHEEL_HI_RES`.
const NOTCH: i16 = 120;

/// What has to be held for a combination of our own.
const COMBINATION: u8 = CONTROL | MOD1 | SHIFT;

/// What our own combinations do.
#[derive(Clone, Copy)]
enum Own {
    Quit,
    FullScreen,
    Grab,
    Overlay,
}

impl Own {
    fn of(code: KeyCode) -> Option<Own> {
        match code.0 {
            16 => Some(Own::Quit),
            33 => Some(Own::FullScreen),
            34 => Some(Own::Grab),
            38 => Some(Own::Overlay),
            _ => None,
        }
    }
}

/// Whether a `FocusOut` takes the keys away: not when the focus goes into the window itself, and
/// not when it only follows the pointer.
fn loses_keys(detail: xproto::NotifyDetail) -> bool {
    detail != xproto::NotifyDetail::INFERIOR && detail != xproto::NotifyDetail::POINTER
}
