//! A mailbox with one slot between two threads: the latest thing wins, and what it replaced comes
//! back to the sender, who names the drop.
//!
//! What it is not: a queue. Where everything must arrive, this is the wrong tool; where only the
//! newest picture matters, a queue is a delay.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The slot. Share it with `Arc`; any thread may put, one should take.
#[derive(Debug)]
pub struct Mailbox<T> {
    slot: Mutex<Slot<T>>,
    filled: Condvar,
}

#[derive(Debug)]
struct Slot<T> {
    content: Option<T>,
    woken: bool,
}

impl<T> Default for Mailbox<T> {
    fn default() -> Mailbox<T> {
        Mailbox {
            slot: Mutex::new(Slot {
                content: None,
                woken: false,
            }),
            filled: Condvar::new(),
        }
    }
}

impl<T> Mailbox<T> {
    /// An empty mailbox.
    #[must_use]
    pub fn new() -> Mailbox<T> {
        Mailbox::default()
    }

    /// Puts `content` in and returns what lay there and was never taken.
    pub fn put(&self, content: T) -> Option<T> {
        let replaced = self.lock().content.replace(content);
        self.filled.notify_one();
        replaced
    }

    /// Takes what is there; waits for it at most `timeout` (`None`: without end). `None` means
    /// that the time is over or that [`Mailbox::wake`] was called.
    pub fn take(&self, timeout: Option<Duration>) -> Option<T> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut slot = self.lock();
        loop {
            if let Some(content) = slot.content.take() {
                return Some(content);
            }
            if std::mem::take(&mut slot.woken) {
                return None;
            }
            slot = match deadline {
                None => self
                    .filled
                    .wait(slot)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return None;
                    }
                    self.filled
                        .wait_timeout(slot, left)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
            };
        }
    }

    /// Takes what is there without waiting.
    pub fn try_take(&self) -> Option<T> {
        self.lock().content.take()
    }

    /// Makes a [`Mailbox::take`] that waits return at once with nothing; if none waits, the next
    /// one that would wait. Several calls before that count as one.
    pub fn wake(&self) {
        self.lock().woken = true;
        self.filled.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Slot<T>> {
        // No code of ours panics while it holds the lock, and the slot is whole at any time.
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::Mailbox;
    use std::time::Duration;

    #[test]
    fn the_latest_wins_and_the_replaced_comes_back() {
        let mailbox = Mailbox::new();
        assert_eq!(mailbox.put(1), None);
        assert_eq!(mailbox.put(2), Some(1));
        assert_eq!(mailbox.try_take(), Some(2));
        assert_eq!(mailbox.try_take(), None);
        assert_eq!(mailbox.take(Some(Duration::ZERO)), None);
        assert_eq!(mailbox.take(Some(Duration::from_micros(1))), None);
        assert_eq!(mailbox.put(3), None);
    }

    #[test]
    fn every_item_is_either_taken_in_order_or_handed_back() {
        const LAST: u32 = 50_000;
        let mailbox = Mailbox::new();
        std::thread::scope(|scope| {
            let sender = scope.spawn(|| (1..=LAST).filter_map(|i| mailbox.put(i)).count());
            let mut taken = Vec::new();
            while taken.last() != Some(&LAST) {
                taken.extend(mailbox.take(None));
            }
            assert!(taken.is_sorted_by(|a, b| a < b));
            assert_eq!(taken.len() + sender.join().unwrap(), LAST as usize);
        });
    }

    #[test]
    fn a_wake_ends_a_wait_without_end_and_content_goes_first() {
        let mailbox = Mailbox::<u32>::new();
        mailbox.wake();
        mailbox.wake();
        assert_eq!(mailbox.take(None), None);
        std::thread::scope(|scope| {
            scope.spawn(|| mailbox.wake());
            assert_eq!(mailbox.take(None), None);
        });
        mailbox.wake();
        mailbox.put(5);
        assert_eq!(mailbox.take(None), Some(5));
        assert_eq!(mailbox.take(None), None);
    }
}
