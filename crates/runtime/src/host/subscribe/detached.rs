//! Runs a subscriber in its own thread, so that a subscriber that blocks, is slow or panics does not delay other
//! subscribers. Frames that the subscriber cannot take at once wait in memory, because its thread may have been
//! preempted, and a missed frame costs all frames up to the next key frame. The subscriber's [`Intake`] bounds the
//! bytes and the age of the waiting frames. Beyond the bound, the subscriber misses frames. After a missed frame, a key
//! frame is requested as soon as the backlog is empty.
//!
//! The same thread delivers updates ([`Update`]), so a gateway that forwards pointer, role and frames over one
//! connection needs no second thread or lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender};

use openuvr_clock as clock;
use openuvr_media::capture::Waker;
use openuvr_proto::host::Ending;
use openuvr_proto::id::{FrameId, SubscriberId};
use openuvr_proto::send::intake::Intake;
use openuvr_proto::send::subscriber::{Departure, Feedback, Frame, Progress, Slice, Subscriber};
use openuvr_proto::send::update::Update;
use openuvr_proto::time::Instant;
use openuvr_proto::trace::{DropCause, Stage};
use openuvr_proto::wire::control::GoodbyeReason;
use openuvr_proto::wire::video::SlicePlace;

use crate::host::{MediaCommand, Notice, Shared};
use crate::scheduling_latency::WakeupSite;

/// Maximum number of pending notifications of frames that were dropped before they began: the drops of several seconds
/// (guess). Further notifications are not delivered.
const MAX_DROPS: usize = 1024;

/// Number of frames accepted regardless of age and size: one in progress and one waiting. After a stall of the whole
/// machine, the frame in progress is old although no frame was missed.
const MIN_FRAMES: u32 = 2;

/// Memory of a waiting frame without its slices: metadata, calls, and its ledger entry.
const FRAME_COST: usize = 1024;

/// Memory of a waiting slice without its bytes.
const SLICE_COST: usize = 64;

/// A queued call of [`Subscriber`].
pub(super) enum Call {
    Begin(Instant, Box<Frame>),
    Slice(Instant, SlicePlace, Option<u16>, Vec<u8>),
    End,
    Dropped(Instant, FrameId, Stage, DropCause),
    /// See [`Backlog::updated`].
    Update,
}

impl Call {
    /// The memory of a call while it waits. Calls counted as 0 are bounded otherwise: `End` by the number of frames,
    /// `Dropped` by [`MAX_DROPS`], and `Update` by [`Backlog::updated`].
    fn cost(&self) -> usize {
        match self {
            Call::Begin(..) => FRAME_COST,
            Call::Slice(_, _, _, bytes) => bytes.len() + SLICE_COST,
            Call::End | Call::Dropped(..) | Call::Update => 0,
        }
    }
}

/// State shared by the rendition's thread and the subscriber's thread.
pub(super) struct Backlog {
    intake: Intake,
    /// Number of frames begun and not yet finished by the thread.
    frames: AtomicU32,
    /// Memory of the waiting calls.
    bytes: AtomicUsize,
    /// When the oldest unfinished frame began. Meaningless while `frames` is 0.
    oldest: AtomicI64,
    /// Pending drop notifications.
    drops: AtomicUsize,
    /// Whether an update is pending.
    pub(super) updated: AtomicBool,
    /// The newest missed frame; 0 if none was missed since the last key-frame request.
    missed: AtomicU32,
}

impl Backlog {
    pub(super) fn new(intake: Intake) -> Backlog {
        Backlog {
            intake,
            frames: AtomicU32::new(0),
            bytes: AtomicUsize::new(0),
            oldest: AtomicI64::new(0),
            drops: AtomicUsize::new(0),
            updated: AtomicBool::new(false),
            missed: AtomicU32::new(0),
        }
    }

