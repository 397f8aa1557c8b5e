//! The windows that cover the streamed window on its X display, and their owners.

use openuvr_media::application::Application;
use openuvr_proto::units::Size;
use x11rb::errors::ReplyError;
use x11rb::protocol::xproto::{ConnectionExt as _, MapState, Window, WindowClass};
use x11rb::rust_connection::RustConnection;

/// A part of the display in pixels; `right` and `bottom` are exclusive.
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

    /// The intersection; `None` if it is empty.
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

/// Maximum number of windows to check (guess: more than a display shows).
const MAX_WINDOWS: usize = 512;

/// The smallest side of a visible window, in pixels. Toolkits keep tiny windows for grabs and selections.
const MIN_VISIBLE: i32 = 4;

/// The areas that cover a window.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Overlap {
    /// Areas covered by windows of other programs.
    pub(crate) others: Vec<Area>,
    /// Whether captured windows of the same program cover a part of the window.
    pub(crate) own: bool,
}

/// The windows that cover the application's window within `area` of the display.
///
/// # Errors
/// Returns an error if the connection has failed.
pub(crate) fn overlap(
    conn: &RustConnection,
    root: Window,
    application: &Application,
    area: Area,
) -> Result<Overlap, ReplyError> {
    let all = conn.query_tree(root)?.reply()?.children;
    let top = application.top();
    let higher = all.into_iter().skip_while(|child| *child != top).skip(1);
    let higher: Vec<Window> = higher.take(MAX_WINDOWS).collect();
    let mut replies = Vec::with_capacity(higher.len());
    for &window in &higher {
        let attributes = conn.get_window_attributes(window)?;
        replies.push((window, attributes, conn.get_geometry(window)?));
    }
    let mut overlap = Overlap::default();
    for (higher, attributes, geometry) in replies {
        // The window was destroyed after the query.
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
        if let (true, Some(covered)) = (visible, covers.within(area)) {
            let tiny = covers.right - covers.left < MIN_VISIBLE
                || covers.bottom - covers.top < MIN_VISIBLE;
            if application.has(conn, higher)? {
                overlap.own |= !tiny;
            } else {
                overlap.others.push(covered);
            }
        }
    }
    Ok(overlap)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_intersected() {
        let area = Area::at(10, 20, 30, 40);
        assert_eq!(area.within(Area::at(0, 0, 100, 100)), Some(area));
        assert_eq!(
            area.within(Area::at(-5, 50, 20, 100)),
            Some(Area::at(10, 50, 5, 10))
        );
        assert_eq!(area.within(Area::at(40, 20, 5, 5)), None, "adjacent");
    }
}
