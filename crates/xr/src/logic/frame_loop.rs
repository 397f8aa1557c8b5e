//! The frame loop of `xrWaitFrame`, `xrBeginFrame` and `xrEndFrame`: call order, frame pacing and predicted
//! display times.
//!
//! The runtime paces the application: `xrWaitFrame` returns at the start of a slot, once per period. If a frame is late
//! by less than a period, the slots keep their phase. After a longer delay, the next slot starts at once and sets the
//! new phase. A picture is sent as soon as it is ready. If the client reports its display's refresh times, each slot is
//! assigned to a refresh, which is the predicted display time. The slot starts so early that 99 of 100 frames reach the
//! display before this refresh.

use std::time::Duration;

use openuvr_proto::time::Instant;
use openxr_sys as xr;

use super::delay::Delay;
use crate::debug::with_message;
use crate::ffi::Outcome;

/// Result of `xrWaitFrame`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Frame {
    /// Predicted display time.
    pub(crate) display: Instant,
    /// Interval to the next frame's display time.
    pub(crate) period: Duration,
}

/// Frame pacing parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FrameTiming {
    pub(crate) period: Duration,
    /// A refresh time of the display; all other refreshes are whole periods before or after it. `None` if the display
    /// shows pictures on arrival.
    pub(crate) phase: Option<Instant>,
    /// Latency from a frame's start to its display.
    pub(crate) delay: Delay,
}

impl FrameTiming {
    /// The display's first refresh at or after `at`.
    fn next_refresh(&self, at: Instant) -> Option<Instant> {
        let period = i64::try_from(self.period.as_nanos())
            .ok()
            .filter(|p| *p > 0)?;
        let later = (self.phase?.0.saturating_sub(at.0)).rem_euclid(period);
        Some(Instant(at.0.saturating_add(later)))
    }
}

/// The next step of a call of `xrWaitFrame`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    /// Wait until another thread has begun the previous frame.
    ForBegin,
    /// Sleep until this time, and take the frame.
    Until(Instant),
}

/// State of a session's frame loop.
#[derive(Debug, Default)]
pub(crate) struct FrameLoop {
    /// The newest slot and its predicted display time.
    newest: Option<(Instant, Instant)>,
    /// Whether a thread is in `xrWaitFrame`, or has returned from it and has not called `xrBeginFrame` yet.
    waited: bool,
    /// Whether a frame has been begun and not ended.
    begun: bool,
}

impl FrameLoop {
    /// Starts a wait. If the result is [`Wait::Until`], the caller owns the frame and has to take it.
    pub(crate) fn wait(&mut self, now: Instant, timing: FrameTiming) -> Wait {
        if self.waited {
            return Wait::ForBegin;
        }
        self.waited = true;
        Wait::Until(self.slot(now, timing))
    }

    /// The next slot.
    fn slot(&self, now: Instant, timing: FrameTiming) -> Instant {
        let period = timing.period;
        let due = self.newest.map(|(newest, _)| newest + period);
        // The first frame starts at once, and so does a frame after a gap. For every other frame, `FrameLoop::take`
        // calculates the same slot again.
        let Some(due) = due.filter(|due| now <= *due + period) else {
            return now;
        };
        // The slots move towards the display's phase by a tenth of the difference per frame. A jump would be visible on
        // clients that show frames on arrival.
        let begins = |shown: Instant| Instant(shown.0 - nanos(timing.delay.safe));
        let Some(shown) = timing.next_refresh(due + timing.delay.safe) else {
            return due;
        };
        let late = begins(shown).since(due);
        match late <= period / 2 {
            true => due + late / 10,
            false => Instant(due.0 - nanos((period - late) / 10)),
        }
    }

    /// Takes the frame after the wait, at `now`.
    pub(crate) fn take(&mut self, now: Instant, timing: FrameTiming) -> Frame {
        let (slot, period) = (self.slot(now, timing), timing.period);
        // Display times increase strictly, even if the measured latency drops.
        let least = self
            .newest
            .map(|(_, display)| display + Duration::from_nanos(1));
        // Select the refresh that is nearest to the slot's start plus the latency. Each frame then has its own refresh,
        // even while the slots move towards the display's phase.
        let soonest = slot + timing.delay.safe.saturating_sub(period / 2);
        let shown = timing.next_refresh(soonest);
        let display = shown.unwrap_or(slot + timing.delay.median);
        let display = display.max(least.unwrap_or(slot));
        self.newest = Some((slot, display));
        Frame { display, period }
    }

    pub(crate) fn cancel_wait(&mut self) {
        self.waited = false;
    }

