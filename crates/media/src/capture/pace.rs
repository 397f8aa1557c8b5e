//! Frame-rate limit: a token bucket with a queue of at most one frame, the newest.
//!
//! It does not sample at fixed times: a frame passes at once if a token is available. Without a token, the frame waits,
//! and a newer frame replaces it. If frames come faster than tokens, a frame waits until slightly after the expected
//! arrival of the next frame, even if a token is available earlier. The next frame then passes on arrival. The rate of
//! a fast source is therefore reduced without delaying frames. Only the last frame before a pause is delayed.

use std::time::Duration;

use openuvr_proto::time::Instant;

/// A source whose rate exceeds the limit by at most this fraction counts as running at the limit. The clocks of 60 Hz
/// displays are off by up to 0.4 % (60.25 Hz). Timers with whole milliseconds turn 60 frames/s into 62.5.
const TOLERANCE: f64 = 0.05;

/// Maximum wait of a frame for the next frame, as a multiple of the gap between earlier frames (guess: it covers most
/// of a game's jitter).
const EXPECTED_GAPS: f64 = 1.25;

/// Maximum number of tokens saved up during a pause. A second token is useful because the response to a click is often
/// a small change, followed milliseconds later by the picture itself. It also keeps a frame that arrives early because
/// of jitter from being delayed.
const DEPTH: u32 = 2;

/// Decides when the newest frame may pass. It has no clock; `now` is an argument.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Time between tokens; zero without a limit.
    interval: Duration,
    /// The time at which the bucket is full again if nothing passes (the "theoretical arrival time" of the generic cell
    /// rate algorithm, ITU-T I.371 annex A).
    full: Instant,
    /// Arrival of the waiting frame.
    held: Option<Instant>,
    /// Arrival of the newest frame, and the time since the previous frame's arrival.
    newest: Option<(Instant, Duration)>,
    /// The expected gap to the next frame (the longer of the last two gaps), if frames come faster
    /// than tokens.
    expected: Option<Duration>,
}

impl Pace {
    /// No limit. Every frame passes at once.
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

    /// At most `fps` frames per second in the long run (with a tolerance of 5 %; after a pause, two frames may follow
    /// each other at any interval). There is no limit if `fps` is not positive or not finite.
    #[must_use]
    pub fn new(fps: f64) -> Pace {
        let interval = Duration::try_from_secs_f64(1.0 / (fps * (1.0 + TOLERANCE)));
        Pace {
            interval: interval.unwrap_or(Duration::ZERO),
            ..Pace::unlimited()
        }
    }

    /// Changes the limit to `fps` frames per second, like [`Pace::new`]; a waiting frame keeps
    /// waiting.
    pub fn limit(&mut self, fps: f64) {
        self.interval = Pace::new(fps).interval;
    }

    /// Records a frame that arrives at `now` and replaces a waiting frame.
    pub fn offer(&mut self, now: Instant) {
        self.held = Some(now);
        let before = self.newest;
        let gap = before.map_or(Duration::MAX, |(at, _)| now.since(at));
        self.newest = Some((now, gap));
        let longer = before.map_or(Duration::MAX, |(_, before)| gap.max(before));
        self.expected = Some(longer).filter(|gap| *gap < self.interval);
    }

    /// The time at which the waiting frame may pass: its arrival time if a token was available on arrival. `None` if no
    /// frame waits.
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

    /// Passes the waiting frame at `now` and spends a token.
    pub fn take(&mut self, now: Instant) {
        if self.held.take().is_some() {
            self.full = self.full.max(now) + self.interval;
        }
    }

    /// Drops the waiting frame, because its source is gone or was resized.
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
        // One second at 100 frames/s, then none.
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
        // A passed frame is never older than the source's interval.
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
