//! The windows of a display: their list, positions and keyboard focus.

use std::io;
use std::os::fd::AsFd as _;

use anyhow::Result;
use openuvr_media::waker::Waker;
use openuvr_proto::units::Size;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use x11rb::connection::Connection as _;
use x11rb::errors::{ConnectionError, ReplyError};
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{
    Allow, Atom, AtomEnum, ButtonIndex, ButtonPressEvent, CONFIGURE_NOTIFY_EVENT,
    ChangeWindowAttributesAux, ClientMessageEvent, ConfigWindow, ConfigureNotifyEvent,
    ConfigureRequestEvent, ConfigureWindowAux, ConnectionExt as _, EventMask, GrabMode, InputFocus,
    KeyButMask, ModMask, PropMode, PropertyNotifyEvent, StackMode, Timestamp, UnmapNotifyEvent,
    Window,
};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;

use super::Atoms;
use super::claim::Claim;
use super::hints::{Kind, WindowHints};
use super::rectangle::{Rectangle, within};

/// The maximum number of placed windows (guess: far more than any user needs). Additional windows stay where their
/// applications have put them.
const MAX_WINDOWS: usize = 256;

/// WM_STATE of a mapped and of an unmapped window (ICCCM 2.0, section 4.1.3.1).
const NORMAL: u32 = 1;
const WITHDRAWN: u32 = 0;

/// The bit in the type of an event that a client has sent (X protocol, section 1).
const SENT: u8 = 0x80;

/// Actions on a state: _NET_WM_STATE_REMOVE and _NET_WM_STATE_ADD. Any other value toggles the state.
const REMOVE: u32 = 0;
const ADD: u32 = 1;

/// A mapped window that the placement positions.
struct PlacedWindow {
    window: Window,
    hints: WindowHints,
    /// The position to which the user has dragged the window.
    dragged: Option<(i32, i32)>,
    /// The last position and size of the window.
    geometry: Option<Rectangle>,
    /// The order of activation. The window with the highest value was activated last.
    activation: u64,
    intercepts_clicks: bool,
}

/// The windows of a display; owned by one thread.
pub(super) struct WindowPlacer {
    conn: RustConnection,
    atoms: Atoms,
    claim: Claim,
    /// The display's size.
    all: Size,
    /// The windows in the order in which they were mapped.
    placed: Vec<PlacedWindow>,
    /// The main window that fills the display, below the others: the main window that was mapped first.
    filler: Option<Window>,
    activations: u64,
    /// The window to which the placement last assigned the keyboard focus.
    active: Option<Window>,
    /// The window that receives the focus as soon as the server's time is known.
    focus_pending: Option<Window>,
}

impl WindowPlacer {
    /// Takes over the display of this connection and screen.
    ///
    /// # Errors
    /// Returns an error if the display already has a window manager, or if the server does not answer.
    pub(super) fn open(conn: RustConnection, screen: usize) -> Result<WindowPlacer> {
        let atoms = Atoms::new(&conn)?.reply()?;
        let claim = Claim::take(&conn, screen, &atoms)?;
        let all = conn.get_geometry(claim.root)?.reply()?;
        Ok(WindowPlacer {
            conn,
            atoms,
            claim,
            all: Size::new(all.width.into(), all.height.into()),
            placed: Vec::new(),
            filler: None,
            activations: 0,
            active: None,
            focus_pending: None,
        })
    }

