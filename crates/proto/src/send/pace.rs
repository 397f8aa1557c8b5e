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

/// A shorter wait is not worth a sleep (guess): the link's queue takes as much.
const WORTH_A_SLEEP: Duration = Duration::from_millis(1);

/// The bucket.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pacer {
    /// When the link has sent what left until now.
    free_at: Instant,
    /// How long the frame that is being sent has waited.
    waited: Duration,
}

impl Pacer {
    /// A frame begins: it has not waited yet.
    pub fn start_frame(&mut self) {
        self.waited = Duration::ZERO;
    }

    /// How long to wait before `bytes` of a frame leave on a link that carries `capacity` (`None`: more
    /// than is known), where what it carries in `depth` may leave in a burst. Zero, or worth a sleep.
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
        let left = MOST.saturating_sub(self.waited);
        let wait = ahead.saturating_sub(depth).min(left);
        if wait < WORTH_A_SLEEP {
            return Duration::ZERO;
        }
        self.waited += wait;
        wait
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
        let (mut pacer, mut now) = (Pacer::default(), Instant(0));
        for sent in 0..48_u32 {
            now = now + pacer.wait(now, 1000, RATE, FRAME);
            // A millisecond for each, and what sixteen take is the link's own affair.
            assert_eq!(now, Instant(0) + FRAME * sent.saturating_sub(16) / 16);
        }
    }

    #[test]
    fn a_frame_waits_no_longer_than_until_the_next_is_due() {
        for slices in [1, 8, 64] {
            let mut pacer = Pacer::default();
            let mut now = Instant(0);
            for _ in 0..10 {
                let begun = now;
                pacer.start_frame();
                for _ in 0..slices {
                    // 60 kB at 1 Mb/s are half a second.
                    let rate = Some(Bitrate::from_mbps(1));
                    now = now + pacer.wait(now, 60_000 / slices, rate, FRAME);
                }
                assert!(now.since(begun) <= MOST, "{:?}", now.since(begun));
                now = now.max(begun + FRAME);
            }
            assert!(now > Instant(0) + MOST * 9, "it does wait");
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
