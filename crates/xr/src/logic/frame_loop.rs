//! The loop of `xrWaitFrame`, `xrBeginFrame` and `xrEndFrame`: in which order they are right, when a frame's
//! slot begins, and when its picture is expected to be seen.
//!
//! The runtime owns time: an application is let go at the beginning of its slot, one a period. One that is
//! late by less than a period keeps its rhythm; one that is later begins at once, and that is its new rhythm.
//! Nothing is waited for that no display asks for: a picture leaves when it is there. Where the client says when its
//! display shows pictures, a slot begins so long before one of these moments as all but one of a hundred frames need,
//! and that moment is when the picture is expected to be seen.

use std::time::Duration;

use openuvr_proto::time::Instant;
use openxr_sys as xr;

use super::delay::Delay;
use crate::border::Outcome;
use crate::debug::because;

/// A frame as `xrWaitFrame` hands it out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Frame {
    /// Its picture is expected to be seen then …
    pub(crate) display: Instant,
    /// … and the next one so much later.
    pub(crate) period: Duration,
}

/// In what time frames go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rhythm {
    pub(crate) period: Duration,
    /// A moment at which the display shows a picture; others lie periods before and after it. `None`: it shows
    /// them as they come.
    pub(crate) phase: Option<Instant>,
    /// From a frame's beginning to its display.
    pub(crate) delay: Delay,
}

impl Rhythm {
    /// The display's first moment at `at` or behind it.
    fn shows_after(&self, at: Instant) -> Option<Instant> {
        let period = i64::try_from(self.period.as_nanos())
            .ok()
            .filter(|p| *p > 0)?;
        let later = (self.phase?.0.saturating_sub(at.0)).rem_euclid(period);
        Some(Instant(at.0.saturating_add(later)))
    }
}

/// What a wait for a frame has to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    /// The frame before was not begun yet: it has to be, in another thread.
    ForBegin,
    /// Sleep until then, and ask for the frame.
    Until(Instant),
}

/// Where a session's loop is.
#[derive(Debug, Default)]
pub(crate) struct FrameLoop {
    /// The slot that was handed out last, and when its picture was to be seen.
    newest: Option<(Instant, Instant)>,
    /// Somebody is in `xrWaitFrame`, or left it and has not begun the frame.
    waited: bool,
    /// A frame was begun and not ended.
    begun: bool,
}

impl FrameLoop {
    /// What a wait has to do; after `Until` the frame is this caller's, who has to take it.
    pub(crate) fn wait(&mut self, now: Instant, rhythm: Rhythm) -> Wait {
        if self.waited {
            return Wait::ForBegin;
        }
        self.waited = true;
        Wait::Until(self.slot(now, rhythm))
    }

    /// The slot that is next.
    fn slot(&self, now: Instant, rhythm: Rhythm) -> Instant {
        let period = rhythm.period;
        let due = self.newest.map(|(newest, _)| newest + period);
        // The first, and one behind a gap, begin at once; who takes what was waited for has the same slot.
        let Some(due) = due.filter(|due| now <= *due + period) else {
            return now;
        };
        // Towards the display's rhythm, by a tenth of what is missing: who waits for the application's frames
        // would see a jump. Never before `now`.
        let begins = |shown: Instant| Instant(shown.0 - nanos(rhythm.delay.safe));
        let Some(shown) = rhythm.shows_after(due + rhythm.delay.safe) else {
            return due;
        };
        let late = begins(shown).since(due);
        match late <= period / 2 {
            true => due + late / 10,
            false => Instant(due.0 - nanos((period - late) / 10)),
        }
    }

    /// The frame of who has waited until `now`; its picture is seen in this rhythm.
    pub(crate) fn take(&mut self, now: Instant, rhythm: Rhythm) -> Frame {
        let (slot, period) = (self.slot(now, rhythm), rhythm.period);
        // It never goes back, whatever was measured in between.
        let least = self
            .newest
            .map(|(_, display)| display + Duration::from_nanos(1));
        // The moment that the slot is nearest to: while slots move towards theirs, each frame still has its own.
        let soonest = slot + rhythm.delay.safe.saturating_sub(period / 2);
        let shown = rhythm.shows_after(soonest);
        let display = shown.unwrap_or(slot + rhythm.delay.median);
        let display = display.max(least.unwrap_or(slot));
        self.newest = Some((slot, display));
        Frame { display, period }
    }

    /// The wait was given up.
    pub(crate) fn give_up(&mut self) {
        self.waited = false;
    }

    /// `xrBeginFrame`.
    pub(crate) fn begin(&mut self) -> Outcome {
        if !std::mem::take(&mut self.waited) {
            let words = c"xrWaitFrame comes before each xrBeginFrame";
            return Err(because(xr::Result::ERROR_CALL_ORDER_INVALID, words));
        }
        match std::mem::replace(&mut self.begun, true) {
            false => Ok(xr::Result::SUCCESS),
            // The one before was never ended, and is not shown.
            true => Ok(xr::Result::FRAME_DISCARDED),
        }
    }

