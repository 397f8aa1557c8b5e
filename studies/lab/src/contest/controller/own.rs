//! OpenUVR's controller, with and without L4S. The congestion control is the product's code.
//!
//! The product paces slices; this model paces each datagram at the same rate. Without L4S, the product paces only
//! frames that would take longer than a frame interval at the capacity of a full link. The model has no such frames.

use std::time::Duration;

use openuvr_proto::ecn::{Ecn, EcnCounts};
use openuvr_proto::id::FrameId;
use openuvr_proto::send::congestion::{Congestion, FrameTransit, Range};
use openuvr_proto::time::{Instant, PeerInstant};
use openuvr_proto::units::Bitrate;

use super::{Controller, Datagram, FrameReport};

/// The controller.
#[derive(Debug)]
pub(super) struct Own {
    congestion: Congestion,
    round_trip: Duration,
    l4s: bool,
}

impl Own {
    pub(super) fn new(range: Range, interval: Duration, l4s: bool) -> Own {
        Own {
            congestion: Congestion::new(range, interval),
            round_trip: Duration::ZERO,
            l4s,
        }
    }
}

impl Controller for Own {
    fn ecn(&self) -> Ecn {
        match self.l4s {
            true => Ecn::Ect1,
            false => Ecn::NotEct,
        }
    }

    fn pacing(&self, now: Instant) -> Option<Bitrate> {
        self.congestion.paced_rate(now)
    }

    fn target(&self) -> Bitrate {
        self.congestion.target()
    }

    fn held_until(&self, now: Instant) -> Option<Instant> {
        self.congestion.held_until(now)
    }

    fn before_frame(&mut self, now: Instant, _: Duration) {
        self.congestion.quiet(now, self.round_trip);
    }

    fn on_sent(&mut self, now: Instant, frame: u32, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.congestion.sent(now, FrameId(frame), bytes);
    }

    fn on_report(&mut self, now: Instant, report: &FrameReport<'_>) {
        let all = report.datagrams;
        let (Some(first), Some(last)) = (all.first(), all.last()) else {
            return;
        };
        let arrivals = || all.iter().filter_map(|one| one.arrived);
        let arrived = arrivals().count();
        // The product measures the round trip with its control messages. This model uses the shortest round trip of the
        // frames' last datagrams.
        if let Some(sample) = report.round_trip(now, last) {
            self.round_trip = match self.round_trip.is_zero() {
                true => sample,
                false => self.round_trip.min(sample),
            };
        }
        let count = |number: usize| u16::try_from(number).unwrap_or(u16::MAX);
        let bytes: usize = all.iter().map(|one: &Datagram| one.bytes).sum();
        let peer = |at: Instant| PeerInstant(at.0);
        let transit = FrameTransit {
            frame: FrameId(report.frame),
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
            data: u32::from(count(all.len())),
            sent: (first.sent, last.sent),
            first: arrivals().min().map(peer),
            recoverable: arrivals().max().filter(|_| arrived == all.len()).map(peer),
            datagrams: (count(arrived), count(all.len() - arrived)),
            ecn: self.l4s.then(|| counts(all)),
        };
        self.congestion.on_report(now, &transit);
    }
}

/// The ECN fields of the datagrams that arrived.
fn counts(datagrams: &[Datagram]) -> EcnCounts {
    let mut counts = EcnCounts::default();
    let arrived = datagrams.iter().filter(|one| one.arrived.is_some());
    arrived.for_each(|one| counts.note(one.ecn));
    counts
}
