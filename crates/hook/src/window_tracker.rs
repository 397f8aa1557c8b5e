//! The streamed window on its X display: its position (for injected pointer events) and its image. Also reads the
//! titles of windows.
//!
//! The tracker uses its own X connection, never the game's.

use std::os::fd::{AsFd, BorrowedFd};

use openuvr_media::application::{Application, Atoms, WindowScope};
use openuvr_media::capture::pool::{Pool, PooledPicture};
use openuvr_media::pixel_layout::PixelLayout;
use x11rb::connection::Connection as _;
use x11rb::errors::{ReplyError, ReplyOrIdError};
use x11rb::protocol::Event;
use x11rb::protocol::damage::{ConnectionExt as _, Damage, ReportLevel};
use x11rb::protocol::xproto::{
    AtomEnum, ChangeWindowAttributesAux, ConnectionExt as _, EventMask, ImageFormat, MapState,
    Window,
};
use x11rb::rust_connection::RustConnection;

use crate::stack::{self, Area, Overlap};
use crate::windows::XWindow;

/// Follows one window.
pub(crate) struct WindowTracker {
    conn: RustConnection,
    root: Window,
    window: XWindow,
    moved: bool,
    /// The window's area on the display while it is visible.
    area: Option<Area>,
    atoms: Atoms,
    /// Which other windows are captured with it.
    scope: WindowScope,
    /// Whether windows of the same program cover the window. Valid unless `restacked`.
    overlaid: bool,
    restacked: bool,
    /// Reports drawing on the display while the window is overlaid.
    damage: Option<Damage>,
    /// Whether something has been drawn since the last [`WindowTracker::clear_damage`].
    damaged: bool,
    pool: Pool,
}

impl WindowTracker {
    /// `None` if the display refuses the connection or the window no longer exists. `scope` determines which other
    /// windows are captured with it.
    pub(crate) fn open(window: XWindow, scope: WindowScope) -> Option<WindowTracker> {
        let (conn, screen) = x11rb::connect(Some(&window.display)).ok()?;
        let root = conn.setup().roots.get(screen)?.root;
        let select = |window, mask| {
            let aux = ChangeWindowAttributesAux::new().event_mask(mask);
            conn.change_window_attributes(window, &aux)?.check()
        };
        select(window.id, EventMask::STRUCTURE_NOTIFY).ok()?;
        // A window manager moves a window by moving the window's decoration, which is a child of the root.
        select(root, EventMask::SUBSTRUCTURE_NOTIFY).ok()?;
        let atoms = Atoms::of(&conn).ok()?;
        Some(WindowTracker {
            conn,
            root,
            window,
            moved: true,
            area: None,
            atoms,
            scope,
            overlaid: false,
            restacked: true,
            damage: None,
            damaged: false,
            pool: Pool::default(),
        })
    }

    /// The window's area on the display, if that may have changed.
    pub(crate) fn poll_area(&mut self) -> Option<Area> {
        let mut seen = None;
        loop {
            self.drain_events();
            if !std::mem::take(&mut self.moved) {
                return seen.map(|(_, area)| area);
            }
            seen = self.query_area().ok();
            self.area = seen.filter(|(visible, _)| *visible).map(|(_, area)| area);
            self.restacked = true;
        }
    }

    /// Processes queued X events. Returns whether there were any. Events that arrived with a reply are in this queue
    /// and not in the socket.
    pub(crate) fn drain_events(&mut self) -> bool {
        let mut any = false;
        while let Ok(Some(event)) = self.conn.poll_for_event() {
            match event {
                Event::DamageNotify(_) => self.damaged = true,
                // A query of a destroyed window failed. Treating the error as a move would repeat the query forever.
                Event::Error(_) => continue,
                // All other events report structural changes, such as a moved or a new window.
                _ => self.moved = true,
            }
            any = true;
        }
        any
    }

