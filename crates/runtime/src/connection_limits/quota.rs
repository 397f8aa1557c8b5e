//! A limit that counts slots for each owner.

use std::sync::{Arc, Mutex};

use crate::lock::lock;

/// The limit. All clones share the same slots.
pub struct Quota<K> {
    all: usize,
    each: usize,
    taken: Arc<Mutex<Vec<K>>>,
}

impl<K> Clone for Quota<K> {
    fn clone(&self) -> Quota<K> {
        Quota {
            all: self.all,
            each: self.each,
            taken: self.taken.clone(),
        }
    }
}

impl<K: PartialEq + Copy> Quota<K> {
    /// Allows `all` slots in total, and `each` slots for one owner.
    #[must_use]
    pub fn new(all: usize, each: usize) -> Quota<K> {
        Quota {
            all,
            each,
            taken: Arc::default(),
        }
    }

    /// Takes a slot, which is occupied until it is dropped; `None` if a limit is reached.
    #[must_use]
    pub fn take(&self, owner: K) -> Option<QuotaSlot<K>> {
        let mut taken = lock(&self.taken);
        let same = taken.iter().filter(|other| **other == owner).count();
        if taken.len() >= self.all || same >= self.each {
            return None;
        }
        taken.push(owner);
        let limits = self.clone();
        Some(QuotaSlot { limits, owner })
    }
}

/// See [`Quota::take`].
pub struct QuotaSlot<K: PartialEq + Copy> {
    limits: Quota<K>,
    owner: K,
}

impl<K: PartialEq + Copy> Drop for QuotaSlot<K> {
    fn drop(&mut self) {
        let mut taken = lock(&self.limits.taken);
        if let Some(at) = taken.iter().position(|owner| *owner == self.owner) {
            taken.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_limited_by_owner_and_in_total() {
        let quota = Quota::new(3, 2);
        let mut held = vec![quota.take('a'), quota.take('a')];
        assert!(held.iter().all(Option::is_some) && quota.take('a').is_none());
        held.push(quota.take('b'));
        assert!(held[2].is_some() && quota.take('c').is_none());
        held.remove(0);
        assert!(quota.take('c').is_some() && quota.take('a').is_some());
    }
}
