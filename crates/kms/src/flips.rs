//! The order of pictures on a display. At most one flip is pending and at most one picture waits. A newer picture
//! replaces the waiting one.
//!
//! There are three buffers: one is displayed, one is being flipped to, and one is being written. The type does no I/O;
//! its owner commits buffers and reports events. Each frame is reported once, with the time at which it became visible.
//! The report has no time if the time is unknown or the frame never became visible.

use std::collections::VecDeque;
use std::time::Duration;

use openuvr_media::present::Presented;
use openuvr_proto::id::FrameId;
use openuvr_proto::time::Instant;

/// Number of buffers.
pub(crate) const BUFFERS: usize = 3;

/// A flip without an event for this long may be lost (a guess: five refreshes at 24 Hz take 208 ms). A flip can be lost
/// when a display is unplugged or the driver is reset. Only the driver's response is conclusive: it refuses another
/// flip while this one is pending.
const LOST: Duration = Duration::from_millis(250);

/// Maximum number of reports that wait for their reader. The media thread reads them for each frame.
const REPORTS: usize = 256;

/// The state of a display.
#[derive(Debug, Default)]
pub(crate) struct Flips {
    /// The displayed buffer.
    shown: Option<usize>,
    pending: Option<Pending>,
    waiting: Option<Completed>,
    reports: VecDeque<Presented>,
    /// Number of flips that the display has reported.
    count: u64,
}

/// A picture in a buffer. Without a frame, it is the previous picture with a different pointer or text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Completed {
    buffer: usize,
    frame: Option<FrameId>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Pending {
    picture: Completed,
    since: Instant,
}

impl Flips {
    /// The buffer for the next picture. The next picture replaces a waiting one.
    pub(crate) fn free(&self) -> usize {
        if let Some(waiting) = &self.waiting {
            return waiting.buffer;
        }
        let pending = self.pending.map(|pending| pending.picture.buffer);
        let used = |buffer: &usize| self.shown == Some(*buffer) || pending == Some(*buffer);
        // At most two are in use.
        (0..BUFFERS).find(|buffer| !used(buffer)).unwrap_or(0)
    }

    /// Whether a buffer is displayed, being flipped to, or waiting.
    pub(crate) fn uses(&self, buffer: usize) -> bool {
        let pending = self.pending.map(|pending| pending.picture.buffer);
        [self.shown, pending, self.waiting()].contains(&Some(buffer))
    }

    /// The buffer that was committed last. The next buffer is compared with it.
    pub(crate) fn newest(&self) -> Option<usize> {
        let pending = self.pending.map(|pending| pending.picture.buffer);
        pending.or(self.shown)
    }

    /// Records that the picture in `buffer` is complete. `buffer` was returned by [`free`](Self::free). Returns the
    /// buffer to commit now, if no flip is pending.
    pub(crate) fn completed(&mut self, buffer: usize, frame: Option<FrameId>) -> Option<usize> {
        if let Some(before) = self.waiting.replace(Completed { buffer, frame }) {
            match (before.frame, frame) {
                // The same frame with a different pointer.
                (Some(frame), None) => {
                    self.waiting = Some(Completed {
                        buffer,
                        frame: Some(frame),
                    });
                }
                (before, _) => self.never_visible(before),
            }
        }
        self.due()
    }

    /// The buffer to commit if the pending flip is lost.
    pub(crate) fn waiting(&self) -> Option<usize> {
        self.waiting.map(|waiting| waiting.buffer)
    }

    /// The waiting buffer, if no flip is pending: it can be committed now.
    pub(crate) fn due(&self) -> Option<usize> {
        let waiting = self.waiting.filter(|_| self.pending.is_none());
        waiting.map(|waiting| waiting.buffer)
    }

    /// Records that the display has accepted the buffer of [`due`](Self::due) or [`waiting`](Self::waiting). A flip
    /// that was pending counts as lost.
    pub(crate) fn committed(&mut self, now: Instant) {
        if let Some(picture) = self.waiting.take() {
            self.drop_pending();
            self.pending = Some(Pending {
                picture,
                since: now,
            });
        }
    }

