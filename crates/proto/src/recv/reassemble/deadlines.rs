//! Wait times for missing data, and retransmission requests.
//!
//! FEC repair is awaited at most until the next frame is due. Requested data is awaited for at most another round trip,
//! because the next frame refers to the incomplete one.

use std::time::Duration;

use super::{REORDER_WAIT, VideoReceiver};
use crate::id::FrameId;
use crate::recv::assembly::RetransmitTiming;
use crate::time::Instant;
use crate::wire::control::RetransmissionRequest;

/// Maximum processing time of a request at the host, which may be encoding (guess). If half a round trip is longer, it
/// applies instead, because a long path has more jitter.
const ANSWER_WAIT: Duration = Duration::from_millis(3);

/// Frame interval until the host has announced it.
const INTERVAL: Duration = Duration::from_nanos(16_666_667);

impl VideoReceiver {
    /// The time until which to wait for frames before the front frame. The front frame does not need them, but they may
    /// still arrive.
    pub(super) fn gap_until(&self) -> Option<Instant> {
        let front = self.frames.front()?;
        let header = front.header;
        let gap =
            !header.is_key() && header.reference < self.done && header.frame > self.done.next();
        gap.then(|| front.first_seen + REORDER_WAIT)
    }

    /// A needed frame of which no data has arrived, the time from which it is known to be missing, and the start of the
    /// wait for it.
    fn missing_reference(&self) -> Option<(FrameId, Instant, Instant)> {
        let Some(front) = self.frames.front() else {
            let (frame, at) = self.announced.filter(|(frame, _)| *frame > self.done)?;
            return Some((frame, at, at));
        };
        let reference = front.header.reference;
        let is_missing = self.is_configured(front) && reference > self.done;
        is_missing.then_some((reference, front.first_seen, front.waited_since))
    }

    /// The time until which to wait for the missing reference.
    pub(super) fn frame_requested_until(&self) -> Option<Instant> {
        let (frame, since, waited_since) = self.missing_reference()?;
        let frame_requested = self
            .frame_requested
            .filter(|(frame_requested, ..)| *frame_requested == frame);
        let answer = frame_requested.zip(self.retransmit_timing());
        let until = answer.map(|((_, at, requests), timing)| {
            timing.answer_by((at, requests), timing.deadline(waited_since))
        });
        Some(until.unwrap_or(since).max(since + REORDER_WAIT))
    }

    /// The frame interval.
    fn interval(&self) -> Duration {
        let fps = self.configuration.map_or(0, |(_, c)| c.fps);
        if fps == 0 {
            return INTERVAL;
        }
        Duration::from_secs(1) / u32::from(fps)
    }

    /// The time until which to wait for the front frame's gap.
    pub(super) fn slice_gap_until(&self) -> Option<Instant> {
        let front = self.frames.front()?;
        let since = front.slice_gap_since()?;
        let deadline = front.waited_since + self.interval();
        let parity = front.flags.parity.then(|| match front.overtaken {
            Some(at) => deadline.min(at + REORDER_WAIT),
            None => deadline,
        });
        let timing = self.retransmit_timing();
        let answer = timing.and_then(|timing| front.answer_by(&timing));
        let until = parity.into_iter().chain(answer).max();
        Some(until.unwrap_or(since).max(since + REORDER_WAIT))
    }

    /// Sets the shortest recent round trip. Without it, nothing is requested.
    pub fn round_trip(&mut self, round_trip: Option<Duration>) {
        self.round_trip = round_trip;
    }

    /// The next retransmission request. Call it after [`VideoReceiver::poll`], until it returns `None`.
    pub fn poll_request(&mut self, now: Instant) -> Option<RetransmissionRequest> {
        let timing = self.retransmit_timing()?;
        if let Some((frame, at)) = self.frame_request_at(&timing)
            && at <= now
        {
            let requests = match self.frame_requested {
                Some((frame_requested, _, requests)) if frame_requested == frame => requests,
                _ => 0,
            };
            self.frame_requested = Some((frame, now, requests + 1));
            return Some(RetransmissionRequest {
                view: self.view,
                frame,
                ranges: Vec::new(),
            });
        }
        self.frames
            .iter_mut()
            .filter(|frame| frame.recoverable.is_none())
            .find_map(|frame| frame.request_missing(now, &timing))
    }

    /// When to request a frame of which no data has arrived.
    fn frame_request_at(&self, timing: &RetransmitTiming) -> Option<(FrameId, Instant)> {
        let (frame, since, waited_since) = self.missing_reference()?;
        let deadline = timing.deadline(waited_since);
        let requested = self
            .frame_requested
            .filter(|(frame_requested, ..)| *frame_requested == frame);
        let requested = requested.map(|(_, at, requests)| (at, requests));
        Some((frame, timing.request_at(since, requested, deadline)?))
    }

    fn retransmit_timing(&self) -> Option<RetransmitTiming> {
        let round_trip = self.round_trip.filter(|_| self.resends)?;
        Some(RetransmitTiming {
            round_trip,
            answer_timeout: round_trip + ANSWER_WAIT.max(round_trip / 2),
            interval: self.interval(),
        })
    }

    /// When to call [`VideoReceiver::poll`] and [`VideoReceiver::poll_request`] without a datagram, because a request or the
    /// end of a wait is due.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        let request = self.retransmit_timing().and_then(|timing| {
            let frame_request = self.frame_request_at(&timing).map(|(_, at)| at);
            let frames = self.frames.iter().filter(|f| f.recoverable.is_none());
            frame_request
                .into_iter()
                .chain(frames.filter_map(|f| f.next_request(&timing)))
                .min()
        });
        self.skip_at().into_iter().chain(request).min()
    }

    fn skip_at(&self) -> Option<Instant> {
        let Some(front) = self.frames.front() else {
            self.announced?;
            return Some(self.frame_requested_until().unwrap_or(Instant(i64::MIN)));
        };
        let header = front.header;
        if !header.is_key() && !self.is_configured(front) {
            return Some(front.first_seen + REORDER_WAIT);
        }
        if !header.is_key() && header.reference > self.done {
            return self.frame_requested_until();
        }
        self.gap_until().or_else(|| self.slice_gap_until())
    }
}
