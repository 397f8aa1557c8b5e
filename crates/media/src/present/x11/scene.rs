//! What the window shows and how it is used: the one thing that presenter and input source share.
//!
//! The lock around it is held for a few requests at a time, never for a round trip, so the media
//! thread doesn't wait for the input thread.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openuvr_proto::units::Size;
use x11rb::protocol::{shm, xproto};

use super::placement::{Placement, Rect};
use crate::cursor::Cursor;
use crate::present::panel::Panel;

/// The window as both threads know it.
#[derive(Debug)]
pub(crate) struct Stage {
    /// The display's name, for messages.
    pub(crate) display: String,
    pub(crate) window: xproto::Window,
    pub(crate) root: xproto::Window,
    pub(crate) visual: xproto::Visualid,
    pub(crate) depth: u8,
    /// Whether the person only watches: the cursor is always drawn over the picture.
    pub(crate) observer: bool,
    scene: Mutex<Scene>,
}

/// The state that changes.
#[derive(Debug)]
pub(crate) struct Scene {
    /// The window's inner size.
    pub(crate) window: Size,
    /// The picture on it.
    pub(crate) shown: Option<Shown>,
    /// The host's pointer.
    pub(crate) cursor: Option<Cursor>,
    /// The text over the picture.
    pub(crate) panel: Option<Arc<Panel>>,
    /// Whether the local pointer is over the window.
    pub(crate) pointer_inside: bool,
    /// Whether the pointer is grabbed for relative motion.
    pub(crate) grabbed: bool,
}

/// A picture that lies in a shared buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shown {
    pub(crate) segment: shm::Seg,
    pub(crate) size: Size,
    /// Counts the pictures of this window: tells whether a copy is of the newest.
    pub(crate) generation: u64,
}

impl Stage {
    pub(crate) fn new(
        display: String,
        window: xproto::Window,
        screen: &xproto::Screen,
        size: Size,
        observer: bool,
    ) -> Stage {
        Stage {
            display,
            window,
            root: screen.root,
            visual: screen.root_visual,
            depth: screen.root_depth,
            observer,
            scene: Mutex::new(Scene {
                window: size,
                shown: None,
                cursor: None,
                panel: None,
                pointer_inside: false,
                grabbed: false,
            }),
        }
    }

    pub(crate) fn scene(&self) -> MutexGuard<'_, Scene> {
        // Every change of the scene is a plain assignment: a panic leaves it valid.
        self.scene.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the host's pointer has to be drawn over the picture, clipped to it, and how far the
    /// clip cut into the shape; `None` where the window's own cursor shows it or nothing does.
    pub(crate) fn overlay(&self, scene: &Scene) -> Option<Overlay> {
        if !(self.observer || scene.grabbed || !scene.pointer_inside) {
            return None;
        }
        let cursor = scene.cursor.as_ref()?;
        let placement = scene.placement()?;
        let (x, y) = placement.pixel(cursor.at?);
        let shape = Rect {
            x: x - i32::from(cursor.shape.hot_x),
            y: y - i32::from(cursor.shape.hot_y),
            width: i32::from(cursor.shape.width),
            height: i32::from(cursor.shape.height),
        };
        let area = shape.and(placement.area)?;
        Some(Overlay {
            area,
            from: (area.x - shape.x, area.y - shape.y),
        })
    }
}

/// Pixels from the picture's corner to the text's.
const FROM_CORNER: i32 = 8;

/// A part of the pointer's shape on the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Overlay {
    pub(crate) area: Rect,
    /// The shape's pixel at the area's first corner.
    pub(crate) from: (i32, i32),
}

impl Scene {
    /// Where the picture is; `None` before the first.
    pub(crate) fn placement(&self) -> Option<Placement> {
        Some(Placement::fit(self.window, self.shown?.size))
    }

    /// Where the text is: at the picture's first corner, and no further than the picture goes.
    pub(crate) fn panel_area(&self) -> Option<Rect> {
        let (panel, picture) = (self.panel.as_ref()?, self.placement()?.area);
        let area = Rect {
            x: picture.x + FROM_CORNER,
            y: picture.y + FROM_CORNER,
            width: panel.width.into(),
            height: panel.height.into(),
        };
        area.and(picture)
    }
}