    /// Returns whether another frame is accepted, and counts it if so. Called only by the rendition's thread.
    fn take(&self, now: Instant) -> bool {
        let frames = self.frames.load(Ordering::Acquire);
        if frames == 0 {
            // No other thread increments `frames`.
            self.oldest.store(now.0, Ordering::Release);
        } else if frames >= MIN_FRAMES {
            let waits = now.since(Instant(self.oldest.load(Ordering::Acquire)));
            let late = self.intake.age().is_some_and(|most| waits > most);
            if late || self.bytes.load(Ordering::Acquire) >= self.intake.bytes() {
                return false;
            }
        }
        self.frames.fetch_add(1, Ordering::AcqRel);
        true
    }
}

/// A rendition's handle to a subscriber that has its own thread.
pub(in crate::host) struct Detached {
    calls: Sender<Call>,
    backlog: Arc<Backlog>,
    wakeup_site: WakeupSite,
    /// Progress of the current frame; `None` if it is missed.
    taken: Option<Departure>,
}

impl Detached {
    pub(super) fn new(
        calls: Sender<Call>,
        backlog: Arc<Backlog>,
        wakeup_site: WakeupSite,
    ) -> Detached {
        Detached {
            calls,
            backlog,
            wakeup_site,
            taken: None,
        }
    }

    /// Queues a call. The channel is unbounded; [`Backlog::take`] enforces the bound. The send fails only if the thread
    /// has ended. The frame is then missed.
    fn call(&mut self, call: Call) {
        // Recorded before the send, because the thread may receive the call at once.
        self.wakeup_site.sent();
        self.backlog.bytes.fetch_add(call.cost(), Ordering::AcqRel);
        if self.calls.send(call).is_err() {
            self.taken = None;
        }
    }
}

impl Subscriber for Detached {
    fn start_frame(&mut self, now: Instant, frame: &Frame) {
        self.taken = None;
        if self.backlog.take(now) {
            self.taken = Some(Departure::default());
            self.call(Call::Begin(now, Box::new(*frame)));
        }
    }

    fn slice(&mut self, now: Instant, slice: &Slice<'_>) {
        let Some(taken) = &mut self.taken else { return };
        taken.first.get_or_insert(now);
        taken.last = Some(now);
        taken.bytes += u32::try_from(slice.bytes.len()).unwrap_or(u32::MAX);
        let bytes = slice.bytes.to_vec();
        self.call(Call::Slice(now, slice.place, slice.clean_after, bytes));
    }

    fn end(&mut self, _: Instant) -> Progress {
        if self.taken.is_some() {
            self.call(Call::End);
        }
        self.taken.take().map_or(Progress::Missed, Progress::Sent)
    }

    fn dropped(&mut self, now: Instant, frame: FrameId, stage: Stage, why: DropCause) {
        if why == DropCause::SendBufferFull {
            self.backlog.missed.store(frame.0, Ordering::Release);
        }
        if self.backlog.drops.load(Ordering::Acquire) < MAX_DROPS {
            self.backlog.drops.fetch_add(1, Ordering::AcqRel);
            let _ = self.calls.send(Call::Dropped(now, frame, stage, why));
        }
    }

    fn intake(&self) -> Intake {
        self.backlog.intake
    }
}

/// The subscriber's thread.
pub(super) struct Thread {
    pub(super) id: SubscriberId,
    pub(super) backlog: Arc<Backlog>,
    pub(super) media_commands: SyncSender<MediaCommand>,
    pub(super) media: Waker,
    pub(super) shared: Arc<Shared>,
    /// The thread's wake-up site.
    pub(super) wakeup_site: WakeupSite,
}

/// The outcome of a frame that its subscriber could not take.
const OVERFLOW: (Stage, DropCause) = (Stage::FirstSent, DropCause::SendBufferFull);

/// The outcome of a frame predicted from a missed one.
const AWAITING_KEY_FRAME: (Stage, DropCause) = (Stage::FirstSent, DropCause::AwaitingKeyFrame);

