//! What the window shows and how it is used: the one thing that presenter and input source share.
//!
//! The lock around it is held for a few requests at a time, never for a round trip, so the media
//! thread doesn't wait for the input thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openuvr_proto::units::Size;
use x11rb::protocol::{shm, xproto};

use super::panel::Panel;
use super::placement::{Placement, Rect};
use crate::cursor::Cursor;

/// The window as both threads know it.
#[derive(Debug)]
pub(crate) struct SharedWindow {
    /// The display's name, for messages.
    pub(crate) display: String,
    pub(crate) window: xproto::Window,
    pub(crate) root: xproto::Window,
    pub(crate) visual: xproto::Visualid,
    pub(crate) depth: u8,
    /// Whether it stores pixels as our pictures do.
    pub(crate) takes_ours: bool,
    /// Whether what OpenGL has drawn is no longer what the scene says.
    stale: AtomicBool,
    scene: Mutex<Scene>,
}

/// The state that changes.
#[derive(Debug)]
pub(crate) struct Scene {
    /// Whether the person only watches: the cursor is always drawn over the picture.
    pub(crate) observer: bool,
    /// The window's inner size.
    pub(crate) window: Size,
    /// The picture on it.
    pub(crate) shown: Option<DisplayedPicture>,
    /// The host's pointer.
    pub(crate) cursor: Option<Cursor>,
    /// The text over the picture.
    pub(crate) panel: Option<Arc<Panel>>,
    /// Whether the local pointer is over the window.
    pub(crate) pointer_inside: bool,
    /// Whether the pointer is grabbed for relative motion.
    pub(crate) grabbed: bool,
    /// Whether the host's application wants that.
    pub(crate) relative: bool,
    /// How the window's size follows the picture's; `None`: it does not, or no longer.
    pub(crate) following: Option<AutoSize>,
}

/// A window that is as large as its picture, until somebody makes it another size.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct AutoSize {
    /// What it is not larger than.
    pub(crate) screen: Size,
    /// Its last size beside full screen.
    pub(crate) size: Size,
    /// The sizes that it was given and the server has not told of yet.
    pub(crate) asked: Vec<Size>,
    pub(crate) full_screen: bool,
}

impl AutoSize {
    /// The size for a picture of another size; `None` if the window has it or is full screen.
    pub(crate) fn picture(&mut self, picture: Size) -> Option<Size> {
        let size = within(picture, self.screen);
        let last = self.asked.last().copied().unwrap_or(self.size);
        if self.full_screen || last == size {
            return None;
        }
        self.asked.push(size);
        Some(size)
    }

    /// The server told of the window's size; whether it still follows.
    pub(crate) fn on_resized(&mut self, size: Size) -> bool {
        if self.full_screen {
            return true;
        }
        if let Some(at) = self.asked.iter().position(|asked| *asked == size) {
            self.asked.drain(..=at);
            self.size = size;
        }
        self.size == size
    }
}

/// A picture's size, or the largest of its shape that a screen has room for.
pub(crate) fn within(picture: Size, screen: Size) -> Size {
    if picture.width <= screen.width && picture.height <= screen.height {
        return picture;
    }
    let side = |pixels: i32| u32::try_from(pixels).unwrap_or(1);
    let area = Placement::fit(screen, picture).area;
    Size::new(side(area.width), side(area.height))
}

/// A picture that lies in a shared buffer, or that OpenGL draws.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DisplayedPicture {
    /// The buffer; `None`: OpenGL draws the window, and nobody else does.
    pub(crate) segment: Option<shm::Seg>,
    pub(crate) size: Size,
    /// Counts the pictures of this window: tells whether a copy is of the newest.
    pub(crate) generation: u64,
}

impl SharedWindow {
    pub(crate) fn new(
        display: String,
        window: xproto::Window,
        (screen, takes_ours): (&xproto::Screen, bool),
        size: Size,
        observer: bool,
        following: Option<AutoSize>,
    ) -> SharedWindow {
        SharedWindow {
            display,
            window,
            root: screen.root,
            visual: screen.root_visual,
            depth: screen.root_depth,
            takes_ours,
            stale: AtomicBool::new(false),
            scene: Mutex::new(Scene {
                observer,
                window: size,
                shown: None,
                cursor: None,
                panel: None,
                pointer_inside: false,
                grabbed: false,
                following,
                relative: false,
            }),
        }
    }

    /// OpenGL is to draw the window again.
    pub(crate) fn spoil(&self) {
        self.stale.store(true, Ordering::Release);
    }

    /// Whether OpenGL is to draw the window again.
    pub(crate) fn is_stale(&self) -> bool {
        self.stale.load(Ordering::Acquire)
    }

    /// OpenGL draws the scene as it is from now on.
    pub(crate) fn refresh(&self) {
        self.stale.store(false, Ordering::Release);
    }

    pub(crate) fn scene(&self) -> MutexGuard<'_, Scene> {
        // Every change of the scene is a plain assignment: a panic leaves it valid.
        self.scene.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the host's pointer has to be drawn over the picture, clipped to it, and how far the
    /// clip cut into the shape; `None` where the window's own cursor shows it or nothing does.
    pub(crate) fn overlay(&self, scene: &Scene) -> Option<Overlay> {
        if !(scene.observer || scene.grabbed || !scene.pointer_inside) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_follows_until_another_program_resizes_it() {
        let sizes = [(640, 480), (320, 240), (800, 600), (500, 400)];
        let [first, second, third, other] = sizes.map(|(w, h)| Size::new(w, h));
        let mut it = AutoSize {
            screen: Size::new(700, 600),
            size: first,
            asked: Vec::new(),
            full_screen: false,
        };
        assert!(it.on_resized(first), "it was only moved");
        assert_eq!(it.picture(second), Some(second));
        // The picture changes again before the server has told.
        assert_eq!(
            it.picture(third),
            Some(Size::new(700, 525)),
            "the screen ends there"
        );
        assert_eq!(it.picture(third), None);
        assert!(
            it.on_resized(first) && it.on_resized(second) && it.on_resized(Size::new(700, 525))
        );
        it.full_screen = true;
        assert!(it.on_resized(Size::new(700, 600)));
        assert_eq!(it.picture(first), None);
        it.full_screen = false;
        assert!(it.on_resized(Size::new(700, 525)));
        assert_eq!(it.picture(first), Some(first));
        assert!(!it.on_resized(other), "a person did that");
    }
}
