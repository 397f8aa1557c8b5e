//! Where the streamed window lies on its X display, for the pointer that is injected there, and how
//! windows are called.
//!
//! Over a connection of our own: the game's is the game's.

use std::os::fd::{AsFd, BorrowedFd};

use openuvr_proto::units::Size;
use x11rb::connection::Connection as _;
use x11rb::errors::ReplyError;
use x11rb::protocol::xproto::{
    AtomEnum, ChangeWindowAttributesAux, ConnectionExt as _, EventMask, Window,
};
use x11rb::rust_connection::RustConnection;

use crate::windows::Place;

/// Follows one window.
pub(crate) struct Follower {
    conn: RustConnection,
    root: Window,
    place: Place,
    moved: bool,
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
        })
    }

    /// Its left and upper edge on the display and its size, if that may have changed.
    pub(crate) fn news(&mut self) -> Option<(i32, i32, Size)> {
        let mut seen = None;
        loop {
            // Events of any kind: the few that there are all come from windows that were moved.
            // Those that came with an answer wait here, not in the socket.
            while let Ok(Some(_)) = self.conn.poll_for_event() {
                self.moved = true;
            }
            if !std::mem::take(&mut self.moved) {
                return seen;
            }
            seen = self.look().ok();
        }
    }

    fn look(&self) -> Result<(i32, i32, Size), ReplyError> {
        let window = self.place.window;
        let size = self.conn.get_geometry(window)?;
        let at = self.conn.translate_coordinates(window, self.root, 0, 0)?;
        let (size, at) = (size.reply()?, at.reply()?);
        let size = Size::new(size.width.into(), size.height.into());
        Ok((at.dst_x.into(), at.dst_y.into(), size))
    }
}

/// Whether a window, or one that it lies in, has `title` in its title or class, upper and lower case
/// alike. Asks the display: some milliseconds.
pub(crate) fn is_called(place: &Place, title: &str) -> bool {
    let Ok((conn, _)) = x11rb::connect(Some(&place.display)) else {
        return false;
    };
    let title = title.to_lowercase();
    let words = words(&conn, place.window).unwrap_or_default();
    words
        .iter()
        .any(|words| words.to_lowercase().contains(&title))
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
