//! Reassembly of one frame: its slices and their fragments.

use std::time::Duration;

use super::ArrivalTimes;
use crate::bytes::Reject;
use crate::time::Instant;
use crate::wire::control::{MAX_RANGES, MissingRange, RetransmissionRequest};
use crate::wire::video::{Extensions, Flags, Fragment, FrameHeader};

/// Maximum bytes of one frame: more than a raw BGRX picture of 4096 × 2160. A fragment that would exceed this size is
/// rejected, so a dishonest host cannot grow the client's memory further.
pub const MAX_FRAME_BYTES: usize = 48 << 20;

/// Frame storage larger than this is freed after its frame.
const KEPT_BYTES: usize = 4 << 20;

/// Time from the arrival of the first data after a gap to the retransmission request for the gap. By then, most links
/// have delivered reordered datagrams. A needless request costs a datagram (guess).
const REQUEST_AFTER: Duration = Duration::from_millis(1);

/// Maximum number of requests for the same data. A second request is allowed because the answer to the first may be
/// lost too.
const MAX_REQUESTS: u8 = 2;

/// How a fragment arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arrival {
    /// In the original transmission.
    Sent,
    /// As a retransmission.
    Resent,
    /// By FEC repair.
    Repaired,
}

/// The times that determine whether a retransmission request can still succeed.
#[derive(Clone, Copy, Debug)]
pub(super) struct RetransmitTiming {
    /// The shortest recent round trip.
    pub(super) round_trip: Duration,
    /// Timeout of the host's answer.
    pub(super) answer_timeout: Duration,
    /// The frame interval.
    pub(super) interval: Duration,
}

impl RetransmitTiming {
    /// The deadline for requested data of a frame that has been awaited since `since`: one round trip after the next
    /// frame is due. The next frame refers to this frame. A short delay of both frames costs less than the loss of both
    /// frames. An answer that takes even longer means that the link is full.
    pub(super) fn deadline(&self, since: Instant) -> Instant {
        since + self.interval + self.round_trip
    }

    /// When to request data that was overtaken at `since`, given the last request and the number of requests; `None` if
    /// the answer would miss `deadline`, or if [`MAX_REQUESTS`] requests were sent.
    pub(super) fn request_at(
        &self,
        since: Instant,
        requested: Option<(Instant, u8)>,
        deadline: Instant,
    ) -> Option<Instant> {
        let at = match requested {
            None => since + REQUEST_AFTER,
            Some((at, requests)) if requests < MAX_REQUESTS => at + self.answer_timeout,
            Some(_) => return None,
        };
        (at + self.round_trip <= deadline).then_some(at)
    }

    /// The time until which an answer to the last or next request may arrive, at most `deadline`.
    pub(super) fn answer_by(&self, (at, requests): (Instant, u8), deadline: Instant) -> Instant {
        let next = self.request_at(at, Some((at, requests)), deadline);
        deadline.min(next.unwrap_or(at) + self.answer_timeout)
    }
}

/// A slice in reassembly.
#[derive(Debug, Default)]
pub(super) struct SliceAssembly {
    bytes: Vec<u8>,
    arrived: Vec<bool>,
    missing: usize,
    /// Number of leading fragments without a gap, and the position after the last received fragment.
    prefix: usize,
    end: usize,
    /// When its first fragment was processed.
    began: Option<Instant>,
    /// When a fragment after the first missing fragment was processed.
    gap_since: Option<Instant>,
    /// Time and count of requests.
    requested: Option<(Instant, u8)>,
    /// First macroblock and number of macroblocks, once known from a fragment.
    pub(super) macroblocks: Option<(u16, u16)>,
}

