//! Where the streamed window lies on its X display, for the pointer that is injected there, what it
//! shows there, and how windows are called.
//!
//! Over a connection of our own: the game's is the game's.

use std::os::fd::{AsFd, BorrowedFd};

use openuvr_media::application::{Application, Atoms, WindowScope};
use openuvr_media::capture::pool::{Copied, Pool};
use openuvr_media::pixel_form::PixelForm;
use x11rb::connection::Connection as _;
use x11rb::errors::{ReplyError, ReplyOrIdError};
use x11rb::protocol::Event;
use x11rb::protocol::damage::{ConnectionExt as _, Damage, ReportLevel};
use x11rb::protocol::xproto::{
    AtomEnum, ChangeWindowAttributesAux, ConnectionExt as _, EventMask, ImageFormat, MapState,
    Window,
};
use x11rb::rust_connection::RustConnection;

use crate::stack::{self, Area, Over};
use crate::windows::Place;

/// Follows one window.
pub(crate) struct WindowTracker {
    conn: RustConnection,
    root: Window,
    place: Place,
    moved: bool,
    /// Where it lies while it is to be seen.
    area: Option<Area>,
    /// What windows are called, and which of them belong to this one.
    atoms: Atoms,
    scope: WindowScope,
    /// Windows of its program lie over it, unless windows have moved since.
    accompanied: bool,
    restacked: bool,
    /// Tells what is drawn on the display while they do.
    damage: Option<Damage>,
    /// Something was, since the last [`WindowTracker::forget_drawn`].
    drawn: bool,
    pool: Pool,
}

impl WindowTracker {
    /// `None` if the display does not let us in, or the window is gone. `scope`: which other windows
    /// are to be seen with it.
    pub(crate) fn open(place: Place, scope: WindowScope) -> Option<WindowTracker> {
        let (conn, screen) = x11rb::connect(Some(&place.display)).ok()?;
        let root = conn.setup().roots.get(screen)?.root;
        let select = |window, mask| {
            let aux = ChangeWindowAttributesAux::new().event_mask(mask);
            conn.change_window_attributes(window, &aux)?.check()
        };
        select(place.window, EventMask::STRUCTURE_NOTIFY).ok()?;
        // A window manager moves its frame, which is a child of the root.
        select(root, EventMask::SUBSTRUCTURE_NOTIFY).ok()?;
        let atoms = Atoms::of(&conn).ok()?;
        Some(WindowTracker {
            conn,
            root,
            place,
            moved: true,
            area: None,
            atoms,
            scope,
            accompanied: false,
            restacked: true,
            damage: None,
            drawn: false,
            pool: Pool::default(),
        })
    }

    /// Where it lies on the display, if that may have changed.
    pub(crate) fn news(&mut self) -> Option<Area> {
        let mut seen = None;
        loop {
            self.drain_events();
            if !std::mem::take(&mut self.moved) {
                return seen.map(|(_, area)| area);
            }
            seen = self.look().ok();
            self.area = seen.filter(|(visible, _)| *visible).map(|(_, area)| area);
            self.restacked = true;
        }
    }

    /// Takes in what the display has said: whether there was anything. What came with an answer waits here
    /// and not in the socket.
    pub(crate) fn drain_events(&mut self) -> bool {
        let mut any = false;
        while let Ok(Some(event)) = self.conn.poll_for_event() {
            match event {
                Event::DamageNotify(_) => self.drawn = true,
                // Our own question about a window that is gone: asking again would go on for ever.
                Event::Error(_) => continue,
                // All others come from windows that were moved.
                _ => self.moved = true,
            }
            any = true;
        }
        any
    }

    /// What of the window is on the display, and what lies over that.
    fn over(&self) -> Option<(Area, Over)> {
        let area = self.area?;
        let screen = self.conn.get_geometry(self.root).ok()?.reply().ok()?;
        let shown = area.within(Area::at(0, 0, screen.width, screen.height))?;
        let window = (self.place.window, self.scope);
        let application = Application::of(&self.conn, self.atoms, self.root, window).ok()?;
        let over = stack::over(&self.conn, self.root, &application, shown).ok()?;
        Some((shown, over))
    }

    /// Has the display say when something is drawn on it, as long as that matters. One that can't is
    /// looked at whenever there is a picture to send.
    fn watch(&mut self) {
        match self.damage {
            None if self.accompanied => self.damage = self.damage_of_display().ok(),
            Some(damage) if !self.accompanied => {
                self.damage = None;
                let _ = self.conn.damage_destroy(damage);
                let _ = self.conn.flush();
            }
            _ => {}
        }
    }

    fn damage_of_display(&self) -> Result<Damage, ReplyOrIdError> {
        self.conn.damage_query_version(1, 1)?.reply()?;
        let damage = self.conn.generate_id()?;
        // Told once, until it is taken away.
        let level = ReportLevel::NON_EMPTY;
        self.conn.damage_create(damage, self.root, level)?.check()?;
        Ok(damage)
    }

    /// Whether windows of its program lie over it, which are to be seen with it, as of the last
    /// [`WindowTracker::news`]. Takes several turns with the X server after each of these.
    pub(crate) fn is_accompanied(&mut self) -> bool {
        if std::mem::take(&mut self.restacked) {
            self.accompanied = self.over().is_some_and(|(_, over)| over.own);
            // They came, went or moved.
            self.drawn = true;
            self.watch();
        }
        self.accompanied
    }

