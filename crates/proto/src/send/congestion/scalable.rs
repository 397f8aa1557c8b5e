//! The scalable response to the marks of an L4S queue, as in DCTCP (RFC 8257) and Prague
//! (draft-briscoe-iccrg-prague-congestion-control).
//!
//! An L4S queue marks datagrams with CE as soon as its delay reaches about a millisecond. The share of marked datagrams
//! measures how far the senders exceed the link's capacity. The moving average of this share, alpha, determines the
//! size of a decrease. There is at most one decrease per round trip. Between decreases, the rate increases linearly.
//!
//! A marking queue with a standing delay is treated as a classic queue (RFC 3168), and the response is that of a
//! classic sender. Without marks, this module has no effect.
//!
//! The response differs from Prague in two ways. The first marks set alpha to their share instead of 1, because a
//! halved rate is visible in the picture. There is no window: the response changes the rate directly.

use std::time::Duration;

use crate::ecn::EcnCounts;
use crate::id::FrameId;
use crate::time::Instant;

/// Gain of the moving average (RFC 8257, section 4.2: g = 1/16).
const GAIN: f64 = 1.0 / 16.0;
/// Minimum round trip of the control loop, so that flows with a short round trip do not displace others (the Prague
/// draft, section on reduced RTT-dependence: 25 ms).
const LEAST_ROUND_TRIP: Duration = Duration::from_millis(25);
/// The increase per round trip, in bits: one segment, as in Prague.
const SEGMENT: f64 = 8.0 * 1400.0;
/// The factor of a classic response (RFC 9438, section 4.6: CUBIC's multiplicative decrease).
pub(super) const CLASSIC: f64 = 0.7;
/// A queue with a longer standing delay is not an L4S queue. The value is CoDel's target (RFC 8289, section 4.3). The
/// L4S queue of DualPI2 marks from a delay of about 1 ms on (RFC 9332, appendix A.1).
const CLASSIC_QUEUE: Duration = Duration::from_millis(5);
/// The time over which the shortest delay counts as standing: CoDel's interval (RFC 8289, section 4.2).
const STANDING: Duration = Duration::from_millis(100);
/// Time after the last mark for which the path counts as one with a marking queue (guess). By the end of this time, the
/// pacing rate has risen so far that the end of the pacing hardly changes the bursts.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Minimum interval between events of one kind (guess), because marks may arrive in each round trip.
const EVENT_INTERVAL: Duration = Duration::from_secs(30);

/// The marks and the queueing delay that a report shows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// Arrival of the report.
    pub(super) now: Instant,
    /// The frame that the report describes.
    pub(super) frame: FrameId,
    /// The newest frame sent so far.
    pub(super) newest: FrameId,
    /// The round trip of the path.
    pub(super) round_trip: Duration,
    /// The minimum period of the control loop: reports show the effect of a decrease only after this time.
    pub(super) least_period: Duration,
    pub(super) counts: EcnCounts,
    /// Delay of the frame's first datagram beyond that of the empty path; `None` if unknown.
    pub(super) queue: Option<Duration>,
}

/// The response to a report: a decrease, if one is due, and then an increase. As in Prague, the increase does not pause
/// after a decrease.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Response {
    pub(super) decrease: Option<Decrease>,
    /// The increase in bits per second.
    pub(super) raise: f64,
}

/// A decrease.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Decrease {
    /// By half of this share (alpha).
    Scalable(f64),
    /// By the same factor as a classic sender, because the queue has this standing delay.
    Classic(Duration),
}

/// The state of the response.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scalable {
    /// The moving average of the share of marked datagrams; `None` before the first mark.
    alpha: Option<f64>,
    /// Marked datagrams and all datagrams of the current round trip.
    round: (u32, u32),
    /// The round trip ends with the first report that describes a frame after this one and arrives at this time or
    /// later.
    round_end: (FrameId, Instant),
    /// The next decrease needs a report that describes a frame after this one and arrives at this time or later.
    cut: (FrameId, Instant),
    /// The shortest queueing delay of the previous and of the current interval; `standing_end` is the end of the
    /// current interval.
    shortest: (Option<Duration>, Option<Duration>),
    standing_end: Instant,
    marked_at: Option<Instant>,
    /// The times of the last events about scalable and about classic responses.
    event_at: [Option<Instant>; 2],
    last_report: Option<Instant>,
}

