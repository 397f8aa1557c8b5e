//! Converts the requests of windows to reports for the compositor, and the compositor's requests to X11 requests.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;

use openuvr_clock as clock;
use openuvr_xserver::Authority;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use smithay::utils::{Logical, Rectangle, Size};
use x11rb::connection::Connection as _;
use x11rb::errors::ReplyError;
use x11rb::protocol::Event;
use x11rb::protocol::composite::{ConnectionExt as _, Redirect};
use x11rb::protocol::xproto::{
    Atom, AtomEnum, CONFIGURE_NOTIFY_EVENT, ChangeWindowAttributesAux, ClientMessageEvent,
    ConfigWindow, ConfigureNotifyEvent, ConfigureRequestEvent, ConfigureWindowAux,
    ConnectionExt as _, EventMask, InputFocus, KeyButMask, PropMode, StackMode, UnmapNotifyEvent,
};
use x11rb::rust_connection::{DefaultStream, RustConnection};
use x11rb::wrapper::ConnectionExt as _;

use super::selection::Selection;
use super::{Atoms, Outbox, XwmError, hints};
use crate::xwayland::wire::{About, Board, Placement, Report, SurfaceName, WindowId};

/// The maximum number of known windows. Additional windows stay invisible (guess: far more than applications have).
const MAX_WINDOWS: usize = 1024;

/// Values of `WM_STATE`.
const WITHDRAWN: u32 = 0;
const NORMAL: u32 = 1;

/// The bit that is set in an event's type if a client has sent the event (`SendEvent`; X protocol, section 1).
const SENT: u8 = 0x80;

/// `_NET_WM_MOVERESIZE_MOVE`.
const MOVE: u32 = 8;

/// The window manager's name in `_NET_WM_NAME`.
const NAME: &[u8] = b"OpenUVR";

/// A top-level window of an application.
#[derive(Default)]
struct KnownWindow {
    overrides: bool,
    /// Whether the window has been mapped, or should be.
    shown: bool,
    /// Whether the compositor has been informed of a surface of the window.
    has_surface: bool,
    about: Option<About>,
    place: Option<Placement>,
    /// Whether the window has been mapped.
    mapped: bool,
}

/// The window manager.
pub(super) struct Windows {
    conn: RustConnection,
    atoms: Atoms,
    root: WindowId,
    outbox: Outbox,
    known: BTreeMap<WindowId, KnownWindow>,
    selection: Selection,
}

impl Windows {
    /// Connects, and becomes the window manager.
    pub(super) fn open(
        stream: UnixStream,
        cookie: Vec<u8>,
        outbox: Outbox,
    ) -> Result<Windows, XwmError> {
        let (stream, _) = DefaultStream::from_unix_stream(stream)?;
        let name = Authority::PROTOCOL.to_vec();
        let conn = RustConnection::connect_to_stream_with_auth_info(stream, 0, name, cookie)?;
        let atoms = Atoms::new(&conn)?.reply()?;
        let screen = conn.setup().roots.first();
        let root = screen.map_or(x11rb::NONE, |screen| screen.root);
        let aux = ChangeWindowAttributesAux::new().event_mask(
            EventMask::SUBSTRUCTURE_REDIRECT
                | EventMask::SUBSTRUCTURE_NOTIFY
                | EventMask::PROPERTY_CHANGE,
        );
        conn.change_window_attributes(root, &aux)?.check()?;
        conn.composite_redirect_subwindows(root, Redirect::MANUAL)?;
        let selection = Selection::open(&conn, &atoms, root)?;
        announce(&conn, &atoms, root, selection.window())?;
        // From here on the server accepts applications.
        for name in [atoms.WM_S0, atoms._NET_WM_CM_S0] {
            conn.set_selection_owner(selection.window(), name, x11rb::CURRENT_TIME)?;
        }
        conn.flush()?;
        Ok(Windows {
            conn,
            atoms,
            root,
            outbox,
            known: BTreeMap::new(),
            selection,
        })
    }

    /// Serves the applications until the compositor requests the end.
    pub(super) fn serve(&mut self, board: &Board) -> Result<(), XwmError> {
        loop {
            let requests = board.take();
            if requests.stop {
                return Ok(());
            }
            tolerated(self.place(requests.places))?;
            if let Some(focus) = requests.focus {
                tolerated(self.focus(focus))?;
            }
            if let Some(types) = requests.copied {
                tolerated(self.selection.offer(&self.conn, &self.atoms, types))?;
            }
            for (kind, target) in requests.fetches {
                let fetched = self.selection.fetch(&self.conn, &self.atoms, &kind, target);
                tolerated(fetched)?;
            }
            while let Some(event) = self.conn.poll_for_event()? {
                tolerated(self.handle(&event))?;
                if board.stops() {
                    return Ok(());
                }
            }
            let transferred = self.selection.transfer(&self.conn, &self.atoms);
            tolerated(transferred)?;
            self.conn.flush()?;
            self.wait(board)?;
        }
    }

