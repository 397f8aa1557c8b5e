//! Where the streamed window lies on its X display, for the pointer that is injected there, what it
//! shows there, and how windows are called.
//!
//! Over a connection of our own: the game's is the game's.

use std::os::fd::{AsFd, BorrowedFd};

use openuvr_media::capture::submit::{Copied, Pool};
use x11rb::connection::Connection as _;
use x11rb::errors::ReplyError;
use x11rb::protocol::xproto::{
    AtomEnum, ChangeWindowAttributesAux, ConnectionExt as _, EventMask, ImageFormat, MapState,
    Window,
};
use x11rb::rust_connection::RustConnection;

use crate::stack::{self, Area, Cover};
use crate::windows::Place;

/// Bytes of a pixel of the depths 24 and 32.
const PIXEL: usize = 4;

/// Follows one window.
pub(crate) struct Follower {
    conn: RustConnection,
    root: Window,
    place: Place,
    moved: bool,
    /// Where it lies while it is to be seen.
    area: Option<Area>,
    /// Other windows of this program lie in front of it, unless windows have moved since.
    covered_by_own: bool,
    restacked: bool,
    /// The bytes that [`Follower::composed`] gave last, and how many pictures had been handed over with
    /// them.
    composed: (u64, Vec<u8>),
    pool: Pool,
}

impl Follower {
    /// `None` if the display does not let us in, or the window is gone.
    pub(crate) fn open(place: Place) -> Option<Follower> {
        let (conn, screen) = x11rb::connect(Some(&place.display)).ok()?;
        let root = conn.setup().roots.get(screen)?.root;
        let select = |window, mask| {
            let aux = ChangeWindowAttributesAux::new().event_mask(mask);
            conn.change_window_attributes(window, &aux)?.check()
        };
        select(place.window, EventMask::STRUCTURE_NOTIFY).ok()?;
        // A window manager moves its frame, which is a child of the root.
        select(root, EventMask::SUBSTRUCTURE_NOTIFY).ok()?;
        Some(Follower {
            conn,
            root,
            place,
            moved: true,
            area: None,
            covered_by_own: false,
            restacked: true,
            composed: (0, Vec::new()),
            pool: Pool::default(),
        })
    }

    /// Where it lies on the display, if that may have changed.
    pub(crate) fn news(&mut self) -> Option<Area> {
        let mut seen = None;
        loop {
            if !self.has_news() {
                return seen.map(|(_, area)| area);
            }
            self.moved = false;
            seen = self.look().ok();
            self.area = seen.filter(|(visible, _)| *visible).map(|(_, area)| area);
            self.restacked = true;
        }
    }

    /// Whether something has moved that [`Follower::news`] has not seen: what came with an answer waits
    /// here, and not in the socket.
    pub(crate) fn has_news(&mut self) -> bool {
        // Events of any kind: the few that there are all come from windows that were moved.
        while let Ok(Some(_)) = self.conn.poll_for_event() {
            self.moved = true;
        }
        self.moved
    }

    fn in_front(&self, area: Area) -> Result<Vec<Cover>, ReplyError> {
        let screen = self.conn.get_geometry(self.root)?.reply()?;
        match area.within(Area::at(0, 0, screen.width, screen.height)) {
            Some(shown) => stack::in_front(&self.conn, self.root, self.place.window, shown),
            None => Ok(Vec::new()),
        }
    }

    /// Whether menus, dialogs or other windows of this program lie in front of the window, as of the
    /// last [`Follower::news`]. Takes several turns with the X server after each of these.
    pub(crate) fn is_covered_by_own(&mut self) -> bool {
        if std::mem::take(&mut self.restacked) {
            self.covered_by_own = self.area.is_some_and(|area| {
                let found = self.in_front(area);
                found.is_ok_and(|found| found.iter().any(|cover| cover.own))
            });
        }
        self.covered_by_own
    }

    /// A part of the display as a window has it that begins at `origin`; `None` if that can't be had.
    fn pixels(&self, window: Window, part: Area, origin: (i32, i32)) -> Option<Vec<u8>> {
        let size = part.size();
        let (Ok(width), Ok(height)) = (size.width.try_into(), size.height.try_into()) else {
            return None;
        };
        let within = |at: i32, from: i32| i16::try_from(at - from).ok();
        let (x, y) = (within(part.left, origin.0)?, within(part.top, origin.1)?);
        let format = ImageFormat::Z_PIXMAP;
        let image = self.conn.get_image(format, window, x, y, width, height, !0);
        // It may have gone or changed since.
        let image = image.ok()?.reply().ok()?;
        let whole = image.depth >= 24 && image.data.len() == size.pixels() * PIXEL;
        whole.then_some(image.data)
    }

    /// [`Follower::picture`], with what of this program lies in front, if it is another one than the
    /// last, or something else was handed over since: `submitted` pictures so far.
    pub(crate) fn composed(&mut self, submitted: u64) -> Option<Copied> {
        let mut picture = self.picture()?;
        let (count, bytes) = &mut self.composed;
        if *count == submitted && bytes == picture.bytes() {
            return None;
        }
        *count = submitted + 1;
        bytes.clear();
        bytes.extend_from_slice(picture.bytes());
        Some(picture)
    }

    /// The last picture of [`Follower::composed`] is not kept any more.
    pub(crate) fn forget_composed(&mut self) {
        self.composed = (0, Vec::new());
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

    /// Whether the window is to be seen, as of the last [`Follower::news`].
    pub(crate) fn is_visible(&self) -> bool {
        self.area.is_some()
    }

    /// What the window shows now, as its display has it, with what lies in front of it and belongs to
    /// this program. What windows of other programs cover of it, or lies outside of the display, is
    /// black. `None` if that can't be had.
    pub(crate) fn picture(&self) -> Option<Copied> {
        let (area, window) = (self.area?, self.place.window);
        let screen = self.conn.get_geometry(self.root).ok()?.reply().ok()?;
        let shown = area.within(Area::at(0, 0, screen.width, screen.height))?;
        let covers = stack::in_front(&self.conn, self.root, window, shown).ok()?;
        let pixels = self.pixels(window, shown, (area.left, area.top))?;
        let whole = area.size();
        if !whole.is_valid() {
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
        let mut lay = |at: Area, pixels: &[u8]| {
            let rows = pixels.chunks_exact(at.size().width as usize * PIXEL);
            for (row, pixels) in (at.top..at.bottom).zip(rows) {
                let part = part(row, at.left, at.right);
                copied.bytes()[part].copy_from_slice(pixels);
            }
        };
        lay(shown, &pixels);
        for Cover { area, own } in covers {
            // A server need not have what is covered, but it has what covers.
            let black = || vec![0; area.size().pixels() * PIXEL];
            let pixels = own.then(|| self.pixels(self.root, area, (0, 0))).flatten();
            lay(area, &pixels.unwrap_or_else(black));
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

impl AsFd for Follower {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.conn.stream().as_fd()
    }
}
