//! The loop of `xrWaitFrame`, `xrBeginFrame` and `xrEndFrame`: in which order they are right, when a frame's
//! slot begins, and when its picture is expected to be seen.
//!
//! The runtime owns time: an application is let go at the beginning of its slot, one a period. One that is
//! late by less than a period keeps its rhythm; one that is later begins at once, and that is its new rhythm.
//! Nothing is waited for that no display asks for: a picture leaves when it is there.

use std::time::Duration;

use openuvr_proto::time::Instant;
use openxr_sys as xr;

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
    pub(crate) fn wait(&mut self, now: Instant, period: Duration) -> Wait {
        if self.waited {
            return Wait::ForBegin;
        }
        self.waited = true;
        Wait::Until(self.slot(now, period))
    }

    /// The slot that is next.
    fn slot(&self, now: Instant, period: Duration) -> Instant {
        let Some((newest, _)) = self.newest else {
            return now;
        };
        let due = newest + period;
        if now > due + period { now } else { due }
    }

    /// The frame of who has waited until `now`; its picture takes `delay` from the slot to the eye.
    pub(crate) fn take(&mut self, now: Instant, period: Duration, delay: Duration) -> Frame {
        let slot = self.slot(now, period);
        // It never goes back, whatever was measured in between.
        let least = self
            .newest
            .map(|(_, display)| display + Duration::from_nanos(1));
        let display = (slot + delay).max(least.unwrap_or(slot));
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

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_millis(10);
    const DELAY: Duration = Duration::from_millis(25);

    fn ms(ms: i64) -> Instant {
        Instant(ms * 1_000_000)
    }

    /// A whole frame that is asked for at `now`; when its slot is and when it is to be seen.
    fn frame(frames: &mut FrameLoop, now: Instant) -> (Instant, Instant) {
        let Wait::Until(slot) = frames.wait(now, PERIOD) else {
            panic!("the one before was begun");
        };
        let frame = frames.take(slot.max(now), PERIOD, DELAY);
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
            let Wait::Until(slot) = frames.wait(ms(at), PERIOD) else {
                panic!("the one before was begun");
            };
            let delay = Duration::from_millis(delay);
            let display = frames.take(slot, PERIOD, delay).display;
            assert!(display > last, "{display:?}");
            last = display;
            frames.begin().unwrap();
        }
    }

    #[test]
    fn calls_have_to_take_turns() {
        let mut frames = FrameLoop::default();
        let order = Err(xr::Result::ERROR_CALL_ORDER_INVALID);
        assert_eq!(frames.begin(), order);
        assert_eq!(frames.may_end(), order.map(|_| ()));
        frames.wait(ms(0), PERIOD);
        assert_eq!(frames.wait(ms(0), PERIOD), Wait::ForBegin);
        assert_eq!(frames.begin(), Ok(xr::Result::SUCCESS));
        assert_eq!(frames.begin(), order);
        // The next may be waited for before this one ends, and takes its place if it never does.
        assert!(matches!(frames.wait(ms(0), PERIOD), Wait::Until(_)));
        assert_eq!(frames.begin(), Ok(xr::Result::FRAME_DISCARDED));
        assert_eq!(frames.may_end(), Ok(()));
        frames.end();
        assert_eq!(frames.may_end(), order.map(|_| ()));
    }
}