/// The state of the subscriber's thread.
#[derive(Default)]
struct Frames {
    /// The frame in progress.
    open: Option<FrameId>,
    /// The current frame, if it is skipped because it is predicted from a missed one.
    skipped: Option<FrameId>,
    needs_key_frame: bool,
}

impl Thread {
    pub(super) fn run(self, calls: &Receiver<Call>, mut subscriber: Box<dyn Subscriber>) {
        let mut frames = Frames::default();
        let mut running = true;
        while running && let Ok(call) = calls.recv() {
            self.wakeup_site.received();
            let cost = call.cost();
            self.frame(&mut frames, &mut *subscriber, call);
            self.backlog.bytes.fetch_sub(cost, Ordering::AcqRel);
            self.request_key_frame();
            if self.backlog.updated.swap(false, Ordering::AcqRel) {
                running = self.update(&mut *subscriber);
            }
        }
    }

    /// Delivers pending updates. Returns whether the subscriber continues.
    fn update(&self, subscriber: &mut dyn Subscriber) -> bool {
        loop {
            let update = self.shared.sessions().poll_update(self.id);
            match update {
                Some(update) => {
                    let over = matches!(update, Update::Ended(_));
                    subscriber.update(clock::now(), update);
                    if over {
                        return false;
                    }
                }
                None => return true,
            }
        }
    }

    fn frame(&self, frames: &mut Frames, subscriber: &mut dyn Subscriber, call: Call) {
        match call {
            Call::Begin(now, frame) => {
                let name = frame.header.frame;
                self.backlog.oldest.store(now.0, Ordering::Release);
                // If the previous frame was truncated, the rendition has already recorded its outcome.
                frames.skipped = None;
                if let Some(cut_off) = frames.open.take() {
                    let (stage, why) = OVERFLOW;
                    subscriber.dropped(now, cut_off, stage, why);
                    self.frame_done();
                }
                frames.needs_key_frame &= !frame.header.is_key();
                if frames.needs_key_frame {
                    let (stage, why) = AWAITING_KEY_FRAME;
                    subscriber.dropped(now, name, stage, why);
                    frames.skipped = Some(name);
                    self.frame_done();
                } else {
                    frames.open = Some(name);
                    subscriber.start_frame(now, &frame);
                }
            }
            Call::Slice(now, place, clean_after, bytes) => {
                let slice = Slice {
                    place,
                    clean_after,
                    bytes: &bytes,
                };
                if frames.open.is_some() {
                    subscriber.slice(now, &slice);
                }
            }
            Call::End => {
                if let Some(frame) = frames.open.take() {
                    let progress = end(subscriber);
                    frames.needs_key_frame = progress.is_none();
                    if frames.needs_key_frame {
                        self.backlog.missed.store(frame.0, Ordering::Release);
                    }
                    // A frame of which the subscriber took nothing is lost, whether or not the subscriber needs a key
                    // frame.
                    let took = |left: &Departure| left.first.is_some() || !left.overflowed;
                    self.departed(frame, progress.filter(took).ok_or(OVERFLOW));
                    self.frame_done();
                } else if let Some(frame) = frames.skipped.take() {
                    self.departed(frame, Err(AWAITING_KEY_FRAME));
                }
            }
            Call::Dropped(now, frame, stage, why) => {
                self.backlog.drops.fetch_sub(1, Ordering::AcqRel);
                frames.skipped.take_if(|skipped| *skipped == frame);
                if frames.open.take_if(|open| *open == frame).is_some() {
                    self.frame_done();
                }
                subscriber.dropped(now, frame, stage, why);
            }
            Call::Update => {}
        }
    }

    /// Records the frame's outcome in the ledger.
    fn departed(&self, frame: FrameId, left: Result<Departure, (Stage, DropCause)>) {
        (self.shared).note_subscriber(self.id, |host| {
            host.departed(clock::now(), self.id, frame, left);
        });
    }