    /// Places windows until `stop` is woken, or until a window manager takes over.
    ///
    /// # Errors
    /// Returns an error if the connection has failed.
    pub(super) fn serve(&mut self, stop: &Waker) -> Result<(), ReplyError> {
        loop {
            self.conn.flush()?;
            match self.conn.poll_for_event()? {
                Some(Event::SelectionClear(e)) if e.selection == self.claim.selection => {
                    return self.release_windows();
                }
                Some(event) => match self.handle(&event) {
                    // The window has been destroyed in the meantime.
                    Err(ReplyError::X11Error(_)) => {}
                    handled => handled?,
                },
                None => {
                    if self.wait_or_stop(stop)? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Waits for events of the server or for `stop`. Returns whether `stop` was woken.
    fn wait_or_stop(&self, stop: &Waker) -> Result<bool, ReplyError> {
        let mut fds = [
            PollFd::from_borrowed_fd(self.conn.stream().as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(stop.0.as_fd(), PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Ok(_) => Ok(!fds[1].revents().is_empty()),
            Err(Errno::INTR) => Ok(false),
            Err(why) => Err(io::Error::from(why).into()),
        }
    }

    /// Leaves the windows in place for the window manager that takes over.
    fn release_windows(&self) -> Result<(), ReplyError> {
        for placed in &self.placed {
            if placed.intercepts_clicks {
                let (button, modifiers) = (ButtonIndex::ANY, ModMask::ANY);
                self.conn.ungrab_button(button, placed.window, modifiers)?;
            }
        }
        self.claim.release(&self.conn, &self.atoms)
    }

    fn handle(&mut self, event: &Event) -> Result<(), ReplyError> {
        match event {
            Event::MapRequest(e) => self.show(e.window)?,
            Event::ConfigureRequest(e) => self.on_configure_request(e)?,
            Event::UnmapNotify(e) => self.unmapped(e)?,
            Event::DestroyNotify(e) => self.forget(e.window)?,
            // The window was moved into another window.
            Event::ReparentNotify(e) if e.parent != self.claim.root => self.forget(e.window)?,
            Event::ConfigureNotify(e) if e.window == self.claim.root => {
                self.all = Size::new(e.width.into(), e.height.into());
                self.arrange()?;
            }
            Event::PropertyNotify(e) if e.window == self.claim.window => {
                self.on_server_time(e.time)?
            }
            Event::PropertyNotify(e) => self.on_hints_changed(e)?,
            Event::ClientMessage(e) if e.format == 32 => {
                let data = e.data.as_data32();
                if e.type_ == self.atoms._NET_WM_STATE {
                    self.on_state_request(e.window, data)?;
                } else if e.type_ == self.atoms._NET_ACTIVE_WINDOW && self.find(e.window).is_some()
                {
                    self.raise(e.window)?;
                    self.activate(e.window)?;
                }
            }
            Event::ButtonPress(e) => self.on_click(e)?,
            // Other events are ignored, and X errors, too, because they concern windows that no longer exist.
            _ => {}
        }
        Ok(())
    }

    fn find(&self, window: Window) -> Option<usize> {
        self.placed
            .iter()
            .position(|placed| placed.window == window)
    }

    /// Handles an application that maps a window.
    fn show(&mut self, window: Window) -> Result<(), ReplyError> {
        // The window is watched before its hints are queried, so that no later change is missed.
        let watched = ChangeWindowAttributesAux::new().event_mask(EventMask::PROPERTY_CHANGE);
        self.conn.change_window_attributes(window, &watched)?;
        let hints = WindowHints::query(&self.conn, &self.atoms, self.claim.root, window)?;
        let is_placed = hints.kind != Kind::Unmanaged && self.placed.len() < MAX_WINDOWS;
        if is_placed && self.find(window).is_none() {
            let (mode, state) = (PropMode::REPLACE, self.atoms.WM_STATE);
            let normal = [NORMAL, x11rb::NONE];
            self.conn
                .change_property32(mode, window, state, state, &normal)?;
            let frame = self.atoms._NET_FRAME_EXTENTS;
            self.conn
                .change_property32(mode, window, frame, AtomEnum::CARDINAL, &[0; 4])?;
            self.placed.push(PlacedWindow {
                window,
                hints,
                dragged: None,
                geometry: None,
                activation: 0,
                intercepts_clicks: false,
            });
            self.arrange()?;
            if self.filler != Some(window) {
                self.raise(window)?;
            }
        }
        self.conn.map_window(window)?;
        self.activate(window)?;
        Ok(())
    }

    /// Handles an application that unmaps a window.
    fn unmapped(&mut self, e: &UnmapNotifyEvent) -> Result<(), ReplyError> {
        let window = e.window;
        if self.find(window).is_none() {
            return Ok(());
        }
        if e.response_type & SENT != 0 {
            // If the application unmapped the window before the placement mapped it, the window is still mapped (ICCCM
            // 2.0, section 4.1.4).
            self.conn.unmap_window(window)?;
        }
        let (mode, state) = (PropMode::REPLACE, self.atoms.WM_STATE);
        let unmapped = [WITHDRAWN, x11rb::NONE];
        self.conn
            .change_property32(mode, window, state, state, &unmapped)?;
        self.conn
            .delete_property(window, self.atoms._NET_WM_STATE)?;
        let (button, modifiers) = (ButtonIndex::ANY, ModMask::ANY);
        self.conn.ungrab_button(button, window, modifiers)?;
        self.forget(window)?;
        Ok(())
    }

    /// Stops placing a window that was destroyed, unmapped or moved into another window. If it was active, the
    /// previously active window becomes active again.
    fn forget(&mut self, window: Window) -> Result<(), ConnectionError> {
        let Some(at) = self.find(window) else {
            return Ok(());
        };
        self.placed.remove(at);
        self.arrange()?;
        if self.active == Some(window) {
            self.assign_focus()?;
        }
        Ok(())
    }

    /// Handles an application's request for another position or size.
    fn on_configure_request(&mut self, e: &ConfigureRequestEvent) -> Result<(), ReplyError> {
        let Some(at) = self.find(e.window) else {
            // The window is not mapped yet, or is not one of the placed windows, so its request is granted.
            let granted = ConfigureWindowAux::from_configure_request(e);
            self.conn.configure_window(e.window, &granted)?;
            return Ok(());
        };
        let asks = |field: ConfigWindow| e.value_mask.intersects(field);
        let is_dragged = asks(ConfigWindow::X | ConfigWindow::Y) && self.is_dragging()?;
        let placed = &mut self.placed[at];
        if asks(ConfigWindow::WIDTH) {
            placed.hints.size.width = e.width.into();
        }
        if asks(ConfigWindow::HEIGHT) {
            placed.hints.size.height = e.height.into();
        }
        if is_dragged {
            placed.dragged = Some((e.x.into(), e.y.into()));
        }
        let before = placed.geometry;
        self.arrange()?;
        if asks(ConfigWindow::STACK_MODE) && e.stack_mode == StackMode::ABOVE {
            self.raise(e.window)?;
        }
        // If the geometry has changed, the server has already notified the window.
        if let Some(geometry) = self.placed[at]
            .geometry
            .filter(|geometry| Some(*geometry) == before)
        {
            self.notify_position(e.window, geometry)?;
        }
        Ok(())
    }

    /// Whether the left mouse button is pressed. A toolkit with client-side frames moves a window only while the button
    /// is pressed. A request without a pressed button is for a position that the application chooses itself.
    fn is_dragging(&self) -> Result<bool, ReplyError> {
        let pointer = self.conn.query_pointer(self.claim.root)?.reply()?;
        Ok(pointer.mask.intersects(KeyButMask::BUTTON1))
    }

    /// Notifies a window of its position after a request without effect (ICCCM 2.0, section 4.1.5).
    fn notify_position(&self, window: Window, geometry: Rectangle) -> Result<(), ConnectionError> {
        let place = |pixels: i32| i16::try_from(pixels).unwrap_or(0);
        let side = |pixels: u32| u16::try_from(pixels).unwrap_or(u16::MAX);
        let notify = ConfigureNotifyEvent {
            response_type: CONFIGURE_NOTIFY_EVENT,
            sequence: 0,
            event: window,
            window,
            above_sibling: x11rb::NONE,
            x: place(geometry.at.0),
            y: place(geometry.at.1),
            width: side(geometry.size.width),
            height: side(geometry.size.height),
            border_width: 0,
            override_redirect: false,
        };
        let to = EventMask::STRUCTURE_NOTIFY;
        self.conn.send_event(false, window, to, notify)?;
        Ok(())
    }

    /// Handles a window that changes its hints after it has been mapped.
    fn on_hints_changed(&mut self, e: &PropertyNotifyEvent) -> Result<(), ReplyError> {
        let hint_atoms: [Atom; 5] = [
            AtomEnum::WM_NORMAL_HINTS.into(),
            AtomEnum::WM_HINTS.into(),
            AtomEnum::WM_TRANSIENT_FOR.into(),
            self.atoms.WM_PROTOCOLS,
            self.atoms._NET_WM_WINDOW_TYPE,
        ];
        let Some(at) = self.find(e.window).filter(|_| hint_atoms.contains(&e.atom)) else {
            return Ok(());
        };
        let hints = WindowHints::query(&self.conn, &self.atoms, self.claim.root, e.window)?;
        let placed = &mut self.placed[at];
        placed.hints = WindowHints {
            // A placed window stays placed while it is mapped.
            kind: match hints.kind {
                Kind::Unmanaged => placed.hints.kind,
                kind => kind,
            },
            // The requested size is kept, because the placement assigned the current size.
            size: placed.hints.size,
            full_screen: placed.hints.full_screen,
            ..hints
        };
        self.arrange()?;
        Ok(())
    }

    /// Handles an application's request to enter or leave the full-screen state.
    fn on_state_request(&mut self, window: Window, data: [u32; 5]) -> Result<(), ReplyError> {
        let [action, first, second, ..] = data;
        let full_screen = self.atoms._NET_WM_STATE_FULLSCREEN;
        let Some(at) = self.find(window) else {
            return Ok(());
        };
        if ![first, second].contains(&full_screen) {
            return Ok(());
        }
        let placed = &mut self.placed[at];
        placed.hints.full_screen = match action {
            REMOVE => false,
            ADD => true,
            _ => !placed.hints.full_screen,
        };
        let is_full_screen = placed.hints.full_screen;
        // The other states belong to the application, and are kept.
        let (mode, states) = (PropMode::REPLACE, self.atoms._NET_WM_STATE);
        let states_now = self
            .conn
            .get_property(false, window, states, AtomEnum::ATOM, 0, 32)?
            .reply()?;
        let mut states_now: Vec<u32> = states_now.value32().into_iter().flatten().collect();
        states_now.retain(|state| *state != full_screen);
        states_now.extend(is_full_screen.then_some(full_screen));
        self.conn
            .change_property32(mode, window, states, AtomEnum::ATOM, &states_now)?;
        self.arrange()?;
        if is_full_screen {
            self.raise(window)?;
        }
        Ok(())
    }

    /// Handles the user's click into a window without the focus: the window receives the focus, and then the click. A
    /// click does not raise the window that fills the display, because that window would hide the others.
    fn on_click(&mut self, e: &ButtonPressEvent) -> Result<(), ConnectionError> {
        if self.filler != Some(e.event) {
            self.raise(e.event)?;
        }
        self.activate(e.event)?;
        self.conn.allow_events(Allow::REPLAY_POINTER, e.time)?;
        Ok(())
    }

    /// Computes the position of each window, and sends the changes to the server.
    fn arrange(&mut self) -> Result<(), ConnectionError> {
        let mut mains = (self.placed.iter()).filter(|placed| placed.hints.kind == Kind::Main);
        let filler = mains.next().map(|placed| placed.window);
        for at in 0..self.placed.len() {
            let placed = &self.placed[at];
            let geometry = self.place_of(placed, filler == Some(placed.window));
            if placed.geometry == Some(geometry) {
                continue;
            }
            let to = ConfigureWindowAux::new()
                .x(geometry.at.0)
                .y(geometry.at.1)
                .width(geometry.size.width)
                .height(geometry.size.height)
                .border_width(0);
            self.conn.configure_window(placed.window, &to)?;
            self.placed[at].geometry = Some(geometry);
        }
        if filler != self.filler {
            self.filler = filler;
            let above = ConfigureWindowAux::new().stack_mode(StackMode::ABOVE);
            let others = (self.placed.iter()).filter(|placed| filler != Some(placed.window));
            for placed in others {
                self.conn.configure_window(placed.window, &above)?;
            }
        }
        Ok(())
    }

    fn place_of(&self, placed: &PlacedWindow, fills: bool) -> Rectangle {
        let whole = Rectangle::whole(self.all);
        let hints = &placed.hints;
        if hints.full_screen {
            return whole;
        }
        if fills {
            return whole.centred(hints.limits.nearest(self.all), self.all);
        }
        let size = hints.limits.nearest(within(hints.size, self.all));
        let over = match placed.dragged {
            Some(at) => Some(Rectangle { at, size }),
            None => self.parent_of(placed).and_then(|parent| parent.geometry),
        };
        over.unwrap_or(whole).centred(size, self.all)
    }

    /// The window to which a dialog belongs, if that window is mapped.
    fn parent_of(&self, placed: &PlacedWindow) -> Option<&PlacedWindow> {
        let Kind::Dialog { of: Some(of) } = placed.hints.kind else {
            return None;
        };
        self.placed.iter().find(|parent| parent.window == of)
    }

    /// Raises a window, and above it the windows that belong to it. With a main window, also raises dialogs without a
    /// parent window.
    fn raise(&self, window: Window) -> Result<(), ConnectionError> {
        let above = ConfigureWindowAux::new().stack_mode(StackMode::ABOVE);
        self.conn.configure_window(window, &above)?;
        let kind_of = |window| self.find(window).map(|at| self.placed[at].hints.kind);
        let is_main = kind_of(window) == Some(Kind::Main);
        let mut raised = vec![window];
        for placed in &self.placed {
            let accompanies = match (placed.hints.kind, self.parent_of(placed)) {
                (Kind::Dialog { .. }, Some(parent)) => raised.contains(&parent.window),
                (Kind::Dialog { .. }, None) => is_main,
                _ => false,
            };
            if accompanies && placed.window != window {
                self.conn.configure_window(placed.window, &above)?;
                raised.push(placed.window);
            }
        }
        Ok(())
    }

    /// Makes this window the newest one. It gets the focus, if it accepts keyboard input.
    fn activate(&mut self, window: Window) -> Result<(), ConnectionError> {
        let Some(at) = self.find(window) else {
            return Ok(());
        };
        self.activations += 1;
        self.placed[at].activation = self.activations;
        self.assign_focus()
    }

    /// Assigns the focus to the newest window that accepts keyboard input. Clicks into the other windows that accept it
    /// are intercepted, so that a click can give them the focus.
    fn assign_focus(&mut self) -> Result<(), ConnectionError> {
        let focusable = (self.placed.iter()).filter(|placed| placed.hints.focus.accepts_focus());
        let newest = focusable.max_by_key(|placed| placed.activation);
        let newest = newest.map(|placed| placed.window);
        let (button, modifiers) = (ButtonIndex::ANY, ModMask::ANY);
        for placed in &mut self.placed {
            let intercepts = placed.hints.focus.accepts_focus() && newest != Some(placed.window);
            if intercepts && !placed.intercepts_clicks {
                // The server freezes the pointer until `on_click` replays the click.
                self.conn.grab_button(
                    false,
                    placed.window,
                    EventMask::BUTTON_PRESS,
                    GrabMode::SYNC,
                    GrabMode::ASYNC,
                    x11rb::NONE,
                    x11rb::NONE,
                    button,
                    modifiers,
                )?;
            } else if !intercepts && placed.intercepts_clicks {
                self.conn.ungrab_button(button, placed.window, modifiers)?;
            }
            placed.intercepts_clicks = intercepts;
        }
        (self.active, self.focus_pending) = (newest, newest);
        let (mode, named) = (PropMode::REPLACE, self.atoms._NET_ACTIVE_WINDOW);
        let is = newest.unwrap_or(x11rb::NONE);
        self.conn
            .change_property32(mode, self.claim.root, named, AtomEnum::WINDOW, &[is])?;
        // The focus must be set with the server's time (ICCCM 2.0, section 4.1.7). The notification of the following
        // property change contains the server's time (section 2.1).
        let (name, kind) = (AtomEnum::WM_NAME, AtomEnum::STRING);
        self.conn
            .change_property8(PropMode::APPEND, self.claim.window, name, kind, b"")?;
        Ok(())
    }

    fn on_server_time(&mut self, time: Timestamp) -> Result<(), ConnectionError> {
        let Some(at) = self
            .focus_pending
            .take()
            .and_then(|window| self.find(window))
        else {
            return Ok(());
        };
        let PlacedWindow { window, hints, .. } = &self.placed[at];
        if hints.focus.is_set {
            // If the window is destroyed, keys go to the window under the pointer until another window has the focus.
            self.conn
                .set_input_focus(InputFocus::POINTER_ROOT, *window, time)?;
        }
        if hints.focus.is_notified {
            let data = [self.atoms.WM_TAKE_FOCUS, time, 0, 0, 0];
            let message = ClientMessageEvent::new(32, *window, self.atoms.WM_PROTOCOLS, data);
            self.conn
                .send_event(false, *window, EventMask::NO_EVENT, message)?;
        }
        Ok(())
    }
}
