//! The position of a captured target on its display.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openuvr_proto::units::Size;

use crate::application::WindowScope;

/// The captured target's position on its display, and its window. It is shared between threads,
/// because windows move and are replaced.
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

    /// The target's current left and upper edge on the display and its size, in pixels. May be
    /// called from any thread.
    #[must_use]
    pub fn now(&self) -> (i32, i32, Size) {
        self.lock().at
    }

    /// Sets the position and size. May be called from any thread.
    pub fn set(&self, x: i32, y: i32, size: Size) {
        self.lock().at = (x, y, size);
    }

    /// The window that receives input. `None` for a display or a region.
    #[must_use]
    pub fn window(&self) -> Option<u32> {
        self.lock().window
    }

    /// Sets the window. May be called from any thread.
    pub fn set_window(&self, window: Option<u32>) {
        self.lock().window = window;
    }

    /// The other windows that receive input.
    #[must_use]
    pub fn scope(&self) -> WindowScope {
        self.lock().scope
    }

    /// Sets the other windows that receive input. May be called from any thread.
    pub fn set_window_scope(&self, scope: WindowScope) {
        self.lock().scope = scope;
    }

    fn lock(&self) -> MutexGuard<'_, Location> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
