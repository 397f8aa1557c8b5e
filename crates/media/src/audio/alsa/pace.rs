//! Limits reads of a device without a clock, such as those of ALSA's plug-ins `null` and `file`, to real time. They always
//! have samples, and would otherwise be read as fast as the processor permits.

use std::time::Duration;

use openuvr_proto::time::Instant;

use crate::audio::duration_of;

/// Divisor of the tolerance for a clock that is faster than ours: 0.1 %. Crystals are off by up to 0.01 %.
const TOLERANCE: u32 = 1000;

/// How far reads may be ahead of real time: less than the timeline tolerates (`Timeline`).
const AHEAD: Duration = Duration::from_millis(40);

/// How far reads may be behind real time, which permits to catch up: more than the device's buffer.
const BEHIND: Duration = Duration::from_millis(250);

/// The time up to which samples were read. It has no clock; `now` is an argument.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// If the device ran too fast by [`TOLERANCE`], its samples would have been recorded until this time.
    read_to: Instant,
}

impl Pace {
    /// The pace of a device that starts at `now`.
    pub(super) fn new(now: Instant) -> Pace {
        Pace { read_to: now }
    }

    /// Records that `frames` sample frames were read at `now`.
    pub(super) fn read(&mut self, now: Instant, frames: usize) {
        let span = duration_of(frames);
        let from = self.read_to.max(now - BEHIND);
        self.read_to = from + (span - span / TOLERANCE);
    }

    /// The time until the next read at `now`; zero if it may take place.
    pub(super) fn wait(&self, now: Instant) -> Duration {
        self.read_to.since(now + AHEAD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant(5_000_000_000);

    #[test]
    fn a_device_without_a_clock_is_read_in_real_time() {
        let (mut pace, mut now, mut frames) = (Pace::new(START), START, 0_u64);
        while now.since(START) < Duration::from_secs(100) {
            now = now + pace.wait(now);
            pace.read(now, 240);
            frames += 240;
        }
        let lead = frames.abs_diff(48_000 * 100);
        // 0.1 % and the initial lead.
        assert!(lead <= 4_800 + 48 * 60, "{lead}");
    }

    #[test]
    fn a_real_device_never_waits() {
        for period in [4_999_500, 5_000_000, 5_000_500] {
            let (mut pace, mut now) = (Pace::new(START), START);
            for chunk in 0..720_000_u32 {
                now = now + Duration::from_nanos(period);
                // Every second, a stall of 100 ms, after which all samples arrive at once.
                let stalled = chunk % 200 < 20;
                if chunk % 200 == 20 {
                    (0..20).for_each(|_| pace.read(now, 240));
                }
                if !stalled {
                    assert_eq!(pace.wait(now), Duration::ZERO, "{chunk}");
                    pace.read(now, 240);
                }
            }
        }
    }
}
