//! Where a captured target lies on its display.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openuvr_proto::units::Size;

use crate::application::WindowScope;

/// Where the captured target lies on its display, and which window it is; shared, since windows
/// move and are made anew.
#[derive(Clone, Debug)]
pub struct Viewport(Arc<Mutex<Location>>);

#[derive(Clone, Copy, Debug)]
struct Location {
    at: (i32, i32, Size),
    window: Option<u32>,
    scope: WindowScope,
}

impl Viewport {
    /// A target at `x`, `y` on the display, in pixels.
    #[must_use]
    pub fn new(x: i32, y: i32, size: Size) -> Viewport {
        Viewport(Arc::new(Mutex::new(Location {
            at: (x, y, size),
            window: None,
            scope: WindowScope::default(),
        })))
    }

    /// Its left and upper edge on the display and its size now, in pixels. From any thread.
    #[must_use]
    pub fn now(&self) -> (i32, i32, Size) {
        self.lies().at
    }

    /// It has moved. From any thread.
    pub fn set(&self, x: i32, y: i32, size: Size) {
        self.lies().at = (x, y, size);
    }

    /// The window that it is: input is for that one alone. `None`: a display or a part of one.
    #[must_use]
    pub fn window(&self) -> Option<u32> {
        self.lies().window
    }

    /// It is this window from now on. From any thread.
    pub fn set_window(&self, window: Option<u32>) {
        self.lies().window = window;
    }

    /// Which other windows input is for too.
    #[must_use]
    pub fn scope(&self) -> WindowScope {
        self.lies().scope
    }

    /// Input is for these other windows too. From any thread.
    pub fn set_window_scope(&self, scope: WindowScope) {
        self.lies().scope = scope;
    }

    fn lies(&self) -> MutexGuard<'_, Location> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