    /// Records that the pending flip has happened. `at` is its time, if the display reports times on the monotonic
    /// clock. An event without a pending flip is older than an [`interrupt`](Self::interrupt).
    pub(crate) fn flipped(&mut self, at: Option<Instant>) {
        let Some(Pending { picture, .. }) = self.pending.take() else {
            return;
        };
        self.count += 1;
        self.shown = Some(picture.buffer);
        if let Some(frame) = picture.frame {
            self.report((frame, at));
        }
    }

    /// The time after which the pending flip may be lost.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.pending.map(|pending| pending.since + LOST)
    }

    /// Whether the pending flip may be lost by now. If so, the time starts again at `now`, and the flip stays pending
    /// until another flip is accepted.
    pub(crate) fn overdue(&mut self, now: Instant) -> bool {
        let overdue = self.deadline().is_some_and(|deadline| now >= deadline);
        if let Some(pending) = self.pending.as_mut().filter(|_| overdue) {
            pending.since = now;
        }
        overdue
    }

    /// Records that the display is gone or now belongs to another session. Pending and waiting pictures are not
    /// displayed. Returns the buffer with the newest picture. [`displayed`](Self::displayed) records when it is
    /// displayed again.
    pub(crate) fn interrupt(&mut self) -> Option<usize> {
        let waiting = self.waiting.take();
        let newest = waiting.map(|waiting| waiting.buffer).or(self.newest());
        self.drop_pending();
        self.never_visible(waiting.and_then(|waiting| waiting.frame));
        newest
    }

    /// Records that a mode set displays the buffer.
    pub(crate) fn displayed(&mut self, buffer: usize) {
        self.shown = Some(buffer);
    }

    /// Records a frame that is never displayed.
    pub(crate) fn never_visible(&mut self, frame: Option<FrameId>) {
        if let Some(frame) = frame {
            self.report((frame, None));
        }
    }

    /// Takes the oldest report.
    pub(crate) fn take_report(&mut self) -> Option<Presented> {
        self.reports.pop_front()
    }

    /// The number of flips that the display has reported.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    fn drop_pending(&mut self) {
        if let Some(Pending { picture, .. }) = self.pending.take() {
            self.shown = Some(picture.buffer);
            self.never_visible(picture.frame);
        }
    }

    fn report(&mut self, report: Presented) {
        if self.reports.len() == REPORTS {
            self.reports.pop_front();
        }
        self.reports.push_back(report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: i64) -> Instant {
        Instant(ms * 1_000_000)
    }

    fn frame(number: u32) -> Option<FrameId> {
        Some(FrameId(number))
    }

    /// Completes a picture and commits it if it is due.
    fn picture(flips: &mut Flips, number: u32, now: Instant) -> usize {
        let buffer = flips.free();
        if flips.completed(buffer, frame(number)).is_some() {
            flips.committed(now);
        }
        buffer
    }

    fn reports(flips: &mut Flips) -> Vec<Presented> {
        std::iter::from_fn(|| flips.take_report()).collect()
    }

    #[test]
    fn the_newest_of_the_waiting_pictures_is_displayed() {
        let mut flips = Flips::default();
        let first = picture(&mut flips, 1, ms(0));
        let second = picture(&mut flips, 2, ms(1));
        let third = picture(&mut flips, 3, ms(2));
        assert_eq!(second, third, "the waiting picture is replaced");
        assert_ne!(first, second);
        assert_eq!(flips.due(), None, "one flip is pending");
        flips.flipped(Some(ms(16)));
        assert_eq!(flips.due(), Some(third));
        flips.committed(ms(16));
        let fourth = picture(&mut flips, 4, ms(20));
        assert!(fourth != third && fourth != first, "both are in use");
        flips.flipped(Some(ms(33)));
        let expected = [
            (FrameId(2), None),
            (FrameId(1), Some(ms(16))),
            (FrameId(3), Some(ms(33))),
        ];
        assert_eq!(reports(&mut flips), expected);
        assert_eq!(flips.count(), 2);
    }

    #[test]
    fn a_moved_pointer_neither_hides_nor_repeats_a_frame() {
        let mut flips = Flips::default();
        picture(&mut flips, 1, ms(0));
        picture(&mut flips, 2, ms(1));
        // The pointer moves over the waiting picture.
        let buffer = flips.free();
        assert_eq!(flips.completed(buffer, None), None);
        flips.flipped(Some(ms(16)));
        flips.committed(ms(16));
        flips.flipped(Some(ms(33)));
        // The pointer also moves over the displayed picture.
        let buffer = flips.free();
        assert_eq!(flips.completed(buffer, None), Some(buffer));
        flips.committed(ms(34));
        flips.flipped(Some(ms(50)));
        let expected = [(FrameId(1), Some(ms(16))), (FrameId(2), Some(ms(33)))];
        assert_eq!(reports(&mut flips), expected);
    }

    #[test]
    fn a_lost_flip_blocks_no_later_picture() {
        let mut flips = Flips::default();
        picture(&mut flips, 1, ms(0));
        let second = picture(&mut flips, 2, ms(1));
        assert!(!flips.overdue(ms(200)));
        assert_eq!(flips.deadline(), Some(ms(250)));
        assert!(flips.overdue(ms(250)));
        assert_eq!(flips.waiting(), Some(second));
        // The driver accepts another flip.
        flips.committed(ms(250));
        assert_eq!(reports(&mut flips), [(FrameId(1), None)]);
        flips.flipped(Some(ms(260)));
        assert_eq!(reports(&mut flips), [(FrameId(2), Some(ms(260)))]);
    }

    #[test]
    fn a_slow_flip_is_reported_although_it_was_overdue() {
        let mut flips = Flips::default();
        picture(&mut flips, 1, ms(0));
        let second = picture(&mut flips, 2, ms(1));
        assert!(flips.overdue(ms(250)));
        // The driver refuses another flip.
        assert_eq!(flips.deadline(), Some(ms(500)));
        assert_eq!(flips.due(), None);
        flips.flipped(Some(ms(400)));
        assert_eq!(reports(&mut flips), [(FrameId(1), Some(ms(400)))]);
        assert_eq!(flips.due(), Some(second));
    }

    #[test]
    fn an_interrupted_display_returns_with_the_newest_picture() {
        let mut flips = Flips::default();
        assert_eq!(flips.interrupt(), None);
        picture(&mut flips, 1, ms(0));
        let second = picture(&mut flips, 2, ms(1));
        assert_eq!(flips.interrupt(), Some(second));
        assert_eq!(flips.due(), None);
        assert_eq!(
            reports(&mut flips),
            [(FrameId(1), None), (FrameId(2), None)]
        );
        flips.displayed(second);
        // An older event has no effect.
        flips.flipped(Some(ms(20)));
        assert_eq!(flips.count(), 0);
        assert_ne!(picture(&mut flips, 3, ms(30)), second);
    }

    #[test]
    fn any_order_reports_each_frame_once_and_spares_used_buffers() {
        let mut flips = Flips::default();
        let (mut seed, mut sent, mut seen) = (1_u64, 0, Vec::new());
        for step in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let now = ms(step);
            match (seed >> 33) % 5 {
                0 | 1 => {
                    let buffer = flips.free();
                    assert_ne!(Some(buffer), flips.shown);
                    assert_ne!(Some(buffer), flips.pending.map(|p| p.picture.buffer));
                    sent += 1;
                    picture(&mut flips, sent, now);
                }
                2 => {
                    let buffer = flips.free();
                    if flips.completed(buffer, None).is_some() {
                        flips.committed(now);
                    }
                }
                3 => {
                    flips.flipped(Some(now));
                    if flips.due().is_some() {
                        flips.committed(now);
                    }
                }
                _ if seed >> 40 & 15 == 0 => _ = flips.interrupt(),
                _ => {
                    if flips.overdue(now) {
                        flips.committed(now);
                    }
                }
            }
            seen.extend(reports(&mut flips).into_iter().map(|(frame, _)| frame.0));
        }
        flips.interrupt();
        seen.extend(reports(&mut flips).into_iter().map(|(frame, _)| frame.0));
        seen.sort_unstable();
        assert_eq!(seen, (1..=sent).collect::<Vec<_>>());
    }

    /// Frames of one rate on a display with another refresh rate, on a virtual clock. Times are in nanoseconds.
    struct Simulation {
        flips: Flips,
        seed: u64,
        period: i64,
        refresh: i64,
        /// When each frame so far was complete.
        arrivals: Vec<i64>,
        next_arrival: i64,
        /// The displayed frame, and the number of frames that were never displayed.
        visible: u32,
        never_visible: u32,
    }

    impl Simulation {
        fn new(frame_rate: i64, refresh_rate: i64) -> Simulation {
            Simulation {
                flips: Flips::default(),
                seed: 1,
                period: 1_000_000_000 / frame_rate,
                refresh: 1_000_000_000 / refresh_rate,
                arrivals: Vec::new(),
                next_arrival: 1_000_000,
                visible: 0,
                never_visible: 0,
            }
        }

        /// A pseudo-random number below `limit`.
        fn below(&mut self, limit: i64) -> i64 {
            let seed = self.seed.wrapping_mul(6_364_136_223_846_793_005);
            self.seed = seed.wrapping_add(1);
            i64::try_from(self.seed >> 33).unwrap() % limit
        }

        /// Frames are late by up to a quarter of their period.
        fn frames_until(&mut self, now: i64) {
            while self.next_arrival <= now {
                self.arrivals.push(self.next_arrival);
                let number = u32::try_from(self.arrivals.len()).unwrap();
                picture(&mut self.flips, number, Instant(self.next_arrival));
                let late = self.below(self.period / 4);
                self.next_arrival = (i64::from(number) + 1) * self.period + late;
            }
        }

        /// The display refreshes at `now`. The event thread handles the flip up to half a refresh later.
        fn refresh(&mut self, now: i64) {
            self.frames_until(now);
            let flips = self.flips.pending.is_some();
            let handled = now + self.below(self.refresh / 2);
            self.frames_until(handled);
            if flips {
                self.flips.flipped(Some(Instant(now)));
                if self.flips.due().is_some() {
                    self.flips.committed(Instant(handled));
                }
            }
            for (frame, at) in reports(&mut self.flips) {
                if let Some(at) = at {
                    assert_eq!(at, Instant(now));
                    assert!(frame.0 > self.visible, "an older frame returns");
                    self.visible = frame.0;
                } else {
                    self.never_visible += 1;
                }
            }
        }
    }

    #[test]
    fn the_display_is_never_more_than_one_refresh_behind() {
        for frame_rate in [24, 25, 30, 50, 60, 72, 90, 120, 144, 165, 240, 360] {
            for refresh_rate in [24, 30, 50, 60, 75, 120, 144, 165, 240] {
                let mut simulation = Simulation::new(frame_rate, refresh_rate);
                for number in 1..400 {
                    let now = number * simulation.refresh;
                    simulation.refresh(now);
                    let before = now - simulation.refresh;
                    let complete = simulation.arrivals.partition_point(|at| *at <= before);
                    assert!(
                        simulation.visible as usize >= complete,
                        "{frame_rate} frames/s at {refresh_rate} Hz: frame {} is displayed, but {complete} frames \
                         were complete a refresh ago",
                        simulation.visible
                    );
                }
                // A frame can remain undisplayed only if the next frame is complete within a refresh.
                if simulation.period * 3 / 4 > simulation.refresh {
                    assert_eq!(
                        simulation.never_visible, 0,
                        "{frame_rate} at {refresh_rate}"
                    );
                }
            }
        }
    }
}