impl Scalable {
    /// Whether the path has a marking queue.
    pub(super) fn is_active(&self, now: Instant) -> bool {
        self.marked_at.is_some_and(|at| now < at + REMEMBERED)
    }

    /// Handles a report with counts. While the path has no marking queue, there is no response.
    pub(super) fn on_report(&mut self, sample: &Sample) -> Option<Response> {
        let Sample { now, frame, .. } = *sample;
        let round_trip = sample.round_trip.max(LEAST_ROUND_TRIP);
        let period = round_trip.max(sample.least_period);
        let since = self.last_report.replace(now).map(|last| now.since(last));
        self.note_queue(now, sample.queue);
        if frame > self.round_end.0 && now >= self.round_end.1 {
            let (marked, all) = std::mem::take(&mut self.round);
            if let Some(alpha) = self.alpha.as_mut().filter(|_| all > 0) {
                *alpha += GAIN * (share(marked, all) - *alpha);
            }
            self.round_end = (sample.newest, now + period);
        }
        let (marked, all) = (u32::from(sample.counts.ce), sample.counts.total());
        self.round.0 += marked;
        self.round.1 += all;
        if marked > 0 {
            self.marked_at = Some(now);
            self.alpha.get_or_insert(share(marked, all));
        }
        if !self.is_active(now) {
            self.alpha = None;
            return None;
        }
        let standing = self.standing().filter(|queue| *queue > CLASSIC_QUEUE);
        let decrease = match standing {
            Some(queue) => Decrease::Classic(queue),
            None => Decrease::Scalable(self.alpha?),
        };
        let due = marked > 0 && frame > self.cut.0 && now >= self.cut.1;
        if due {
            // Reports arrive once per frame interval. Counting from the earliest time of this decrease keeps the mean
            // interval of decreases at the period.
            self.note_cut(sample.newest, (self.cut.1 + period).max(now));
        }
        // Only unmarked datagrams raise the rate. A pause in the reports counts as at most one period of the control
        // loop, because it does not show that the link was free.
        let over = since.filter(|_| standing.is_none()).unwrap_or_default();
        let of_period = over.min(period).as_secs_f64() / period.as_secs_f64();
        // Prague's rate rises by SEGMENT / round_trip in each round trip. A longer period between decreases does not
        // lower this step. Otherwise, the rate at which increases and decreases balance would be below Prague's.
        let step = SEGMENT / round_trip.as_secs_f64();
        Some(Response {
            decrease: Some(decrease).filter(|_| due),
            raise: step * of_period * (1.0 - share(marked, all)),
        })
    }

    /// Records a decrease. Frames up to `newest` were sent before it, and the next decrease follows at `until` or later.
    pub(super) fn note_cut(&mut self, newest: FrameId, until: Instant) {
        self.cut = (newest, until);
    }

    /// Whether an event about a classic or scalable response is due. A due event is recorded as emitted.
    pub(super) fn takes_event(&mut self, now: Instant, classic: bool) -> bool {
        let last = &mut self.event_at[usize::from(classic)];
        let due = last.is_none_or(|at| now >= at + EVENT_INTERVAL);
        if due {
            *last = Some(now);
        }
        due
    }

    fn note_queue(&mut self, now: Instant, queue: Option<Duration>) {
        if now >= self.standing_end {
            self.shortest = (self.shortest.1, None);
            self.standing_end = now + STANDING;
        }
        let Some(queue) = queue else { return };
        let before = self.shortest.1.unwrap_or(queue);
        self.shortest.1 = Some(before.min(queue));
    }

    /// The shortest delay of the previous and the current interval; `None` if it is unknown.
    fn standing(&self) -> Option<Duration> {
        let (previous, current) = self.shortest;
        Some(previous?.min(current?))
    }
}

