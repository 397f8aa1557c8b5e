//! Rate limits for the work that a host does for unauthenticated clients.
//!
//! Each requester gets a fair share of the total, so that requesters with many requests do not starve the others. Each
//! kind of work has its own budget, so that one kind cannot use up the budget of another.

use std::collections::VecDeque;
use std::time::Duration;

use crate::time::Instant;

/// The accounting window.
const SPAN: Duration = Duration::from_secs(1);

/// Maximum number of tracked requesters; the most recent ones are tracked. If there are more, a requester may exceed
/// its fair share, but never [`Budget::each`].
const ASKING: usize = 64;

/// The budget of one kind of work.
#[derive(Debug)]
pub struct Budget<K> {
    /// Maximum units of work within [`SPAN`] for all requesters together.
    all: usize,
    /// Maximum units of work within [`SPAN`] for one requester, even if there is no other.
    each: usize,
    /// The units of work done within [`SPAN`], each with its time and requester; at most `all`.
    done: VecDeque<(Instant, K)>,
    /// The requesters within [`SPAN`], each with the time of its last request; at most [`ASKING`].
    asking: Vec<(Instant, K)>,
}

impl<K: PartialEq + Copy> Budget<K> {
    /// Creates a budget of `all` units a second in total, and `each` units a second for one requester.
    #[must_use]
    pub const fn new(all: usize, each: usize) -> Budget<K> {
        Budget {
            all,
            each,
            done: VecDeque::new(),
            asking: Vec::new(),
        }
    }

    /// Whether one unit of work may be done for `key` at `now`. If so, it counts as done.
    pub fn may(&mut self, now: Instant, key: K) -> bool {
        self.done.retain(|(at, _)| now < *at + SPAN);
        self.note(now, key);
        let share = (self.all / self.asking.len().max(1)).clamp(1, self.each);
        let for_it = self.done.iter().filter(|(_, of)| *of == key).count();
        let may = self.done.len() < self.all && for_it < share;
        if may {
            self.done.push_back((now, key));
        }
        may
    }

    fn note(&mut self, now: Instant, key: K) {
        self.asking
            .retain(|(at, of)| now < *at + SPAN && *of != key);
        if self.asking.len() == ASKING {
            self.asking.remove(0);
        }
        self.asking.push((now, key));
    }
}

#[cfg(test)]
mod tests {
    use super::{ASKING, Budget};
    use crate::time::Instant;
    use std::time::Duration;

    /// The number of units done for each requester within ten seconds. `each_asks` contains each requester's number of
    /// requests a second.
    fn done(each_asks: &[u64]) -> Vec<usize> {
        let mut budget = Budget::new(16, 4);
        let mut done = vec![0; each_asks.len()];
        for millis in 0..10_000_u64 {
            let now = Instant(0) + Duration::from_millis(millis);
            for (key, times) in each_asks.iter().enumerate() {
                let due = millis * times / 1000 != (millis + 1) * times / 1000;
                done[key] += usize::from(due && budget.may(now, key));
            }
        }
        done
    }

    #[test]
    fn each_address_has_a_limit_and_all_share_another() {
        assert_eq!(done(&[100]), [40]);
        assert_eq!(done(&[100; 4]), [40; 4]);
        assert!(done(&[100; 20]).iter().sum::<usize>() <= 160);
    }

    #[test]
    fn rare_requests_succeed_beside_many_frequent_ones() {
        for others in [4, 8, 15] {
            let mut asks = vec![375; others];
            asks.push(2);
            let done = done(&asks);
            assert!(done[others] >= 8, "{others} others: {done:?}");
        }
    }

    #[test]
    fn memory_is_bounded() {
        let mut budget = Budget::new(16, 4);
        for key in 0..100_000 {
            budget.may(Instant(0), key);
        }
        assert_eq!((budget.done.len(), budget.asking.len()), (16, ASKING));
    }
}
