//! Finds the windows of an X display that belong to the same application as a given window: menus, tooltips and
//! dialogs. They are streamed and receive input together with the given window.
//!
//! If the user selected the program, its other main windows are part of the application. If the user selected one
//! window, they are not ([`WindowScope`]).
//!
//! Specs: ICCCM 2.0, section 4.1 (WM_STATE, WM_TRANSIENT_FOR, WM_HINTS); Extended Window Manager
//! Hints 1.5 (_NET_WM_WINDOW_TYPE); X-Resource 1.2 (`QueryClientIds`).

use std::cell::OnceCell;

use x11rb::connection::{Connection as _, RequestConnection as _};
use x11rb::errors::ReplyError;
use x11rb::properties::WmHints;
use x11rb::protocol::res::{self, ClientIdMask, ClientIdSpec, ConnectionExt as _};
use x11rb::protocol::xproto::{
    AtomEnum, ConnectionExt as _, GetPropertyReply, MapState, Window, WindowClass,
};
use x11rb::rust_connection::RustConnection;

/// Maximum depth of a client window below the window manager's frame. The frame is a child of the root.
const DEPTH: u8 = 3;

/// Maximum number of windows that are checked in a window manager's frame. Such a frame has about ten, for borders and
/// buttons.
const MAX_WINDOWS: usize = 64;

/// Maximum length of a WM_TRANSIENT_FOR chain (dialogs of dialogs).
const CHAIN: u8 = 4;

/// Types of windows that accompany another window.
const TYPES: [&[u8]; 8] = [
    b"_NET_WM_WINDOW_TYPE_DIALOG",
    b"_NET_WM_WINDOW_TYPE_UTILITY",
    b"_NET_WM_WINDOW_TYPE_TOOLBAR",
    b"_NET_WM_WINDOW_TYPE_MENU",
    b"_NET_WM_WINDOW_TYPE_DROPDOWN_MENU",
    b"_NET_WM_WINDOW_TYPE_POPUP_MENU",
    b"_NET_WM_WINDOW_TYPE_TOOLTIP",
    b"_NET_WM_WINDOW_TYPE_COMBO",
];

/// The windows of a program that belong to the selected window.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum WindowScope {
    /// The selected window's transient windows: menus, tooltips and dialogs.
    #[default]
    Transients,
    /// All windows of the program.
    Program,
}

/// The atoms in use, with this server's numbers.
#[derive(Clone, Copy, Debug)]
pub struct Atoms {
    state: u32,
    leader: u32,
    kind: u32,
    kinds: [u32; TYPES.len()],
}

impl Atoms {
    /// Queries the server for the atoms' numbers.
    ///
    /// # Errors
    /// Returns an error if the connection is broken.
    pub fn of(conn: &RustConnection) -> Result<Atoms, ReplyError> {
        let number = |name| Ok::<_, ReplyError>(conn.intern_atom(false, name)?.reply()?.atom);
        let mut kinds = [0; TYPES.len()];
        for (kind, name) in kinds.iter_mut().zip(TYPES) {
            *kind = number(name)?;
        }
        Ok(Atoms {
            state: number(b"WM_STATE")?,
            leader: number(b"WM_CLIENT_LEADER")?,
            kind: number(b"_NET_WM_WINDOW_TYPE")?,
            kinds,
        })
    }
}

/// The application of a window at the time of the query.
#[derive(Debug)]
pub struct Application {
    atoms: Atoms,
    scope: WindowScope,
    root: Window,
    /// The window and its ancestors, up to a child of the root.
    line: Vec<Window>,
    /// The window's process and its group leader. Both are queried only when another window is first compared with
    /// them: most checks for a key press need neither.
    process: OnceCell<Option<u32>>,
    group: OnceCell<Option<Window>>,
}

impl Application {
    /// The application of `window`.
    ///
    /// # Errors
    /// Returns an X error if the window has been destroyed, and another error if the connection is broken.
    pub fn of(
        conn: &RustConnection,
        atoms: Atoms,
        root: Window,
        (window, scope): (Window, WindowScope),
    ) -> Result<Application, ReplyError> {
        Ok(Application {
            atoms,
            scope,
            root,
            line: line_of(conn, root, window)?,
            process: OnceCell::new(),
            group: OnceCell::new(),
        })
    }

    /// The ancestor that is a child of the root: the window manager's frame, or the window itself.
    #[must_use]
    pub fn top(&self) -> Window {
        self.line.last().copied().unwrap_or(x11rb::NONE)
    }

