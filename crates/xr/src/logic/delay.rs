//! How long it takes from the beginning of a frame until its picture is seen, as the player's client reports it:
//! so far ahead an application is told to draw.
//!
//! Where a picture is shown when it comes, the median of the newest frames counts: a late frame is no reason to draw
//! all others for a time at which they are long seen. Where it is shown at the display's next refresh, all but one of
//! a hundred have to be there before it.

use std::collections::VecDeque;
use std::time::Duration;

use openuvr_proto::quantile::nearest_rank;

/// Frames that are looked at: one second and a half at 90 a second.
const KEPT: usize = 135;

/// With less the guess is better (guess).
const ENOUGH: usize = 15;

/// Further ahead nobody is told to draw: a link that needs longer is no place for a headset, and a clock that has
/// jumped is no delay.
const LONGEST: Duration = Duration::from_millis(250);

/// Kept between what 99 of 100 frames need and a display's refresh (WiVRn's idea, and its millisecond).
const MARGIN: Duration = Duration::from_millis(1);

/// What is to be expected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Delay {
    /// Half of the frames need no longer.
    pub(crate) median: Duration,
    /// So long before a refresh a frame has to begin.
    pub(crate) safe: Duration,
}

impl Delay {
    /// Nothing was measured.
    pub(crate) fn guess(delay: Duration) -> Delay {
        Delay {
            median: delay,
            safe: delay,
        }
    }
}

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
    pub(crate) fn expected(&self) -> Option<Delay> {
        if self.newest.len() < ENOUGH {
            return None;
        }
        let mut sorted: Vec<Duration> = self.newest.iter().copied().collect();
        sorted.sort_unstable();
        let median = sorted[sorted.len() / 2];
        let p99 = nearest_rank(&sorted, 99)?;
        Some(Delay {
            median,
            safe: (p99 + MARGIN).min(LONGEST),
        })
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
            assert_eq!(delay.expected(), None);
            delay.seen(if frame % 5 == 4 { ms(90) } else { ms(20) });
        }
        let expected = delay.expected().unwrap();
        assert_eq!((expected.median, expected.safe), (ms(20), ms(91)));
        for _ in 0..KEPT {
            delay.seen(Duration::from_secs(3600));
        }
        assert_eq!(delay.expected(), Some(Delay::guess(LONGEST)));
        delay.forget();
        assert_eq!(delay.expected(), None);
    }
}
