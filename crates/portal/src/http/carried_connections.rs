//! Limits the number of browser connections to sessions, per log-in.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of connections per log-in. Each session accepts at most four connections of a log-in (`PER_DEVICE` in
/// `crates/gateway/src/shared.rs`).
const PER_LOGIN: usize = 8;

/// The open connections.
#[derive(Clone, Default)]
pub(crate) struct CarriedConnections(Arc<Mutex<BTreeMap<String, usize>>>);

impl CarriedConnections {
    /// Takes a slot for one more connection of this log-in; `None` if the log-in has the maximum number of connections.
    /// Dropping the slot releases it.
    pub(super) fn take(&self, login: &str) -> Option<CarriedSlot> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = all.entry(login.to_owned()).or_default();
        if *count >= PER_LOGIN {
            return None;
        }
        *count += 1;
        Some(CarriedSlot(self.clone(), login.to_owned()))
    }
}

/// See [`CarriedConnections::take`].
pub(super) struct CarriedSlot(CarriedConnections, String);

impl Drop for CarriedSlot {
    fn drop(&mut self) {
        let mut all = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = all.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_limited_per_log_in() {
        let carried = CarriedConnections::default();
        let mut places: Vec<_> = (0..PER_LOGIN).map(|_| carried.take("a")).collect();
        assert!(places.iter().all(Option::is_some));
        assert!(carried.take("a").is_none());
        assert!(
            carried.take("b").is_some(),
            "other log-ins are not affected"
        );
        places.pop();
        assert!(carried.take("a").is_some());
        drop(places);
        assert!(carried.0.lock().unwrap().is_empty());
    }
}
