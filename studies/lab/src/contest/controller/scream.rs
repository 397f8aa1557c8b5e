//! SCReAM version 2 (draft-johansson-ccwg-rfc8298bis-screamv2), with and without L4S.
//!
//! A reference window limits the bytes in flight, and determines the target rate. The window shrinks after losses,
//! marks and queueing delay, at most once per round trip, or once per virtual round trip (25 ms) if that is shorter.
//! The window grows with the acknowledged bytes.
//!
//! The following parts of the draft are omitted: the optional restriction by delay variation, the compensation for
//! clock drift, relaxed pacing near the maximum rate, and the compensations for small datagrams and for varying frame
//! sizes. Section names are those of the draft.

mod delay;

use std::time::Duration;

use openuvr_proto::send::congestion::Range;
use openuvr_proto::time::Instant;
use openuvr_proto::units::Bitrate;
use openuvr_sim::aqm::Ecn;

use super::{Controller, FrameReport, bitrate, whole};
use delay::QueueDelay;

/// Constants of the section "Reference Window Update".
const SEGMENT: f64 = 1000.0;
const LEAST_WINDOW: f64 = 3000.0;
const IN_FLIGHT_HEADROOM: f64 = 1.5;
const BETA_LOSS: f64 = 0.7;
const BETA_ECN: f64 = 0.8;
const POST_CONGESTION_ROUNDS: f64 = 100.0;
const MULTIPLICATIVE: f64 = 0.02;
const VIRTUAL_ROUND_TRIP: Duration = Duration::from_millis(25);
/// Gains of the average share of marks, for a rising and for a falling share (section on L4S marks), and the interval
/// of its updates. A round trip replaces this interval if it is shorter.
const ALPHA_UP: f64 = 1.0 / 8.0;
const ALPHA_DOWN: f64 = 1.0 / 128.0;
const ALPHA_EVERY: Duration = Duration::from_millis(10);
/// Minimum factor by which growth and decrease are scaled near the last maximum.
const NEAR_MAXIMUM: f64 = 0.25;
/// Maximum bytes in flight relative to the reference window (section "Send Window Calculation"). This is the lower
/// limit of the draft, because the restriction by delay variation is omitted.
const WINDOW_OVERHEAD: f64 = 1.5;
/// The pacing rate relative to the target, and the minimum target in bits per second for pacing (section "Packet
/// Pacing").
const PACING: f64 = 1.5;
const LEAST_PACING: f64 = 50_000.0;
/// Window / round trip relative to the target, and the gain and the maximum of the adjustment to unsent data (section
/// "Media Rate Control").
const RATE_SCALE: f64 = 1.2;
const ADJUST_GAIN: f64 = 1.0 / 16.0;
const MOST_ADJUSTED: f64 = 0.5;

/// The controller.
#[derive(Debug)]
pub(super) struct Scream {
    range: Range,
    interval: Duration,
    l4s: bool,
    window: f64,
    /// The last maximum of the window, and when it was set.
    inflection: (f64, Option<Instant>),
    smoothed: Option<Duration>,
    delay: QueueDelay,
    alpha: f64,
    /// Numbers of marked and of all datagrams since the last update of `alpha`.
    marks: (f64, f64),
    alpha_updated: Option<Instant>,
    /// Whether a datagram was marked, and whether one was lost, since the last reaction.
    marked: bool,
    lost: bool,
    reacted: Option<Instant>,
    congested: Option<Instant>,
    /// Maximum bytes in flight during this and during the previous round trip, and the start of this round trip.
    most_in_flight: (f64, f64),
    round_began: Option<Instant>,
    adjust: f64,
}

impl Scream {
    pub(super) fn new(range: Range, interval: Duration, l4s: bool) -> Scream {
        // The number of bytes that the initial rate sends in one virtual round trip.
        let start = range.start.0 as f64 / 8.0 * VIRTUAL_ROUND_TRIP.as_secs_f64();
        Scream {
            range,
            interval,
            l4s,
            window: start.max(LEAST_WINDOW),
            inflection: (1.0, None),
            smoothed: None,
            delay: QueueDelay::default(),
            alpha: 0.0,
            marks: (0.0, 0.0),
            alpha_updated: None,
            marked: false,
            lost: false,
            reacted: None,
            congested: None,
            most_in_flight: (0.0, 0.0),
            round_began: None,
            adjust: 0.0,
        }
    }

    fn round_trip(&self) -> Duration {
        self.smoothed.unwrap_or(VIRTUAL_ROUND_TRIP)
    }

    /// The target in bits per second, before it is limited to the range.
    fn rate(&self) -> f64 {
        let seconds = self.round_trip().as_secs_f64().max(1e-3);
        self.window * 8.0 / seconds / (RATE_SCALE + self.adjust)
    }

    fn limited_rate(&self) -> f64 {
        let (least, most) = (self.range.min.0 as f64, self.range.max.0 as f64);
        self.rate().clamp(least, most)
    }

    /// Square of eight times the window's relative distance from its last maximum, limited to 0.1 to 1. Near the
    /// maximum, the small value slows growth.
    fn distance(&self) -> f64 {
        let (inflection, _) = self.inflection;
        let distance = 8.0 * (self.window - inflection) / inflection;
        (distance * distance).clamp(0.1, 1.0)
    }

