//! Pacing: a frame is sent in one burst, except for the part that a full link could not queue.
//!
//! Bursts minimise latency, because a frame is complete only with its last datagram. On a full link, the part of a key
//! frame that exceeds the link's queue would be lost. A token bucket (RFC 3290, appendix A), one frame deep, shapes
//! this excess at the measured rate. On a path with an L4S queue, which marks datagrams that wait for about a
//! millisecond, the bucket is only a millisecond deep, and its rate follows the marks.

use std::time::Duration;

use crate::time::Instant;
use crate::units::Bitrate;

/// Maximum time over which a frame is spread: three frame intervals at 60 frames/s (guess).
const MOST: Duration = Duration::from_millis(50);

/// Minimum sleep (guess). Shorter waits are omitted, because the link's queue absorbs the data.
const MIN_SLEEP: Duration = Duration::from_millis(1);

/// The burst that an L4S queue takes without marks: the delay at which the L4S queue of DualPI2 starts to mark (RFC
/// 9332, appendix A.1: 800 µs, rounded up).
const SCALABLE_BURST: Duration = Duration::from_millis(1);

/// The rate at which a link takes datagrams, and the burst that it queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pacing {
    /// The rate. Zero means no pacing.
    pub rate: Bitrate,
    /// The depth of the bucket: the time that the content of a full bucket takes at this rate.
    pub burst: Duration,
}

impl Pacing {
    /// Pacing at `rate` on a path with a marking L4S queue.
    #[must_use]
    pub fn scalable(rate: Bitrate) -> Pacing {
        Pacing {
            rate,
            burst: SCALABLE_BURST,
        }
    }
}

/// The token bucket.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pacer {
    /// When the link has transmitted all sent data.
    free_at: Instant,
    /// How long the current frame has waited.
    waited: Duration,
}

impl Pacer {
    /// Starts a frame and resets the waiting time.
    pub fn start_frame(&mut self) {
        self.waited = Duration::ZERO;
    }

    /// The wait before `bytes` of a frame may be sent on a link with this `pacing` (`None`: none is needed). Zero, or at
    /// least `MIN_SLEEP`.
    pub fn wait(&mut self, now: Instant, bytes: usize, pacing: Option<Pacing>) -> Duration {
        let Some(Pacing {
            rate: Bitrate(rate @ 1..),
            burst,
        }) = pacing
        else {
            self.free_at = now;
            return Duration::ZERO;
        };
        let seconds = bytes as f64 * 8.0 / rate as f64;
        let ahead = self.free_at.since(now).min(MOST + burst);
        self.free_at = now + ahead + Duration::from_secs_f64(seconds.min(1.0));
        let left = MOST.saturating_sub(self.waited);
        let wait = ahead.saturating_sub(burst).min(left);
        if wait < MIN_SLEEP {
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
    const PACING: Option<Pacing> = Some(Pacing {
        rate: Bitrate::from_mbps(8),
        burst: FRAME,
    });

    #[test]
    fn data_within_the_capacity_leaves_at_once() {
        let mut pacer = Pacer::default();
        let mut now = Instant(0);
        for _ in 0..100 {
            // 16 kB each 16 ms are 8 Mb/s.
            for _ in 0..16 {
                assert_eq!(pacer.wait(now, 1000, PACING), Duration::ZERO);
            }
            now = now + FRAME;
        }
    }

    #[test]
    fn excess_data_waits_for_the_link() {
        let (mut pacer, mut now) = (Pacer::default(), Instant(0));
        for sent in 0..48_u32 {
            now = now + pacer.wait(now, 1000, PACING);
            // The link needs a millisecond for 1000 bytes, and queues 16 000 bytes.
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
                    // 60 kB at 1 Mb/s take half a second.
                    let pacing = Pacing {
                        rate: Bitrate::from_mbps(1),
                        burst: FRAME,
                    };
                    now = now + pacer.wait(now, 60_000 / slices, Some(pacing));
                }
                assert!(now.since(begun) <= MOST, "{:?}", now.since(begun));
                now = now.max(begun + FRAME);
            }
            assert!(now > Instant(0) + MOST * 9, "it does wait");
        }
    }

    #[test]
    fn an_unmeasured_link_is_not_paced() {
        let mut pacer = Pacer::default();
        for _ in 0..1000 {
            assert_eq!(pacer.wait(Instant(0), 1400, None), Duration::ZERO);
        }
        assert_eq!(pacer.wait(Instant(0), 1400, PACING), Duration::ZERO);
    }

    #[test]
    fn a_marking_path_takes_a_frame_within_its_interval() {
        let (mut pacer, mut now) = (Pacer::default(), Instant(0));
        // 20 kB each 16 ms are 10 Mb/s.
        let pacing = Some(Pacing::scalable(Bitrate::from_mbps(12)));
        for _ in 0..60 {
            let begun = now;
            pacer.start_frame();
            let mut waits = 0;
            for _ in 0..8 {
                let wait = pacer.wait(now, 2500, pacing);
                waits += u32::from(!wait.is_zero());
                now = now + wait;
            }
            let took = now.since(begun);
            assert!(took < FRAME, "{took:?}");
            assert!(waits >= 4, "no burst of half a frame: {waits}");
            now = begun + FRAME;
        }
    }
}
