//! Where the streamed window lies on its X display, for the pointer that is injected there.
//!
//! Over a connection of our own: the game's is the game's.

use std::os::fd::{AsFd, BorrowedFd};

use openuvr_proto::units::Size;
use x11rb::connection::Connection as _;
use x11rb::errors::ReplyError;
use x11rb::protocol::xproto::{ChangeWindowAttributesAux, ConnectionExt as _, EventMask, Window};
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

impl AsFd for Follower {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.conn.stream().as_fd()
    }
}