impl SliceAssembly {
    pub(super) fn is_complete(&self) -> bool {
        self.macroblocks.is_some() && self.missing == 0
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn note(&mut self, now: Instant, index: usize) {
        self.arrived[index] = true;
        self.missing -= 1;
        self.began.get_or_insert(now);
        self.end = self.end.max(index + 1);
        let before = self.prefix;
        while self.arrived.get(self.prefix).is_some_and(|a| *a) {
            self.prefix += 1;
        }
        // Once this gap is filled, the next gap starts a new wait, because there is always some gap on a link with
        // steady reordering.
        if self.prefix == self.end {
            self.gap_since = None;
        } else if self.prefix != before || self.gap_since.is_none() {
            self.gap_since = Some(now);
        }
    }

    /// Appends the slice's missing ranges: `all`, or those before the last received fragment.
    fn missing_ranges(&self, slice: u8, all: bool, ranges: &mut Vec<MissingRange>) {
        if self.macroblocks.is_none() {
            let (first, last) = (0, u16::MAX);
            ranges.push(MissingRange { slice, first, last });
            return;
        }
        let until = if all { self.arrived.len() } else { self.end };
        let mut fragments = (0_u16..).zip(&self.arrived[..until]).peekable();
        while let Some((first, arrived)) = fragments.next() {
            if *arrived {
                continue;
            }
            if ranges.len() == MAX_RANGES {
                return;
            }
            let mut last = first;
            while let Some((next, _)) = fragments.next_if(|(_, arrived)| !**arrived) {
                last = next;
            }
            ranges.push(MissingRange { slice, first, last });
        }
    }

    fn capacity(&self) -> usize {
        self.bytes.capacity() + self.arrived.capacity()
    }

    fn clear(&mut self) {
        let (mut bytes, mut arrived) = (
            std::mem::take(&mut self.bytes),
            std::mem::take(&mut self.arrived),
        );
        bytes.clear();
        arrived.clear();
        *self = SliceAssembly {
            bytes,
            arrived,
            ..SliceAssembly::default()
        };
    }
}

/// A frame in reassembly. Reused from frame to frame.
#[derive(Debug)]
pub(super) struct Assembly {
    pub(super) header: FrameHeader,
    pub(super) flags: Flags,
    pub(super) extensions: Extensions,
    pub(super) slices: Vec<SliceAssembly>,
    pub(super) count: usize,
    /// The next slice to deliver, and the macroblock after the last delivered one.
    pub(super) cursor: usize,
    pub(super) next_mb: u16,
    pub(super) concealed: bool,
    /// When its first datagram was processed: the start of its waits.
    pub(super) first_seen: Instant,
    /// Arrival time of its first datagram.
    pub(super) first_received: Instant,
    /// When the first datagram of this or a later frame was processed. The deadline for missing data counts from this
    /// time.
    pub(super) waited_since: Instant,
    /// Arrival time of the datagram that completed it.
    pub(super) recoverable: Option<Instant>,
    /// When a datagram of a later frame arrived, or the host signalled the end of this one.
    pub(super) overtaken: Option<Instant>,
    /// Bytes of its slices.
    pub(super) bytes: usize,
    /// Fragments from FEC repair and from retransmission.
    pub(super) repaired: u16,
    pub(super) resent: u16,
}

impl Assembly {
    pub(super) fn new(
        times: ArrivalTimes,
        first: &Fragment<'_>,
        storage: Vec<SliceAssembly>,
    ) -> Assembly {
        let mut slices = storage;
        let count = usize::from(first.slice.count);
        if slices.len() < count {
            slices.resize_with(count, SliceAssembly::default);
        }
        Assembly {
            header: first.header,
            flags: first.flags,
            extensions: Extensions::default(),
            slices,
            count,
            cursor: 0,
            next_mb: 0,
            concealed: false,
            first_seen: times.now,
            first_received: times.arrived,
            waited_since: times.now,
            recoverable: None,
            overtaken: None,
            bytes: 0,
            repaired: 0,
            resent: 0,
        }
    }

    /// Returns the storage for reuse.
    pub(super) fn into_storage(mut self) -> Vec<SliceAssembly> {
        let kept: usize = self.slices.iter().map(SliceAssembly::capacity).sum();
        if kept > KEPT_BYTES {
            return Vec::new();
        }
        for slice in &mut self.slices {
            slice.clear();
        }
        self.slices
    }

    /// Adds a fragment. `room` is the number of bytes by which the frame may grow.
    ///
    /// # Errors
    /// [`Reject::Range`] if it contradicts the frame's other fragments, or if the frame would exceed
    /// [`MAX_FRAME_BYTES`] or grow by more than `room`. In that case, nothing changes.
    pub(super) fn insert(
        &mut self,
        times: ArrivalTimes,
        f: &Fragment<'_>,
        arrival: Arrival,
        room: usize,
    ) -> Result<(), Reject> {
        if f.header != self.header || usize::from(f.slice.count) != self.count {
            return Err(Reject::Range("frame header"));
        }
        let slice = &mut self.slices[usize::from(f.slice.index)];
        let place = (f.slice.first_mb, f.slice.mbs);
        let fragments = usize::from(f.place.count);
        let index = usize::from(f.place.index);
        match slice.macroblocks {
            Some(known) if known != place || slice.arrived.len() != fragments => {
                return Err(Reject::Range("slice header"));
            }
            Some(_) if slice.arrived[index] => return Ok(()),
            _ => {}
        }
        let start = f.place.offset as usize;
        let end = start + f.payload.len();
        let news = if slice.macroblocks.is_none() {
            fragments
        } else {
            0
        };
        let growth = end.saturating_sub(slice.bytes.len()) + news;
        if growth > room.min(MAX_FRAME_BYTES - self.bytes) {
            return Err(Reject::Range("frame size"));
        }
        self.bytes += growth;
        if slice.macroblocks.is_none() {
            slice.macroblocks = Some(place);
            slice.missing = fragments;
            slice.arrived.resize(fragments, false);
        }
        if end > slice.bytes.len() {
            slice.bytes.resize(end, 0);
        }
        slice.bytes[start..end].copy_from_slice(f.payload);
        slice.note(times.now, index);
        match arrival {
            Arrival::Sent => {}
            Arrival::Resent => self.resent = self.resent.saturating_add(1),
            Arrival::Repaired => self.repaired = self.repaired.saturating_add(1),
        }
        self.extensions = self.extensions.or(f.extensions);
        if slice.missing == 0
            && self.slices[..self.count]
                .iter()
                .all(SliceAssembly::is_complete)
        {
            self.recoverable = Some(times.arrived);
        }
        Ok(())
    }

