//! Pacing: a frame leaves in one burst, and only what a full link could not take waits here.
//!
//! A burst is what a frame wants: the last datagram decides. Where the link was found to be full,
//! what is more than its queue should hold (a key frame) would be lost there. It is a token bucket
//! (RFC 3290, section 5.3.4, as a shaper) at the measured rate, one frame deep.

use std::time::Duration;

use crate::time::Instant;
use crate::units::Bitrate;

/// A frame's datagrams are spread out over no more than this: the next one is due.
const MOST: Duration = Duration::from_millis(50);

/// The bucket.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pacer {
    /// When the link has sent what left until now.
    free_at: Instant,
}

impl Pacer {
    /// How long to wait before `bytes` leave on a link that carries `capacity` (`None`: more than
    /// is known), where what it carries in `depth` may leave in a burst.
    pub fn wait(
        &mut self,
        now: Instant,
        bytes: usize,
        capacity: Option<Bitrate>,
        depth: Duration,
    ) -> Duration {
        let Some(Bitrate(rate @ 1..)) = capacity else {
            self.free_at = now;
            return Duration::ZERO;
        };
        let seconds = bytes as f64 * 8.0 / rate as f64;
        let ahead = self.free_at.since(now).min(MOST + depth);
        self.free_at = now + ahead + Duration::from_secs_f64(seconds.min(1.0));
        ahead.saturating_sub(depth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Duration = Duration::from_millis(16);
    const RATE: Option<Bitrate> = Some(Bitrate::from_mbps(8));

    #[test]
    fn what_a_link_carries_leaves_at_once() {
        let mut pacer = Pacer::default();
        let mut now = Instant(0);
        for _ in 0..100 {
            // 16 kB each 16 ms are 8 Mb/s.
            for _ in 0..16 {
                assert_eq!(pacer.wait(now, 1000, RATE, FRAME), Duration::ZERO);
            }
            now = now + FRAME;
        }
    }

    #[test]
    fn what_is_more_waits_as_long_as_the_link_needs_for_it() {
        let mut pacer = Pacer::default();
        let waits: Vec<_> = (0..48)
            .map(|_| pacer.wait(Instant(0), 1000, RATE, FRAME))
            .collect();
        assert!(waits[..17].iter().all(Duration::is_zero));
        assert_eq!(waits[27], Duration::from_millis(11));
        let mut pacer = Pacer::default();
        for _ in 0..1000 {
            assert!(pacer.wait(Instant(0), 1400, RATE, FRAME) <= MOST);
        }
    }

    #[test]
    fn a_link_of_which_nothing_is_known_is_not_paced() {
        let mut pacer = Pacer::default();
        for _ in 0..1000 {
            assert_eq!(pacer.wait(Instant(0), 1400, None, FRAME), Duration::ZERO);
        }
        assert_eq!(pacer.wait(Instant(0), 1400, RATE, FRAME), Duration::ZERO);
    }
}
