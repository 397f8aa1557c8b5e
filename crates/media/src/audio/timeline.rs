//! Maps samples of a source to our clock, with silence for gaps. This module has no clock itself.
//!
//! A source that pauses (GamingAnywhere's "frame discontinuity problem", section 5.1.4 of its paper) must not shift the
//! sound after the pause to an earlier time. Therefore, the elapsed time is filled with silence, and samples that
//! arrive later for filled time are dropped. The number of samples then matches real time. Drift between the source's
//! clock and ours is tracked.

use std::time::Duration;

use openuvr_proto::time::Instant;

use super::{RATE, duration_of, frames_in};

/// A source that delivers nothing for this long counts as silent. The value is a guess. It is longer than the longest
/// gap that is expected between the chunks of a source that plays: two quanta of PipeWire (1024 samples, 21 ms each).
pub(super) const SILENT: Duration = Duration::from_millis(50);

/// To track the source's clock, each chunk's lateness, divided by this number, is added to the timeline. With this
/// value and chunks of 5 ms, the capture times are half a millisecond early if the source is 100 ppm slower than our
/// clock.
const LATER: u32 = 1024;
/// To track the source's clock, each chunk's earliness, divided by this number, is subtracted from the timeline. The
/// number is smaller than `LATER`, because early chunks are closer to the true time than late chunks.
const EARLIER: u32 = 64;

/// Scheduling jitter of a chunk (guess). For smaller deviations, samples are neither dropped nor inserted.
const JITTER: Duration = Duration::from_millis(3);

/// Maximum time by which samples may be ahead of our clock. A starting null sink renders 50 ms at once, and then
/// nothing for the next 50 ms.
const AHEAD: Duration = Duration::from_millis(60);

/// The capture times of a source's samples on our clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeline {
    /// Capture time of the next sample.
    next: Instant,
    /// Last arrival; `None` before the first arrival.
    arrived: Option<Instant>,
    /// Whether the source is silent. If so, the time up to now is filled with silence.
    silent: bool,
    /// Sample frames that were replaced by silence and may still arrive.
    owed: usize,
}

/// Instructions for a chunk of samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Piece {
    /// Sample frames of silence to insert before the chunk.
    pub(super) silence: usize,
    /// Sample frames to drop at the start of the chunk.
    pub(super) left_out: usize,
}

impl Timeline {
    /// A timeline for a source that starts at `now`.
    pub(super) fn new(now: Instant) -> Timeline {
        Timeline {
            next: now,
            arrived: None,
            silent: false,
            owed: 0,
        }
    }

    /// The capture time of the next sample.
    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// Records that this many sample frames arrived at `now`.
    pub(super) fn arrived(&mut self, now: Instant, frames: usize) -> Piece {
        self.silent = false;
        let first = self.arrived.replace(now).is_none();
        let begins = now - duration_of(frames);
        let late = begins.since(self.next);
        // Before the first chunk, the source was silent rather than late.
        if late >= SILENT || first && late >= JITTER {
            let silence = frames_in(late);
            self.next = begins + duration_of(frames);
            self.owed = 0;
            return Piece {
                silence,
                left_out: 0,
            };
        }
        let early = self.next.since(begins);
        let mut left_out = 0;
        if early >= JITTER {
            left_out = frames_in(early).min(self.owed).min(frames);
            self.owed -= left_out;
        }
        let kept = frames - left_out;
        let expected = self.next + late / LATER + duration_of(kept) - early / EARLIER;
        self.next = expected.min(now + AHEAD);
        if left_out == 0 && early < JITTER {
            // The source is on time again, so missing samples will not arrive.
            self.owed = 0;
        }
        Piece {
            silence: 0,
            left_out,
        }
    }

    /// Sample frames of silence due at `now` because nothing has arrived. They count as delivered.
    pub(super) fn overdue(&mut self, now: Instant) -> usize {
        let passed = now.since(self.next);
        // A source that delivers again is not silent, even if it is very late.
        let waited = self
            .arrived
            .map_or(passed, |last| now.since(last).min(passed));
        if waited < SILENT && !self.silent {
            return 0;
        }
        self.silent = true;
        let frames = frames_in(passed);
        self.next = self.next + duration_of(frames);
        // The server buffers at most a second, so at most a second of samples can still arrive.
        self.owed = (self.owed + frames).min(RATE as usize);
        frames
    }

