//! Maps the application's handles to this layer's instances or devices.

use std::sync::{Arc, PoisonError, RwLock};

/// Entries by the loader's key. Nearly every program has one or two.
pub(super) struct Registry<T>(RwLock<Vec<(usize, Arc<T>)>>);

impl<T> Registry<T> {
    pub(super) const fn new() -> Registry<T> {
        Registry(RwLock::new(Vec::new()))
    }

    pub(super) fn add(&self, key: usize, value: Arc<T>) {
        let mut entries = self.0.write().unwrap_or_else(PoisonError::into_inner);
        entries.push((key, value));
    }

    pub(super) fn find(&self, key: usize) -> Option<Arc<T>> {
        let entries = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let found = entries.iter().find(|(of, _)| *of == key);
        found.map(|(_, value)| value.clone())
    }

    pub(super) fn remove(&self, key: usize) -> Option<Arc<T>> {
        let mut entries = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let at = entries.iter().position(|(of, _)| *of == key)?;
        Some(entries.swap_remove(at).1)
    }
}