    fn update_alpha(&mut self, now: Instant) {
        let last = *self.alpha_updated.get_or_insert(now);
        let (marked, all) = self.marks;
        if now.since(last) < ALPHA_EVERY.min(self.round_trip()) || all == 0.0 {
            return;
        }
        let share = marked / all;
        self.alpha = match share >= self.alpha {
            true => ALPHA_UP * share + (1.0 - ALPHA_UP) * self.alpha,
            false => (1.0 - ALPHA_DOWN) * self.alpha,
        };
        self.alpha_updated = Some(now);
        self.marks = (0.0, 0.0);
    }

    /// The section "Reference Window Reduction".
    fn reduce(&mut self, now: Instant) {
        if self.lost || self.marked {
            self.congested = Some(now);
        }
        let round_trip = self.round_trip();
        let since = self.reacted.map(|at| now.since(at));
        if since.is_some_and(|since| since < VIRTUAL_ROUND_TRIP.min(round_trip)) {
            return;
        }
        let virtual_marks = self.delay.virtual_marks();
        if !self.lost && !self.marked && virtual_marks <= 0.0 {
            return;
        }
        let distance = self.distance();
        let (_, inflected) = self.inflection;
        if inflected.is_none_or(|at| now.since(at) > round_trip * 10) {
            self.inflection = (self.window, Some(now));
        }
        // A round trip above the virtual one reduces the decrease.
        let long = (round_trip.as_secs_f64() / VIRTUAL_ROUND_TRIP.as_secs_f64()).max(1.0);
        let backoff = self.alpha / 2.0 / long;
        let factor = match (self.lost, self.marked) {
            (true, _) => BETA_LOSS,
            (false, true) if self.l4s && self.delay.is_short() => {
                1.0 - backoff * distance.max(NEAR_MAXIMUM)
            }
            (false, true) if self.l4s => 1.0 - backoff,
            (false, true) => BETA_ECN,
            (false, false) => 1.0 - virtual_marks / 2.0 / long,
        };
        // After a long time without congestion, the window may be far above the bytes in flight.
        let calm = since.is_some_and(|since| since > VIRTUAL_ROUND_TRIP.max(round_trip) * 100);
        if calm && self.l4s && self.marked && self.most_in_flight.1 > 0.0 {
            self.window = self.window.min(self.most_in_flight.1);
        }
        self.window = (self.window * factor).max(LEAST_WINDOW);
        (self.lost, self.marked) = (false, false);
        self.reacted = Some(now);
    }

    /// The section "Reference Window Increase". `acked` is the number of bytes that arrived without a mark.
    fn increase(&mut self, now: Instant, acked: f64) {
        let round_trip = self.round_trip().as_secs_f64();
        let virtual_one = VIRTUAL_ROUND_TRIP.as_secs_f64();
        let distance = self.distance();
        let calm = self.congested.map_or(1.0, |at| {
            let rounds = now.since(at).as_secs_f64() / virtual_one.max(round_trip);
            (rounds / POST_CONGESTION_ROUNDS).min(1.0)
        });
        let mut growth = acked * (SEGMENT / self.window).min(1.0);
        growth *= (round_trip / virtual_one).min(1.0);
        growth *= distance.max(NEAR_MAXIMUM);
        growth *= 1.0 + MULTIPLICATIVE * self.window / SEGMENT * calm * distance;
        let (current, previous) = self.most_in_flight;
        let most = SEGMENT + current.max(previous) * IN_FLIGHT_HEADROOM;
        if self.window + growth <= most && self.rate() < self.range.max.0 as f64 {
            self.window += growth;
        }
    }
}

impl Controller for Scream {
    fn ecn(&self) -> Ecn {
        match self.l4s {
            true => Ecn::Ect1,
            false => Ecn::NotEct,
        }
    }

    fn target(&self) -> Bitrate {
        bitrate(self.limited_rate())
    }

    fn pacing(&self, _: Instant) -> Option<Bitrate> {
        Some(bitrate(self.limited_rate().max(LEAST_PACING) * PACING))
    }

    fn window(&self) -> Option<usize> {
        usize::try_from(whole(self.window * WINDOW_OVERHEAD)).ok()
    }

    fn before_frame(&mut self, _: Instant, waited: Duration) {
        let interval = self.interval.as_secs_f64();
        let error = (waited.as_secs_f64() - interval / 4.0) / interval;
        self.adjust = (self.adjust + error * ADJUST_GAIN).clamp(0.0, MOST_ADJUSTED);
    }

    fn on_report(&mut self, now: Instant, report: &FrameReport<'_>) {
        let (mut acked, mut all) = (0.0, 0.0);
        for one in report.datagrams {
            let Some(arrived) = one.arrived else {
                self.lost = true;
                continue;
            };
            let sample = report.round_trip(now, one).unwrap_or_default();
            self.smoothed = Some(match self.smoothed {
                None => sample,
                Some(before) => (before * 7 + sample) / 8,
            });
            self.delay.on_datagram(arrived.since(one.sent));
            let bytes = one.bytes as f64;
            all += bytes;
            self.marks.1 += 1.0;
            if one.ecn == Ecn::Ce {
                self.marked = true;
                self.marks.0 += 1.0;
            } else {
                acked += bytes;
            }
        }
        if self
            .round_began
            .is_none_or(|at| now.since(at) > self.round_trip())
        {
            self.most_in_flight = (0.0, self.most_in_flight.0);
            self.round_began = Some(now);
            self.delay.adjust_target(self.lost);
        }
        let in_flight = report.in_flight as f64 + all;
        self.most_in_flight.0 = self.most_in_flight.0.max(in_flight);
        self.delay
            .update(now, VIRTUAL_ROUND_TRIP.min(self.round_trip()));
        self.update_alpha(now);
        self.reduce(now);
        self.increase(now, acked);
    }
}