    /// `xrBeginFrame`.
    pub(crate) fn begin(&mut self) -> Outcome {
        if !std::mem::take(&mut self.waited) {
            let message = c"no frame was waited for: call xrWaitFrame before each xrBeginFrame";
            return Err(with_message(xr::Result::ERROR_CALL_ORDER_INVALID, message));
        }
        match std::mem::replace(&mut self.begun, true) {
            false => Ok(xr::Result::SUCCESS),
            // The previous frame was never ended, and is not shown.
            true => Ok(xr::Result::FRAME_DISCARDED),
        }
    }

    /// Whether `xrEndFrame` may be called.
    pub(crate) fn may_end(&self) -> Outcome<()> {
        match self.begun {
            true => Ok(()),
            false => {
                let message = c"no frame was begun: call xrBeginFrame before xrEndFrame";
                Err(with_message(xr::Result::ERROR_CALL_ORDER_INVALID, message))
            }
        }
    }

    /// `xrEndFrame`. The caller has checked [`FrameLoop::may_end`].
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
    const UNSYNCHRONIZED: FrameTiming = timing(25);

    /// A display that shows pictures on arrival.
    const fn timing(delay: u64) -> FrameTiming {
        let delay = Duration::from_millis(delay);
        FrameTiming {
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

    /// Runs a frame whose wait starts at `now`. Returns its slot and its display time.
    fn frame(frames: &mut FrameLoop, now: Instant) -> (Instant, Instant) {
        frame_in(frames, now, UNSYNCHRONIZED)
    }

    fn frame_in(frames: &mut FrameLoop, now: Instant, timing: FrameTiming) -> (Instant, Instant) {
        let Wait::Until(slot) = frames.wait(now, timing) else {
            panic!("the frame before was begun");
        };
        let frame = frames.take(slot.max(now), timing);
        assert_eq!(frames.begin(), Ok(xr::Result::SUCCESS));
        assert_eq!(frames.may_end(), Ok(()));
        frames.end();
        (slot, frame.display)
    }

    #[test]
    fn frames_are_paced_by_the_period() {
        let mut frames = FrameLoop::default();
        assert_eq!(frame(&mut frames, ms(100)), (ms(100), ms(125)));
        // An early frame waits. If a frame is late by less than a period, the phase stays.
        assert_eq!(frame(&mut frames, ms(102)), (ms(110), ms(135)));
        assert_eq!(frame(&mut frames, ms(128)), (ms(120), ms(145)));
        assert_eq!(frame(&mut frames, ms(129)), (ms(130), ms(155)));
        // A later frame sets a new phase.
        assert_eq!(frame(&mut frames, ms(157)), (ms(157), ms(182)));
        assert_eq!(frame(&mut frames, ms(158)), (ms(167), ms(192)));
    }

    #[test]
    fn display_times_increase_strictly() {
        let mut frames = FrameLoop::default();
        let mut last = ms(0);
        for (at, delay) in [(0, 90), (1, 20), (2, 20), (3, 80)] {
            let Wait::Until(slot) = frames.wait(ms(at), timing(delay)) else {
                panic!("the frame before was begun");
            };
            let display = frames.take(slot, timing(delay)).display;
            assert!(display > last, "{display:?}");
            last = display;
            frames.begin().unwrap();
        }
    }

    #[test]
    fn slots_converge_to_the_display_phase() {
        // The refreshes are at 3, 13, 23 … ms. A frame has to start 12 ms earlier: at 1, 11, 21 … ms.
        let timing = FrameTiming {
            phase: Some(ms(1_000_003)),
            delay: Delay {
                median: Duration::from_millis(9),
                safe: Duration::from_millis(12),
            },
            ..UNSYNCHRONIZED
        };
        for start in [0, 4, 7] {
            let mut frames = FrameLoop::default();
            let (mut now, mut last) = (ms(start), None);
            for _ in 0..100 {
                let (slot, display) = frame_in(&mut frames, now, timing);
                assert_eq!(
                    display.0 % 10_000_000,
                    3_000_000,
                    "a refresh of the display"
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
    fn calls_out_of_order_are_rejected() {
        let mut frames = FrameLoop::default();
        let order = Err(xr::Result::ERROR_CALL_ORDER_INVALID);
        assert_eq!(frames.begin(), order);
        assert_eq!(frames.may_end(), order.map(|_| ()));
        frames.wait(ms(0), UNSYNCHRONIZED);
        assert_eq!(frames.wait(ms(0), UNSYNCHRONIZED), Wait::ForBegin);
        assert_eq!(frames.begin(), Ok(xr::Result::SUCCESS));
        assert_eq!(frames.begin(), order);
        // `xrWaitFrame` may be called for the next frame before this frame ends. If this frame never ends, the next
        // frame replaces it.
        assert!(matches!(frames.wait(ms(0), UNSYNCHRONIZED), Wait::Until(_)));
        assert_eq!(frames.begin(), Ok(xr::Result::FRAME_DISCARDED));
        assert_eq!(frames.may_end(), Ok(()));
        frames.end();
        assert_eq!(frames.may_end(), order.map(|_| ()));
    }
}
