//! The effect of an L4S queue's marks on the target rate.

use std::time::Duration;

use super::scalable::{CLASSIC, Response, Sample};
use super::{CLIMB_EVERY, Congestion, FrameTransit, RateChange};
use crate::time::{Instant, PeerInstant};

impl Congestion {
    /// Whether the path has an L4S queue that would mark a burst.
    #[must_use]
    pub fn marks_bursts(&self, now: Instant) -> bool {
        self.scalable.marks_bursts(now)
    }

    /// Changes the rate as the marks of an L4S queue require. Most changes are no events, because marks arrive in each
    /// round trip.
    pub(super) fn respond_to_marks(
        &mut self,
        now: Instant,
        transit: &FrameTransit,
        first: Option<PeerInstant>,
    ) -> Option<RateChange> {
        let queue = first.zip(self.base()).map(|(first, base)| {
            let delay = first.0.saturating_sub(transit.sent.0.0);
            let above = delay.saturating_sub(base);
            Duration::from_nanos(u64::try_from(above).unwrap_or(0))
        });
        let response = self.scalable.on_report(&Sample {
            now,
            frame: transit.frame,
            newest: self.newest,
            round_trip: self.round_trip,
            counts: transit.ecn?,
            queue,
        })?;
        match response {
            Response::Raise(by) => {
                if self.late == 0 && !self.draining {
                    self.target = (self.target + by).min(self.range.max.0 as f64);
                }
                None
            }
            Response::Scalable(share) => {
                self.lower(now, 1.0 - share / 2.0);
                let to = self.target();
                (self.scalable.takes_event(now)).then_some(RateChange::Marked { to, share })
            }
            Response::Classic(waited) => {
                self.lower(now, CLASSIC);
                let to = self.target();
                (self.scalable.takes_event(now)).then_some(RateChange::ClassicMarks { to, waited })
            }
        }
    }

    /// Lowers the target by this factor because of marks. Frames in flight show the rate before it.
    fn lower(&mut self, now: Instant, factor: f64) {
        self.target = (self.target * factor).max(self.range.min.0 as f64);
        self.tentative = None;
        self.climbing = false;
        self.crossed = (0.0, 0.0);
        self.next_climb = Some(now + CLIMB_EVERY * 2);
        self.cut_at = self.newest;
    }
}
