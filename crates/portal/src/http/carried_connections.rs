//! How many connections of browsers to sessions the portal carries for each log-in.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Connections that the portal carries for one log-in at a time: a session takes four of a browser.
const PER_LOGIN: usize = 8;

/// The connections that are carried.
#[derive(Clone, Default)]
pub(crate) struct CarriedConnections(Arc<Mutex<BTreeMap<String, usize>>>);

impl CarriedConnections {
    /// A place for one more of this log-in, until it is dropped; `None`: there is none.
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
    fn a_log_in_has_so_many_places() {
        let carried = CarriedConnections::default();
        let mut places: Vec<_> = (0..PER_LOGIN).map(|_| carried.take("a")).collect();
        assert!(places.iter().all(Option::is_some));
        assert!(carried.take("a").is_none());
        assert!(carried.take("b").is_some(), "another is not kept out");
        places.pop();
        assert!(carried.take("a").is_some());
        drop(places);
        assert!(carried.0.lock().unwrap().is_empty());
    }
}