    /// The window that the window manager manages (with a WM_STATE), or the top window if there is none.
    pub(crate) fn client(&self, conn: &RustConnection) -> Result<Window, ReplyError> {
        for &window in &self.line {
            if has(conn, window, self.atoms.state)? {
                return Ok(window);
            }
        }
        Ok(self.top())
    }

    fn process(&self, conn: &RustConnection) -> Result<Option<u32>, ReplyError> {
        if let Some(known) = self.process.get() {
            return Ok(*known);
        }
        let process = match self.line.first() {
            Some(window) => process_of(conn, *window)?,
            None => None,
        };
        Ok(*self.process.get_or_init(|| process))
    }

    fn group(&self, conn: &RustConnection) -> Result<Option<Window>, ReplyError> {
        if let Some(known) = self.group.get() {
            return Ok(*known);
        }
        let mut group = None;
        for &window in &self.line {
            if group.is_none() {
                group = group_of(conn, self.atoms, window)?;
            }
        }
        Ok(*self.group.get_or_init(|| group))
    }

    /// Whether `top`, a child of the root, contains the given window, or another window of the application that is
    /// viewable. `false` if that other window is destroyed during the query.
    ///
    /// # Errors
    /// Returns an error if the connection is broken.
    pub fn has(&self, conn: &RustConnection, top: Window) -> Result<bool, ReplyError> {
        if self.line.contains(&top) {
            return Ok(true);
        }
        match self.accompanies(conn, top) {
            Err(ReplyError::X11Error(_)) => Ok(false),
            found => found,
        }
    }

    fn accompanies(&self, conn: &RustConnection, top: Window) -> Result<bool, ReplyError> {
        let attributes = conn.get_window_attributes(top)?.reply()?;
        if attributes.map_state != MapState::VIEWABLE {
            return Ok(false);
        }
        let window = match attributes.override_redirect {
            true => top,
            false => client_in(conn, self.atoms, top)?,
        };
        let owner = self.transient(conn, window)?;
        if owner == Transient::ForUs {
            return Ok(true);
        }
        let mine = self.is_same_client(conn, window)
            || is_same(self.process(conn)?, process_of(conn, window)?)
            || is_same(self.group(conn)?, group_of(conn, self.atoms, window)?);
        if self.scope == WindowScope::Program {
            return Ok(mine);
        }
        if !mine || owner == Transient::ForAnother {
            return Ok(false);
        }
        Ok(attributes.override_redirect
            || owner == Transient::ForAll
            || self.is_of_accompanying_type(conn, window)?)
    }

    /// The owner of `window`, found through its direct and indirect WM_TRANSIENT_FOR.
    fn transient(&self, conn: &RustConnection, window: Window) -> Result<Transient, ReplyError> {
        let mut seen = Transient::No;
        let mut window = window;
        for _ in 0..CHAIN {
            let property = property(conn, window, AtomEnum::WM_TRANSIENT_FOR.into())?;
            let Some(parent) = first(&property).filter(|id| *id != x11rb::NONE) else {
                break;
            };
            if self.line.contains(&parent) {
                return Ok(Transient::ForUs);
            }
            if parent == self.root || Some(parent) == self.group(conn)? {
                return Ok(Transient::ForAll);
            }
            seen = Transient::ForAnother;
            window = parent;
        }
        Ok(seen)
    }

    fn is_same_client(&self, conn: &RustConnection, window: Window) -> bool {
        let mask = conn.setup().resource_id_mask;
        let ours = self
            .line
            .first()
            .is_some_and(|w| w & !mask == window & !mask);
        ours && window != self.root
    }

    fn is_of_accompanying_type(
        &self,
        conn: &RustConnection,
        window: Window,
    ) -> Result<bool, ReplyError> {
        let types = property(conn, window, self.atoms.kind)?;
        let mut types = types.value32().into_iter().flatten();
        Ok(types.any(|kind| self.atoms.kinds.contains(&kind)))
    }
}

/// The owner of a transient window.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Transient {
    No,
    ForUs,
    /// Transient for all windows of its group.
    ForAll,
    ForAnother,
}

