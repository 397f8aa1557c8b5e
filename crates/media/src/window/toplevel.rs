//! The window itself: creation, title and full screen, with or without a window manager.
//!
//! Spec: ICCCM 2.0, section 4; Extended Window Manager Hints 1.5 (`_NET_WM_STATE`).

use openuvr_proto::units::Size;
use x11rb::connection::Connection;
use x11rb::errors::{ReplyError, ReplyOrIdError};
use x11rb::protocol::xproto::{self, AtomEnum, ConnectionExt as _, EventMask, PropMode};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;

use super::WindowConfig;

x11rb::atom_manager! {
    /// The atoms of the window's properties and messages.
    pub(crate) Atoms: AtomsCookie {
        UTF8_STRING,
        WM_DELETE_WINDOW,
        WM_PROTOCOLS,
        _NET_SUPPORTING_WM_CHECK,
        _NET_WM_BYPASS_COMPOSITOR,
        _NET_WM_NAME,
        _NET_WM_STATE,
        _NET_WM_STATE_FULLSCREEN,
        _NET_WORKAREA,
        _OPENUVR_RELATIVE_MOUSE,
    }
}

/// The maximum window size: the screen, minus panels if their size is known.
pub(crate) fn room(conn: &RustConnection, screen: &xproto::Screen) -> Result<Size, ReplyOrIdError> {
    let atoms = Atoms::new(conn)?.reply()?;
    let all = Size::new(
        u32::from(screen.width_in_pixels),
        u32::from(screen.height_in_pixels),
    );
    let property = conn.get_property(
        false,
        screen.root,
        atoms._NET_WORKAREA,
        AtomEnum::CARDINAL,
        0,
        4,
    )?;
    let area: Vec<u32> = property.reply()?.value32().into_iter().flatten().collect();
    Ok(match area[..] {
        [_, _, width, height] if width > 0 && height > 0 => {
            Size::new(width.min(all.width), height.min(all.height))
        }
        _ => all,
    })
}

/// Sets a window's title, for old and new window managers.
pub(crate) fn set_title(
    conn: &RustConnection,
    window: xproto::Window,
    title: &str,
) -> Result<(), ReplyError> {
    let atoms = Atoms::new(conn)?.reply()?;
    for (property, kind) in [
        (u32::from(AtomEnum::WM_NAME), u32::from(AtomEnum::STRING)),
        (atoms._NET_WM_NAME, atoms.UTF8_STRING),
    ] {
        conn.change_property8(PropMode::REPLACE, window, property, kind, title.as_bytes())?;
    }
    Ok(())
}

/// The window. The input source owns it.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) id: xproto::Window,
    pub(crate) root: xproto::Window,
    pub(crate) atoms: Atoms,
    /// Position and size before full screen, if no window manager restores them; otherwise `None`.
    before: Option<(i32, i32, Size)>,
    pub(crate) full_screen: bool,
}

impl Window {
    /// Creates and maps the window.
    pub(crate) fn open(
        conn: &RustConnection,
        screen: &xproto::Screen,
        config: &WindowConfig,
    ) -> Result<Window, ReplyOrIdError> {
        let atoms = Atoms::new(conn)?.reply()?;
        let id = conn.generate_id()?;
        let side = |pixels: u32| u16::try_from(pixels.clamp(1, Size::MAX_SIDE)).unwrap_or(1);
        let attributes = xproto::CreateWindowAux::new()
            .background_pixel(screen.black_pixel)
            .event_mask(events());
        conn.create_window(
            screen.root_depth,
            id,
            screen.root,
            0,
            0,
            side(config.size.width),
            side(config.size.height),
            0,
            xproto::WindowClass::INPUT_OUTPUT,
            screen.root_visual,
            &attributes,
        )?;
        describe(conn, id, &atoms, &config.title)?;
        let mut window = Window {
            id,
            root: screen.root,
            atoms,
            before: None,
            full_screen: false,
        };
        let managed = window.is_managed(conn)?;
        if config.full_screen && managed {
            window.full_screen = true;
            conn.change_property32(
                PropMode::REPLACE,
                id,
                atoms._NET_WM_STATE,
                AtomEnum::ATOM,
                &[atoms._NET_WM_STATE_FULLSCREEN],
            )?;
        }
        conn.map_window(id)?;
        if !managed {
            if config.full_screen {
                window.toggle_full_screen(conn)?;
            }
            // Without a window manager, nothing else sets the focus. If the window is not viewable yet, the error
            // arrives as an event.
            let parent = xproto::InputFocus::PARENT;
            conn.set_input_focus(parent, id, x11rb::CURRENT_TIME)?;
        }
        Ok(window)
    }

