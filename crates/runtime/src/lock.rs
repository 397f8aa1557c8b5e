//! Locking where a panic of another thread is no reason to stop.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`, also if a thread panicked while it held it: for values that are never left half changed.
/// Blocks while another thread holds it.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