    /// Whether `xrEndFrame` may be called.
    pub(crate) fn may_end(&self) -> Outcome<()> {
        match self.begun {
            true => Ok(()),
            false => {
                let words = c"no frame was begun: xrBeginFrame comes before xrEndFrame";
                Err(because(xr::Result::ERROR_CALL_ORDER_INVALID, words))
            }
        }
    }

    /// `xrEndFrame`, if [`FrameLoop::may_end`].
    pub(crate) fn end(&mut self) {
        self.begun = false;
    }
}

fn nanos(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_millis(10);
    const FREE: Rhythm = rhythm(25);

    /// Of a display that shows pictures as they come.
    const fn rhythm(delay: u64) -> Rhythm {
        let delay = Duration::from_millis(delay);
        Rhythm {
            period: PERIOD,
            phase: None,
            delay: Delay {
                median: delay,
                safe: delay,
            },
        }
    }

    fn ms(ms: i64) -> Instant {
        Instant(ms * 1_000_000)
    }

    /// A whole frame that is asked for at `now`; when its slot is and when it is to be seen.
    fn frame(frames: &mut FrameLoop, now: Instant) -> (Instant, Instant) {
        frame_in(frames, now, FREE)
    }

    fn frame_in(frames: &mut FrameLoop, now: Instant, rhythm: Rhythm) -> (Instant, Instant) {
        let Wait::Until(slot) = frames.wait(now, rhythm) else {
            panic!("the one before was begun");
        };
        let frame = frames.take(slot.max(now), rhythm);
        assert_eq!(frames.begin(), Ok(xr::Result::SUCCESS));
        assert_eq!(frames.may_end(), Ok(()));
        frames.end();
        (slot, frame.display)
    }

    #[test]
    fn a_frame_has_a_slot_of_a_period() {
        let mut frames = FrameLoop::default();
        assert_eq!(frame(&mut frames, ms(100)), (ms(100), ms(125)));
        // Early: it waits. Late by less than a period: the rhythm stays.
        assert_eq!(frame(&mut frames, ms(102)), (ms(110), ms(135)));
        assert_eq!(frame(&mut frames, ms(128)), (ms(120), ms(145)));
        assert_eq!(frame(&mut frames, ms(129)), (ms(130), ms(155)));
        // Late by more: a new one.
        assert_eq!(frame(&mut frames, ms(157)), (ms(157), ms(182)));
        assert_eq!(frame(&mut frames, ms(158)), (ms(167), ms(192)));
    }

    #[test]
    fn the_time_of_display_never_goes_back() {
        let mut frames = FrameLoop::default();
        let mut last = ms(0);
        for (at, delay) in [(0, 90), (1, 20), (2, 20), (3, 80)] {
            let Wait::Until(slot) = frames.wait(ms(at), rhythm(delay)) else {
                panic!("the one before was begun");
            };
            let display = frames.take(slot, rhythm(delay)).display;
            assert!(display > last, "{display:?}");
            last = display;
            frames.begin().unwrap();
        }
    }

    #[test]
    fn slots_move_towards_the_moments_of_a_display() {
        // It shows pictures at 3, 13, 23 … ms; 12 ms before, a frame has to begin: at 1, 11, 21 …
        let rhythm = Rhythm {
            phase: Some(ms(1_000_003)),
            delay: Delay {
                median: Duration::from_millis(9),
                safe: Duration::from_millis(12),
            },
            ..FREE
        };
        for start in [0, 4, 7] {
            let mut frames = FrameLoop::default();
            let (mut now, mut last) = (ms(start), None);
            for _ in 0..100 {
                let (slot, display) = frame_in(&mut frames, now, rhythm);
                assert_eq!(
                    display.0 % 10_000_000,
                    3_000_000,
                    "a moment of the display's"
                );
                if let Some((before, shown)) = last {
                    let step = slot.since(before);
                    let even = step.abs_diff(PERIOD) <= PERIOD / 19;
                    assert!(even, "{step:?}: no jump");
                    assert!(display > shown);
                }
                last = Some((slot, display));
                now = slot;
            }
            let (slot, display) = last.unwrap();
            let into = slot.0 % 10_000_000;
            assert!((into - 1_000_000).abs() < 10_000, "{into} ns");
            let ahead = display.since(slot);
            assert!(ahead.abs_diff(Duration::from_millis(12)) < Duration::from_micros(10));
        }
    }

    #[test]
    fn calls_have_to_take_turns() {
        let mut frames = FrameLoop::default();
        let order = Err(xr::Result::ERROR_CALL_ORDER_INVALID);
        assert_eq!(frames.begin(), order);
        assert_eq!(frames.may_end(), order.map(|_| ()));
        frames.wait(ms(0), FREE);
        assert_eq!(frames.wait(ms(0), FREE), Wait::ForBegin);
        assert_eq!(frames.begin(), Ok(xr::Result::SUCCESS));
        assert_eq!(frames.begin(), order);
        // The next may be waited for before this one ends, and takes its place if it never does.
        assert!(matches!(frames.wait(ms(0), FREE), Wait::Until(_)));
        assert_eq!(frames.begin(), Ok(xr::Result::FRAME_DISCARDED));
        assert_eq!(frames.may_end(), Ok(()));
        frames.end();
        assert_eq!(frames.may_end(), order.map(|_| ()));
    }
}