    pub(crate) fn toggle_full_screen(&mut self, conn: &RustConnection) -> Result<(), ReplyError> {
        self.full_screen = !self.full_screen;
        if self.is_managed(conn)? {
            // _NET_WM_STATE_ADD is 1, _NET_WM_STATE_REMOVE 0; source indication 1 means an
            // application.
            let action = u32::from(self.full_screen);
            let data = [action, self.atoms._NET_WM_STATE_FULLSCREEN, 0, 1, 0];
            let message =
                xproto::ClientMessageEvent::new(32, self.id, self.atoms._NET_WM_STATE, data);
            let to = EventMask::SUBSTRUCTURE_REDIRECT | EventMask::SUBSTRUCTURE_NOTIFY;
            conn.send_event(false, self.root, to, message)?;
            return Ok(conn.flush()?);
        }
        let aux = xproto::ConfigureWindowAux::new();
        let aux = match self.before.take() {
            Some((x, y, size)) if !self.full_screen => {
                aux.x(x).y(y).width(size.width).height(size.height)
            }
            _ => {
                let here = conn.get_geometry(self.id)?.reply()?;
                let all = conn.get_geometry(self.root)?.reply()?;
                let size = Size::new(u32::from(here.width), u32::from(here.height));
                self.before = Some((i32::from(here.x), i32::from(here.y), size));
                let above = xproto::StackMode::ABOVE;
                let (width, height) = (u32::from(all.width), u32::from(all.height));
                aux.x(0).y(0).width(width).height(height).stack_mode(above)
            }
        };
        conn.configure_window(self.id, &aux)?;
        Ok(conn.flush()?)
    }

    /// Whether an EWMH window manager is running.
    fn is_managed(&self, conn: &RustConnection) -> Result<bool, ReplyError> {
        let check = self.atoms._NET_SUPPORTING_WM_CHECK;
        let property = conn
            .get_property(false, self.root, check, AtomEnum::WINDOW, 0, 1)?
            .reply()?;
        let Some(checker) = property.value32().and_then(|mut ids| ids.next()) else {
            return Ok(false);
        };
        // After the window manager exits, the property remains, but the window named in it no longer exists.
        let alive = conn
            .get_property(false, checker, check, AtomEnum::WINDOW, 0, 1)?
            .reply();
        Ok(alive.is_ok())
    }
}

/// Describes the window for window managers.
fn describe(
    conn: &RustConnection,
    id: xproto::Window,
    atoms: &Atoms,
    title: &str,
) -> Result<(), ReplyError> {
    set_title(conn, id, title)?;
    conn.change_property8(
        PropMode::REPLACE,
        id,
        AtomEnum::WM_CLASS,
        AtomEnum::STRING,
        b"openuvr\0OpenUVR\0",
    )?;
    conn.change_property32(
        PropMode::REPLACE,
        id,
        atoms.WM_PROTOCOLS,
        AtomEnum::ATOM,
        &[atoms.WM_DELETE_WINDOW],
    )?;
    // The value 1 asks the compositor to bypass composition for this window, because composition would delay pictures
    // until a refresh.
    conn.change_property32(
        PropMode::REPLACE,
        id,
        atoms._NET_WM_BYPASS_COMPOSITOR,
        AtomEnum::CARDINAL,
        &[1],
    )?;
    Ok(())
}

fn events() -> EventMask {
    EventMask::KEY_PRESS
        | EventMask::KEY_RELEASE
        | EventMask::BUTTON_PRESS
        | EventMask::BUTTON_RELEASE
        | EventMask::POINTER_MOTION
        | EventMask::ENTER_WINDOW
        | EventMask::LEAVE_WINDOW
        | EventMask::FOCUS_CHANGE
        | EventMask::KEYMAP_STATE
        | EventMask::EXPOSURE
        | EventMask::STRUCTURE_NOTIFY
}
