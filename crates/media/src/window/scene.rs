//! The window's contents and mode: the only state that the presenter and the input source share.
//!
//! The state's lock is held for a few requests at a time, never for a round trip, so the media thread does not wait for
//! the input thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openuvr_proto::units::Size;
use x11rb::protocol::{shm, xproto};

use super::panel::Panel;
use super::placement::{self, Overlay, Placement, Rect};
use crate::cursor::Cursor;

/// The window as shared by both threads.
#[derive(Debug)]
pub(crate) struct SharedWindow {
    /// The display's name, for messages.
    pub(crate) display: String,
    pub(crate) window: xproto::Window,
    pub(crate) root: xproto::Window,
    pub(crate) visual: xproto::Visualid,
    pub(crate) depth: u8,
    /// Whether the window's pixel format is the pictures' format, BGRX.
    pub(crate) stores_bgrx: bool,
    /// Whether OpenGL's drawing is outdated.
    stale: AtomicBool,
    scene: Mutex<Scene>,
}

/// The mutable state.
#[derive(Debug)]
pub(crate) struct Scene {
    /// Whether the user is an observer. If so, the cursor is always drawn over the picture.
    pub(crate) observer: bool,
    /// The window's inner size.
    pub(crate) window: Size,
    /// The displayed picture.
    pub(crate) shown: Option<DisplayedPicture>,
    /// The first rows of the next picture, displayed over the current picture.
    pub(crate) next: Option<FirstRows>,
    /// The host's pointer.
    pub(crate) cursor: Option<Cursor>,
    /// The text over the picture.
    pub(crate) panel: Option<Arc<Panel>>,
    /// Whether the local pointer is over the window.
    pub(crate) pointer_inside: bool,
    /// Whether the pointer is grabbed for relative motion.
    pub(crate) grabbed: bool,
    /// Whether the host's application requests relative motion.
    pub(crate) relative: bool,
    /// The state of a window whose size follows the picture. `None` if the size does not follow the picture, or no
    /// longer follows it.
    pub(crate) following: Option<AutoSize>,
}

/// A window whose size follows the picture until the user or another program resizes the window.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct AutoSize {
    /// The maximum size.
    pub(crate) screen: Size,
    /// The window's last size outside of full screen.
    pub(crate) size: Size,
    /// Requested sizes that the server has not reported yet.
    pub(crate) requested: Vec<Size>,
    /// The size that another program (for example the window manager, on behalf of the user) has set while `requested`
    /// was not empty. The window then follows the picture no longer.
    pub(crate) set_by_other: Option<Size>,
    pub(crate) full_screen: bool,
}

/// The effect of a resize on a window whose size follows the picture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AfterResize {
    /// The window still follows the picture, or later resizes decide.
    Keep,
    /// The window follows the picture no longer.
    End,
    /// The window follows the picture no longer. The picture's size replaced this size, which another program had set.
    Restore(Size),
}

impl AutoSize {
    /// Returns the window's new size for a picture; `None` if the window already has this size or is in full screen.
    pub(crate) fn picture(&mut self, picture: Size) -> Option<Size> {
        let size = placement::within(picture, self.screen);
        let last = self.requested.last().copied().unwrap_or(self.size);
        if self.full_screen || self.set_by_other.is_some() || last == size {
            return None;
        }
        self.requested.push(size);
        Some(size)
    }

    /// Handles a resize reported by the server. If the server was asked for a picture's size before another program's
    /// resize was handled, it reports the other program's size first, and then the picture's size.
    pub(crate) fn on_resized(&mut self, size: Size) -> AfterResize {
        if self.full_screen {
            return AfterResize::Keep;
        }
        if let Some(at) = self.requested.iter().position(|asked| *asked == size) {
            self.requested.drain(..=at);
            self.size = size;
            return match self.set_by_other {
                Some(other) if self.requested.is_empty() => AfterResize::Restore(other),
                _ => AfterResize::Keep,
            };
        }
        if self.set_by_other.is_none() && self.size == size {
            return AfterResize::Keep;
        }
        if self.requested.is_empty() {
            return AfterResize::End;
        }
        self.set_by_other = Some(size);
        AfterResize::Keep
    }
}

/// A picture in a shared buffer, or drawn by OpenGL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DisplayedPicture {
    /// The buffer. `None` if only OpenGL draws the window.
    pub(crate) segment: Option<shm::Seg>,
    pub(crate) size: Size,
    /// Sequence number of this picture in its window, to detect outdated copies.
    pub(crate) generation: u64,
}

