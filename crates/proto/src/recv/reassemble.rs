//! Reassembly of one view. Datagrams become ordered slices, each delivered as soon as it is complete.
//!
//! Frames are delivered in order, and slices in order within a frame. If later data overtakes a slice, the receiver
//! waits for the slice for [`REORDER_WAIT`]. If FEC repair may still complete the slice, the receiver waits at most
//! until the next frame is due. If a retransmission may still complete it, the receiver waits at most a round trip
//! longer. The slice is then reported as [`VideoOutput::Missing`], and the frame continues. A frame with a missing
//! reference is preceded by [`VideoOutput::Dropped`]. A gap in the frame numbers does not indicate a loss, because the
//! host skips the numbers of unsent frames. A lost frame is detected when a later frame refers to it, or when the host
//! announces it.

mod deadlines;

use std::collections::VecDeque;
use std::time::Duration;

use super::ArrivalTimes;
use super::assembly::{Arrival, Assembly, MAX_FRAME_BYTES, SliceAssembly};
use super::history::{Health, History};
pub use super::output::{FrameEnd, PictureState, VideoOutput};
use super::repair::Repair;
use crate::bytes::Reject;
use crate::id::{ConfigEpoch, FrameId, ViewId};
use crate::time::Instant;
use crate::trace::{DropCause, Fidelity};
use crate::wire::fec::FecRepair;
use crate::wire::video::{Configuration, Flags, Fragment};

/// Duration of the wait for missing data after later data has arrived. The implementation of the OpenUVR paper gave up
/// a frame after 3 ms without a packet. Links that reorder (Wi-Fi block acknowledgement, multi-queue cards) do so
/// within one or two milliseconds.
pub const REORDER_WAIT: Duration = Duration::from_millis(3);

/// Maximum frames in reassembly. Beyond it, the oldest is finished incomplete.
const MAX_FRAMES: usize = 16;

/// Maximum frames before the next [`VideoReceiver::poll`]. Beyond it, datagrams of new frames are rejected.
const MAX_UNPOLLED: usize = 2 * MAX_FRAMES;

/// Maximum bytes of all frames in reassembly: two of the largest frames, because one is often displayed while the next
/// arrives.
pub const MAX_BYTES: usize = 2 * MAX_FRAME_BYTES;

/// Frame storages kept for reuse.
const KEPT_FRAMES: usize = 4;

/// Side of a macroblock in pixels (ITU-T H.264, section 3).
const MACROBLOCK: u32 = 16;

/// Reassembles one view's video. [`MediaReceiver`](super::plane::MediaReceiver) passes it the bodies.
pub struct VideoReceiver {
    view: ViewId,
    /// A buffer for a body that FEC repair has restored.
    restored: Vec<u8>,
    frames: VecDeque<Assembly>,
    storage: Vec<Vec<SliceAssembly>>,
    finished: Option<Assembly>,
    configuration: Option<(ConfigEpoch, Configuration)>,
    /// The newest ended frame, whatever its outcome.
    done: FrameId,
    state: PictureState,
    history: History,
    announced: Option<(FrameId, Instant)>,
    repair: Repair,
    /// Whether the host retransmits, and the round trip to the host.
    resends: bool,
    round_trip: Option<Duration>,
    /// A completely missing frame, with the time and number of requests.
    frame_requested: Option<(FrameId, Instant, u8)>,
}

impl VideoReceiver {
    /// The receiver of a view.
    #[must_use]
    pub(super) fn new(view: ViewId) -> VideoReceiver {
        VideoReceiver {
            view,
            restored: Vec::new(),
            frames: VecDeque::with_capacity(MAX_FRAMES + 1),
            storage: Vec::new(),
            finished: None,
            configuration: None,
            done: FrameId::NONE,
            state: PictureState::default(),
            history: History::default(),
            announced: None,
            repair: Repair::default(),
            resends: false,
            round_trip: None,
            frame_requested: None,
        }
    }

    /// Its view.
    #[must_use]
    pub fn view(&self) -> ViewId {
        self.view
    }

    /// Handles the body of a fragment. Call [`VideoReceiver::poll`] afterwards.
    ///
    /// # Errors
    /// [`Reject`] if it is invalid. In that case, nothing changes.
    pub(super) fn handle_fragment(
        &mut self,
        times: ArrivalTimes,
        body: &mut [u8],
    ) -> Result<(), Reject> {
        let outcome = self.fragment(times, body);
        self.take_restored(times);
        outcome
    }

