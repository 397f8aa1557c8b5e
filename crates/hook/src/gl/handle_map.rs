//! Attributes of GLX and EGL surfaces and displays, such as their X windows.

use std::sync::Mutex;

/// Maximum number of entries (guess: more than a program has).
const MAX_ENTRIES: usize = 64;

/// A map from handles to attributes. It never blocks on its mutex: in a forked child, the mutex may be held by a thread
/// that does not exist there.
pub(super) struct HandleMap<K, V>(Mutex<Vec<(K, V)>>);

impl<K: PartialEq, V: Clone> HandleMap<K, V> {
    pub(super) const fn new() -> HandleMap<K, V> {
        HandleMap(Mutex::new(Vec::new()))
    }

    /// Adds or replaces an entry.
    pub(super) fn insert(&self, key: K, value: V) {
        let Ok(mut all) = self.0.try_lock() else {
            return;
        };
        all.retain(|(known, _)| *known != key);
        if all.len() < MAX_ENTRIES {
            all.push((key, value));
        }
    }

    /// A copy of an entry's value.
    pub(super) fn get(&self, key: &K) -> Option<V> {
        let all = self.0.try_lock().ok()?;
        let found = all.iter().find(|(known, _)| known == key);
        found.map(|(_, value)| value.clone())
    }

    /// Removes an entry.
    pub(super) fn remove(&self, key: &K) {
        self.remove_where(|known| known == key);
    }

    /// Removes matching entries.
    pub(super) fn remove_where(&self, which: impl Fn(&K) -> bool) {
        if let Ok(mut all) = self.0.try_lock() {
            all.retain(|(known, _)| !which(known));
        }
    }
}
