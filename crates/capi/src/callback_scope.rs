//! Whether this thread runs a callback of the application, where closing a context would deadlock.

use std::cell::Cell;

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Exists while the thread that created it is running a callback.
pub(crate) struct CallbackScope(());

impl CallbackScope {
    pub(crate) fn enter() -> CallbackScope {
        DEPTH.set(DEPTH.get() + 1);
        CallbackScope(())
    }

    /// Whether this thread is running a callback now.
    pub(crate) fn is_now() -> bool {
        DEPTH.get() > 0
    }
}

impl Drop for CallbackScope {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get().saturating_sub(1));
    }
}