    /// Handles the body of an FEC repair datagram. Call [`VideoReceiver::poll`] afterwards.
    ///
    /// # Errors
    /// [`Reject`] if it is invalid. In that case, nothing changes.
    pub(super) fn handle_parity(&mut self, times: ArrivalTimes, body: &[u8]) -> Result<(), Reject> {
        let outcome = FecRepair::parse(body).map(|parity| self.parity(times.now, &parity));
        self.take_restored(times);
        outcome
    }

    fn fragment(&mut self, times: ArrivalTimes, body: &mut [u8]) -> Result<(), Reject> {
        let fragment = Fragment::parse(body)?;
        let (frame, flags, place) = (fragment.header.frame, fragment.flags, fragment.fec);
        let arrival = match flags.again {
            true => Arrival::Resent,
            false => Arrival::Sent,
        };
        let kept = self.insert(times, &fragment, arrival)?;
        self.resends = flags.resend;
        if kept && flags.parity {
            // The parity shards were computed from the original transmission, without this flag.
            body[Flags::AT] &= !Flags::RETRANSMITTED;
            self.repair.data(frame, place, body);
        }
        Ok(())
    }

    fn parity(&mut self, now: Instant, parity: &FecRepair<'_>) {
        if parity.frame <= self.done {
            return;
        }
        let frame = |a: &&Assembly| a.header.frame == parity.frame;
        let known = self.frames.iter().find(frame);
        if known.is_none_or(|frame| frame.recoverable.is_none()) {
            self.repair.parity(parity);
        }
        if parity.last {
            // The last parity datagram announces its frame, like a beacon.
            self.announce(now, parity.frame);
        }
    }

    /// Inserts the repaired bodies.
    fn take_restored(&mut self, times: ArrivalTimes) {
        let mut body = std::mem::take(&mut self.restored);
        while let Some((frame, place)) = self.repair.take(&mut body) {
            // With a faulty host, a restored body may belong to another frame, view or position.
            if let Ok(fragment) = Fragment::parse(&body)
                && fragment.header.frame == frame
                && fragment.header.view_id() == self.view
                && fragment.fec == place
            {
                let _ = self.insert(times, &fragment, Arrival::Repaired);
            }
        }
        self.restored = body;
    }

    /// Inserts a fragment. Returns `false` if its frame has already ended, or precedes a frame of which a slice was
    /// delivered.
    fn insert(
        &mut self,
        times: ArrivalTimes,
        fragment: &Fragment<'_>,
        arrival: Arrival,
    ) -> Result<bool, Reject> {
        let now = times.now;
        let frame = fragment.header.frame;
        // A key frame is delivered without waiting for earlier frames. Their late data must not go between its slices.
        let begun = self.frames.front().filter(|front| front.cursor > 0);
        if frame <= self.done || begun.is_some_and(|front| frame < front.header.frame) {
            return Ok(false);
        }
        let used: usize = self.frames.iter().map(|a| a.bytes).sum();
        let room = MAX_BYTES.saturating_sub(used);
        let place = self.frames.partition_point(|a| a.header.frame < frame);
        let full = self.frames.len() == MAX_UNPOLLED;
        match self.frames.get_mut(place) {
            Some(known) if known.header.frame == frame => {
                known.insert(times, fragment, arrival, room)?;
            }
            _ if full => return Err(Reject::Range("frames in flight")),
            _ => {
                let storage = self.storage.pop().unwrap_or_default();
                let mut new = Assembly::new(times, fragment, storage);
                new.insert(times, fragment, arrival, room)?;
                let later = self.frames.range(place..).map(|a| a.waited_since);
                new.waited_since = later.min().unwrap_or(now);
                self.frames.insert(place, new);
            }
        }
        let later = self.frames.len() > place + 1;
        for earlier in self.frames.range_mut(..place + usize::from(later)) {
            earlier.overtaken.get_or_insert(now);
        }
        Ok(true)
    }

    /// Handles the host's announcement that `newest` is its newest frame.
    pub fn announce(&mut self, now: Instant, newest: FrameId) {
        if newest <= self.done {
            return;
        }
        for frame in &mut self.frames {
            if frame.header.frame <= newest && frame.recoverable.is_none() {
                frame.overtaken.get_or_insert(now);
            }
        }
        if self.announced.is_none_or(|(frame, _)| frame < newest) {
            self.announced = Some((newest, now));
        }
    }

