//! OpenUVR's controller: the product's code, with the frames of this model.

use std::time::Duration;

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
}

impl Own {
    pub(super) fn new(range: Range, interval: Duration) -> Own {
        Own {
            congestion: Congestion::new(range, interval),
            round_trip: Duration::ZERO,
        }
    }
}

impl Controller for Own {
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
        // The product measures the round trip with its control messages. Here, it is the shortest one of the datagrams.
        if let Some(seen) = last.arrived {
            let sample = seen.since(last.sent) + now.since(seen);
            self.round_trip = match self.round_trip {
                Duration::ZERO => sample,
                before => before.min(sample),
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
        };
        self.congestion.on_report(now, &transit);
    }
}
