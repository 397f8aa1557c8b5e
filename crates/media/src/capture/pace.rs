//! The cap on frames a second: a token bucket that holds at most one frame, the newest.
//!
//! Not a clock that samples: a frame that finds a token passes the moment it is there. One that finds
//! none waits, and a newer frame takes its place. Where frames come faster than tokens it waits a
//! little longer than until the next frame is expected: that one passes as it comes, so that a fast
//! source is thinned and none of its frames is late. Only the last before a pause is.

use std::time::Duration;

use openuvr_proto::time::Instant;

/// How much faster than the cap a source may run and still count as running at it. Displays aim at
/// 60 Hz with clocks that are off by 0.4 % (60.25 Hz), and timers of whole milliseconds make 62.5
/// frames/s of 60.
const TOLERANCE: f64 = 0.05;

/// How long a frame waits for the next, in gaps between those before it (guess: most of the jitter of a game).
const EXPECTED_GAPS: f64 = 1.25;

/// Tokens that a quiet time saves up. Two: the answer to a click is often a small change and,
/// milliseconds later, the picture itself; and a frame that comes early by jitter isn't held.
const DEPTH: u32 = 2;

/// Decides when the newest frame may pass. A value without a clock: `now` comes in.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Time between tokens; zero for no cap.
    interval: Duration,
    /// When the bucket is full again if nothing passes (the "theoretical arrival time" of the
    /// generic cell rate algorithm, ITU-T I.371 annex A, less one interval).
    full: Instant,
    /// When the frame that waits arrived.
    held: Option<Instant>,
    /// When the newest frame arrived, and how long after the one before it.
    newest: Option<(Instant, Duration)>,
    /// How soon the next one is expected, if frames come faster than tokens: the longer of the last
    /// two gaps.
    expected: Option<Duration>,
}

impl Pace {
    /// No cap: every frame passes at once.
    #[must_use]
    pub const fn unlimited() -> Pace {
        Pace {
            interval: Duration::ZERO,
            full: Instant(i64::MIN),
            held: None,
            newest: None,
            expected: None,
        }
    }

    /// At most `fps` frames a second in the long run (5 % more are let by, and two may follow
    /// each other at any distance after a pause). Not positive or not finite: no cap.
    #[must_use]
    pub fn new(fps: f64) -> Pace {
        let interval = Duration::try_from_secs_f64(1.0 / (fps * (1.0 + TOLERANCE)));
        Pace {
            interval: interval.unwrap_or(Duration::ZERO),
            ..Pace::unlimited()
        }
    }

    /// From now on at most `fps` frames a second, as [`Pace::new`]: what waits goes on waiting.
    pub fn limit(&mut self, fps: f64) {
        self.interval = Pace::new(fps).interval;
    }

    /// A frame is there at `now`. It takes the place of one that still waits.
    pub fn offer(&mut self, now: Instant) {
        self.held = Some(now);
        let before = self.newest;
        let gap = before.map_or(Duration::MAX, |(at, _)| now.since(at));
        self.newest = Some((now, gap));
        let longer = before.map_or(Duration::MAX, |(_, before)| gap.max(before));
        self.expected = Some(longer).filter(|gap| *gap < self.interval);
    }

