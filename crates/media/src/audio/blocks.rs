//! Converts chunks of samples, as delivered by a source, to blocks of the length that the reader requests, with their
//! capture time. Fills gaps with silence.

use std::collections::VecDeque;

use openuvr_proto::time::Instant;

use super::timeline::Timeline;
use super::{CHANNELS, CaptureCounters, RATE, duration_of};

/// Maximum number of unread sample frames: one second.
pub(super) const LONGEST: usize = RATE as usize;

/// Samples that have not been read yet.
pub(super) struct Blocks {
    timeline: Timeline,
    waiting: VecDeque<f32>,
    /// The capture time of the newest block that was read.
    newest: Instant,
    counters: CaptureCounters,
}

impl Blocks {
    /// Creates the blocks of a source that starts at `now`.
    pub(super) fn new(now: Instant) -> Blocks {
        Blocks {
            timeline: Timeline::new(now),
            waiting: VecDeque::new(),
            newest: Instant(i64::MIN),
            counters: CaptureCounters::default(),
        }
    }

    /// Adds `frames` sample frames that arrived at `now`. `samples` is `None` if these samples are known to be missing.
    pub(super) fn arrived(
        &mut self,
        now: Instant,
        frames: usize,
        samples: Option<impl Iterator<Item = f32>>,
    ) {
        let place = self.timeline.arrived(now, frames);
        self.silence(place.silence);
        match samples {
            Some(samples) => (self.waiting).extend(samples.skip(place.left_out * CHANNELS)),
            None => self.silence(frames - place.left_out),
        }
        self.counters.left_out += place.left_out as u64;
    }

    fn silence(&mut self, frames: usize) {
        let zeros = std::iter::repeat_n(0.0, frames.min(LONGEST) * CHANNELS);
        self.waiting.extend(zeros);
        self.counters.silence += frames as u64;
    }

    /// Fills `block` if there are enough samples at `now`, including the silence inserted for missing samples. Returns
    /// the capture time of the block's first sample. This time is never earlier than the time of the previous block.
    pub(super) fn take(&mut self, now: Instant, block: &mut [f32]) -> Option<Instant> {
        let overdue = self.timeline.overdue(now);
        self.silence(overdue);
        let excess = self.waiting.len().saturating_sub(LONGEST * CHANNELS);
        self.waiting.drain(..excess);
        self.counters.left_out += (excess / CHANNELS) as u64;
        if self.waiting.len() < block.len() {
            return None;
        }
        let line = self.timeline.next() - duration_of(self.waiting.len() / CHANNELS);
        // A source may render ahead of time, and the timeline is then later than `now`. The samples of this block were
        // captured before `now`, so the capture time is limited.
        let captured = line.min(now - duration_of(block.len() / CHANNELS));
        // If a source delivers much at once, its timeline is set back.
        let captured = captured.max(self.newest);
        self.newest = captured;
        let samples = self.waiting.drain(..block.len());
        (block.iter_mut().zip(samples)).for_each(|(to, from)| *to = from);
        Some(captured)
    }

    /// Number of sample frames that are missing for a block of this length.
    pub(super) fn lacking(&self, block: &[f32]) -> usize {
        block.len().saturating_sub(self.waiting.len()) / CHANNELS
    }

    /// The time at which a block of this length is available if no more samples arrive. Silence replaces the missing
    /// samples.
    pub(super) fn due(&self, block: &[f32]) -> Instant {
        self.timeline.due(self.lacking(block))
    }

    pub(super) fn counters(&self) -> CaptureCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A server that was stalled renders 200 ms at once.
    #[test]
    fn capture_times_never_decrease() {
        let start = Instant(5_000_000_000);
        let mut blocks = Blocks::new(start);
        let after = |ms: u64| start + Duration::from_millis(ms);
        let mut block = [0.0; 240 * CHANNELS];
        let mut times = Vec::new();
        for (now, chunks) in [(5, 1), (10, 1), (11, 40), (30, 1), (80, 4)] {
            for _ in 0..chunks {
                blocks.arrived(after(now), 240, Some([0.5; 240 * CHANNELS].into_iter()));
            }
            times.extend(std::iter::from_fn(|| blocks.take(after(now), &mut block)));
        }
        assert_eq!(times.len(), 47);
        assert!(times.is_sorted(), "{times:?}");
        assert!(times.iter().all(|time| *time <= after(75)), "{times:?}");
    }

    #[test]
    fn silence_for_missing_samples_is_counted() {
        let start = Instant(5_000_000_000);
        let mut blocks = Blocks::new(start);
        let after = |ms: u64| start + Duration::from_millis(ms);
        blocks.arrived(after(5), 240, Some([0.5; 240 * CHANNELS].into_iter()));
        blocks.arrived(after(10), 240, None::<std::iter::Empty<f32>>);
        let mut block = [1.0; 480 * CHANNELS];
        assert!(blocks.take(after(10), &mut block).is_some());
        let (played, missing) = block.split_at(240 * CHANNELS);
        assert!(played.iter().all(|sample| *sample == 0.5));
        assert!(missing.iter().all(|sample| *sample == 0.0));
        let counters = blocks.counters();
        assert_eq!((counters.silence, counters.left_out), (240, 0));
    }
}
