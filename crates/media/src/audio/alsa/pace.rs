//! Limits reads of a device without a clock to real time. Devices of ALSA's plug-ins `null` and `file` always have
//! samples, and would otherwise be read as fast as the processor permits.

use std::time::Duration;

use openuvr_proto::time::Instant;

use crate::audio::duration_of;

/// A device's clock may be faster than ours by 1 / `TOLERANCE` (0.1 %). A crystal's frequency error is up to 0.01 %.
const TOLERANCE: u32 = 1000;

/// Maximum time by which reads may be ahead of real time. It is less than the limit of `Timeline` (60 ms).
const AHEAD: Duration = Duration::from_millis(40);

/// Maximum delay for which later reads may catch up, by being faster than real time. It is longer than the device's
/// buffer.
const BEHIND: Duration = Duration::from_millis(250);

/// The time up to which samples were read. This type has no clock; `now` is an argument.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// The end of the samples read so far, on our clock. It is computed as if the device's clock were 0.1 % too fast
    /// ([`TOLERANCE`]).
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

    /// The time from `now` until the next read is permitted. Zero if a read is permitted now.
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
        // The lead is at most the tolerance of 0.1 % and the initial lead of 40 ms, plus a margin.
        assert!(lead <= 4_800 + 48 * 60, "{lead}");
    }

    #[test]
    fn a_real_device_never_waits() {
        for period in [4_999_500, 5_000_000, 5_000_500] {
            let (mut pace, mut now) = (Pace::new(START), START);
            for chunk in 0..720_000_u32 {
                now = now + Duration::from_nanos(period);
                // Each second, the process stalls for 100 ms, and then reads all samples at once.
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
