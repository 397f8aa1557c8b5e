//! One frame on its way in: its slices, and the fragments of each.

use std::time::Duration;

use super::ArrivalTimes;
use crate::bytes::Reject;
use crate::time::Instant;
use crate::wire::control::{MAX_RANGES, MissingRange, RetransmissionRequest};
use crate::wire::video::{Extensions, Flags, Fragment, FrameHeader};

/// Bytes that one frame may take: a raw BGRX picture of 4096 × 2160 and a little more. An honest
/// host never sends more; a dishonest one can't make the client's memory grow beyond it.
pub const MAX_FRAME_BYTES: usize = 48 << 20;

/// Storage of a frame that is larger than this is given back after its frame.
const KEPT_BYTES: usize = 4 << 20;

/// What is missing is asked for when it was overtaken this long ago: most links that reorder at all
/// have it done by then, and what is asked for in vain costs a datagram (guess).
const REQUEST_AFTER: Duration = Duration::from_millis(1);

/// How often the same is asked for at most: the first answer may be lost like what it answers.
const MAX_REQUESTS: u8 = 2;

/// How a fragment came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arrival {
    /// As it was sent.
    Sent,
    /// Because it was asked for.
    Resent,
    /// Out of parity.
    Repaired,
}

/// When asking for something again helps.
#[derive(Clone, Copy, Debug)]
pub(super) struct RetransmitTiming {
    /// The shortest round trip lately.
    pub(super) round_trip: Duration,
    /// How long the host's answer is waited for.
    pub(super) answer_timeout: Duration,
    /// Between two frames.
    pub(super) interval: Duration,
}

impl RetransmitTiming {
    /// When something should be asked for that was overtaken at `since`, and was asked for then and
    /// so often; `None` if the answer would come behind `deadline`.
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

    /// Until when an answer may come to what was asked for then and so often, or to the next ask.
    pub(super) fn answer_by(&self, (at, requests): (Instant, u8), deadline: Instant) -> Instant {
        let next = self.request_at(at, Some((at, requests)), deadline);
        next.unwrap_or(at) + self.answer_timeout
    }
}

/// A slice on its way in.
#[derive(Debug, Default)]
pub(super) struct SliceAssembly {
    bytes: Vec<u8>,
    arrived: Vec<bool>,
    missing: usize,
    /// Fragments that are here without a gap from the first on, and one more than the last that
    /// is here.
    prefix: usize,
    end: usize,
    /// When its first fragment came.
    began: Option<Instant>,
    /// Since when a fragment behind the first missing one is here.
    gap_since: Option<Instant>,
    /// When it was asked for last, and how often.
    requested: Option<(Instant, u8)>,
    /// First macroblock and number of macroblocks, once a fragment said so.
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
        // A gap that comes to light when the one before it closes is waited for anew: on a link
        // that reorders all the time there is always one.
        if self.prefix == self.end {
            self.gap_since = None;
        } else if self.prefix != before || self.gap_since.is_none() {
            self.gap_since = Some(now);
        }
    }

    /// Appends what is missing of it, `all` of it or what is in front of what is here.
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

/// A frame on its way in. Reused from frame to frame.
#[derive(Debug)]
pub(super) struct Assembly {
    pub(super) header: FrameHeader,
    pub(super) flags: Flags,
    pub(super) extensions: Extensions,
    pub(super) slices: Vec<SliceAssembly>,
    pub(super) count: usize,
    /// The next slice to hand out, and the macroblock behind the last one handed out.
    pub(super) cursor: usize,
    pub(super) next_mb: u16,
    pub(super) patched: bool,
    /// When the first of it was looked at: what it lacks is waited for from then on.
    pub(super) first_seen: Instant,
    /// When the first of it arrived.
    pub(super) first_received: Instant,
    /// When the first of it or of a later frame came: what waits for it must not wait for long.
    pub(super) waited_since: Instant,
    /// When the last of it arrived.
    pub(super) recoverable: Option<Instant>,
    /// Since when something of a later frame is here, or the host has said that there is no more
    /// of this one.
    pub(super) overtaken: Option<Instant>,
    /// Bytes that its slices take.
    pub(super) bytes: usize,
    /// Fragments that parity brought back, and that came because they were asked for.
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
            patched: false,
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

    /// Gives the storage back for the next frame.
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

    /// Takes a fragment in; `room` is how many bytes the frame may grow by.
    ///
    /// # Errors
    /// [`Reject::Range`] if it contradicts the frame's other fragments, or the frame grows beyond
    /// [`MAX_FRAME_BYTES`] or `room`; nothing changes then.
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

    /// Since when the next slice lacks something although something behind it is here.
    pub(super) fn hole_since(&self) -> Option<Instant> {
        let slices = &self.slices[..self.count];
        let next = slices.get(self.cursor)?;
        if next.is_complete() {
            return None;
        }
        let behind = slices[self.cursor + 1..].iter().filter_map(|s| s.began);
        behind.chain(next.gap_since).chain(self.overtaken).min()
    }

    /// The slices, from the last one on, that lack something that was sent before what is here:
    /// since when that is known, and whether all that is missing of it is meant. Of a protected
    /// frame it is known only when parity did not help: that comes behind everything else.
    fn lacking(&self) -> impl Iterator<Item = (usize, Instant, bool)> {
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

    /// When it should be asked for something.
    pub(super) fn next_request(&self, timing: &RetransmitTiming) -> Option<Instant> {
        let deadline = self.waited_since + timing.interval;
        let requests = self.lacking().filter_map(|(i, since, _)| {
            timing.request_at(since, self.slices[i].requested, deadline)
        });
        requests.min()
    }

    /// What should be asked for now.
    pub(super) fn request_missing(
        &mut self,
        now: Instant,
        timing: &RetransmitTiming,
    ) -> Option<RetransmissionRequest> {
        if self.next_request(timing).is_none_or(|at| at > now) {
            return None;
        }
        let deadline = self.waited_since + timing.interval;
        let mut ranges = Vec::new();
        for (i, since, all) in self.lacking().collect::<Vec<_>>() {
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

    /// Until when answers may come to what it was asked for.
    pub(super) fn answer_by(&self, timing: &RetransmitTiming) -> Option<Instant> {
        let deadline = self.waited_since + timing.interval;
        let slices = self.slices[..self.count].iter();
        let requested = slices
            .filter(|s| !s.is_complete())
            .filter_map(|s| s.requested);
        requested
            .map(|requested| timing.answer_by(requested, deadline))
            .max()
    }

    /// How many macroblocks are missing from [`Self::next_mb`] up to slice `until`; `total` is
    /// how many the picture has.
    pub(super) fn missing_mbs(&self, until: usize, total: u16) -> u16 {
        let end = self.slices[..self.count]
            .get(until)
            .and_then(|s| s.macroblocks)
            .map_or(total, |(first, _)| first);
        end.saturating_sub(self.next_mb)
    }
}