/// The painted rows of an incomplete picture, which has the same size as the displayed picture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FirstRows {
    /// The buffer.
    pub(crate) segment: shm::Seg,
    /// Number of rows from the top.
    pub(crate) rows: u32,
    /// A number from the same sequence as [`DisplayedPicture::generation`].
    pub(crate) generation: u64,
}

impl SharedWindow {
    pub(crate) fn new(
        display: String,
        window: xproto::Window,
        (screen, stores_bgrx): (&xproto::Screen, bool),
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
            stores_bgrx,
            stale: AtomicBool::new(false),
            scene: Mutex::new(Scene {
                observer,
                window: size,
                shown: None,
                next: None,
                cursor: None,
                panel: None,
                pointer_inside: false,
                grabbed: false,
                following,
                relative: false,
            }),
        }
    }

    /// Marks OpenGL's drawing as outdated.
    pub(crate) fn spoil(&self) {
        self.stale.store(true, Ordering::Release);
    }

    /// Whether OpenGL's drawing is outdated.
    pub(crate) fn is_stale(&self) -> bool {
        self.stale.load(Ordering::Acquire)
    }

    /// Marks OpenGL's drawing as current.
    pub(crate) fn refresh(&self) {
        self.stale.store(false, Ordering::Release);
    }

    pub(crate) fn scene(&self) -> MutexGuard<'_, Scene> {
        // Every change of the scene is complete in itself, so a panic leaves the scene valid.
        self.scene.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the server can copy pictures to this placement without scaling or conversion.
    pub(crate) fn copies(&self, placement: Placement) -> bool {
        self.stores_bgrx && placement.is_unscaled()
    }

    /// The area in which to draw the host's pointer over the picture, clipped to the picture. `None` if the pointer is
    /// hidden or the window's own cursor shows it.
    pub(crate) fn overlay(&self, scene: &Scene) -> Option<Overlay> {
        if !(scene.observer || scene.grabbed || !scene.pointer_inside) {
            return None;
        }
        scene.placement()?.overlay(scene.cursor.as_ref()?)
    }
}

impl Scene {
    /// The picture's placement; `None` before the first picture.
    pub(crate) fn placement(&self) -> Option<Placement> {
        Some(Placement::fit(self.window, self.shown?.size))
    }

    /// The text's area: near the picture's top left corner, clipped to the picture.
    pub(crate) fn panel_area(&self) -> Option<Rect> {
        let panel = self.panel.as_ref()?;
        self.placement()?.panel((panel.width, panel.height))
    }
}

#[cfg(test)]
mod tests {
    use super::AfterResize::{End, Keep, Restore};
    use super::*;

    #[test]
    fn a_window_follows_until_another_program_resizes_it() {
        let sizes = [(640, 480), (320, 240), (800, 600), (500, 400)];
        let [first, second, third, other] = sizes.map(|(w, h)| Size::new(w, h));
        let mut it = following(first);
        assert_eq!(it.on_resized(first), Keep, "it was only moved");
        assert_eq!(it.picture(second), Some(second));
        // The picture changes again before the server has reported the resize.
        assert_eq!(
            it.picture(third),
            Some(Size::new(700, 525)),
            "limited to the screen"
        );
        assert_eq!(it.picture(third), None);
        for size in [first, second, Size::new(700, 525)] {
            assert_eq!(it.on_resized(size), Keep, "{size}");
        }
        it.full_screen = true;
        assert_eq!(it.on_resized(Size::new(700, 600)), Keep);
        assert_eq!(it.picture(first), None);
        it.full_screen = false;
        assert_eq!(it.on_resized(Size::new(700, 525)), Keep);
        assert_eq!(it.picture(first), Some(first));
        assert_eq!(it.on_resized(first), Keep);
        assert_eq!(it.on_resized(other), End, "the user did that");
    }

    #[test]
    fn a_picture_does_not_undo_another_programs_resize() {
        let sizes = [(640, 480), (320, 240), (600, 300), (500, 400), (510, 400)];
        let [first, second, third, other, last] = sizes.map(|(w, h)| Size::new(w, h));
        let mut it = following(first);
        assert_eq!(it.picture(second), Some(second));
        assert_eq!(it.picture(third), Some(third));
        for size in [other, last, second] {
            assert_eq!(it.on_resized(size), Keep, "{size}");
        }
        assert_eq!(it.picture(first), None, "it follows the picture no longer");
        assert_eq!(it.on_resized(third), Restore(last));
    }

    fn following(size: Size) -> AutoSize {
        AutoSize {
            screen: Size::new(700, 600),
            size,
            requested: Vec::new(),
            set_by_other: None,
            full_screen: false,
        }
    }
}