    /// The time at which [`Timeline::overdue`] provides `wanted` more sample frames, if no samples arrive until then.
    pub(super) fn due(&self, wanted: usize) -> Instant {
        match self.silent {
            true => self.next + duration_of(wanted.max(1)),
            false => self.arrived.map_or(self.next, |last| last.max(self.next)) + SILENT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const START: Instant = Instant(5_000_000_000);
    const NOTHING: Piece = Piece {
        silence: 0,
        left_out: 0,
    };

    #[test]
    fn jitter_of_the_source_has_no_effect() {
        let mut line = Timeline::new(START);
        for n in 1..=10_000 {
            let jitter = MS * (n * 7 % 5);
            let sent = START + MS * (5 * n);
            assert_eq!(line.arrived(sent + jitter, 240), NOTHING);
            assert!(line.next().since(sent) <= MS && sent.since(line.next()) <= MS);
        }
    }

    #[test]
    fn a_source_with_another_clock_is_followed() {
        for period in [4_999_500, 5_000_500] {
            let mut line = Timeline::new(START);
            let period = Duration::from_nanos(period);
            let mut now = START;
            for _ in 0..720_000 {
                now = now + period;
                assert_eq!(line.arrived(now, 240), NOTHING);
                assert!(line.next().since(now) < MS && now.since(line.next()) < MS);
            }
        }
    }

    #[test]
    fn a_silent_source_is_filled_up_to_now() {
        let mut line = Timeline::new(START);
        line.arrived(START + 5 * MS, 240);
        assert_eq!(line.due(240), START + 55 * MS);
        assert_eq!(line.overdue(START + 54 * MS), 0);
        assert_eq!(line.overdue(START + 56 * MS), 51 * 48);
        assert_eq!(line.due(240), START + 61 * MS);
        assert_eq!(line.overdue(START + 61 * MS), 240);
        assert_eq!(line.next(), START + 61 * MS);
        // The source resumes.
        assert_eq!(line.arrived(START + 66 * MS, 240), NOTHING);
        assert_eq!(line.next(), START + 66 * MS);
    }

    #[test]
    fn samples_for_a_filled_gap_are_dropped() {
        let mut line = Timeline::new(START);
        let mut total = 0;
        for n in 1..=40 {
            let now = START + 5 * MS * n;
            let frames = line.overdue(now);
            total += frames;
        }
        assert_eq!(total, 200 * 48);
        // The server was only slow: all 200 ms arrive at once, and later samples are regular.
        for _ in 0..40 {
            let piece = line.arrived(START + 201 * MS, 240);
            total += 240 - piece.left_out + piece.silence;
        }
        for n in 1..=100 {
            let piece = line.arrived(START + 200 * MS + 5 * MS * n, 240);
            total += 240 - piece.left_out + piece.silence;
        }
        assert!(total.abs_diff(700 * 48) <= 5 * 48, "{total}");
    }

    #[test]
    fn silence_precedes_the_first_chunk() {
        let mut line = Timeline::new(START);
        let piece = line.arrived(START + 49 * MS, 120);
        assert_eq!((piece.silence, piece.left_out), (frames_in(MS * 93 / 2), 0));
        assert_eq!(line.next(), START + 49 * MS);
        assert_eq!(line.overdue(START + 53 * MS), 0);
        assert_eq!(line.arrived(START + 54 * MS, 240), NOTHING);
    }

    #[test]
    fn a_late_source_that_resumes_has_no_gap() {
        let mut line = Timeline::new(START);
        line.arrived(START + 5 * MS, 240);
        // The source was delayed by 49 ms. Its chunks then arrive in order, 1 ms apart.
        for n in 0..10 {
            let now = START + 54 * MS + MS * n;
            assert_eq!(line.arrived(now, 240), NOTHING);
            assert_eq!(line.overdue(now + MS), 0, "{n}");
            assert!(line.due(240) >= now + SILENT);
        }
    }

    #[test]
    fn early_samples_leave_no_gap() {
        let mut line = Timeline::new(START);
        for _ in 0..20 {
            assert_eq!(line.arrived(START + MS, 120), NOTHING);
        }
        for n in 10..60 {
            let now = START + 5 * MS * n;
            assert_eq!(line.overdue(now), 0);
            assert_eq!(line.arrived(now + MS, 240), NOTHING);
        }
        assert!(line.next().since(START + 300 * MS) <= 2 * MS);
    }

    #[test]
    fn a_pause_without_a_waiting_reader_is_silence() {
        let mut line = Timeline::new(START);
        line.arrived(START + 5 * MS, 240);
        let piece = line.arrived(START + 1010 * MS, 240);
        assert_eq!((piece.silence, piece.left_out), (1000 * 48, 0));
        assert_eq!(line.next(), START + 1010 * MS);
    }
}
