//! The input thread's part of the client's window: keyboard, pointer, and window events.
//!
//! It translates X events to protocol events, handles resizes, exposures and the close button, and repaints the
//! picture. It also executes the shortcuts of [`SHORTCUTS`](super::SHORTCUTS), which are not sent to the host.
//!
//! [`KeyTranslator`] determines whether a key is sent by its position or by the character that it types.

mod grab;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use openuvr_proto::input::event::{Button, InputEvent};
use openuvr_proto::input::keys::Keys;
use openuvr_proto::units::Size;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use x11rb::connection::Connection;
use x11rb::errors::ReplyError;
use x11rb::protocol::Event;
use x11rb::protocol::xkb::{self, ConnectionExt as _};
use x11rb::protocol::xproto::{self, ConnectionExt as _};
use x11rb::rust_connection::RustConnection;

use super::keys::{KeyPress, KeyTranslator};
use super::shortcuts::Action;
use super::{InputSource, SourceError, SourceEvent};
use crate::keyboard::{CORE_KEYBOARD, XkbKeyboard};
use crate::window::painter::Painter;
use crate::window::placement::Placement;
use crate::window::scene::{AfterResize, Scene, SharedWindow};
use crate::window::toplevel::Window;
use crate::window::{WindowConfig, WindowError};
use grab::Grab;

