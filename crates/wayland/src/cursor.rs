//! The pointer of a Wayland compositor with `ext-image-copy-capture-v1`. Other compositors can only draw the pointer
//! into the picture.
//!
//! Position and image arrive as events; nothing is polled. The compositor does not announce whether an application has
//! locked the pointer.

use std::sync::Arc;
use std::time::Duration;

use openuvr_clock as clock;

use crate::capture::PointerWatch;
use openuvr_media::capture::cursor::position::normalised;
use openuvr_media::capture::cursor::{CursorEvent, CursorWatch};
use openuvr_media::capture::{CaptureError, Waker};
use openuvr_media::cursor::Cursor;

/// Watches the pointer of an output. The watcher owns its connection, and is owned by one thread.
pub struct WaylandCursor {
    watch: PointerWatch,
    waker: Waker,
    cursor: Cursor,
}

impl WaylandCursor {
    /// Watches the pointer on the output with this name. Without a name, selects the first output with a mode. Without
    /// `display`, connects to the display in the environment variable `WAYLAND_DISPLAY`. Returns `None` if the
    /// compositor can only draw the pointer into the picture, or if the output is rotated.
    ///
    /// # Errors
    /// [`CaptureError`], in one line, if the display cannot be reached.
    pub fn open(
        display: Option<&str>,
        output: Option<&str>,
    ) -> Result<Option<WaylandCursor>, CaptureError> {
        let watch = PointerWatch::open(display, output)?;
        let Some(watch) = watch else {
            return Ok(None);
        };
        Ok(Some(WaylandCursor {
            watch,
            waker: Waker::new()?,
            cursor: Cursor {
                at: None,
                shape: Arc::default(),
            },
        }))
    }
}

impl CursorWatch for WaylandCursor {
    fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn next(&mut self, timeout: Option<Duration>) -> Result<CursorEvent, CaptureError> {
        let until = timeout.map(|span| clock::now() + span);
        loop {
            if self.waker.lower() {
                return Ok(CursorEvent::Woken);
            }
            let now = clock::now();
            let shape = self.watch.advance(now)?;
            if let Some(shape) = shape.filter(|shape| *shape != *self.cursor.shape) {
                self.cursor.shape = Arc::new(shape);
                return Ok(CursorEvent::Shaped(Arc::clone(&self.cursor.shape)));
            }
            let visible = !self.cursor.shape.is_invisible();
            let place = self.watch.position().filter(|_| visible);
            let at = place.and_then(|(place, size)| normalised(place, (0, 0, size)));
            if at != self.cursor.at {
                self.cursor.at = at;
                return Ok(CursorEvent::Moved(at));
            }
            if until.is_some_and(|until| until <= now) {
                return Ok(CursorEvent::TimedOut);
            }
            self.watch.wait(&self.waker, until)?;
        }
    }
}
