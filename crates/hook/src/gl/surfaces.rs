//! Surfaces of GLX and EGL, and the X windows that they were made of.

use std::sync::Mutex;

/// Surfaces that are remembered; more than any program has.
const MANY: usize = 64;

/// Surfaces, each by what tells it from others, with their windows. Nobody waits for the lock: it may
/// be held in a forked child by a thread that is not there.
pub(super) struct Surfaces<K>(Mutex<Vec<(K, u32)>>);

impl<K: PartialEq> Surfaces<K> {
    pub(super) const fn new() -> Surfaces<K> {
        Surfaces(Mutex::new(Vec::new()))
    }

    /// A surface was made of a window; what is no name of an X window is not remembered.
    pub(super) fn made(&self, surface: K, window: u64) {
        let (Ok(window), Ok(mut all)) = (u32::try_from(window), self.0.try_lock()) else {
            return;
        };
        all.retain(|(known, _)| *known != surface);
        if all.len() < MANY {
            all.push((surface, window));
        }
    }

    /// The window that a surface was made of.
    pub(super) fn window(&self, surface: &K) -> Option<u32> {
        let all = self.0.try_lock().ok()?;
        let found = all.iter().find(|(known, _)| known == surface);
        found.map(|(_, window)| *window)
    }

    /// A surface is gone.
    pub(super) fn unmade(&self, surface: &K) {
        self.forget(|known| known == surface);
    }

    /// These surfaces are gone.
    pub(super) fn forget(&self, which: impl Fn(&K) -> bool) {
        if let Ok(mut all) = self.0.try_lock() {
            all.retain(|(known, _)| !which(known));
        }
    }
}