/// Reads the keyboard and the pointer of the client's window.
pub struct X11InputSource {
    conn: RustConnection,
    window: Window,
    stage: Arc<SharedWindow>,
    painter: Painter,
    keyboard: XkbKeyboard,
    grab: Grab,
    /// Whether to grab the pointer as soon as the window is viewable. X refuses an earlier grab.
    grab_at_start: bool,
    /// Whether the grab was requested by the host's application, and whether the user has released
    /// it since.
    for_host: bool,
    declined: bool,
    keys: KeyTranslator,
    /// Whether the window lacks the focus, because the focus has not arrived yet or was lost.
    away: bool,
    pointer_sent: Option<(u16, u16)>,
    /// An event that was read but not used while merging motion.
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
        // With this flag, the auto-repeat of a held key consists of presses without releases, and such presses are easy
        // to drop. Every current XKB server supports the flag.
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
            keys: KeyTranslator::new(config.keys),
            away: true,
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
            Event::KeyRelease(event) => self.keys.release(event.detail, &mut self.ready),
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
            // This event follows each FocusIn and EnterNotify.
            Event::KeymapNotify(event) => {
                self.keys.already_down(keys_down(&event.keys));
            }
            Event::FocusOut(event) if loses_keys(event.detail) => {
                return self.focus_out(event.mode);
            }
            Event::ConfigureNotify(event) if event.window == self.window.id => {
                let size = Size::new(event.width.into(), event.height.into());
                return self.resized(size);
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
            // The server refuses a repaint with a picture that the presenter has just replaced. This is harmless,
            // because the presenter has repainted the window with the new picture.
            Event::Error(error) => tracing::debug!(?error, "the X server refused a request"),
            _ => {}
        }
        Ok(())
    }

    fn resized(&mut self, size: Size) -> Result<(), SourceError> {
        if self.stage.scene().window != size {
            self.ready.push_back(SourceEvent::Resized(size));
        }
        let mut then = AfterResize::Keep;
        self.change(|scene| {
            scene.window = size;
            if let Some(following) = &mut scene.following {
                then = following.on_resized(size);
            }
            if then != AfterResize::Keep {
                scene.following = None;
            }
        })?;
        match then {
            AfterResize::Restore(other) => self.restore(size, other),
            AfterResize::Keep | AfterResize::End => Ok(()),
        }
    }

    /// Restores the size that another program has set, if the window still has the picture's size.
    fn restore(&self, picture: Size, other: Size) -> Result<(), SourceError> {
        let restored: Result<(), ReplyError> = (|| {
            let now = self.conn.get_geometry(self.window.id)?.reply()?;
            if Size::new(now.width.into(), now.height.into()) == picture {
                let aux = xproto::ConfigureWindowAux::new();
                let aux = aux.width(other.width).height(other.height);
                self.conn.configure_window(self.window.id, &aux)?;
            }
            Ok(self.conn.flush()?)
        })();
        restored.map_err(|cause| self.gone(&cause))
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
        let [state, group] = u16::from(event.state).to_le_bytes();
        let press = KeyPress {
            keycode: event.detail,
            state,
            // Bits 13 and 14 of the state are the group (XKB section 11.1.1).
            group: (group >> 5) & 3,
            grabbed: self.grab.is_active(),
        };
        match self.keys.press(&self.keyboard, press, &mut self.ready) {
            Some(action) => self.own(action),
            None => Ok(()),
        }
    }

    fn own(&mut self, own: Action) -> Result<(), SourceError> {
        match own {
            Action::Quit => self.ready.push_back(SourceEvent::Closed),
            Action::Overlay => self.ready.push_back(SourceEvent::ToggleOverlay),
            Action::Eyes => self.ready.push_back(SourceEvent::NextEyes),
            Action::Recentre => self.ready.push_back(SourceEvent::Recentre),
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
                self.keys.reset_composition();
                (self.declined, self.for_host) = (false, false);
                return self.take_pointer();
            }
            Action::Keys => {
                let other = self.keys.switch_mode(self.grab.is_active());
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

    /// Grabs or releases the pointer as the host's application requests, while the user plays in this window. If the
    /// user has released the pointer manually since the request, it stays released.
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
            // This is the window's own grab: while the window holds the keyboard, no other client can grab the
            // keyboard.
            xproto::NotifyMode::GRAB if self.grab.holds_keyboard() => Ok(()),
            // The focus must be queried, because key releases are not received while the focus is elsewhere.
            xproto::NotifyMode::UNGRAB if self.keys.is_idle() || self.has_focus()? => Ok(()),
            _ => self.focus_lost(),
        }
    }

    fn has_focus(&self) -> Result<bool, SourceError> {
        let focus = xproto::get_input_focus(&self.conn).map_err(|cause| self.gone(&cause))?;
        let focus = focus.reply().map_err(|cause| self.gone(&cause))?.focus;
        Ok(focus == self.window.id || focus == u32::from(xproto::InputFocus::POINTER_ROOT))
    }

    fn focus_lost(&mut self) -> Result<(), SourceError> {
        self.keys.clear();
        self.send(InputEvent::ReleaseAll);
        self.away = true;
        self.ready.push_back(SourceEvent::Focused(false));
        match self.grab.is_active() {
            true => self.release(),
            false => Ok(()),
        }
    }

    /// Sends the newest of the motion events that have arrived, because older positions are outdated.
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
            self.keys.press_already_held(
                &self.keyboard,
                state,
                self.grab.is_active(),
                &mut self.ready,
            );
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

    /// Repaints the scene. The presenter has its own connection, so the server may execute this repaint of an older
    /// picture after the presenter's newer picture. Therefore, the repaint is repeated if a picture was shown in
    /// between. The number of repeats is limited, because a steady stream of pictures also repaints the window.
    pub(crate) fn repaint(&mut self) -> Result<(), WindowError> {
        for _ in 0..REPAIRS {
            let drawn = {
                let scene = self.stage.scene();
                self.painter.bars(&self.conn, &scene)?;
                self.painter.everything(&self.conn, &scene, false)?;
                self.conn.flush().map_err(|cause| self.stage.gone(&cause))?;
                (scene.shown, scene.next)
            };
            x11rb::wrapper::ConnectionExt::sync(&self.conn)
                .map_err(|cause| self.stage.gone(&cause))?;
            let scene = self.stage.scene();
            if (scene.shown, scene.next) == drawn {
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
        self.keys.follow(keys);
    }
}

/// Maximum number of repeated repaints. A picture that is displayed slice by slice changes the scene with each slice;
/// usually, it has eight slices.
const REPAIRS: usize = 12;

/// One notch of the wheel in units of `REL_WHEEL_HI_RES`.
const NOTCH: i16 = 120;

/// The X key codes in the bits of a `KeymapNotify`. The event lacks the first eight key codes.
fn keys_down(bits: &[u8; 31]) -> impl Iterator<Item = u8> {
    (8..=u8::MAX).filter(|keycode| {
        let byte = usize::from(keycode / 8) - 1;
        bits[byte] & (1 << (keycode % 8)) != 0
    })
}

/// Whether a `FocusOut` removes the keyboard focus. The window keeps the keyboard if the focus moves to a child window
/// or only follows the pointer.
fn loses_keys(detail: xproto::NotifyDetail) -> bool {
    detail != xproto::NotifyDetail::INFERIOR && detail != xproto::NotifyDetail::POINTER
}