    /// When the waiting frame may pass: not after the time it was offered if there is a token.
    /// `None` if none waits.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        let token = self.full - self.interval * (DEPTH - 1);
        let offered = self.held?;
        Some(match self.expected {
            _ if token <= offered => offered,
            Some(gap) => token.max(offered + gap.mul_f64(EXPECTED_GAPS)),
            None => token,
        })
    }

    /// The waiting frame passes at `now` and spends a token.
    pub fn take(&mut self, now: Instant) {
        if self.held.take().is_some() {
            self.full = self.full.max(now) + self.interval;
        }
    }

    /// Forgets the waiting frame (its source has vanished or changed size).
    pub fn cancel(&mut self) {
        self.held = None;
        self.expected = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a source with the given frame times in µs; returns (time offered, time passed) of
    /// each frame that passed.
    fn run(pace: &mut Pace, frames: impl IntoIterator<Item = i64>) -> Vec<(i64, i64)> {
        let mut passed = Vec::new();
        let mut newest = 0;
        for at in frames {
            if let Some(due) = pace.due()
                && due.0 <= at * 1000
            {
                pace.take(due);
                passed.push((newest, due.0 / 1000));
            }
            newest = at;
            pace.offer(Instant(at * 1000));
            if pace.due() == Some(Instant(at * 1000)) {
                pace.take(Instant(at * 1000));
                passed.push((at, at));
            }
        }
        passed
    }

    #[test]
    fn without_a_cap_every_frame_passes_at_once() {
        let mut pace = Pace::unlimited();
        let passed = run(&mut pace, (0..1000).map(|n| n * 10));
        assert_eq!(passed.len(), 1000);
        assert!(passed.iter().all(|(offered, at)| offered == at));
        assert_eq!(Pace::new(0.0).interval, Duration::ZERO);
        assert_eq!(Pace::new(f64::NAN).interval, Duration::ZERO);
        assert_eq!(Pace::new(f64::INFINITY).interval, Duration::ZERO);
    }

    #[test]
    fn a_source_slightly_above_the_cap_is_neither_halved_nor_held() {
        for millihertz in [60_250, 62_500] {
            let mut pace = Pace::new(60.0);
            let frames = (0..6000).map(|n| n * 1_000_000_000 / millihertz);
            let passed = run(&mut pace, frames);
            assert_eq!(passed.len(), 6000);
            assert!(passed.iter().all(|(offered, at)| offered == at));
        }
    }

    #[test]
    fn a_source_above_the_cap_is_thinned_and_nothing_of_it_is_late() {
        for (fps, jitter) in [
            (64, 0),
            (66, 1500),
            (75, 0),
            (90, 2000),
            (144, 500),
            (1000, 0),
        ] {
            let mut pace = Pace::new(60.0);
            // Ten seconds.
            let frames = (0..10 * fps).map(|n| n * 1_000_000 / fps + n * 7919 % (jitter + 1));
            let passed = run(&mut pace, frames);
            let late = passed.iter().filter(|(offered, at)| offered != at).count();
            assert_eq!(late, 0, "{fps}: {passed:?}");
            let share = (passed.len() as i64).min(630);
            let least = if fps < 120 { fps.min(63) * 9 } else { 600 };
            assert!(
                share >= least && passed.len() <= 632,
                "{fps}: {}",
                passed.len()
            );
        }
    }

    #[test]
    fn the_last_frame_before_a_pause_passes_when_no_other_comes() {
        let mut pace = Pace::new(60.0);
        // A second of 100 frames/s, and then none.
        let passed = run(&mut pace, (0..=100).map(|n| n * 10_000).chain([9_000_000]));
        let last = passed
            .iter()
            .rev()
            .find(|(offered, _)| *offered < 9_000_000);
        let (offered, at) = *last.expect("some passed");
        assert_eq!(offered, 1_000_000);
        assert!((0..=16_000).contains(&(at - offered)), "{at}");
    }

    #[test]
    fn jitter_around_the_cap_adds_no_wait() {
        let mut pace = Pace::new(60.0);
        let passed = run(&mut pace, (0..600).map(|n| n * 16_667 + (n * 7919 % 4000)));
        assert_eq!(passed.len(), 600);
        assert!(passed.iter().all(|(offered, at)| offered == at));
    }

    #[test]
    fn a_fast_source_is_capped_and_only_its_newest_frame_passes() {
        let mut pace = Pace::new(60.0);
        let passed = run(&mut pace, (0..10_000).map(|n| n * 1000));
        // Ten seconds: 60 × 1.05 each, and one saved token.
        assert!((628..=632).contains(&passed.len()), "{}", passed.len());
        assert!(passed.windows(2).all(|two| two[0].0 < two[1].0));
        // What passes is never older than the source's own interval.
        assert!(passed.iter().all(|(offered, at)| at - offered <= 1000));
    }

    #[test]
    fn after_a_pause_two_frames_may_follow_each_other() {
        let mut pace = Pace::new(30.0);
        let passed = run(&mut pace, [0, 1_000_000, 1_003_000, 1_006_000, 1_100_000]);
        let offered: Vec<i64> = passed.iter().map(|p| p.0).collect();
        assert_eq!(offered, [0, 1_000_000, 1_003_000, 1_006_000, 1_100_000]);
        assert_eq!(passed[3].1, 1_000_000 + 31_746);
    }
}
