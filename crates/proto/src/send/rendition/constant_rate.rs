//! Constant frame rate: decides when a still picture is repeated, so that the stream keeps its frame rate.
//!
//! The schedule has one frame per interval, as in the generic cell rate algorithm (ITU-T I.371, annex A). A repetition
//! is due only when the stream falls behind this schedule. A source at the stream's rate with a jitter below one
//! interval thus gets no repetitions once the stream is ahead of the schedule. A slower source gets exactly the missing
//! frames.

use std::time::Duration;

use crate::time::Instant;

/// Maximum lead of the stream over the schedule, in frames. A second frame of lead absorbs the jitter of a source at
/// the stream's rate. After such a source stops, the first repetition is due up to two intervals after the last frame.
const LEAD: u32 = 2;

/// The schedule of one rendition. The caller passes the time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct ConstantRate {
    /// When the next frame is due; `None` before the first frame.
    due: Option<Instant>,
}

impl ConstantRate {
    /// Records a frame at `now`, in a stream with one frame per `interval`.
    pub(super) fn frame(&mut self, now: Instant, interval: Duration) {
        let on_schedule = self.due.map(|due| due + interval);
        // Repetitions that were missed, for example because the link was full, are not sent later.
        let next = on_schedule.filter(|next| *next > now);
        let next = next.unwrap_or(now + interval);
        self.due = Some(next.min(now + interval * LEAD));
    }

    /// The time of the next repetition, unless another frame comes earlier.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_nanos(16_666_667);

    /// Runs a source with the given frame times in µs, in order. Returns the times of all frames in µs, and the number
    /// of repetitions among them.
    fn run(source: impl IntoIterator<Item = i64>) -> (Vec<i64>, usize) {
        let (mut rate, mut frames, mut repeated) = (ConstantRate::default(), Vec::new(), 0);
        for at in source.into_iter().map(|us| Instant(us * 1000)) {
            while let Some(due) = rate.due().filter(|due| *due < at) {
                rate.frame(due, INTERVAL);
                frames.push(due.0 / 1000);
                repeated += 1;
            }
            rate.frame(at, INTERVAL);
            frames.push(at.0 / 1000);
        }
        (frames, repeated)
    }

    #[test]
    fn a_still_picture_is_repeated_once_per_interval() {
        let (frames, repeated) = run([0, 10_000_000]);
        assert_eq!(repeated, 599);
        let gaps = frames.windows(2).map(|two| two[1] - two[0]);
        // Whole microseconds round 16,666.667 down or up. The last gap ends at the source's own frame.
        assert!(gaps.take(599).all(|gap| (16_666..=16_667).contains(&gap)));
    }

    #[test]
    fn a_source_at_the_rate_gets_no_repetition() {
        // One jittered minute: up to 6 ms late, which is more than a third of an interval.
        let source = (0..3600).map(|n| n * 16_667 + n * 7919 % 6000);
        let (frames, repeated) = run(source);
        // Before the stream is ahead of the schedule, a late frame causes a repetition.
        assert!(repeated <= 1, "{repeated}");
        assert_eq!(frames.len(), 3600 + repeated);
        assert_eq!(run((0..6000).map(|n| n * 10_000)).1, 0, "100 frames/s");
    }

    #[test]
    fn a_slower_source_gets_exactly_the_missing_frames() {
        for (fps, missing) in [(50, 100), (30, 300), (24, 360), (59, 10)] {
            // Ten seconds.
            let (frames, repeated) = run((0..=10 * fps).map(|n| n * 1_000_000 / fps));
            let expected = missing - 1..=missing + 1;
            assert!(expected.contains(&repeated), "{fps}: {repeated}");
            assert!(frames.windows(2).all(|two| two[1] - two[0] <= 33_334));
        }
    }

    #[test]
    fn frames_that_were_late_are_not_made_up_for() {
        let mut rate = ConstantRate::default();
        assert_eq!(rate.due(), None, "nothing to repeat");
        rate.frame(Instant(0), INTERVAL);
        // A repetition that wakes up late keeps the schedule.
        let late = Instant(0) + INTERVAL + INTERVAL / 4;
        rate.frame(late, INTERVAL);
        assert_eq!(rate.due(), Some(Instant(0) + INTERVAL * 2));
        // After a second without frames, the schedule starts again.
        let late = Instant(1_000_000_000);
        rate.frame(late, INTERVAL);
        assert_eq!(rate.due(), Some(late + INTERVAL));
    }
}
