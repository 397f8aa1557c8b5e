//! Ownership of a display's window management: taking it, announcing it to all clients, and releasing it.
//!
//! Specs: ICCCM 2.0, section 2.8; Extended Window Manager Hints 1.5 (_NET_SUPPORTED, _NET_SUPPORTING_WM_CHECK).

use anyhow::{Context as _, Result, ensure};
use x11rb::connection::Connection as _;
use x11rb::errors::ReplyError;
use x11rb::protocol::xproto::{
    Atom, AtomEnum, ChangeWindowAttributesAux, ClientMessageEvent, ConnectionExt as _,
    CreateWindowAux, EventMask, PropMode, Window, WindowClass,
};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;

use super::Atoms;

/// The announced name of the window manager: the name of Sun's Looking Glass, which draws no frames. With an unknown
/// name, Java windows wait for a frame and stay empty (seen with OpenJDK 17). Other window managers without frames also
/// use this name.
const NAME: &[u8] = b"LG3D";

/// The ownership: the selection `WM_Sn`, and properties of the root window.
pub(super) struct Claim {
    pub(super) root: Window,
    /// The selection's owner; an invisible window.
    pub(super) window: Window,
    pub(super) selection: Atom,
}

impl Claim {
    /// Takes the ownership, if it is free. From then on, requests and notifications arrive as events of the root
    /// window.
    ///
    /// # Errors
    /// Returns an error if another client has the ownership, or if the server does not answer.
    pub(super) fn take(conn: &RustConnection, screen: usize, atoms: &Atoms) -> Result<Claim> {
        let shown = conn.setup().roots.get(screen);
        let root = shown
            .with_context(|| format!("the display has no screen {screen}"))?
            .root;
        let selection = format!("WM_S{screen}");
        let selection = conn.intern_atom(false, selection.as_bytes())?.reply()?.atom;
        let owner = conn.get_selection_owner(selection)?.reply()?.owner;
        ensure!(
            owner == x11rb::NONE,
            "the display already has a window manager"
        );
        let window = conn.generate_id()?;
        // The events about changes of this window's properties contain the server's time.
        let aux = CreateWindowAux::new().event_mask(EventMask::PROPERTY_CHANGE);
        let (class, place) = (WindowClass::INPUT_ONLY, (-1, -1));
        conn.create_window(0, window, root, place.0, place.1, 1, 1, 0, class, 0, &aux)?;
        // `CURRENT_TIME` is correct here, because no other client uses a new display.
        conn.set_selection_owner(window, selection, x11rb::CURRENT_TIME)?;
        let all = EventMask::STRUCTURE_NOTIFY
            | EventMask::SUBSTRUCTURE_NOTIFY
            | EventMask::SUBSTRUCTURE_REDIRECT;
        let all = ChangeWindowAttributesAux::new().event_mask(all);
        let requested = conn.change_window_attributes(root, &all)?.check();
        requested.context("the display already has a window manager")?;
        let claim = Claim {
            root,
            window,
            selection,
        };
        claim.announce(conn, atoms)?;
        Ok(claim)
    }

    fn announce(&self, conn: &RustConnection, atoms: &Atoms) -> Result<(), ReplyError> {
        let (mode, check) = (PropMode::REPLACE, atoms._NET_SUPPORTING_WM_CHECK);
        let supported = [
            atoms._NET_ACTIVE_WINDOW,
            atoms._NET_FRAME_EXTENTS,
            atoms._NET_SUPPORTED,
            check,
            atoms._NET_WM_NAME,
            atoms._NET_WM_STATE,
            atoms._NET_WM_STATE_FULLSCREEN,
            atoms._NET_WM_WINDOW_TYPE,
            atoms._NET_WM_WINDOW_TYPE_DIALOG,
            atoms._NET_WM_WINDOW_TYPE_NORMAL,
            atoms._NET_WM_WINDOW_TYPE_SPLASH,
            atoms._NET_WM_WINDOW_TYPE_UTILITY,
        ];
        let (name, utf8) = (atoms._NET_WM_NAME, atoms.UTF8_STRING);
        conn.change_property8(mode, self.window, name, utf8, NAME)?;
        let list = atoms._NET_SUPPORTED;
        conn.change_property32(mode, self.root, list, AtomEnum::ATOM, &supported)?;
        for window in [self.window, self.root] {
            conn.change_property32(mode, window, check, AtomEnum::WINDOW, &[self.window])?;
        }
        let data = [x11rb::CURRENT_TIME, self.selection, self.window, 0, 0];
        let message = ClientMessageEvent::new(32, self.root, atoms.MANAGER, data);
        conn.send_event(false, self.root, EventMask::STRUCTURE_NOTIFY, message)?;
        conn.sync()
    }

    /// Releases the ownership for the window manager that has taken the selection.
    pub(super) fn release(&self, conn: &RustConnection, atoms: &Atoms) -> Result<(), ReplyError> {
        let nothing = ChangeWindowAttributesAux::new().event_mask(EventMask::NO_EVENT);
        conn.change_window_attributes(self.root, &nothing)?;
        let check = atoms._NET_SUPPORTING_WM_CHECK;
        let named = conn.get_property(false, self.root, check, AtomEnum::WINDOW, 0, 1)?;
        let named = named.reply()?.value32().and_then(|mut ids| ids.next());
        // The properties are kept if the new owner has already set its own.
        if named == Some(self.window) {
            for property in [atoms._NET_ACTIVE_WINDOW, atoms._NET_SUPPORTED, check] {
                conn.delete_property(self.root, property)?;
            }
        }
        // The new owner waits until this window is destroyed.
        conn.destroy_window(self.window)?;
        conn.sync()
    }
}
