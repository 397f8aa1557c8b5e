//! Attributes of GLX and EGL surfaces and displays, such as their X windows.

use std::sync::{Mutex, MutexGuard, TryLockError};
use std::thread;
use std::time::Duration;

/// Maximum number of entries (guess: more than a program has).
const MAX_ENTRIES: usize = 64;

/// Maximum number of attempts to lock the mutex, and the pause between them (guess: longer than a thread holds it).
const ATTEMPTS: u32 = 10_000;
const PAUSE: Duration = Duration::from_micros(100);

/// A map from handles to attributes. It waits for its mutex only for a limited time: in a forked child, the mutex may
/// be held by a thread that does not exist there.
pub(super) struct HandleMap<K, V>(Mutex<Vec<(K, V)>>);

impl<K: PartialEq, V: Clone> HandleMap<K, V> {
    pub(super) const fn new() -> HandleMap<K, V> {
        HandleMap(Mutex::new(Vec::new()))
    }

    /// Adds or replaces an entry.
    pub(super) fn insert(&self, key: K, value: V) {
        let Some(mut all) = self.lock() else {
            return;
        };
        all.retain(|(known, _)| *known != key);
        if all.len() < MAX_ENTRIES {
            all.push((key, value));
        }
    }

    /// A copy of an entry's value.
    pub(super) fn get(&self, key: &K) -> Option<V> {
        let all = self.lock()?;
        let found = all.iter().find(|(known, _)| known == key);
        found.map(|(_, value)| value.clone())
    }

    /// Removes an entry.
    pub(super) fn remove(&self, key: &K) {
        self.remove_where(|known| known == key);
    }

    /// Removes matching entries.
    pub(super) fn remove_where(&self, which: impl Fn(&K) -> bool) {
        if let Some(mut all) = self.lock() {
            all.retain(|(known, _)| !which(known));
        }
    }

    fn lock(&self) -> Option<MutexGuard<'_, Vec<(K, V)>>> {
        for _ in 0..ATTEMPTS {
            match self.0.try_lock() {
                Ok(all) => return Some(all),
                Err(TryLockError::WouldBlock) => thread::sleep(PAUSE),
                Err(TryLockError::Poisoned(_)) => return None,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn an_entry_is_recorded_while_another_thread_uses_the_map() {
        let map = HandleMap::new();
        let both = Barrier::new(2);
        let held = map.lock().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                both.wait();
                map.insert(1, "one");
            });
            both.wait();
            drop(held);
        });
        assert_eq!(map.get(&1), Some("one"));
    }
}