    /// Counts a finished frame.
    fn frame_done(&self) {
        self.backlog.frames.fetch_sub(1, Ordering::AcqRel);
    }

    /// Requests a key frame if the backlog is empty.
    fn request_key_frame(&self) {
        if self.backlog.frames.load(Ordering::Acquire) > 0 {
            return;
        }
        let missed = self.backlog.missed.swap(0, Ordering::AcqRel);
        if missed != 0 {
            let request = Feedback::KeyFrame {
                last_good: FrameId::NONE,
                newest: FrameId(missed),
            };
            // Fails only if the media thread has ended.
            let _ = self
                .media_commands
                .send(MediaCommand::Feedback(self.id, request));
            self.media.wake();
        }
    }
}

/// Ends a complete frame. Returns its departure, or `None` if it was missed and a key frame is needed.
fn end(subscriber: &mut dyn Subscriber) -> Option<Departure> {
    loop {
        match subscriber.end(clock::now()) {
            Progress::Sent(left) => return Some(left),
            Progress::Deferred(at) => std::thread::sleep(at.since(clock::now())),
            Progress::Missed => return None,
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        let panicked = std::thread::panicking();
        if panicked {
            let why = "a subscriber panicked and was removed: please report this bug to the \
                       subscriber's developer";
            self.shared.notice(Notice::Warning(why.to_owned()));
        }
        let why = match panicked {
            true => GoodbyeReason::Failed,
            false => GoodbyeReason::Quit,
        };
        let id = self.id;
        self.shared
            .update_host(|host| host.unsubscribe(id, Ending::Goodbye(why)));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// How many of 2000 frames of `bytes` bytes, one per `interval`, are accepted while the thread takes none.
    fn taken(intake: Intake, bytes: usize, interval: Duration) -> usize {
        let backlog = Backlog::new(intake);
        let mut now = Instant(7_000_000_000);
        for count in 0..2000 {
            if !backlog.take(now) {
                return count;
            }
            backlog
                .bytes
                .fetch_add(FRAME_COST + bytes, Ordering::AcqRel);
            now = now + interval;
        }
        2000
    }

    #[test]
    fn the_backlog_is_bounded_by_age_and_bytes_not_by_frames() {
        let sixtieth = SECOND / 60;
        // The size in bytes of a frame at 10 Mb/s and 60 frames/s.
        let frame = 20_833;
        // A browser gets only new frames. A video player gets the frames of the last half second.
        assert_eq!(taken(Intake::Newest, frame, sixtieth), 4);
        assert_eq!(taken(Intake::Steady, frame, sixtieth), 31);
        assert_eq!(taken(Intake::Steady, frame, sixtieth / 4), 121);
        // A recorder gets all frames within 32 MiB.
        assert_eq!(taken(Intake::Complete, frame, sixtieth), 1536);
        assert_eq!(taken(Intake::Complete, 1 << 20, SECOND), 32);
        // Key frames of 4 MiB.
        assert_eq!(taken(Intake::Steady, 4 << 20, Duration::ZERO), 4);
    }

    #[test]
    fn the_age_that_counts_is_that_of_the_oldest_frame_in_hand() {
        let backlog = Backlog::new(Intake::Steady);
        let at = |millis: i64| Instant(millis * 1_000_000);
        assert!(backlog.take(at(0)) && backlog.take(at(400)) && backlog.take(at(450)));
        assert!(!backlog.take(at(501)));
        // The thread has finished the first frame and begun the second.
        backlog.frames.fetch_sub(1, Ordering::AcqRel);
        backlog.oldest.store(at(400).0, Ordering::Release);
        assert!(backlog.take(at(501)));
        assert!(!backlog.take(at(901)));
        // Without a frame in progress, the age of the earlier frame does not count.
        backlog.frames.store(0, Ordering::Release);
        assert!(backlog.take(at(60_000)));
        // The whole machine stalled, with one frame in progress.
        assert!(backlog.take(at(70_000)) && !backlog.take(at(70_001)));
    }
}
