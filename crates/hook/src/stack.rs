//! What lies over the streamed window on its X display, and whose it is.

use openuvr_proto::units::Size;
use x11rb::connection::Connection as _;
use x11rb::errors::ReplyError;
use x11rb::protocol::xproto::{AtomEnum, ConnectionExt as _, MapState, Window, WindowClass};
use x11rb::rust_connection::RustConnection;

/// A part of the display in pixels: from the first to behind the last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Area {
    pub(crate) left: i32,
    pub(crate) top: i32,
    pub(crate) right: i32,
    pub(crate) bottom: i32,
}

impl Area {
    pub(crate) fn at(left: i32, top: i32, width: u16, height: u16) -> Area {
        let (right, bottom) = (left + i32::from(width), top + i32::from(height));
        Area {
            left,
            top,
            right,
            bottom,
        }
    }

    pub(crate) fn size(self) -> Size {
        let side = |first: i32, end: i32| u32::try_from(end - first).unwrap_or(0);
        Size::new(side(self.left, self.right), side(self.top, self.bottom))
    }

    /// What both have; `None` if that is nothing.
    pub(crate) fn within(self, other: Area) -> Option<Area> {
        let both = Area {
            left: self.left.max(other.left),
            top: self.top.max(other.top),
            right: self.right.min(other.right),
            bottom: self.bottom.min(other.bottom),
        };
        (both.left < both.right && both.top < both.bottom).then_some(both)
    }
}

/// Windows that are looked at; more than a display shows, and than a dialog has on each of its levels.
const MANY: usize = 512;
const MANY_INSIDE: usize = 16;

/// Window managers and toolkits put one to three windows around one another.
const DEPTH: u8 = 4;

/// What a window covers of one that lies below it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cover {
    pub(crate) area: Area,
    /// The window is one of this program: a menu, a tooltip, a dialog.
    pub(crate) own: bool,
}

/// Toolkits keep windows of one pixel, to hold grabs and selections: nobody sees them.
const SEEN: i32 = 4;

/// What covers `window`, which lies at `place`, all of it on the display; what lies lower comes first.
///
/// # Errors
/// The connection broke, or `window` is gone.
pub(crate) fn in_front(
    conn: &RustConnection,
    root: Window,
    window: Window,
    place: Area,
) -> Result<Vec<Cover>, ReplyError> {
    let top = child_of(conn, root, window)?;
    let all = conn.query_tree(root)?.reply()?.children;
    let higher = all.into_iter().skip_while(|child| *child != top).skip(1);
    let higher: Vec<Window> = higher.take(MANY).collect();
    let mut asked = Vec::with_capacity(higher.len());
    for &window in &higher {
        let attributes = conn.get_window_attributes(window)?;
        asked.push((window, attributes, conn.get_geometry(window)?));
    }
    let mut found = Vec::new();
    for (higher, attributes, geometry) in asked {
        // Gone meanwhile.
        let (Ok(attributes), Ok(geometry)) = (attributes.reply(), geometry.reply()) else {
            continue;
        };
        let visible = attributes.map_state == MapState::VIEWABLE
            && attributes.class == WindowClass::INPUT_OUTPUT;
        let border = 2 * geometry.border_width;
        let covers = Area::at(
            geometry.x.into(),
            geometry.y.into(),
            geometry.width.saturating_add(border),
            geometry.height.saturating_add(border),
        );
        let (true, Some(area)) = (visible, covers.within(place)) else {
            continue;
        };
        let tiny = covers.right - covers.left < SEEN || covers.bottom - covers.top < SEEN;
        let own = is_ours(conn, higher, window)?;
        if !(own && tiny) {
            found.push(Cover { area, own });
        }
    }
    Ok(found)
}

/// The child of the root that `window` lies in, or is.
fn child_of(conn: &RustConnection, root: Window, mut window: Window) -> Result<Window, ReplyError> {
    loop {
        let parent = conn.query_tree(window)?.reply()?.parent;
        if parent == root || parent == x11rb::NONE {
            return Ok(window);
        }
        window = parent;
    }
}

/// Whether a window, or one in it, was made over the connection over which `streamed` was made, or
/// says that it belongs to this process. What is gone belongs to nobody.
fn is_ours(conn: &RustConnection, window: Window, streamed: Window) -> Result<bool, ReplyError> {
    // The server gives each connection numbers that differ in these bits.
    let connection = |window: Window| window & !conn.setup().resource_id_mask;
    let process = conn.intern_atom(false, b"_NET_WM_PID")?.reply()?.atom;
    let mut level = vec![window];
    for _ in 0..DEPTH {
        let mut next = Vec::new();
        for window in level {
            if connection(window) == connection(streamed) {
                return Ok(true);
            }
            let owner = conn.get_property(false, window, process, AtomEnum::CARDINAL, 0, 1)?;
            let tree = conn.query_tree(window)?;
            let owner = owner.reply().ok().and_then(|owner| owner.value32()?.next());
            if owner == Some(std::process::id()) {
                return Ok(true);
            }
            next.extend(tree.reply().into_iter().flat_map(|tree| tree.children));
        }
        next.truncate(MANY_INSIDE);
        level = next;
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_have_in_common_what_lies_in_both() {
        let area = Area::at(10, 20, 30, 40);
        assert_eq!(area.within(Area::at(0, 0, 100, 100)), Some(area));
        assert_eq!(
            area.within(Area::at(-5, 50, 20, 100)),
            Some(Area::at(10, 50, 5, 10))
        );
        assert_eq!(area.within(Area::at(40, 20, 5, 5)), None, "beside");
    }
}
