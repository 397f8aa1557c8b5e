//! How much a host does in a second for those it does not know, and for whom.
//!
//! Whoever asks gets a fair share of the whole: one who asks often takes nothing from one who asks
//! seldom. It does not say what work is: each kind of it has a budget of its own, so that one kind
//! never uses up what another needs.

use std::collections::VecDeque;
use std::time::Duration;

use crate::time::Instant;

/// What is counted together.
const SPAN: Duration = Duration::from_secs(1);

/// Of so many who ask the shares are known; of more, those who asked last. One beyond them may get
/// more than its share, never more than [`Budget::each`].
const ASKING: usize = 64;

/// The work of one kind.
#[derive(Debug)]
pub struct Budget<K> {
    /// Works within [`SPAN`] for all together.
    all: usize,
    /// … and for one at most, also when nobody else asks.
    each: usize,
    /// When work was done, and for whom; at most `all`.
    done: VecDeque<(Instant, K)>,
    /// Who asked within [`SPAN`], and when last; at most [`ASKING`].
    asking: Vec<(Instant, K)>,
}

impl<K: PartialEq + Copy> Budget<K> {
    /// So many works within a second for all together, and for one of those who ask.
    #[must_use]
    pub const fn new(all: usize, each: usize) -> Budget<K> {
        Budget {
            all,
            each,
            done: VecDeque::new(),
            asking: Vec::new(),
        }
    }

    /// Whether work may be done for `who` at `now`; if so it counts as done.
    pub fn may(&mut self, now: Instant, who: K) -> bool {
        self.done.retain(|(at, _)| now < *at + SPAN);
        self.note(now, who);
        let share = (self.all / self.asking.len().max(1)).clamp(1, self.each);
        let for_it = self.done.iter().filter(|(_, of)| *of == who).count();
        let may = self.done.len() < self.all && for_it < share;
        if may {
            self.done.push_back((now, who));
        }
        may
    }

    fn note(&mut self, now: Instant, who: K) {
        self.asking
            .retain(|(at, of)| now < *at + SPAN && *of != who);
        if self.asking.len() == ASKING {
            self.asking.remove(0);
        }
        self.asking.push((now, who));
    }
}

#[cfg(test)]
mod tests {
    use super::{ASKING, Budget};
    use crate::time::Instant;
    use std::time::Duration;

    /// Works done for each within ten seconds, in which each asks so many times a second.
    fn done(each_asks: &[u64]) -> Vec<usize> {
        let mut budget = Budget::new(16, 4);
        let mut done = vec![0; each_asks.len()];
        for millis in 0..10_000_u64 {
            let now = Instant(0) + Duration::from_millis(millis);
            for (who, times) in each_asks.iter().enumerate() {
                let due = millis * times / 1000 != (millis + 1) * times / 1000;
                done[who] += usize::from(due && budget.may(now, who));
            }
        }
        done
    }

    #[test]
    fn one_gets_its_own_limit_and_many_share_the_whole() {
        assert_eq!(done(&[100]), [40]);
        assert_eq!(done(&[100; 4]), [40; 4]);
        assert!(done(&[100; 20]).iter().sum::<usize>() <= 160);
    }

    #[test]
    fn who_asks_seldom_gets_it_beside_many_who_ask_often() {
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
        for who in 0..100_000 {
            budget.may(Instant(0), who);
        }
        assert_eq!((budget.done.len(), budget.asking.len()), (16, ASKING));
    }
}