    /// The visible area of the window on the display, and the windows that cover it.
    fn overlap(&self) -> Option<(Area, Overlap)> {
        let area = self.area?;
        let screen = self.conn.get_geometry(self.root).ok()?.reply().ok()?;
        let shown = area.within(Area::at(0, 0, screen.width, screen.height))?;
        let window = (self.window.id, self.scope);
        let application = Application::of(&self.conn, self.atoms, self.root, window).ok()?;
        let overlap = stack::overlap(&self.conn, self.root, &application, shown).ok()?;
        Some((shown, overlap))
    }

    /// Tracks damage of the display only while the window is overlaid. Without the DAMAGE extension, the image is read
    /// for every frame.
    fn update_damage_tracking(&mut self) {
        match self.damage {
            None if self.overlaid => self.damage = self.create_damage().ok(),
            Some(damage) if !self.overlaid => {
                self.damage = None;
                let _ = self.conn.damage_destroy(damage);
                let _ = self.conn.flush();
            }
            _ => {}
        }
    }

    fn create_damage(&self) -> Result<Damage, ReplyOrIdError> {
        self.conn.damage_query_version(1, 1)?.reply()?;
        let damage = self.conn.generate_id()?;
        // At this level, only one event is sent until the damage is subtracted.
        let level = ReportLevel::NON_EMPTY;
        self.conn.damage_create(damage, self.root, level)?.check()?;
        Ok(damage)
    }

    /// Whether captured windows of the same program cover the window, as of the last [`WindowTracker::poll_area`]. The
    /// first call after each `poll_area` takes several X round trips.
    pub(crate) fn is_overlaid(&mut self) -> bool {
        if std::mem::take(&mut self.restacked) {
            self.overlaid = self.overlap().is_some_and(|(_, overlap)| overlap.own);
            // Windows have appeared, vanished or moved.
            self.damaged = true;
            self.update_damage_tracking();
        }
        self.overlaid
    }

    /// Resets [`WindowTracker::is_damaged`].
    pub(crate) fn clear_damage(&mut self) {
        if let Some(damage) = self.damage {
            let _ = (self.conn).damage_subtract(damage, x11rb::NONE, x11rb::NONE);
            let _ = self.conn.flush();
        }
        self.damaged = false;
    }

    /// Whether something has been drawn on the display since [`WindowTracker::clear_damage`]; true if unknown.
    pub(crate) fn is_damaged(&self) -> bool {
        self.damaged || self.damage.is_none()
    }

    fn query_area(&self) -> Result<(bool, Area), ReplyError> {
        let window = self.window.id;
        let attributes = self.conn.get_window_attributes(window)?;
        let size = self.conn.get_geometry(window)?;
        let at = self.conn.translate_coordinates(window, self.root, 0, 0)?;
        let (attributes, size, at) = (attributes.reply()?, size.reply()?, at.reply()?);
        let visible = attributes.map_state == MapState::VIEWABLE;
        let area = Area::at(at.dst_x.into(), at.dst_y.into(), size.width, size.height);
        Ok((visible, area))
    }

    /// Whether the window is visible, as of the last [`WindowTracker::poll_area`].
    pub(crate) fn is_visible(&self) -> bool {
        self.area.is_some()
    }

