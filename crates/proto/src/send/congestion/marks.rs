//! The effect of an L4S queue's marks on the target rate.

use std::time::Duration;

use super::scalable::{CLASSIC, Decrease, Sample};
use super::{CLIMB_EVERY, Congestion, FrameTransit, RateChange};
use crate::time::{Instant, PeerInstant};
use crate::units::Bitrate;

/// The minimum pacing rate, relative to the target. A frame of mean size then takes four sevenths of the frame
/// interval. A lower factor delays each frame. On a link without other flows, a higher factor leaves more of the
/// capacity unused (docs/studies/l4s.md compares the factors 1.2 to 2).
const HEADROOM: f64 = 1.75;

/// The maximum pacing rate, relative to the maximum target (guess). At this rate, a frame of mean size takes a
/// sixteenth of the frame interval, which is almost a burst.
const MOST_PACE: f64 = 16.0;

impl Congestion {
    /// The pacing rate on a path with an L4S queue, which would mark a burst; `None` on other paths. Like the target,
    /// the pacing rate follows the marks. Unlike the target, it may exceed the maximum of the range, so it approaches
    /// the link's rate.
    #[must_use]
    pub fn paced_rate(&self, now: Instant) -> Option<Bitrate> {
        let rate = self.pace.max(self.target * HEADROOM);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "> 0"
        )]
        let rate = rate as u64;
        (self.scalable.is_active(now)).then_some(Bitrate(rate))
    }

    /// Changes the target and the pacing rate as the marks of an L4S queue require. Most changes cause no event,
    /// because marks may arrive in each round trip.
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
            // The report on a frame follows the frame's last datagram, and its effect starts with the next frame. The
            // control loop is thus no faster than two frames.
            least_period: self.interval * 2,
            counts: transit.ecn?,
            queue,
        })?;
        let change = response
            .decrease
            .and_then(|decrease| self.decrease(now, decrease));
        if self.late == 0 && !self.draining {
            let max = self.range.max.0 as f64;
            self.target = (self.target + response.raise).min(max);
            let least = self.target * HEADROOM;
            let most = (max * MOST_PACE).max(least);
            self.pace = (self.pace + response.raise).clamp(least, most);
        }
        change
    }

    fn decrease(&mut self, now: Instant, decrease: Decrease) -> Option<RateChange> {
        match decrease {
            Decrease::Scalable(share) => {
                self.lower(now, 1.0 - share / 2.0);
                let to = self.target();
                (self.scalable.takes_event(now, false)).then_some(RateChange::Marked { to, share })
            }
            Decrease::Classic(waited) => {
                self.lower(now, CLASSIC);
                let to = self.target();
                (self.scalable.takes_event(now, true))
                    .then_some(RateChange::ClassicMarks { to, waited })
            }
        }
    }

    /// Multiplies the target and the pacing rate by this factor because of marks. The frames in flight were sent at the
    /// previous rate, so their delay causes no further decrease.
    fn lower(&mut self, now: Instant, factor: f64) {
        self.target = (self.target * factor).max(self.range.min.0 as f64);
        self.pace = (self.pace * factor).max(self.target * HEADROOM);
        self.tentative = None;
        self.climbing = false;
        self.crossed = (0.0, 0.0);
        self.next_climb = Some(now + CLIMB_EVERY * 2);
        self.cut_at = self.newest;
    }
}
