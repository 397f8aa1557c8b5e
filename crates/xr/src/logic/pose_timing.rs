//! Computes the times at which the client should sample the head's pose. They depend on two measured times: when the
//! application first calls `xrLocateViews` in a frame, and how long a pose takes to arrive.

use std::collections::VecDeque;
use std::time::Duration;

use openuvr_proto::display::RefreshTiming;
use openuvr_proto::id::{PoseId, SubscriberId};
use openuvr_proto::pose::ReceivedPose;
use openuvr_proto::quantile::nearest_rank;
use openuvr_proto::time::Instant;

/// Number of samples considered: 1.5 s at 90 Hz, as for the display latency.
const WINDOW: usize = 135;

/// Minimum number of samples. With fewer samples, no schedule is sent (guess).
const MIN_SAMPLES: usize = 15;

/// Upper limit of a sample. A longer time is due to a clock step, or to an application that does other work first.
const MAX_SPAN: Duration = Duration::from_millis(250);

/// A sliding window of durations.
#[derive(Debug, Default)]
struct SampleWindow(VecDeque<Duration>);

impl SampleWindow {
    fn record(&mut self, span: Duration) {
        if self.0.len() == WINDOW {
            self.0.pop_front();
        }
        self.0.push_back(span.min(MAX_SPAN));
    }

    /// The specified percentile; `None` if there are too few samples.
    fn percentile(&self, percent: usize) -> Option<Duration> {
        if self.0.len() < MIN_SAMPLES {
            return None;
        }
        let mut sorted: Vec<Duration> = self.0.iter().copied().collect();
        sorted.sort_unstable();
        nearest_rank(&sorted, percent)
    }
}

/// The measured times.
#[derive(Debug, Default)]
pub(crate) struct PoseTiming {
    /// From a slot's start to the first `xrLocateViews`.
    located: SampleWindow,
    /// From the sampling of a pose to its arrival.
    transit: SampleWindow,
    /// The newest slot, and whether the application has located the views of its frame.
    slot: Option<(Instant, bool)>,
    newest: Option<(SubscriberId, PoseId)>,
}

impl PoseTiming {
    /// Records that a frame's slot has started.
    pub(crate) fn on_slot(&mut self, at: Instant) {
        self.slot = Some((at, false));
    }

    /// Records that the application locates views.
    pub(crate) fn on_located(&mut self, now: Instant) {
        if let Some((slot, located)) = &mut self.slot
            && !std::mem::replace(located, true)
        {
            self.located.record(now.since(*slot));
        }
    }

    /// Records that a pose has arrived. A duplicate changes nothing.
    pub(crate) fn on_pose(&mut self, posed: &ReceivedPose) {
        let Some(sampled) = posed.sampled_here else {
            return;
        };
        let before = self.newest.replace((posed.subscriber, posed.id));
        if before.is_some_and(|(subscriber, _)| subscriber != posed.subscriber) {
            self.transit = SampleWindow::default();
        }
        if before != self.newest {
            self.transit.record(posed.received.since(sampled.at));
        }
    }

    /// The times at which the client should sample poses, for slots that are a `period` apart. In most frames, the time
    /// from sampling to `xrLocateViews` is at least the 99th percentile of the transit time. `None` if there are too
    /// few samples.
    pub(crate) fn schedule(&self, period: Duration) -> Option<RefreshTiming<Instant>> {
        let (slot, _) = self.slot?;
        // A tenth of the frames locate their views earlier, and may use the pose of the previous period.
        let located = slot + self.located.percentile(10)?;
        let transit = i64::try_from(self.transit.percentile(99)?.as_nanos()).ok()?;
        Some(RefreshTiming {
            phase: Instant(located.0.saturating_sub(transit)),
            period,
        })
    }
}

#[cfg(test)]
mod tests {
    use openuvr_proto::id::SessionId;
    use openuvr_proto::pose::Pose;
    use openuvr_proto::time::{Mapped, PeerInstant};

    use super::*;

    fn ms(ms: i64) -> Instant {
        Instant(ms * 1_000_000)
    }

    fn posed(id: u32, sampled: i64, received: i64) -> ReceivedPose {
        ReceivedPose {
            subscriber: SubscriberId::Session(SessionId(1)),
            id: PoseId(id),
            pose: Pose::new([0.0; 3], [0.0, 0.0, 0.0, 1.0]).unwrap(),
            sampled: PeerInstant(0),
            sampled_here: Some(Mapped {
                at: ms(sampled),
                bound: Duration::ZERO,
            }),
            received: ms(received),
        }
    }

    #[test]
    fn poses_are_sampled_ahead_by_their_transit_time() {
        let mut timing = PoseTiming::default();
        let period = Duration::from_millis(10);
        for (id, slot) in (0..).zip((0..1000).step_by(10)) {
            assert_eq!(timing.schedule(period).is_some(), id > 14, "{id}");
            timing.on_slot(ms(slot));
            // Some frames locate their views late, and some poses arrive late.
            let late = if id % 7 == 3 { 4 } else { 0 };
            timing.on_pose(&posed(id, slot - 3, slot + late - 2));
            timing.on_pose(&posed(id, slot - 3, slot + late - 2));
            timing.on_located(ms(slot + 2 + late));
            timing.on_located(ms(slot + 9));
        }
        // The slot is at 990 ms, the views are located 2 ms later, and the transit time is at most 5 ms.
        let schedule = timing.schedule(period).unwrap();
        assert_eq!((schedule.phase, schedule.period), (ms(987), period));
    }
}