    /// The current image of the window, read from the display, with the covering windows of its program. It replaces
    /// frames while the program draws nothing new, and while the window is overlaid. Areas that windows of other
    /// programs cover, or that are outside of the display, are black. `None` if the image can't be read.
    pub(crate) fn picture(&self) -> Option<PooledPicture> {
        /// Bytes of a pixel in the result.
        const PIXEL: usize = 4;
        let (area, window) = (self.area?, self.window.id);
        let (shown, Overlap { others, .. }) = self.overlap()?;
        let size = shown.size();
        let (Ok(width), Ok(height)) = (size.width.try_into(), size.height.try_into()) else {
            return None;
        };
        // The window's own image may lack the pixels of covering windows.
        let (drawable, left, top) = match self.overlaid {
            true => (self.root, 0, 0),
            false => (window, area.left, area.top),
        };
        let within = |at: i32, from: i32| i16::try_from(at - from).ok();
        let (x, y) = (within(shown.left, left)?, within(shown.top, top)?);
        let format = ImageFormat::Z_PIXMAP;
        let image = self
            .conn
            .get_image(format, drawable, x, y, width, height, !0);
        // The window may have been destroyed or changed since.
        let image = image.ok()?.reply().ok()?;
        let whole = area.size();
        let form = PixelLayout::of(self.conn.setup(), image.visual, "the display").ok()?;
        let theirs = form.row(size.width as usize);
        // OpenGL and Vulkan do not draw to windows whose pixels are indices into a colormap.
        if form.is_mapped()
            || !whole.is_valid()
            || image.data.len() != theirs * size.height as usize
        {
            return None;
        }
        let mut copied = self.pool.take(whole);
        copied.bytes().fill(0);
        let stride = whole.width as usize * PIXEL;
        let offset = |at: i32, from: i32| usize::try_from(at - from).unwrap_or(0);
        let part = |row: i32, left: i32, right: i32| {
            let start = offset(row, area.top) * stride;
            start + offset(left, area.left) * PIXEL..start + offset(right, area.left) * PIXEL
        };
        let rows = form.rows(&image.data, size.width as usize);
        for (row, pixels) in (shown.top..shown.bottom).zip(rows) {
            let part = part(row, shown.left, shown.right);
            form.convert(&[], pixels, &mut copied.bytes()[part]);
        }
        for foreign in others {
            for row in foreign.top..foreign.bottom {
                let part = part(row, foreign.left, foreign.right);
                copied.bytes()[part].fill(0);
            }
        }
        Some(copied)
    }
}

/// Whether the title or class of a window or of its ancestors contains `title`, ignoring case. Queries the X server,
/// which takes some milliseconds.
pub(crate) fn has_title(window: &XWindow, title: &str) -> bool {
    let title = title.to_lowercase();
    titles(window)
        .iter()
        .any(|name| name.to_lowercase().contains(&title))
}

/// Whether a window is override-redirect, like menus and tooltips. Queries the X server, which takes some milliseconds.
pub(crate) fn is_popup(window: &XWindow) -> bool {
    let query = || -> Option<bool> {
        let (conn, _) = x11rb::connect(Some(&window.display)).ok()?;
        let attributes = conn.get_window_attributes(window.id).ok()?;
        Some(attributes.reply().ok()?.override_redirect)
    };
    query().unwrap_or(false)
}

/// The non-empty titles and classes of a window and its ancestors. The list is empty if they are unknown.
pub(crate) fn titles(window: &XWindow) -> Vec<String> {
    let Ok((conn, _)) = x11rb::connect(Some(&window.display)) else {
        return Vec::new();
    };
    let mut titles = query_titles(&conn, window.id).unwrap_or_default();
    titles.retain(|name| !name.is_empty());
    titles
}

/// Maximum number of windows to query: the window and its ancestors. Window managers and toolkits nest one to three
/// windows.
const MAX_DEPTH: u8 = 4;

fn query_titles(conn: &RustConnection, mut window: Window) -> Result<Vec<String>, ReplyError> {
    /// Maximum length of a title to read, in units of 4 bytes.
    const MAX_LENGTH: u32 = 256;
    let modern = conn.intern_atom(false, b"_NET_WM_NAME")?.reply()?.atom;
    let mut titles = Vec::new();
    for _ in 0..MAX_DEPTH {
        for name in [modern, AtomEnum::WM_NAME.into(), AtomEnum::WM_CLASS.into()] {
            let property = conn.get_property(false, window, name, AtomEnum::ANY, 0, MAX_LENGTH)?;
            titles.push(String::from_utf8_lossy(&property.reply()?.value).into_owned());
        }
        let tree = conn.query_tree(window)?.reply()?;
        if tree.parent == tree.root || tree.parent == x11rb::NONE {
            break;
        }
        window = tree.parent;
    }
    Ok(titles)
}

impl AsFd for WindowTracker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.conn.stream().as_fd()
    }
}