/// The largest viewable main window of the processes selected by `is_ours`; menus and tooltips are
/// excluded.
///
/// # Errors
/// Returns an error if the connection is broken.
pub fn largest_window(
    conn: &RustConnection,
    root: Window,
    is_ours: impl Fn(u32) -> bool,
) -> Result<Option<Window>, ReplyError> {
    let atoms = Atoms::of(conn)?;
    let mut largest: Option<(u32, Window)> = None;
    for top in conn.query_tree(root)?.reply()?.children {
        let look = || -> Result<Option<(u32, Window)>, ReplyError> {
            let attributes = conn.get_window_attributes(top)?.reply()?;
            if attributes.map_state != MapState::VIEWABLE
                || attributes.class != WindowClass::INPUT_OUTPUT
                || attributes.override_redirect
            {
                return Ok(None);
            }
            let window = client_in(conn, atoms, top)?;
            if !process_of(conn, window)?.is_some_and(&is_ours) {
                return Ok(None);
            }
            let size = conn.get_geometry(window)?.reply()?;
            Ok(Some((
                u32::from(size.width) * u32::from(size.height),
                window,
            )))
        };
        match look() {
            Ok(found) => largest = largest.max(found),
            // The window was destroyed.
            Err(ReplyError::X11Error(_)) => {}
            Err(broken) => return Err(broken),
        }
    }
    Ok(largest.map(|(_, window)| window))
}

/// The child of the root that contains `window`.
pub(crate) fn top_of(
    conn: &RustConnection,
    root: Window,
    window: Window,
) -> Result<Window, ReplyError> {
    let line = line_of(conn, root, window)?;
    Ok(line.last().copied().unwrap_or(window))
}

/// The process that created a window, if the server knows it (only for clients on the same
/// machine).
pub(crate) fn process_of(conn: &RustConnection, window: Window) -> Result<Option<u32>, ReplyError> {
    if conn
        .extension_information(res::X11_EXTENSION_NAME)?
        .is_none()
    {
        return Ok(None);
    }
    let spec = ClientIdSpec {
        client: window,
        mask: ClientIdMask::LOCAL_CLIENT_PID,
    };
    match conn.res_query_client_ids(&[spec])?.reply() {
        Ok(reply) => {
            let ids = reply.ids.into_iter();
            Ok(ids.flat_map(|id| id.value).find(|pid| *pid != 0))
        }
        Err(ReplyError::X11Error(_)) => Ok(None),
        Err(e) => Err(e),
    }
}

/// The application's window in the window manager's frame `top`: the first window with a WM_STATE, otherwise `top`
/// itself.
pub(crate) fn client_in(
    conn: &RustConnection,
    atoms: Atoms,
    top: Window,
) -> Result<Window, ReplyError> {
    let mut level = vec![top];
    let mut seen = 0;
    for _ in 0..=DEPTH {
        let mut next = Vec::new();
        for window in level {
            if has(conn, window, atoms.state)? {
                return Ok(window);
            }
            next.extend(conn.query_tree(window)?.reply()?.children);
        }
        next.truncate(MAX_WINDOWS - seen);
        seen += next.len();
        level = next;
    }
    Ok(top)
}

fn line_of(conn: &RustConnection, root: Window, window: Window) -> Result<Vec<Window>, ReplyError> {
    let mut line = vec![window];
    let mut window = window;
    loop {
        let parent = conn.query_tree(window)?.reply()?.parent;
        if parent == root || parent == x11rb::NONE {
            return Ok(line);
        }
        line.push(parent);
        window = parent;
    }
}

/// The group leader of `window`.
fn group_of(
    conn: &RustConnection,
    atoms: Atoms,
    window: Window,
) -> Result<Option<Window>, ReplyError> {
    let leader = first(&property(conn, window, atoms.leader)?);
    let hints = WmHints::get(conn, window)?.reply().ok().flatten();
    let named = hints.and_then(|hints| hints.window_group).or(leader);
    Ok(named.filter(|group| *group != x11rb::NONE))
}

fn has(conn: &RustConnection, window: Window, name: u32) -> Result<bool, ReplyError> {
    Ok(property(conn, window, name)?.type_ != x11rb::NONE)
}

fn property(
    conn: &RustConnection,
    window: Window,
    name: u32,
) -> Result<GetPropertyReply, ReplyError> {
    conn.get_property(false, window, name, AtomEnum::ANY, 0, 32)?
        .reply()
}

/// Whether both values are known and equal.
fn is_same(one: Option<u32>, other: Option<u32>) -> bool {
    one.is_some() && one == other
}

fn first(property: &GetPropertyReply) -> Option<u32> {
    property.value32()?.next()
}
