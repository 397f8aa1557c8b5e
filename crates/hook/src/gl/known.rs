//! What is known of surfaces and displays of GLX and EGL, such as the X windows that they were made of.

use std::sync::Mutex;

/// Entries that are remembered; more than any program has.
const MANY: usize = 64;

/// Entries by what tells one from others. Nobody waits for the lock: it may be held in a forked child by a thread that
/// is not there.
pub(super) struct Known<K, V>(Mutex<Vec<(K, V)>>);

impl<K: PartialEq, V: Clone> Known<K, V> {
    pub(super) const fn new() -> Known<K, V> {
        Known(Mutex::new(Vec::new()))
    }

    /// It was made.
    pub(super) fn made(&self, key: K, value: V) {
        let Ok(mut all) = self.0.try_lock() else {
            return;
        };
        all.retain(|(known, _)| *known != key);
        if all.len() < MANY {
            all.push((key, value));
        }
    }

    /// What is known of it.
    pub(super) fn of(&self, key: &K) -> Option<V> {
        let all = self.0.try_lock().ok()?;
        let found = all.iter().find(|(known, _)| known == key);
        found.map(|(_, value)| value.clone())
    }

    /// It is gone.
    pub(super) fn unmade(&self, key: &K) {
        self.forget(|known| known == key);
    }

    /// These are gone.
    pub(super) fn forget(&self, which: impl Fn(&K) -> bool) {
        if let Ok(mut all) = self.0.try_lock() {
            all.retain(|(known, _)| !which(known));
        }
    }
}
