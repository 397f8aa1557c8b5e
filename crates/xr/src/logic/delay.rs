//! How long it takes from the beginning of a frame until its picture is seen, as the player's client reports it:
//! so far ahead an application is told to draw.
//!
//! The median of the newest frames, not their mean: a late frame is no reason to draw all others for a time at
//! which they are long seen.

use std::collections::VecDeque;
use std::time::Duration;

/// Frames that are looked at: one second and a half at 90 a second.
const KEPT: usize = 135;

/// With less the guess is better (guess).
const ENOUGH: usize = 15;

/// Further ahead nobody is told to draw: a link that needs longer is no place for a headset, and a clock that has
/// jumped is no delay.
const LONGEST: Duration = Duration::from_millis(250);

/// The newest delays.
#[derive(Debug, Default)]
pub(crate) struct DelayEstimate {
    newest: VecDeque<Duration>,
}

impl DelayEstimate {
    /// A frame was seen so long after its beginning.
    pub(crate) fn seen(&mut self, after: Duration) {
        if self.newest.len() == KEPT {
            self.newest.pop_front();
        }
        self.newest.push_back(after.min(LONGEST));
    }

    /// Another player: what was known of the one before is nothing.
    pub(crate) fn forget(&mut self) {
        self.newest.clear();
    }

    /// What is to be expected; `None` before enough was seen.
    pub(crate) fn median(&self) -> Option<Duration> {
        if self.newest.len() < ENOUGH {
            return None;
        }
        let mut sorted: Vec<Duration> = self.newest.iter().copied().collect();
        let (_, median, _) = sorted.select_nth_unstable(self.newest.len() / 2);
        Some(*median)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn late_frames_do_not_move_it_and_a_new_link_does() {
        let mut delay = DelayEstimate::default();
        for frame in 0..ENOUGH {
            assert_eq!(delay.median(), None);
            delay.seen(if frame % 5 == 4 { ms(90) } else { ms(20) });
        }
        assert_eq!(delay.median(), Some(ms(20)));
        for _ in 0..KEPT {
            delay.seen(Duration::from_secs(3600));
        }
        assert_eq!(delay.median(), Some(LONGEST));
        delay.forget();
        assert_eq!(delay.median(), None);
    }
}