    /// The next output. Call it until it returns `None`.
    pub fn poll(&mut self, now: Instant) -> Option<VideoOutput<'_>> {
        if let Some(finished) = self.finished.take()
            && self.storage.len() < KEPT_FRAMES
        {
            self.storage.push(finished.into_storage());
        }
        let Some(front) = self.frames.front() else {
            return self.poll_announced(now);
        };
        let header = front.header;
        let crowded = self.frames.len() > MAX_FRAMES;
        let known = self.is_configured(front);
        if !header.is_key() && !known {
            // The configuration of the frame's epoch is unknown, so the frame cannot be decoded. A key frame may still
            // arrive out of order.
            if !crowded && now < front.first_seen + REORDER_WAIT {
                return None;
            }
            return Some(self.drop_front(DropCause::AwaitingKeyFrame));
        }
        if header.is_key() && !known && front.extensions.configuration.is_none() {
            // The frame's first datagram, which should contain the configuration, has not arrived or does not contain
            // it.
            let never_comes = front.slices[0].is_complete();
            if !never_comes && !self.front_is_due(now) {
                return None;
            }
            return Some(self.drop_front(DropCause::Lost));
        }
        if !header.is_key() && header.reference > self.done {
            if !crowded
                && self
                    .frame_requested_until()
                    .is_some_and(|until| now < until)
            {
                return None;
            }
            return Some(self.drop_missing(header.reference));
        }
        if let Some(until) = self.gap_until() {
            if !crowded && now < until {
                return None;
            }
            self.done = FrameId(header.frame.0 - 1);
        }
        self.poll_front(now)
    }

    /// Gives up a missing frame.
    fn drop_missing(&mut self, frame: FrameId) -> VideoOutput<'static> {
        self.done = frame;
        self.ended(Health::Broken);
        VideoOutput::Dropped {
            frame,
            why: DropCause::Lost,
            first_received: None,
        }
    }

    /// Records the end of frame [`VideoReceiver::done`].
    fn ended(&mut self, health: Health) {
        self.history.note(self.done, health);
        self.state.broken = health != Health::INTACT;
        self.repair.forget(self.done);
    }

    fn is_configured(&self, frame: &Assembly) -> bool {
        self.configuration
            .is_some_and(|(epoch, _)| epoch == frame.header.epoch)
    }

    /// Whether the wait for the front frame's missing data is over.
    fn front_is_due(&self, now: Instant) -> bool {
        let overtaken = self.slice_gap_until().is_some_and(|until| now >= until);
        // A complete later frame that does not depend on this frame makes the rest of this frame useless.
        let superseded = self
            .frames
            .iter()
            .skip(1)
            .any(|a| a.header.reference <= self.done && a.recoverable.is_some());
        overtaken || superseded || self.frames.len() > MAX_FRAMES
    }

    fn poll_front(&mut self, now: Instant) -> Option<VideoOutput<'_>> {
        let due = self.front_is_due(now);
        if self
            .frames
            .front()
            .is_some_and(|front| front.cursor == front.count)
        {
            return self.end_front().map(VideoOutput::End);
        }
        let front = self.frames.front_mut()?;
        if let Some(configuration) = front.extensions.configuration {
            self.configuration = Some((front.header.epoch, configuration));
        }
        let (_, configuration) = self.configuration?;
        let header = front.header;
        let viewpoint = front.extensions.viewpoint();
        let index = front.cursor;
        let first = index == 0;
        if front.slices[index].is_complete() {
            front.cursor += 1;
            let slice = &front.slices[index];
            let (first_mb, mbs) = slice.macroblocks?;
            front.next_mb = first_mb.saturating_add(mbs);
            return Some(VideoOutput::Slice {
                header,
                configuration,
                viewpoint,
                macroblocks: (first_mb, mbs),
                first,
                last: front.cursor == front.count,
                bytes: slice.bytes(),
            });
        }
        if !due {
            return None;
        }
        let until = (index..front.count)
            .find(|i| front.slices[*i].is_complete())
            .unwrap_or(front.count);
        let macroblocks = (
            front.next_mb,
            front.missing_mbs(until, total_mbs(&configuration)),
        );
        front.next_mb = front.next_mb.saturating_add(macroblocks.1);
        front.cursor = until;
        front.concealed = true;
        let last = until == front.count;
        Some(VideoOutput::Missing {
            header,
            configuration,
            viewpoint,
            macroblocks,
            first,
            last,
        })
    }

    fn end_front(&mut self) -> Option<FrameEnd> {
        let front = self.frames.pop_front()?;
        let frame = front.header.frame;
        self.done = frame;
        if self.announced.is_some_and(|(newest, _)| newest <= frame) {
            self.announced = None;
        }
        let header = front.header;
        let health = match (header.is_key(), front.concealed) {
            (_, true) => Health::Broken,
            (true, _) => Health::INTACT,
            (false, _) => {
                let before = self.history.of(header.reference);
                before.after(front.extensions.clean_after)
            }
        };
        let fidelity = match (front.concealed, health) {
            (true, _) => Fidelity::Concealed,
            (false, Health::INTACT) => Fidelity::Complete,
            (false, _) => Fidelity::Tainted,
        };
        let end = FrameEnd {
            header,
            fidelity,
            first_received: front.first_received,
            recoverable: front.recoverable,
            repaired: front.repaired,
            resent: front.resent,
            pose: front.extensions.pose,
            views: front.extensions.views,
            times: front.extensions.times,
        };
        self.finished = Some(front);
        self.ended(health);
        if fidelity == Fidelity::Complete {
            self.state.last_good = frame;
        }
        Some(end)
    }

    fn drop_front(&mut self, why: DropCause) -> VideoOutput<'static> {
        let front = self.frames.pop_front();
        let (frame, first_received) = front.as_ref().map_or((self.done, None), |f| {
            (f.header.frame, Some(f.first_received))
        });
        self.done = frame;
        self.finished = front;
        self.ended(Health::Broken);
        VideoOutput::Dropped {
            frame,
            why,
            first_received,
        }
    }

    fn poll_announced(&mut self, now: Instant) -> Option<VideoOutput<'static>> {
        let (frame, _) = self.announced?;
        if self
            .frame_requested_until()
            .is_some_and(|until| now < until)
        {
            return None;
        }
        self.announced = None;
        (frame > self.done).then(|| self.drop_missing(frame))
    }

    /// Records that the decoder rejected the delivered data, so the picture is broken.
    pub fn decoding_failed(&mut self) {
        if let Some(front) = self.frames.front_mut() {
            // An undecoded key frame repairs nothing.
            front.concealed = true;
        }
        // The state of the decoder's references is unknown.
        self.history.clear();
        self.state.last_good = FrameId::NONE;
        self.state.broken = true;
    }

    /// Whether data of a frame has arrived, or a frame has ended.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.done != FrameId::NONE || !self.frames.is_empty()
    }

    /// Whether a later frame is complete. Displaying an earlier frame would then only delay it.
    #[must_use]
    pub fn has_later(&self) -> bool {
        self.frames.iter().skip(1).any(|a| a.recoverable.is_some())
    }

    /// The state of the picture.
    #[must_use]
    pub fn picture(&self) -> PictureState {
        PictureState {
            newest: self.done,
            ..self.state
        }
    }

    /// The configuration epoch of the last output, for pointer positions.
    #[must_use]
    pub fn epoch(&self) -> ConfigEpoch {
        self.configuration
            .map_or(ConfigEpoch(0), |(epoch, _)| epoch)
    }

    /// Panics if an invariant does not hold: for tests and fuzzing.
    pub fn check_invariants(&self) {
        assert!(self.frames.len() <= MAX_UNPOLLED);
        assert!(self.storage.len() <= KEPT_FRAMES);
        assert!(self.frames.iter().map(|a| a.bytes).sum::<usize>() <= MAX_BYTES);
        let ids = self.frames.iter().map(|a| a.header.frame);
        assert!(ids.clone().zip(ids.clone().skip(1)).all(|(a, b)| a < b));
        assert!(ids.clone().all(|id| id > self.done));
        assert!(self.state.last_good <= self.done);
        self.repair.check_invariants();
    }
}

/// Number of macroblocks of a picture; saturates at 65 535.
fn total_mbs(configuration: &Configuration) -> u16 {
    let size = configuration.size;
    let all = size.width.div_ceil(MACROBLOCK) * size.height.div_ceil(MACROBLOCK);
    u16::try_from(all).unwrap_or(u16::MAX)
}