/// The share of marked datagrams.
fn share(marked: u32, all: u32) -> f64 {
    f64::from(marked) / f64::from(all.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Duration = Duration::from_micros(16_667);
    const ROUND_TRIP: Duration = Duration::from_millis(40);

    /// Reports on frames of 20 datagrams each.
    struct Reports {
        scalable: Scalable,
        now: Instant,
        frame: u32,
    }

    impl Reports {
        fn new() -> Reports {
            Reports {
                scalable: Scalable::default(),
                now: Instant(0),
                frame: 0,
            }
        }

        /// The next report, with this many marked datagrams and this queue in ms.
        fn report(&mut self, ce: u16, queue: u64) -> Option<Response> {
            self.now = self.now + FRAME;
            self.frame += 1;
            self.scalable.on_report(&Sample {
                now: self.now,
                frame: FrameId(self.frame),
                // The report arrives 40 ms after its frame was sent.
                newest: FrameId(self.frame + 2),
                round_trip: ROUND_TRIP,
                least_period: FRAME * 2,
                counts: EcnCounts {
                    ect1: 20 - ce,
                    ce,
                    ..EcnCounts::default()
                },
                queue: Some(Duration::from_millis(queue)),
            })
        }

        /// As [`Reports::report`]; only the decrease.
        fn decrease(&mut self, ce: u16, queue: u64) -> Option<Decrease> {
            self.report(ce, queue)?.decrease
        }
    }

    #[test]
    fn without_marks_there_is_no_response() {
        let mut reports = Reports::new();
        assert!((0..1000).all(|_| reports.report(0, 0).is_none()));
        assert!(!reports.scalable.is_active(reports.now));
    }

    #[test]
    fn the_rate_decreases_at_most_once_per_round_trip() {
        let mut reports = Reports::new();
        let cuts: Vec<u32> = (1..=60)
            .filter(|_| reports.decrease(20, 1).is_some())
            .collect();
        // Frames 1 to 3 were sent before the first decrease.
        assert_eq!(cuts[..3], [1, 4, 7]);
        assert_eq!(cuts.len(), 20);
    }

    #[test]
    fn alpha_approaches_the_share_of_marked_datagrams() {
        for ce in [1, 5, 20] {
            let mut reports = Reports::new();
            assert_eq!(reports.decrease(20, 1), Some(Decrease::Scalable(1.0)));
            for _ in 0..600 {
                reports.report(ce, 1);
            }
            let alpha = reports.scalable.alpha.expect("marks arrived");
            let share = f64::from(ce) / 20.0;
            assert!((alpha - share).abs() < 0.01, "{ce}: {alpha}");
        }
    }

    #[test]
    fn unmarked_reports_raise_the_rate_linearly() {
        let mut reports = Reports::new();
        reports.report(1, 0);
        let mut raised = 0.0;
        for _ in 0..60 {
            let response = reports.report(0, 0).expect("a response");
            assert_eq!(response.decrease, None);
            raised += response.raise;
        }
        // One segment per round trip, and 25 round trips in a second.
        let expected = SEGMENT / 0.04 * 25.0;
        assert!((raised / expected - 1.0).abs() < 0.01, "{raised}");
    }

    #[test]
    fn a_standing_queue_gets_the_classic_response() {
        let mut reports = Reports::new();
        for _ in 0..20 {
            reports.report(0, 12);
        }
        let queue = Duration::from_millis(12);
        assert_eq!(reports.decrease(1, 12), Some(Decrease::Classic(queue)));
        // One frame without delay is enough to show that the queue has drained.
        for _ in 0..5 {
            reports.report(0, 0);
        }
        let decrease = reports.decrease(1, 12);
        assert!(matches!(decrease, Some(Decrease::Scalable(_))));
    }

    #[test]
    fn a_path_without_marks_for_a_minute_is_forgotten() {
        let mut reports = Reports::new();
        reports.report(20, 0);
        for _ in 0..3590 {
            assert!(reports.report(0, 0).is_some());
        }
        for _ in 0..20 {
            reports.report(0, 0);
        }
        assert_eq!(reports.report(0, 0), None);
        // The first marks set alpha again.
        assert_eq!(reports.decrease(5, 0), Some(Decrease::Scalable(0.25)));
    }
}