    /// Waits for events, requests, or progress of transfers.
    fn wait(&self, board: &Board) -> Result<(), XwmError> {
        let mut fds = vec![
            PollFd::from_borrowed_fd(self.conn.stream().as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(board.changed.fd(), PollFlags::IN),
        ];
        let due = self.selection.waits(&mut fds);
        let left = due.map(|due| due.since(clock::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut fds, left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(why) => return Err(io::Error::from(why).into()),
        }
        board.changed.lower();
        Ok(())
    }

    fn handle(&mut self, event: &Event) -> Result<(), XwmError> {
        match event {
            Event::CreateNotify(e) if e.parent == self.root => {
                self.appeared(e.window, e.override_redirect)?;
            }
            Event::MapRequest(e) => self.requested(e.window)?,
            Event::MapNotify(e) => {
                if let Some(known) = self.known.get_mut(&e.window) {
                    known.overrides = e.override_redirect;
                    known.shown = true;
                    if e.override_redirect {
                        let at = self.conn.get_geometry(e.window)?.reply()?;
                        let place = rectangle(at.x, at.y, at.width, at.height);
                        self.outbox.send(Report::Override(e.window, place))?;
                    }
                }
            }
            Event::ConfigureNotify(e) => {
                let shown = self.known.get(&e.window);
                if shown.is_some_and(|known| known.overrides && known.shown) {
                    let place = rectangle(e.x, e.y, e.width, e.height);
                    self.outbox.send(Report::Override(e.window, place))?;
                }
            }
            Event::ConfigureRequest(e) => self.wants_configuration(e)?,
            Event::UnmapNotify(e) => self.hidden(e)?,
            Event::DestroyNotify(e) => {
                self.hide(e.window)?;
                self.known.remove(&e.window);
            }
            Event::ReparentNotify(e) if e.parent != self.root => {
                self.hide(e.window)?;
                self.known.remove(&e.window);
            }
            // Toolkits move a detached panel out of its former parent in this way.
            Event::ReparentNotify(e) => self.appeared(e.window, e.override_redirect)?,
            Event::ClientMessage(e) => self.message(e)?,
            Event::PropertyNotify(e) if self.known.contains_key(&e.window) => {
                self.property_changed(e.window, e.atom)?;
                self.selection.property(&self.conn, &self.atoms, e)?;
            }
            other => {
                let outbox = &self.outbox;
                self.selection
                    .handle(&self.conn, &self.atoms, other, &|report| {
                        outbox.send(report)
                    })?;
            }
        }
        Ok(())
    }

    /// Handles a new top-level window.
    fn appeared(&mut self, window: WindowId, overrides: bool) -> Result<(), XwmError> {
        let is_new = !self.known.contains_key(&window) && window != self.selection.window();
        if is_new && self.known.len() < MAX_WINDOWS {
            let known = KnownWindow {
                overrides,
                ..KnownWindow::default()
            };
            self.known.insert(window, known);
            let aux = ChangeWindowAttributesAux::new().event_mask(EventMask::PROPERTY_CHANGE);
            self.conn.change_window_attributes(window, &aux)?;
        }
        Ok(())
    }

    /// Handles a window that should be shown.
    fn requested(&mut self, window: WindowId) -> Result<(), XwmError> {
        let Some(known) = self.known.get_mut(&window) else {
            return Ok(());
        };
        let about = hints::query(&self.conn, &self.atoms, window)?;
        (known.shown, known.about) = (true, Some(about));
        let (mode, state) = (PropMode::REPLACE, self.atoms.WM_STATE);
        let normal = [NORMAL, x11rb::NONE];
        self.conn
            .change_property32(mode, window, state, state, &normal)?;
        self.set_extents(window)?;
        self.outbox.send(Report::Requested(window, about))
    }

    /// Sets the frame extents to zero, because there are no frames.
    fn set_extents(&self, window: WindowId) -> Result<(), XwmError> {
        let name = self.atoms._NET_FRAME_EXTENTS;
        self.conn.change_property32(
            PropMode::REPLACE,
            window,
            name,
            AtomEnum::CARDINAL,
            &[0; 4],
        )?;
        Ok(())
    }

    fn hidden(&mut self, e: &UnmapNotifyEvent) -> Result<(), XwmError> {
        let window = e.window;
        let managed = self.known.get(&window);
        if managed.is_some_and(|known| known.shown && !known.overrides) {
            if e.response_type & SENT != 0 {
                // If the application unmapped the window before this window manager mapped it, the window is still
                // mapped (ICCCM 2.0, section 4.1.4), and a later request to map it would have no effect.
                self.conn.unmap_window(window)?;
            }
            let (mode, state) = (PropMode::REPLACE, self.atoms.WM_STATE);
            let withdrawn = [WITHDRAWN, x11rb::NONE];
            self.conn
                .change_property32(mode, window, state, state, &withdrawn)?;
            self.conn
                .delete_property(window, self.atoms._NET_WM_STATE)?;
        }
        self.hide(window)
    }

    fn hide(&mut self, window: WindowId) -> Result<(), XwmError> {
        let Some(known) = self.known.get_mut(&window) else {
            return Ok(());
        };
        let shown = std::mem::take(&mut known.shown);
        // An application may name a surface for a window that it never shows. The compositor must forget this window,
        // too.
        let has_surface = std::mem::take(&mut known.has_surface);
        (known.mapped, known.place, known.about) = (false, None, None);
        match shown || has_surface {
            true => self.outbox.send(Report::Hidden(window)),
            false => Ok(()),
        }
    }

    /// Handles a window's request for another position, size or stacking.
    fn wants_configuration(&mut self, e: &ConfigureRequestEvent) -> Result<(), XwmError> {
        let managed = self.known.get_mut(&e.window).filter(|known| known.shown);
        let Some(about) = managed.and_then(|known| known.about.as_mut()) else {
            // A window that is not shown yet may configure itself.
            let granted = ConfigureWindowAux::from_configure_request(e);
            self.conn.configure_window(e.window, &granted)?;
            return Ok(());
        };
        let asks = |field: ConfigWindow| e.value_mask.intersects(field);
        if asks(ConfigWindow::WIDTH) {
            about.size.w = e.width.into();
        }
        if asks(ConfigWindow::HEIGHT) {
            about.size.h = e.height.into();
        }
        let size = about.size;
        // Toolkits that draw their own frames request a new position while a button is pressed. If no button is
        // pressed, the application is choosing the position itself, which is not granted.
        let dragged = asks(ConfigWindow::X | ConfigWindow::Y)
            && self
                .conn
                .query_pointer(self.root)?
                .reply()?
                .mask
                .intersects(KeyButMask::BUTTON1);
        let at = dragged.then(|| (e.x.into(), e.y.into()));
        self.outbox.send(Report::Resize(e.window, size, at))
    }

    fn property_changed(&mut self, window: WindowId, name: Atom) -> Result<(), XwmError> {
        let relevant = [
            AtomEnum::WM_NORMAL_HINTS.into(),
            AtomEnum::WM_HINTS.into(),
            AtomEnum::WM_TRANSIENT_FOR.into(),
            self.atoms.WM_PROTOCOLS,
            self.atoms._NET_WM_WINDOW_TYPE,
        ];
        let managed = self.known.get(&window).and_then(|known| known.about);
        let Some(before) = managed.filter(|_| relevant.contains(&name)) else {
            return Ok(());
        };
        let about = About {
            // These values are kept, because only the window's own requests change them.
            size: before.size,
            full_screen: before.full_screen,
            maximized: before.maximized,
            ..hints::query(&self.conn, &self.atoms, window)?
        };
        self.changed(window, about)
    }

    fn changed(&mut self, window: WindowId, about: About) -> Result<(), XwmError> {
        if let Some(known) = self.known.get_mut(&window) {
            known.about = Some(about);
        }
        self.outbox.send(Report::Changed(window, about))
    }

    fn message(&mut self, e: &ClientMessageEvent) -> Result<(), XwmError> {
        // An application may send any message about any window.
        if e.format != 32 || !self.known.contains_key(&e.window) {
            return Ok(());
        }
        let data = e.data.as_data32();
        let atoms = &self.atoms;
        match e.type_ {
            kind if kind == atoms.WL_SURFACE_ID => {
                self.surface_named(e.window, SurfaceName::Object(data[0]))?;
            }
            kind if kind == atoms.WL_SURFACE_SERIAL => {
                let serial = u64::from(data[0]) | u64::from(data[1]) << 32;
                self.surface_named(e.window, SurfaceName::Serial(serial))?;
            }
            kind if kind == atoms._NET_WM_STATE => self.state_requested(e.window, data)?,
            kind if kind == atoms._NET_ACTIVE_WINDOW => {
                self.outbox.send(Report::Activate(e.window))?;
            }
            kind if kind == atoms._NET_WM_MOVERESIZE && data[2] == MOVE => {
                self.outbox.send(Report::Move(e.window))?;
            }
            kind if kind == atoms._NET_REQUEST_FRAME_EXTENTS => self.set_extents(e.window)?,
            _ => {}
        }
        Ok(())
    }

    fn surface_named(&mut self, window: WindowId, name: SurfaceName) -> Result<(), XwmError> {
        if let Some(known) = self.known.get_mut(&window) {
            known.has_surface = true;
        }
        self.outbox.send(Report::Surface(window, name))
    }

    /// Handles a window's request to enter or leave the full-screen or the maximized state.
    fn state_requested(&mut self, window: WindowId, data: [u32; 5]) -> Result<(), XwmError> {
        let Some(before) = self.known.get(&window).and_then(|known| known.about) else {
            return Ok(());
        };
        let [action, first, second, ..] = data;
        let named = |atom: Atom| [first, second].contains(&atom);
        let new = |now: bool| match action {
            0 => false,
            1 => true,
            _ => !now,
        };
        let mut about = before;
        if named(self.atoms._NET_WM_STATE_FULLSCREEN) {
            about.full_screen = new(before.full_screen);
        }
        if named(self.atoms._NET_WM_STATE_MAXIMIZED_HORZ)
            && named(self.atoms._NET_WM_STATE_MAXIMIZED_VERT)
        {
            about.maximized = new(before.maximized);
        }
        if about == before {
            return Ok(());
        }
        self.changed(window, about)
    }

    /// Assigns positions to windows, and maps new windows.
    fn place(&mut self, places: BTreeMap<WindowId, Placement>) -> Result<(), XwmError> {
        for (window, place) in places {
            let Some(known) = self.known.get_mut(&window).filter(|known| known.shown) else {
                continue;
            };
            if known.place == Some(place) {
                // A request without effect is answered with the window's current position (ICCCM 2.0, section 4.1.5).
                tolerated(self.notify(window, place.at))?;
                continue;
            }
            known.place = Some(place);
            let mapped = std::mem::replace(&mut known.mapped, true);
            self.set_states(window, place)?;
            let at = place.at;
            let side = |length: i32| u32::try_from(length.clamp(1, hints::MAX_SIDE)).unwrap_or(1);
            let aux = ConfigureWindowAux::new()
                .x(at.loc.x)
                .y(at.loc.y)
                .width(side(at.size.w))
                .height(side(at.size.h))
                .border_width(0);
            self.conn.configure_window(window, &aux)?;
            if !mapped {
                self.conn.map_window(window)?;
            }
            tolerated(self.notify(window, at))?;
        }
        Ok(())
    }

    /// Informs a window about its state.
    fn set_states(&self, window: WindowId, place: Placement) -> Result<(), XwmError> {
        let full = self.atoms._NET_WM_STATE_FULLSCREEN;
        let maximized = [
            self.atoms._NET_WM_STATE_MAXIMIZED_HORZ,
            self.atoms._NET_WM_STATE_MAXIMIZED_VERT,
        ];
        let full = place.full_screen.then_some(full);
        let maximized = maximized.into_iter().filter(|_| place.fills);
        let states: Vec<u32> = full.into_iter().chain(maximized).collect();
        let (mode, name) = (PropMode::REPLACE, self.atoms._NET_WM_STATE);
        self.conn
            .change_property32(mode, window, name, AtomEnum::ATOM, &states)?;
        Ok(())
    }

    fn notify(&self, window: WindowId, place: Rectangle<i32, Logical>) -> Result<(), XwmError> {
        let short = |at: i32| i16::try_from(at).unwrap_or(0);
        let side = |length: i32| u16::try_from(length).unwrap_or(1);
        let event = ConfigureNotifyEvent {
            response_type: CONFIGURE_NOTIFY_EVENT,
            sequence: 0,
            event: window,
            window,
            above_sibling: x11rb::NONE,
            x: short(place.loc.x),
            y: short(place.loc.y),
            width: side(place.size.w),
            height: side(place.size.h),
            border_width: 0,
            override_redirect: false,
        };
        self.conn
            .send_event(false, window, EventMask::STRUCTURE_NOTIFY, event)?;
        Ok(())
    }

    /// Gives a window the keyboard focus, and raises it.
    fn focus(&mut self, window: Option<WindowId>) -> Result<(), XwmError> {
        let (mode, name) = (PropMode::REPLACE, self.atoms._NET_ACTIVE_WINDOW);
        let named = [window.unwrap_or(x11rb::NONE)];
        self.conn
            .change_property32(mode, self.root, name, AtomEnum::WINDOW, &named)?;
        let Some(window) = window else {
            // Windows that position themselves, such as menus and old games, also set the focus themselves. Until then,
            // keys go to the window under the pointer.
            let to = u32::from(InputFocus::POINTER_ROOT);
            self.conn
                .set_input_focus(InputFocus::POINTER_ROOT, to, x11rb::CURRENT_TIME)?;
            return Ok(());
        };
        let aux = ConfigureWindowAux::new().stack_mode(StackMode::ABOVE);
        self.conn.configure_window(window, &aux)?;
        let hints = x11rb::properties::WmHints::get(&self.conn, window)?.reply()?;
        let is_set = hints.and_then(|hints| hints.input).unwrap_or(true);
        let protocols = self
            .conn
            .get_property(
                false,
                window,
                self.atoms.WM_PROTOCOLS,
                AtomEnum::ATOM,
                0,
                32,
            )?
            .reply()?;
        let mut protocols = protocols.value32().into_iter().flatten();
        let is_notified = protocols.any(|name| name == self.atoms.WM_TAKE_FOCUS);
        if is_set {
            self.conn
                .set_input_focus(InputFocus::POINTER_ROOT, window, x11rb::CURRENT_TIME)?;
        }
        if is_notified {
            let data = [self.atoms.WM_TAKE_FOCUS, x11rb::CURRENT_TIME, 0, 0, 0];
            let message = ClientMessageEvent::new(32, window, self.atoms.WM_PROTOCOLS, data);
            self.conn
                .send_event(false, window, EventMask::NO_EVENT, message)?;
        }
        Ok(())
    }
}

/// Announces the window manager and the features that it supports.
fn announce(
    conn: &RustConnection,
    atoms: &Atoms,
    root: WindowId,
    window: WindowId,
) -> Result<(), XwmError> {
    let mode = PropMode::REPLACE;
    let check = atoms._NET_SUPPORTING_WM_CHECK;
    let supported = [
        atoms._NET_ACTIVE_WINDOW,
        atoms._NET_FRAME_EXTENTS,
        atoms._NET_REQUEST_FRAME_EXTENTS,
        atoms._NET_SUPPORTED,
        check,
        atoms._NET_WM_MOVERESIZE,
        atoms._NET_WM_NAME,
        atoms._NET_WM_STATE,
        atoms._NET_WM_STATE_FULLSCREEN,
        atoms._NET_WM_STATE_MAXIMIZED_HORZ,
        atoms._NET_WM_STATE_MAXIMIZED_VERT,
        atoms._NET_WM_WINDOW_TYPE,
        atoms._NET_WM_WINDOW_TYPE_DIALOG,
        atoms._NET_WM_WINDOW_TYPE_NORMAL,
        atoms._NET_WM_WINDOW_TYPE_SPLASH,
        atoms._NET_WM_WINDOW_TYPE_TOOLBAR,
        atoms._NET_WM_WINDOW_TYPE_UTILITY,
    ];
    conn.change_property8(mode, window, atoms._NET_WM_NAME, atoms.UTF8_STRING, NAME)?;
    let list = atoms._NET_SUPPORTED;
    conn.change_property32(mode, root, list, AtomEnum::ATOM, &supported)?;
    for of in [window, root] {
        conn.change_property32(mode, of, check, AtomEnum::WINDOW, &[window])?;
    }
    Ok(())
}

/// Ignores errors of a single request, because they mean that the window no longer exists.
fn tolerated(done: Result<(), XwmError>) -> Result<(), XwmError> {
    match done {
        Err(
            XwmError::Reply(ReplyError::X11Error(_))
            | XwmError::Identifier(x11rb::errors::ReplyOrIdError::X11Error(_)),
        ) => Ok(()),
        done => done,
    }
}

fn rectangle(x: i16, y: i16, width: u16, height: u16) -> Rectangle<i32, Logical> {
    let size: Size<i32, Logical> = Size::from((width.into(), height.into()));
    Rectangle::new((i32::from(x), i32::from(y)).into(), size)
}
