//! What lies over the streamed window on its X display, and whose it is.

use openuvr_media::application::Application;
use openuvr_proto::units::Size;
use x11rb::errors::ReplyError;
use x11rb::protocol::xproto::{ConnectionExt as _, MapState, Window, WindowClass};
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

/// Windows that are looked at; more than a display shows.
const MANY: usize = 512;

/// Toolkits keep windows of one pixel, to hold grabs and selections: nobody sees smaller ones than this.
const SEEN: i32 = 4;

/// What lies over a window.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Over {
    /// What windows of other programs cover.
    pub(crate) others: Vec<Area>,
    /// Whether windows of its own program, which are to be seen with it, cover some of it.
    pub(crate) own: bool,
}

/// What lies over the window of `application`, which lies at `place`; all of it on the display.
///
/// # Errors
/// The connection broke.
pub(crate) fn over(
    conn: &RustConnection,
    root: Window,
    application: &Application,
    place: Area,
) -> Result<Over, ReplyError> {
    let all = conn.query_tree(root)?.reply()?.children;
    let top = application.top();
    let higher = all.into_iter().skip_while(|child| *child != top).skip(1);
    let higher: Vec<Window> = higher.take(MANY).collect();
    let mut asked = Vec::with_capacity(higher.len());
    for &window in &higher {
        let attributes = conn.get_window_attributes(window)?;
        asked.push((window, attributes, conn.get_geometry(window)?));
    }
    let mut over = Over::default();
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
        if let (true, Some(area)) = (visible, covers.within(place)) {
            let tiny = covers.right - covers.left < SEEN || covers.bottom - covers.top < SEEN;
            if application.has(conn, higher)? {
                over.own |= !tiny;
            } else {
                over.others.push(area);
            }
        }
    }
    Ok(over)
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