    /// When later data overtook the next slice to deliver; `None` if this slice is complete or has not been overtaken.
    pub(super) fn slice_gap_since(&self) -> Option<Instant> {
        let slices = &self.slices[..self.count];
        let next = slices.get(self.cursor)?;
        if next.is_complete() {
            return None;
        }
        let behind = slices[self.cursor + 1..].iter().filter_map(|s| s.began);
        behind.chain(next.gap_since).chain(self.overtaken).min()
    }

    /// The incomplete slices that later data has overtaken, last slice first: the index, the time at which it was
    /// overtaken, and whether to request all gaps or only those before its last received fragment. FEC repair data is
    /// sent last, so a slice of a protected frame counts as overtaken only when the complete frame is overtaken.
    fn incomplete_slices(&self) -> impl Iterator<Item = (usize, Instant, bool)> {
        let mut behind = self.overtaken;
        (self.cursor..self.count).rev().filter_map(move |i| {
            let slice = &self.slices[i];
            let all = behind.is_some();
            let since = match self.flags.parity {
                true => self.overtaken,
                false => behind.into_iter().chain(slice.gap_since).min(),
            };
            behind = behind.into_iter().chain(slice.began).min();
            Some((i, since.filter(|_| !slice.is_complete())?, all))
        })
    }

    /// When the next request is due.
    pub(super) fn next_request(&self, timing: &RetransmitTiming) -> Option<Instant> {
        let deadline = timing.deadline(self.waited_since);
        let requests = self.incomplete_slices().filter_map(|(i, since, _)| {
            timing.request_at(since, self.slices[i].requested, deadline)
        });
        requests.min()
    }

    /// The request that is due now.
    pub(super) fn request_missing(
        &mut self,
        now: Instant,
        timing: &RetransmitTiming,
    ) -> Option<RetransmissionRequest> {
        if self.next_request(timing).is_none_or(|at| at > now) {
            return None;
        }
        let deadline = timing.deadline(self.waited_since);
        let mut ranges = Vec::new();
        for (i, since, all) in self.incomplete_slices().collect::<Vec<_>>() {
            let slice = &mut self.slices[i];
            let due = timing.request_at(since, slice.requested, deadline);
            if due.is_some_and(|at| at <= now) && ranges.len() < MAX_RANGES {
                slice.requested =
                    Some((now, slice.requested.map_or(0, |(_, requests)| requests) + 1));
                slice.missing_ranges(u8::try_from(i).unwrap_or(u8::MAX), all, &mut ranges);
            }
        }
        Some(RetransmissionRequest {
            view: self.header.view_id(),
            frame: self.header.frame,
            ranges,
        })
    }

    /// The time until which answers to the requests may arrive.
    pub(super) fn answer_by(&self, timing: &RetransmitTiming) -> Option<Instant> {
        let deadline = timing.deadline(self.waited_since);
        let slices = self.slices[..self.count].iter();
        let requested = slices
            .filter(|s| !s.is_complete())
            .filter_map(|s| s.requested);
        requested
            .map(|requested| timing.answer_by(requested, deadline))
            .max()
    }

    /// The number of macroblocks missing from [`Self::next_mb`] up to slice `until`, of `total` in the picture.
    pub(super) fn missing_mbs(&self, until: usize, total: u16) -> u16 {
        let end = self.slices[..self.count]
            .get(until)
            .and_then(|s| s.macroblocks)
            .map_or(total, |(first, _)| first);
        end.saturating_sub(self.next_mb)
    }
}
