//! Detects a thread of the host that hangs, for example in a call to a frozen display server. The owner of the host
//! polls the control thread and the media thread. Each thread answers in the next iteration of its loop, which costs
//! two atomic operations.

use std::sync::atomic::{AtomicU64, Ordering};

/// The number of the newest poll, and the number of the newest poll that each thread has answered.
#[derive(Default)]
pub(super) struct Heartbeat {
    asked: AtomicU64,
    control: AtomicU64,
    media: AtomicU64,
}

impl Heartbeat {
    /// Polls both threads. Returns the name of a thread that has not answered the previous poll.
    pub(super) fn probe(&self) -> Option<&'static str> {
        let previous = self.asked.fetch_add(1, Ordering::Relaxed);
        let threads = [("control", &self.control), ("media", &self.media)];
        let mut threads = threads.into_iter();
        let hangs = threads.find(|(_, answered)| answered.load(Ordering::Relaxed) < previous);
        hangs.map(|(name, _)| name)
    }

    /// Called by the control thread in each iteration.
    pub(super) fn control_answers(&self) {
        self.answer(&self.control);
    }

    /// Called by the media thread in each iteration.
    pub(super) fn media_answers(&self) {
        self.answer(&self.media);
    }

    fn answer(&self, thread: &AtomicU64) {
        thread.store(self.asked.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_does_not_answer_is_named() {
        let heartbeat = Heartbeat::default();
        assert_eq!(heartbeat.probe(), None);
        assert_eq!(heartbeat.probe(), Some("control"));
        heartbeat.control_answers();
        assert_eq!(heartbeat.probe(), Some("media"));
        heartbeat.control_answers();
        heartbeat.media_answers();
        assert_eq!(heartbeat.probe(), None);
        // Answers to older polls do not count.
        assert_eq!(heartbeat.probe(), Some("control"));
    }
}
