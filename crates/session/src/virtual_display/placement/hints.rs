//! The hints of a window: its kind, its size limits, and how it receives the focus.
//!
//! Specs: ICCCM 2.0, section 4.1; Extended Window Manager Hints 1.5 (_NET_WM_WINDOW_TYPE, _NET_WM_STATE).

use openuvr_proto::units::Size;
use x11rb::errors::ReplyError;
use x11rb::properties::{WmHints, WmSizeHints};
use x11rb::protocol::xproto::{
    Atom, AtomEnum, ConnectionExt as _, GetPropertyReply, Window, WindowClass,
};
use x11rb::rust_connection::RustConnection;

use super::Atoms;
use super::rectangle::Limits;

/// The maximum number of values read from a property. The longest property, WM_NORMAL_HINTS, has 18 values.
const MAX_VALUES: u32 = 32;

/// The kind of a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// A main window of the application.
    Main,
    /// A window that belongs to a main window.
    Dialog {
        /// The main window, if WM_TRANSIENT_FOR names one. It need not exist.
        of: Option<Window>,
    },
    /// A desktop, a panel, a menu or an invisible window. Its application positions it, and it does not receive the
    /// focus.
    Unmanaged,
}

/// How a window receives the focus (ICCCM 2.0, section 4.1.7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FocusModel {
    /// Whether the placement gives the focus to the window.
    pub(super) is_set: bool,
    /// Whether the placement notifies the window that it may take the focus (WM_TAKE_FOCUS).
    pub(super) is_notified: bool,
}

impl FocusModel {
    /// Whether the window accepts keyboard input.
    pub(super) fn accepts_focus(self) -> bool {
        self.is_set || self.is_notified
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct WindowHints {
    pub(super) kind: Kind,
    pub(super) limits: Limits,
    /// The size that its application requests.
    pub(super) size: Size,
    pub(super) full_screen: bool,
    pub(super) focus: FocusModel,
}

impl WindowHints {
    /// Queries a child of `root`. Invalid hints count as absent.
    ///
    /// # Errors
    /// Returns an X error if the window has been destroyed.
    pub(super) fn query(
        conn: &RustConnection,
        atoms: &Atoms,
        root: Window,
        window: Window,
    ) -> Result<WindowHints, ReplyError> {
        let requested = |name: Atom, kind: AtomEnum| {
            conn.get_property(false, window, name, kind, 0, MAX_VALUES)
        };
        let numbers =
            |is: &GetPropertyReply| -> Vec<u32> { is.value32().into_iter().flatten().collect() };
        // All requests are sent together, so that they take one round trip to the server.
        let attributes = conn.get_window_attributes(window)?;
        let geometry = conn.get_geometry(window)?;
        let types = requested(atoms._NET_WM_WINDOW_TYPE, AtomEnum::ATOM)?;
        let parents = requested(AtomEnum::WM_TRANSIENT_FOR.into(), AtomEnum::WINDOW)?;
        let sizes = requested(AtomEnum::WM_NORMAL_HINTS.into(), AtomEnum::WM_SIZE_HINTS)?;
        let states = requested(atoms._NET_WM_STATE, AtomEnum::ATOM)?;
        let hints = requested(AtomEnum::WM_HINTS.into(), AtomEnum::WM_HINTS)?;
        let protocols = requested(atoms.WM_PROTOCOLS, AtomEnum::ATOM)?;

        let class = attributes.reply()?.class;
        let geometry = geometry.reply()?;
        let size = Size::new(geometry.width.into(), geometry.height.into());
        let types = numbers(&types.reply()?);
        let parent = numbers(&parents.reply()?).first().copied();
        // A window of one pixel is used for messages between programs.
        let is_visible = class != WindowClass::INPUT_ONLY && size.width > 1 && size.height > 1;
        let kind = match kind_of(atoms, &types, parent.is_some()) {
            _ if !is_visible => Kind::Unmanaged,
            // If the stated parent is the root window, the dialog belongs to all windows of the application.
            Kind::Dialog { .. } => Kind::Dialog {
                of: parent.filter(|of| ![x11rb::NONE, root, window].contains(of)),
            },
            kind => kind,
        };
        let sizes = WmSizeHints::from_reply(&sizes.reply()?).ok().flatten();
        let states = numbers(&states.reply()?);
        let hints = WmHints::from_reply(&hints.reply()?).ok().flatten();
        let protocols = numbers(&protocols.reply()?);
        Ok(WindowHints {
            kind,
            limits: Limits::of(sizes.as_ref()),
            size,
            full_screen: states.contains(&atoms._NET_WM_STATE_FULLSCREEN),
            focus: FocusModel {
                // A window without the hint belongs to an old application, which expects the focus.
                is_set: hints.and_then(|hints| hints.input).unwrap_or(true),
                is_notified: protocols.contains(&atoms.WM_TAKE_FOCUS),
            },
        })
    }
}

/// The kind of a window. `types` are its types, in its application's order of preference. `accompanies` states whether
/// the window has the property WM_TRANSIENT_FOR.
fn kind_of(atoms: &Atoms, types: &[Atom], accompanies: bool) -> Kind {
    let dialogs = [
        atoms._NET_WM_WINDOW_TYPE_DIALOG,
        atoms._NET_WM_WINDOW_TYPE_SPLASH,
        atoms._NET_WM_WINDOW_TYPE_TOOLBAR,
        atoms._NET_WM_WINDOW_TYPE_UTILITY,
    ];
    let unmanaged = [
        atoms._NET_WM_WINDOW_TYPE_COMBO,
        atoms._NET_WM_WINDOW_TYPE_DESKTOP,
        atoms._NET_WM_WINDOW_TYPE_DND,
        atoms._NET_WM_WINDOW_TYPE_DOCK,
        atoms._NET_WM_WINDOW_TYPE_DROPDOWN_MENU,
        atoms._NET_WM_WINDOW_TYPE_MENU,
        atoms._NET_WM_WINDOW_TYPE_NOTIFICATION,
        atoms._NET_WM_WINDOW_TYPE_POPUP_MENU,
        atoms._NET_WM_WINDOW_TYPE_TOOLTIP,
    ];
    let normal = atoms._NET_WM_WINDOW_TYPE_NORMAL;
    let is_known = |of: &&Atom| **of == normal || dialogs.contains(of) || unmanaged.contains(of);
    let first = types.iter().find(is_known);
    let is_one_of = |kinds: &[Atom]| first.is_some_and(|of| kinds.contains(of));
    match () {
        () if is_one_of(&unmanaged) => Kind::Unmanaged,
        () if accompanies || is_one_of(&dialogs) => Kind::Dialog { of: None },
        () => Kind::Main,
    }
}