    /// From now on [`WindowTracker::has_drawn`] is about what is drawn later.
    pub(crate) fn forget_drawn(&mut self) {
        if let Some(damage) = self.damage {
            let _ = (self.conn).damage_subtract(damage, x11rb::NONE, x11rb::NONE);
            let _ = self.conn.flush();
        }
        self.drawn = false;
    }

    /// Whether something was drawn on the display since [`WindowTracker::forget_drawn`]; also where that is not
    /// known.
    pub(crate) fn has_drawn(&self) -> bool {
        self.drawn || self.damage.is_none()
    }

    fn look(&self) -> Result<(bool, Area), ReplyError> {
        let window = self.place.window;
        let attributes = self.conn.get_window_attributes(window)?;
        let size = self.conn.get_geometry(window)?;
        let at = self.conn.translate_coordinates(window, self.root, 0, 0)?;
        let (attributes, size, at) = (attributes.reply()?, size.reply()?, at.reply()?);
        let visible = attributes.map_state == MapState::VIEWABLE;
        let area = Area::at(at.dst_x.into(), at.dst_y.into(), size.width, size.height);
        Ok((visible, area))
    }

    /// Whether the window is to be seen, as of the last [`WindowTracker::news`].
    pub(crate) fn is_visible(&self) -> bool {
        self.area.is_some()
    }

    /// What the window shows now, as its display has it, with the windows of its program that lie over
    /// it: for a program that draws nothing new, or that is seen with those. What windows of other
    /// programs cover of it, or lies outside of the display, is black. `None` if that can't be had.
    pub(crate) fn picture(&self) -> Option<Copied> {
        /// Bytes of a pixel of ours.
        const PIXEL: usize = 4;
        let (area, window) = (self.area?, self.place.window);
        let (shown, Over { others, .. }) = self.over()?;
        let size = shown.size();
        let (Ok(width), Ok(height)) = (size.width.try_into(), size.height.try_into()) else {
            return None;
        };
        // A window's own pixels may be without those of the windows over it.
        let (drawable, left, top) = match self.accompanied {
            true => (self.root, 0, 0),
            false => (window, area.left, area.top),
        };
        let within = |at: i32, from: i32| i16::try_from(at - from).ok();
        let (x, y) = (within(shown.left, left)?, within(shown.top, top)?);
        let format = ImageFormat::Z_PIXMAP;
        let image = self
            .conn
            .get_image(format, drawable, x, y, width, height, !0);
        // It may have gone or changed since.
        let image = image.ok()?.reply().ok()?;
        let whole = area.size();
        let form = PixelForm::of(self.conn.setup(), image.visual, "the display").ok()?;
        let theirs = form.row(size.width as usize);
        // Nobody draws by OpenGL or Vulkan to a visual whose pixels name cells of a map.
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

/// Whether a window, or one that it lies in, has `title` in its title or class, upper and lower case
/// alike. Asks the display: some milliseconds.
pub(crate) fn is_called(place: &Place, title: &str) -> bool {
    let title = title.to_lowercase();
    names(place)
        .iter()
        .any(|words| words.to_lowercase().contains(&title))
}

/// Whether a window keeps out of the window manager's hands, as menus and tooltips do. Asks the display:
/// some milliseconds.
pub(crate) fn is_popup(place: &Place) -> bool {
    let ask = || -> Option<bool> {
        let (conn, _) = x11rb::connect(Some(&place.display)).ok()?;
        let attributes = conn.get_window_attributes(place.window).ok()?;
        Some(attributes.reply().ok()?.override_redirect)
    };
    ask().unwrap_or(false)
}

/// How a window and those that it lies in are called, none of it empty; nothing if it is not known.
pub(crate) fn names(place: &Place) -> Vec<String> {
    let Ok((conn, _)) = x11rb::connect(Some(&place.display)) else {
        return Vec::new();
    };
    let mut words = words(&conn, place.window).unwrap_or_default();
    words.retain(|words| !words.is_empty());
    words
}

/// Window managers and toolkits put one to three windows around one another.
const DEPTH: u8 = 4;

fn words(conn: &RustConnection, mut window: Window) -> Result<Vec<String>, ReplyError> {
    /// What is read of a title, in units of 4 bytes.
    const LENGTH: u32 = 256;
    let modern = conn.intern_atom(false, b"_NET_WM_NAME")?.reply()?.atom;
    let mut words = Vec::new();
    for _ in 0..DEPTH {
        for name in [modern, AtomEnum::WM_NAME.into(), AtomEnum::WM_CLASS.into()] {
            let property = conn.get_property(false, window, name, AtomEnum::ANY, 0, LENGTH)?;
            words.push(String::from_utf8_lossy(&property.reply()?.value).into_owned());
        }
        let tree = conn.query_tree(window)?.reply()?;
        if tree.parent == tree.root || tree.parent == x11rb::NONE {
            break;
        }
        window = tree.parent;
    }
    Ok(words)
}

impl AsFd for WindowTracker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.conn.stream().as_fd()
    }
}
