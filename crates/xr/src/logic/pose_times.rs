//! When the application takes the head's pose (its first `xrLocateViews` of a frame), and how long poses are under way:
//! at which moments the client is to sample one.

use std::collections::VecDeque;
use std::time::Duration;

use openuvr_proto::display::Refresh;
use openuvr_proto::id::{PoseId, SubscriberId};
use openuvr_proto::pose::Posed;
use openuvr_proto::time::Instant;

/// What is looked at: one second and a half at 90 frames a second, as of delays.
const KEPT: usize = 135;

/// With less nothing is asked for (guess).
const ENOUGH: usize = 15;

/// Longer is no way, but a clock that jumped, or an application that does something else first.
const LONGEST: Duration = Duration::from_millis(250);

/// The newest of something that was measured.
#[derive(Debug, Default)]
struct Newest(VecDeque<Duration>);

impl Newest {
    fn saw(&mut self, span: Duration) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(span.min(LONGEST));
    }

    /// So many of 100 are no longer; `None` before enough was seen.
    fn percent(&self, percent: usize) -> Option<Duration> {
        if self.0.len() < ENOUGH {
            return None;
        }
        let mut sorted: Vec<Duration> = self.0.iter().copied().collect();
        sorted.sort_unstable();
        let rank = (sorted.len() * percent).div_ceil(100).max(1);
        sorted.get(rank - 1).copied()
    }
}

/// What was measured.
#[derive(Debug, Default)]
pub(crate) struct PoseTimes {
    /// From a slot's beginning to the taking of the pose.
    taken: Newest,
    /// From the sampling of a pose to its arrival.
    under_way: Newest,
    /// The newest slot, and whether its frame has taken a pose.
    slot: Option<(Instant, bool)>,
    newest: Option<(SubscriberId, PoseId)>,
}

impl PoseTimes {
    /// A frame's slot has begun.
    pub(crate) fn slot(&mut self, at: Instant) {
        self.slot = Some((at, false));
    }

    /// The application takes the pose for its frame.
    pub(crate) fn taken(&mut self, now: Instant) {
        if let Some((slot, taken)) = &mut self.slot
            && !std::mem::replace(taken, true)
        {
            self.taken.saw(now.since(*slot));
        }
    }

    /// The newest pose; the same again changes nothing.
    pub(crate) fn heard(&mut self, posed: &Posed) {
        let Some(sampled) = posed.sampled_here else {
            return;
        };
        let before = self.newest.replace((posed.subscriber, posed.id));
        if before.is_some_and(|(subscriber, _)| subscriber != posed.subscriber) {
            self.under_way = Newest::default();
        }
        if before != self.newest {
            self.under_way.saw(posed.received.since(sampled.at));
        }
    }

    /// When poses are to be sampled, with slots a `period` apart: so long before most frames take one as 99 of 100
    /// poses are under way. `None` before enough was measured.
    pub(crate) fn wanted(&self, period: Duration) -> Option<Refresh<Instant>> {
        let (slot, _) = self.slot?;
        // An early frame finds the pose of the period before: one in ten may.
        let taken = slot + self.taken.percent(10)?;
        let under_way = i64::try_from(self.under_way.percent(99)?.as_nanos()).ok()?;
        Some(Refresh {
            phase: Instant(taken.0.saturating_sub(under_way)),
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

    fn posed(id: u32, sampled: i64, received: i64) -> Posed {
        Posed {
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
    fn a_pose_is_wanted_its_way_before_it_is_taken() {
        let mut times = PoseTimes::default();
        let period = Duration::from_millis(10);
        for (id, slot) in (0..).zip((0..1000).step_by(10)) {
            assert_eq!(times.wanted(period).is_some(), id > 14, "{id}");
            times.slot(ms(slot));
            // Some frames take it late, and some poses are late.
            let late = if id % 7 == 3 { 4 } else { 0 };
            times.heard(&posed(id, slot - 3, slot + late - 2));
            times.heard(&posed(id, slot - 3, slot + late - 2));
            times.taken(ms(slot + 2 + late));
            times.taken(ms(slot + 9));
        }
        // Slot 990, taken 2 ms later, 5 ms under way at most.
        let wanted = times.wanted(period).unwrap();
        assert_eq!((wanted.phase, wanted.period), (ms(987), period));
    }
}
